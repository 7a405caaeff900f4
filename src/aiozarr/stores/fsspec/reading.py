"""Reading a range through calls that know start and end only: what is cut, what is empty, what came short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiozarr.errors import ShortReadError, StoreError
from aiozarr.model import ByteRange, Range, Suffix, Value, resolve_range
from aiozarr.stores.contract import byte_view
from aiozarr.stores.fsspec.calls import Calls
from aiozarr.stores.fsspec.errors import lacks, refuses_range, unlisted
from aiozarr.stores.fsspec.traits import Traits

UNKNOWN = -1
"""The size of a file whose file system tells none."""

LONG = 16 << 20
"""Bytes. Of longer ranges, a blocking file may take memory for as much as is asked for, and not for what is there."""


async def read(calls: Calls, traits: Traits, path: str, byte_range: ByteRange | None) -> Value | None:
    """Return the bytes of the file at `path` in `byte_range`, or None where there is no such file.

    Its errors are the file system's own.

    Raises:
        ShortReadError: fewer bytes came than the file has in the range.
        StoreError: the file system refused a range that is inside the file.
    """
    try:
        return await _read(calls, traits, path, byte_range)
    except Exception as error:
        missing = lacks(error)
        if missing or unlisted(error):
            if (traits.indexed or not missing) and await size_of(calls, traits, path) is not None:
                raise
            return None
        if byte_range is None or not refuses_range(error):
            raise
    # Here, and not in the handler: what fails from now on is not to be read as having come of the refusal.
    return await _beyond(calls, traits, path, byte_range)


async def _read(calls: Calls, traits: Traits, path: str, byte_range: ByteRange | None) -> Value | None:
    if byte_range is None:
        data = await _cat(calls, path, **dict(traits.whole))
        return Value(data, None, len(data))
    if byte_range.length == 0:
        return await _beyond(calls, traits, path, byte_range)
    if isinstance(byte_range, Suffix):
        if traits.suffixes:
            data = await _cat(calls, path, start=-byte_range.length)
            # A server that ignores ranges sends all of it.
            return Value(data[-byte_range.length :], None, len(data) if len(data) != byte_range.length else None)
    elif byte_range.length is not None:
        if traits.framed or byte_range.length <= LONG:
            return await _bounded(calls, traits, path, byte_range)
    elif traits.open_ends:
        data = await _cat(calls, path, start=byte_range.start)
        return Value(data, None, None) if traits.framed else await _checked(calls, traits, path, byte_range, data)
    return await _by_size(calls, traits, path, byte_range)


async def _cat(calls: Calls, path: str, **arguments: Any) -> Any:
    data = await calls.read("cat_file", path, **arguments)
    if isinstance(data, bytes | bytearray):
        return data
    try:
        return byte_view(data)  # whose length is that in bytes, whatever it holds
    except TypeError:
        raise StoreError(f"the file system gave {type(data).__name__} in place of bytes") from None


async def _bounded(calls: Calls, traits: Traits, path: str, wanted: Range) -> Value | None:
    assert wanted.length is not None
    stop = wanted.start + wanted.length
    data = await _cat(calls, path, start=wanted.start, end=stop)
    if len(data) > wanted.length:  # the server ignores ranges
        return Value(data[wanted.start : stop], None, len(data))
    if len(data) == wanted.length:
        return Value(data, None, None)
    if traits.framed and data and (traits.open_ends or not wanted.start):
        return Value(data, None, wanted.start + len(data))
    return await _checked(calls, traits, path, wanted, data)


async def _checked(calls: Calls, traits: Traits, path: str, wanted: Range, data: Any) -> Value | None:
    """Return `data`, which ended where the file does, if it does; a server that ignores ranges has sent all of it."""
    size = await size_of(calls, traits, path)
    if size is None:
        return None
    if size == UNKNOWN:
        return Value(data, None, None) if traits.open_ends or not data else await _of_whole(calls, traits, path, wanted)
    start, stop = resolve_range(size, wanted)
    if len(data) == size:
        data = data[start:]
    if len(data) < stop - start:
        raise ShortReadError(f"{stop - start - len(data)} bytes are missing at the end of the answer")
    return Value(data[: stop - start], None, size)


async def _by_size(calls: Calls, traits: Traits, path: str, byte_range: ByteRange) -> Value | None:
    size = await size_of(calls, traits, path)
    if size is None:
        return None
    if size == UNKNOWN:
        return await _of_whole(calls, traits, path, byte_range)
    start, stop = resolve_range(size, byte_range)
    if start == stop:
        return Value(b"", None, size)
    value = await _bounded(calls, traits, path, Range(start, stop - start))
    return None if value is None else Value(value.data, None, size)


async def _of_whole(calls: Calls, traits: Traits, path: str, byte_range: ByteRange) -> Value:
    data = await _cat(calls, path, **dict(traits.whole))
    start, stop = resolve_range(len(data), byte_range)
    return Value(data[start:stop], None, len(data))


async def _beyond(calls: Calls, traits: Traits, path: str, byte_range: ByteRange) -> Value | None:
    """Return what a range without any byte of the file gives."""
    size = await size_of(calls, traits, path)
    if size is None:
        return None
    start, stop = resolve_range(size, byte_range) if size != UNKNOWN else (0, 0)
    if start != stop:
        raise StoreError("the file system refused a range that is inside the file", status=416, retryable=True)
    return Value(b"", None, None if size == UNKNOWN else size)


async def size_of(calls: Calls, traits: Traits, path: str) -> int | None:
    """Return the size of the file at `path` in bytes, `UNKNOWN` where none is told; None where there is no file."""
    try:
        info: Mapping[str, Any] = await calls.read("info", path, fresh=True)
    except Exception as error:
        if lacks(error):
            return None
        if not unlisted(error):
            raise
        return await _size_by_reading(calls, path)
    if info.get("type", "file") == "directory":
        return None
    size = size_in(info) if traits.sizes else None
    return UNKNOWN if size is None else size


async def _size_by_reading(calls: Calls, path: str) -> int | None:
    """Return the size of a file that may be there although no listing has it: servers hide names, such as `.zarray`."""
    try:
        return len(await _cat(calls, path))
    except Exception as error:
        if lacks(error):
            return None
        raise


def size_in(info: Mapping[str, Any]) -> int | None:
    """Return the size in what a file system tells of a file; None where it tells none, or what can be none."""
    size = info.get("size")
    try:
        number = int(size)  # type: ignore[arg-type]  # None too raises TypeError
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number >= 0 else None
