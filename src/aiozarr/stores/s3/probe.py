"""The probe for conditional writes: a few writes whose answers tell whether a server heeds their conditions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any


async def conditions_hold(write: Callable[[bytes, Any], Awaitable[str | None]]) -> bool:
    """Return whether writes that must fail do, and writes that must not do not.

    Args:
        write: stores a value, always under the same key, under a condition of the client library, and returns the ETag;
            None where the server refuses.
    """
    first = await write(b"1", "create")
    if first is None or await write(b"2", "create") is not None:
        return False
    second = await write(b"3", {"e_tag": first})
    return second is not None and await write(b"4", {"e_tag": first}) is None
