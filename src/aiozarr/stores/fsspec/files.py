"""Reads ranges of files by `cat_file`, which has only a start and an end, and lists files as keys."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import unquote

from aiozarr.common.concurrency import map_concurrently
from aiozarr.errors import InvalidKeyError, ShortReadError, StoreError
from aiozarr.model import ByteRange, Entry, Range, Suffix, Value, check_key, resolve_range
from aiozarr.stores.contract import byte_view
from aiozarr.stores.fsspec.errors import is_missing_file, is_missing_in_listing, is_refused_key, refuses_range
from aiozarr.stores.fsspec.file_system_calls import FileSystemCalls
from aiozarr.stores.fsspec.instances import FileSystemTraits

UNKNOWN_SIZE = -1
"""The size of a file whose file system does not return it."""

MAX_UNCHECKED_BYTES = 16 << 20
"""A blocking file may allocate memory for the whole range, beyond its end too. Longer ranges are cut at the size."""


class FileReader:
    """Reads files of a file system."""

    def __init__(self, calls: FileSystemCalls, traits: FileSystemTraits) -> None:
        self._calls, self._traits = calls, traits

    async def read_at_most(self, path: str, byte_range: ByteRange | None, max_bytes: int) -> Value | None:
        """Read as `read` does, at most `max_bytes + 1` bytes: one more than allowed shows that there are too many."""
        most = max_bytes + 1
        if not self._traits.clips:
            return await self.read(path, byte_range)
        if byte_range is None:
            # The size of a short response is not checked, as for a whole file.
            whole = self._traits.framed or most <= MAX_UNCHECKED_BYTES
            return await self.read(path, Range(0, most), is_whole=whole)
        if byte_range.length is not None and byte_range.length < most:
            return await self.read(path, byte_range)
        if isinstance(byte_range, Range):
            return await self.read(path, Range(byte_range.start, most))
        size = await self.size_of(path)
        if size is None:
            return None
        if size == UNKNOWN_SIZE:
            return await self.read(path, byte_range)
        start, stop = resolve_range(size, byte_range)
        value = await self.read(path, Range(start, min(stop - start, most)))
        return None if value is None else Value(value.data, None, size)

    async def read(self, path: str, byte_range: ByteRange | None, *, is_whole: bool = False) -> Value | None:
        """Return the bytes of the file at `path` in `byte_range`, or None if there is no such file.

        With `is_whole`, the end of a short response counts as the end of the file. Errors are the file system's own.

        Raises:
            ShortReadError: fewer bytes were received than the file has in the range.
            StoreError: the file system refused a range inside the file.
        """
        try:
            return await self._read(path, byte_range, is_whole)
        except Exception as error:
            missing = self._is_missing(error, path)
            if missing or is_missing_in_listing(error):
                if (self._traits.indexed or not missing) and await self.size_of(path) is not None:
                    raise
                return None
            if byte_range is None or not refuses_range(error):
                raise
        # Outside the handler, so that a further error does not have the refusal as its context.
        return await self._read_beyond_end(path, byte_range)

    async def _read(self, path: str, byte_range: ByteRange | None, is_whole: bool) -> Value | None:
        if byte_range is None:
            data = await self._cat(path, **dict(self._traits.whole))
            return Value(data, None, len(data))
        if byte_range.length == 0:
            return await self._read_beyond_end(path, byte_range)
        if isinstance(byte_range, Suffix):
            if self._traits.suffixes:
                data = await self._cat(path, start=-byte_range.length)
                # A server that ignores ranges sends the whole file.
                return Value(data[-byte_range.length :], None, len(data) if len(data) != byte_range.length else None)
        elif byte_range.length is not None:
            if self._traits.framed or byte_range.length <= MAX_UNCHECKED_BYTES:
                return await self._read_bounded(path, byte_range, is_whole)
        elif self._traits.open_ends:
            data = await self._cat(path, start=byte_range.start)
            return Value(data, None, None) if self._traits.framed else await self._check_end(path, byte_range, data)
        return await self._read_by_size(path, byte_range)

    async def _cat(self, path: str, **arguments: Any) -> Any:
        data = await self._calls.read("cat_file", path, **arguments)
        if isinstance(data, bytes | bytearray):
            return data
        try:
            return byte_view(data)  # its length is in bytes for any item type
        except TypeError:
            raise StoreError(f"the file system returned {type(data).__name__} instead of bytes") from None

    async def _read_bounded(self, path: str, wanted: Range, is_whole: bool = False) -> Value | None:
        assert wanted.length is not None
        stop = wanted.start + wanted.length
        data = await self._cat(path, start=wanted.start, end=stop)
        if len(data) > wanted.length:  # the server ignores ranges
            return Value(data[wanted.start : stop], None, len(data))
        if len(data) == wanted.length:
            return Value(data, None, None)
        if is_whole or (self._traits.framed and data and (self._traits.open_ends or not wanted.start)):
            return Value(data, None, wanted.start + len(data))
        return await self._check_end(path, wanted, data)

    async def _check_end(self, path: str, wanted: Range, data: Any) -> Value | None:
        """Check that `data` ends at the end of the file, and return it; a server without ranges has sent all of it."""
        size = await self.size_of(path)
        if size is None:
            return None
        if size == UNKNOWN_SIZE:
            return (
                Value(data, None, None)
                if self._traits.open_ends or not data
                else await self._read_from_whole(path, wanted)
            )
        start, stop = resolve_range(size, wanted)
        if len(data) == size:
            data = data[start:]
        if len(data) < stop - start:
            raise ShortReadError(f"{stop - start - len(data)} bytes are missing at the end of the response")
        return Value(data[: stop - start], None, size)

    async def _read_by_size(self, path: str, byte_range: ByteRange) -> Value | None:
        size = await self.size_of(path)
        if size is None:
            return None
        if size == UNKNOWN_SIZE:
            return await self._read_from_whole(path, byte_range)
        start, stop = resolve_range(size, byte_range)
        if start == stop:
            return Value(b"", None, size)
        value = await self._read_bounded(path, Range(start, stop - start))
        return None if value is None else Value(value.data, None, size)

    async def _read_from_whole(self, path: str, byte_range: ByteRange) -> Value:
        data = await self._cat(path, **dict(self._traits.whole))
        start, stop = resolve_range(len(data), byte_range)
        return Value(data[start:stop], None, len(data))

    async def _read_beyond_end(self, path: str, byte_range: ByteRange) -> Value | None:
        """Return the empty value of a range that contains no byte of the file."""
        size = await self.size_of(path)
        if size is None:
            return None
        start, stop = resolve_range(size, byte_range) if size != UNKNOWN_SIZE else (0, 0)
        if start != stop:
            raise StoreError("the file system refused a range that is inside the file", status=416, retryable=True)
        return Value(b"", None, None if size == UNKNOWN_SIZE else size)

    async def size_of(self, path: str) -> int | None:
        """Return the size of the file at `path` in bytes, or `UNKNOWN_SIZE`, or None if there is no file."""
        try:
            info: Mapping[str, Any] = await self._calls.read("info", path, fresh=True)
        except Exception as error:
            if self._is_missing(error, path):
                return None
            if not is_missing_in_listing(error):
                raise
            return await self._size_by_reading(path)
        if info.get("type", "file") == "directory":
            return None
        size = size_in(info) if self._traits.sizes else None
        return UNKNOWN_SIZE if size is None else size

    def _is_missing(self, error: BaseException, path: str) -> bool:
        return is_missing_file(error) or (self._traits.numbered and is_refused_key(error, path))

    async def _size_by_reading(self, path: str) -> int | None:
        """Return the size of a file that no listing contains: servers hide names such as `.zarray`."""
        try:
            return len(await self._cat(path))
        except Exception as error:
            if self._is_missing(error, path):
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


CONCURRENCY = 16
"""Directories that are listed at once."""


class FileLister:
    """Lists files below the root at `base`."""

    def __init__(self, calls: FileSystemCalls, traits: FileSystemTraits, base: str) -> None:
        self._calls, self._traits, self._base = calls, traits, base

    async def scan(self, prefix: str) -> AsyncGenerator[list[Entry], None]:
        """Iterate over the files whose keys start with `prefix`: page by page, directory by directory."""
        if self._traits.flat:
            found = await self._list("find", prefix, {})
            yield [entry for info in found.values() if (entry := self._entry(info, prefix)) is not None]
            return
        pending = [prefix]
        while pending:
            some, pending = pending[:CONCURRENCY], pending[CONCURRENCY:]
            for infos, above in zip(
                await map_concurrently(self._level, some, concurrency=CONCURRENCY), some, strict=True
            ):
                yield [entry for info in infos if (entry := self._entry(info, above)) is not None]
                pending += [name for info in infos if (name := self._directory(info, above)) is not None]

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys directly below `prefix`, and the prefixes one level below it."""
        infos = await self._level(prefix)
        keys = {entry.key for info in infos if (entry := self._entry(info, prefix)) is not None}
        prefixes = {name for info in infos if (name := self._directory(info, prefix)) is not None}
        return sorted(key for key in keys if "/" not in key[len(prefix) :]), sorted(prefixes)

    async def _level(self, prefix: str) -> list[Mapping[str, Any]]:
        return list(await self._list("ls", prefix, []))

    async def _list(self, method: str, prefix: str, nothing: Any) -> Any:
        path = (self._base + prefix).rstrip("/") or self._base
        try:
            return await self._calls.read(method, path, detail=True, fresh=True)
        except Exception as error:
            if is_missing_file(error) or is_missing_in_listing(error):
                return nothing
            raise

    def _entry(self, info: Mapping[str, Any], prefix: str) -> Entry | None:
        """Return the entry of a file below `prefix`, or None for directories, their markers and invalid keys."""
        key = self._key(info, prefix)
        if key is None or info.get("type", "file") == "directory":
            return None
        return Entry(key, size_in(info) if self._traits.sizes else None)

    def _directory(self, info: Mapping[str, Any], prefix: str) -> str | None:
        if info.get("type") != "directory":
            return None
        key = self._key({**info, "name": str(info["name"]).rstrip("/")}, prefix)
        return None if key is None else f"{key}/"

    def _key(self, info: Mapping[str, Any], prefix: str) -> str | None:
        # Some file systems return names with the slash of their root, some without.
        name, base = str(info["name"]).lstrip("/"), self._base.lstrip("/")
        if not name.startswith(base):
            return None
        key = unquote(name[len(base) :]) if self._traits.encoded else name[len(base) :]
        if not key.startswith(prefix):
            return None
        try:
            return check_key(key)
        except InvalidKeyError:
            return None
