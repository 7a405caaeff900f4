"""One new connection to a host: its addresses are tried in turn, and a slow one does not hold up the next."""

from __future__ import annotations

import asyncio
import errno
import functools
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from aiozarr.errors import StoreError, ThrottledError
from aiozarr.stores.lane.addresses import Addresses

T = TypeVar("T")

HEAD_START = 0.25
"""Seconds after which the next address is tried as well (RFC 8305, "Connection Attempt Delay")."""


async def dial(addresses: Addresses, attempt: Callable[[str], Awaitable[T]], drop: Callable[[T], None]) -> T:
    """Return what `attempt` gives for the first address that takes a connection.

    Args:
        addresses: whom to try.
        attempt: opens a connection to an address.
        drop: closes a connection that came second.

    Raises:
        OSError: no address took a connection; the error of the first. Certificates that are not valid, and a lack of
            open files, are the same everywhere, and end it at once.
    """
    candidates = await addresses.next()
    if len(candidates) == 1:
        return await attempt(candidates[0])
    return await _race(candidates, addresses, attempt, drop)


async def _race(
    candidates: Sequence[str], addresses: Addresses, attempt: Callable[[str], Awaitable[T]], drop: Callable[[T], None]
) -> T:
    waiting = list(reversed(candidates))
    running: dict[asyncio.Future[T], str] = {}
    first_error: OSError | None = None
    try:
        while waiting or running:
            if waiting:
                address = waiting.pop()
                running[asyncio.ensure_future(attempt(address))] = address
            done, _ = await asyncio.wait(
                running, timeout=HEAD_START if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for each in done:
                address = running.pop(each)
                error = each.exception()
                if error is None:
                    addresses.connected(address)
                    return each.result()
                if not isinstance(error, OSError) or is_everywhere(error):
                    raise error
                addresses.failed(address)
                first_error = first_error or error
    finally:
        await _give_up(running, drop)
    assert first_error is not None
    raise first_error


async def _give_up(running: dict[asyncio.Future[T], str], drop: Callable[[T], None]) -> None:
    for each in running:
        each.cancel()
    for ended in await asyncio.gather(*running, return_exceptions=True):
        if not isinstance(ended, BaseException):
            drop(ended)


def is_everywhere(error: OSError) -> bool:
    """Return whether another address would fail alike."""
    return isinstance(error, ssl.SSLError) or lacks_files(error)


def lacks_files(error: OSError) -> bool:
    """Return whether the process, or the machine, has too many open files."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def connect_error(error: OSError) -> StoreError:
    """Translate what went wrong while a connection was opened."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return StoreError(f"the server's certificate is not valid: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return StoreError(f"no TLS connection: {error.reason}")
    if isinstance(error, socket.gaierror):
        return StoreError(f"the server's name does not resolve: {error.strerror}")
    if lacks_files(error):
        return ThrottledError("no connection: too many open files")
    return StoreError(f"no connection: {error.strerror or error}", retryable=True)


@functools.cache
def default_ssl_context() -> ssl.SSLContext:
    """Return the process's own context: loading the system's certificates takes tens of milliseconds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
