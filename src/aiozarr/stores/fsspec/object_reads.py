"""Reads a range by `cat_file`, which knows start and end only: handles cut, empty and short responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiozarr.errors import ShortReadError, StoreError
from aiozarr.model import ByteRange, Range, Suffix, Value, resolve_range
from aiozarr.stores.contract import byte_view
from aiozarr.stores.fsspec.errors import is_missing_file, is_missing_in_listing, refuses_range
from aiozarr.stores.fsspec.file_system_calls import FileSystemCalls
from aiozarr.stores.fsspec.traits import FileSystemTraits

UNKNOWN_SIZE = -1
"""The size of a file whose file system does not return it."""

MAX_UNCHECKED_BYTES = 16 << 20
"""A blocking file may allocate memory for the whole range, beyond its end too. Longer ranges are cut at the size."""


async def read_at_most(
    calls: FileSystemCalls, traits: FileSystemTraits, path: str, byte_range: ByteRange | None, max_bytes: int
) -> Value | None:
    """Read as `read` does, at most `max_bytes + 1` bytes: one byte more than allowed shows that there are too many."""
    most = max_bytes + 1
    if byte_range is None:
        # The size of a short response is not checked, as for a whole file.
        whole = traits.framed or most <= MAX_UNCHECKED_BYTES
        return await read(calls, traits, path, Range(0, most), is_whole=whole)
    if byte_range.length is not None and byte_range.length < most:
        return await read(calls, traits, path, byte_range)
    if isinstance(byte_range, Range):
        return await read(calls, traits, path, Range(byte_range.start, most))
    size = await size_of(calls, traits, path)
    if size is None:
        return None
    if size == UNKNOWN_SIZE:
        return await read(calls, traits, path, byte_range)
    start, stop = resolve_range(size, byte_range)
    value = await read(calls, traits, path, Range(start, min(stop - start, most)))
    return None if value is None else Value(value.data, None, size)


async def read(
    calls: FileSystemCalls, traits: FileSystemTraits, path: str, byte_range: ByteRange | None, *, is_whole: bool = False
) -> Value | None:
    """Return the bytes of the file at `path` in `byte_range`, or None if there is no such file.

    With `is_whole`, the end of a short response is taken for the end of the file. Errors are the file system's own.

    Raises:
        ShortReadError: fewer bytes were received than the file has in the range.
        StoreError: the file system refused a range inside the file.
    """
    try:
        return await _read(calls, traits, path, byte_range, is_whole)
    except Exception as error:
        missing = is_missing_file(error)
        if missing or is_missing_in_listing(error):
            if (traits.indexed or not missing) and await size_of(calls, traits, path) is not None:
                raise
            return None
        if byte_range is None or not refuses_range(error):
            raise
    # Outside of the handler, so that a further error does not have the refusal as its context.
    return await _read_beyond_end(calls, traits, path, byte_range)


async def _read(
    calls: FileSystemCalls, traits: FileSystemTraits, path: str, byte_range: ByteRange | None, is_whole: bool
) -> Value | None:
    if byte_range is None:
        data = await _cat(calls, path, **dict(traits.whole))
        return Value(data, None, len(data))
    if byte_range.length == 0:
        return await _read_beyond_end(calls, traits, path, byte_range)
    if isinstance(byte_range, Suffix):
        if traits.suffixes:
            data = await _cat(calls, path, start=-byte_range.length)
            # A server that ignores ranges sends the whole file.
            return Value(data[-byte_range.length :], None, len(data) if len(data) != byte_range.length else None)
    elif byte_range.length is not None:
        if traits.framed or byte_range.length <= MAX_UNCHECKED_BYTES:
            return await _read_bounded(calls, traits, path, byte_range, is_whole)
    elif traits.open_ends:
        data = await _cat(calls, path, start=byte_range.start)
        return Value(data, None, None) if traits.framed else await _check_end(calls, traits, path, byte_range, data)
    return await _read_by_size(calls, traits, path, byte_range)


async def _cat(calls: FileSystemCalls, path: str, **arguments: Any) -> Any:
    data = await calls.read("cat_file", path, **arguments)
    if isinstance(data, bytes | bytearray):
        return data
    try:
        return byte_view(data)  # its length is in bytes for any item type
    except TypeError:
        raise StoreError(f"the file system returned {type(data).__name__} instead of bytes") from None


async def _read_bounded(
    calls: FileSystemCalls, traits: FileSystemTraits, path: str, wanted: Range, is_whole: bool = False
) -> Value | None:
    assert wanted.length is not None
    stop = wanted.start + wanted.length
    data = await _cat(calls, path, start=wanted.start, end=stop)
    if len(data) > wanted.length:  # the server ignores ranges
        return Value(data[wanted.start : stop], None, len(data))
    if len(data) == wanted.length:
        return Value(data, None, None)
    if is_whole or (traits.framed and data and (traits.open_ends or not wanted.start)):
        return Value(data, None, wanted.start + len(data))
    return await _check_end(calls, traits, path, wanted, data)


async def _check_end(
    calls: FileSystemCalls, traits: FileSystemTraits, path: str, wanted: Range, data: Any
) -> Value | None:
    """Check that `data` ends at the end of the file, and return it; a server that ignores ranges has sent all of it."""
    size = await size_of(calls, traits, path)
    if size is None:
        return None
    if size == UNKNOWN_SIZE:
        return (
            Value(data, None, None)
            if traits.open_ends or not data
            else await _read_from_whole(calls, traits, path, wanted)
        )
    start, stop = resolve_range(size, wanted)
    if len(data) == size:
        data = data[start:]
    if len(data) < stop - start:
        raise ShortReadError(f"{stop - start - len(data)} bytes are missing at the end of the response")
    return Value(data[: stop - start], None, size)


async def _read_by_size(
    calls: FileSystemCalls, traits: FileSystemTraits, path: str, byte_range: ByteRange
) -> Value | None:
    size = await size_of(calls, traits, path)
    if size is None:
        return None
    if size == UNKNOWN_SIZE:
        return await _read_from_whole(calls, traits, path, byte_range)
    start, stop = resolve_range(size, byte_range)
    if start == stop:
        return Value(b"", None, size)
    value = await _read_bounded(calls, traits, path, Range(start, stop - start))
    return None if value is None else Value(value.data, None, size)


async def _read_from_whole(calls: FileSystemCalls, traits: FileSystemTraits, path: str, byte_range: ByteRange) -> Value:
    data = await _cat(calls, path, **dict(traits.whole))
    start, stop = resolve_range(len(data), byte_range)
    return Value(data[start:stop], None, len(data))


async def _read_beyond_end(
    calls: FileSystemCalls, traits: FileSystemTraits, path: str, byte_range: ByteRange
) -> Value | None:
    """Return the empty value of a range that contains no byte of the file."""
    size = await size_of(calls, traits, path)
    if size is None:
        return None
    start, stop = resolve_range(size, byte_range) if size != UNKNOWN_SIZE else (0, 0)
    if start != stop:
        raise StoreError("the file system refused a range that is inside the file", status=416, retryable=True)
    return Value(b"", None, None if size == UNKNOWN_SIZE else size)


async def size_of(calls: FileSystemCalls, traits: FileSystemTraits, path: str) -> int | None:
    """Return the size of the file at `path` in bytes, or `UNKNOWN_SIZE`, or None if there is no file."""
    try:
        info: Mapping[str, Any] = await calls.read("info", path, fresh=True)
    except Exception as error:
        if is_missing_file(error):
            return None
        if not is_missing_in_listing(error):
            raise
        return await _size_by_reading(calls, path)
    if info.get("type", "file") == "directory":
        return None
    size = size_in(info) if traits.sizes else None
    return UNKNOWN_SIZE if size is None else size


async def _size_by_reading(calls: FileSystemCalls, path: str) -> int | None:
    """Return the size of a file that no listing contains: servers hide names such as `.zarray`."""
    try:
        return len(await _cat(calls, path))
    except Exception as error:
        if is_missing_file(error):
            return None
        raise


def size_in(info: Mapping[str, Any]) -> int | None:
    """Return the size in the info of a file system about a file, or None if there is none or it is invalid."""
    size = info.get("size")
    try:
        number = int(size)  # type: ignore[arg-type]  # None too raises TypeError
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number >= 0 else None
