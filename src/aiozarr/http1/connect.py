"""Opening one connection to a host with several addresses: "Happy Eyeballs" (RFC 8305).

The addresses are resolved once for concurrent connections, and rotated between them.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Awaitable, Callable
from itertools import zip_longest
from typing import TypeVar

from aiozarr.common.concurrency import SingleFlight, cancel_and_wait
from aiozarr.errors import StoreError, ThrottledError
from aiozarr.http1.url import parse_ip

T = TypeVar("T")

ATTEMPT_DELAY = 0.25
"""Seconds after which the next address is tried as well (RFC 8305, "Connection Attempt Delay")."""


async def connect(addresses: HostAddresses, attempt: Callable[[str], Awaitable[T]], close: Callable[[T], None]) -> T:
    """Return the result of `attempt` for the first address that accepts a connection.

    Args:
        addresses: the addresses of the host.
        attempt: opens a connection to an address.
        close: closes a connection that was opened second.

    Raises:
        OSError: no address accepted a connection; the error of the first attempt. An invalid certificate and a lack of
            open files are the same for every address, and end all attempts.
    """
    candidates = await addresses.next()
    if len(candidates) == 1:
        return await attempt(candidates[0])
    waiting = list(reversed(candidates))
    running: dict[asyncio.Future[T], str] = {}
    first_error: OSError | None = None
    try:
        while waiting or running:
            if waiting:
                address = waiting.pop()
                running[asyncio.ensure_future(attempt(address))] = address
            done, _ = await asyncio.wait(
                running, timeout=ATTEMPT_DELAY if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for each in done:
                address = running.pop(each)
                error = each.exception()
                if error is None:
                    addresses.connected(address)
                    return each.result()
                if not isinstance(error, OSError) or is_same_everywhere(error):
                    raise error
                addresses.failed(address)
                first_error = first_error or error
    finally:
        try:
            await cancel_and_wait(*running)
        finally:
            for each in running:
                if not each.cancelled() and each.exception() is None:
                    close(each.result())
    assert first_error is not None
    raise first_error


def is_same_everywhere(error: OSError) -> bool:
    """Return whether a connection to another address would fail with the same error."""
    return isinstance(error, ssl.SSLError) or is_out_of_files(error)


def is_out_of_files(error: OSError) -> bool:
    """Return whether the process, or the machine, has too many open files."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def connect_error(error: OSError, host: str, port: int | None) -> StoreError:
    """Translate an error of opening a connection to a host."""
    server = server_name(host, port)
    if isinstance(error, ssl.SSLCertVerificationError):
        return StoreError(f"the certificate of {server} is not valid: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return StoreError(f"no TLS connection to {server}: {error.reason}")
    if isinstance(error, socket.gaierror):
        # The resolver may know the name later, unlike one that does not exist.
        is_temporary = error.errno == socket.EAI_AGAIN
        return StoreError(f"the name {host!r} does not resolve: {error.strerror}", retryable=is_temporary)
    if is_out_of_files(error):
        return ThrottledError(f"no connection to {server}: too many open files")
    return StoreError(f"no connection to {server}: {error.strerror or error}", retryable=True)


def server_name(host: str, port: int | None) -> str:
    """Return host and port for messages, such as `127.0.0.1:9000` or `[::1]:9000`."""
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"


TTL_SECONDS = 5.0
"""The time for which a resolution is used. Systems report no lifetime, and clouds change addresses within a minute."""

AVOID_SECONDS = 30.0
"""The time for which an address that refused a connection is tried last."""


class HostAddresses:
    """The addresses of one host, in the order in which connections try them. Used on one loop.

    Attributes:
        known: the addresses, as they were resolved last.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        self._loop = loop
        self._host = host
        self._port = port
        self.known: list[str] = [host] if parse_ip(host) else []
        self._expires = float("inf") if self.known else float("-inf")
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
        if len(self.known) == 1:
            return self.known
        rotation, self._rotation = self._rotation, self._rotation + 1
        return sorted(_rotated(self.known, rotation), key=self._has_failed)

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
        # Not left to `create_connection`, because uvloop's, if cancelled, leaves a resolution whose error is never
        # retrieved.
        found = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        self.known = list(dict.fromkeys(str(info[4][0]) for info in found))
        self._expires = self._loop.time() + TTL_SECONDS


def _rotated(addresses: list[str], rotation: int) -> list[str]:
    """Return `addresses` with another first one for each rotation, and the families alternating."""
    first = ":" in addresses[0]
    families = [[each for each in addresses if (":" in each) == family] for family in (first, not first)]
    rotated = [family[rotation % len(family) :] + family[: rotation % len(family)] for family in families if family]
    return [each for pair in zip_longest(*rotated) for each in pair if each is not None]
