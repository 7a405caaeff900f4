"""The addresses of one host: resolved once for concurrent connections, and rotated between them."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from itertools import zip_longest

from aiozarr.concurrency import SingleFlight

TTL_SECONDS = 5.0
"""How long a resolution is used: operating systems report no lifetime, and clouds change addresses within a minute."""

AVOID_SECONDS = 30.0
"""How long an address that refused a connection is tried last."""


class HostAddresses:
    """The addresses of one host, in the order in which connections try them. Used on one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        self._loop = loop
        self._host = host
        self._port = port
        self._addresses: list[str] = [host] if _is_address(host) else []
        self._expires = float("inf") if self._addresses else float("-inf")
        self._resolution: SingleFlight[str] = SingleFlight()
        self._rotation = 0
        self._failed: dict[str, float] = {}

    async def next(self) -> list[str]:
        """Return the addresses in the order in which the next connection is to try them.

        Each connection begins with another address. The families alternate (RFC 8305, section 4), the system's
        preferred one first. Addresses that failed recently are last.

        Raises:
            OSError: the name does not resolve.
        """
        if self._loop.time() >= self._expires:
            await self._resolution.run(self._host, self._resolve)
        if len(self._addresses) == 1:
            return self._addresses
        rotation, self._rotation = self._rotation, self._rotation + 1
        return sorted(_rotated(self._addresses, rotation), key=self._has_failed)

    def failed(self, address: str) -> None:
        """Record that `address` refused a connection."""
        self._failed[address] = self._loop.time() + AVOID_SECONDS

    def connected(self, address: str) -> None:
        """Record that `address` accepted a connection."""
        if self._failed:
            self._failed.pop(address, None)

    def _has_failed(self, address: str) -> bool:
        return self._failed.get(address, float("-inf")) > self._loop.time()

    async def _resolve(self) -> None:
        # Not left to `create_connection`: if uvloop's is cancelled, it leaves a resolution whose error is never
        # retrieved.
        found = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        self._addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
        self._expires = self._loop.time() + TTL_SECONDS


def _rotated(addresses: list[str], rotation: int) -> list[str]:
    """Return `addresses` with another first one for each rotation, and the families alternating."""
    first = ":" in addresses[0]
    families = [[each for each in addresses if (":" in each) == family] for family in (first, not first)]
    rotated = [family[rotation % len(family) :] + family[: rotation % len(family)] for family in families if family]
    return [each for pair in zip_longest(*rotated) for each in pair if each is not None]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
