"""Reads of the last bytes of an object from a store without suffix ranges: first the size, then a plain range."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiozarr.errors import ChangedError
from aiozarr.model import ByteRange, Entry, Range, Suffix, Value, Version

MAX_TAIL_ATTEMPTS = 4
"""Attempts to read the end of an object that is replaced between the request for its size and that for its bytes."""


async def fetch_tail(
    suffix: Suffix,
    stat: Callable[[], Awaitable[Entry | None]],
    fetch: Callable[[ByteRange, Version | None], Awaitable[Value | None]],
    *,
    if_match: Version | None,
    known: Entry | None = None,
    on_changed: Callable[[], object] | None = None,
) -> Value | None:
    """Fetch the last bytes of an object. The range is requested of the version that had the size.

    If the object was replaced in between, both begin again.

    Args:
        suffix: the number of bytes, cut at the object's beginning.
        stat: returns size and version of the object, or None if it is not stored.
        fetch: fetches a range of the given version of the object. It gets `suffix` itself if `stat` reports no size.
        if_match: the version that the object must have.
        known: size and version that were seen before, in place of the first `stat`.
        on_changed: called before the size is looked up again.

    Returns: the bytes, or None if the object is not stored.

    Raises:
        ChangedError: the object is replaced again and again, or does not have the version `if_match`.
    """
    attempts = 0
    while True:
        entry, is_known, known = known, bool(known and known.size), None
        if entry is None or not is_known:
            attempts += 1
            entry = await stat()
        if entry is None:
            return None
        if entry.size is None:
            return await fetch(suffix, if_match)
        start = max(0, entry.size - suffix.length)
        if start == entry.size:
            return Value(b"", entry.version, entry.size)
        is_last = not is_known and (if_match is not None or attempts == MAX_TAIL_ATTEMPTS)
        try:
            value = await fetch(Range(start, entry.size - start), if_match or entry.version)
        except ChangedError:
            if is_last:
                raise
        else:
            if value is None or value.size in (None, entry.size):
                return value
            if is_last:
                raise ChangedError("the object changes while its end is looked for")
        if on_changed is not None:
            on_changed()
