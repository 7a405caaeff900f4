"""Tests whether a server obeys conditions of writes: by writes of one object, some of which must fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiozarr.errors import PreconditionFailedError, UnsupportedOperationError
from aiozarr.model import IfAbsent, IfMatch, Precondition, Version


async def conditions_hold(put: Callable[[bytes, Precondition], Awaitable[Version | None]]) -> bool:
    """Return whether writes that must fail do fail, and writes that must succeed do succeed.

    Args:
        put: stores a value under a condition, always under the same key, and returns its version.
    """
    first = await _try_put(put, b"1", IfAbsent())
    if first is None or await _try_put(put, b"2", IfAbsent()) is not None:
        return False
    second = await _try_put(put, b"3", IfMatch(first))
    return second is not None and await _try_put(put, b"4", IfMatch(first)) is None


async def _try_put(
    put: Callable[[bytes, Precondition], Awaitable[Version | None]], value: bytes, condition: Precondition
) -> Version | None:
    """Return the version that was written, or None if the server refused or reported none."""
    try:
        return await put(value, condition)
    except (PreconditionFailedError, UnsupportedOperationError):
        return None
