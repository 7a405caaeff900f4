"""The addresses of one host: asked for once for all who connect at that time, and handed out in turn."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from itertools import zip_longest

TTL_SECONDS = 5.0
"""How long an answer is used: operating systems tell no time of their own, and clouds change addresses in a minute."""

AVOID_SECONDS = 30.0
"""How long an address that did not connect is tried last."""


class Addresses:
    """Whom to connect to, for one host. Used on one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        self._loop = loop
        self._host = host
        self._port = port
        self._found: list[str] = [host] if _is_address(host) else []
        self._until = float("inf") if self._found else float("-inf")
        self._asking: asyncio.Task[None] | None = None
        self._waiting = 0
        self._turn = 0
        self._failed: dict[str, float] = {}

    async def next(self) -> list[str]:
        """Return the addresses in the order in which the next connection is to try them.

        Connections begin with each in turn. The families take turns too, that of the system's choice first; what has
        failed lately is last.

        Raises:
            OSError: the name does not resolve.
        """
        if self._loop.time() >= self._until:
            await self._ask()
        if len(self._found) == 1:
            return self._found
        turn, self._turn = self._turn, self._turn + 1
        return sorted(_in_turn(self._found, turn), key=self._has_failed)

    def failed(self, address: str) -> None:
        """`address` did not take a connection."""
        self._failed[address] = self._loop.time() + AVOID_SECONDS

    def connected(self, address: str) -> None:
        """`address` took one."""
        if self._failed:
            self._failed.pop(address, None)

    def _has_failed(self, address: str) -> bool:
        return self._failed.get(address, float("-inf")) > self._loop.time()

    async def _ask(self) -> None:
        """Resolve the name, together with all who ask meanwhile; with the last of them it is given up."""
        asking = self._asking
        if asking is None or asking.done():
            asking = self._asking = self._loop.create_task(self._resolve())
            self._waiting = 0
        self._waiting += 1
        try:
            await asyncio.shield(asking)
        finally:
            if asking is self._asking:
                self._waiting -= 1
                if not self._waiting:
                    asking.cancel()
                    self._asking = None

    async def _resolve(self) -> None:
        # Not left to `create_connection`: uvloop's, when it is cancelled, leaves the resolution behind, whose error
        # nobody takes.
        found = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        self._found = list(dict.fromkeys(str(info[4][0]) for info in found))
        self._until = self._loop.time() + TTL_SECONDS


def _in_turn(addresses: list[str], turn: int) -> list[str]:
    """Return `addresses` with another one first at each turn, and the families alternating."""
    first = ":" in addresses[0]
    families = [[each for each in addresses if (":" in each) == family] for family in (first, not first)]
    turned = [family[turn % len(family) :] + family[: turn % len(family)] for family in families if family]
    return [each for pair in zip_longest(*turned) for each in pair if each is not None]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
