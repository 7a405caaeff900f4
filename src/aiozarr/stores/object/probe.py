"""The probe for conditional writes: a few writes whose answers tell whether a server heeds their conditions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiozarr.errors import PreconditionFailedError, UnsupportedOperationError
from aiozarr.model import IfAbsent, IfMatch, Precondition, Version


async def conditions_hold(put: Callable[[bytes, Precondition], Awaitable[Version | None]]) -> bool:
    """Return whether writes that must fail do, and writes that must not do not.

    Args:
        put: stores a value, always under the same key, under a condition, and returns its version.
    """
    first = await _try(put, b"1", IfAbsent())
    if first is None or await _try(put, b"2", IfAbsent()) is not None:
        return False
    second = await _try(put, b"3", IfMatch(first))
    return second is not None and await _try(put, b"4", IfMatch(first)) is None


async def _try(
    put: Callable[[bytes, Precondition], Awaitable[Version | None]], value: bytes, condition: Precondition
) -> Version | None:
    """Return the version that was written; None where the server refuses, or tells none."""
    try:
        return await put(value, condition)
    except (PreconditionFailedError, UnsupportedOperationError):
        return None
