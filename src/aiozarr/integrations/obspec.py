"""`from_obspec` and `as_obspec`: adapters between aiozarr's stores and obspec's interface, which is not imported.

Every function that opens, creates or copies accepts an object with obspec's methods as a target. `from_obspec` makes a
store of such an object beforehand. `as_obspec` gives one of aiozarr's stores these methods, for libraries that need
them; requests have aiozarr's retries, budget and connections.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from typing_extensions import Buffer

from aiozarr.common.concurrency import for_each, map_concurrently
from aiozarr.engine import ScheduledStore, run, run_blocking
from aiozarr.errors import PreconditionFailedError, UnsupportedOperationError
from aiozarr.model import ByteRange, Entry, IfAbsent, IfMatch, Precondition, Range, Suffix, Value, Version
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores import Store
from aiozarr.stores.obspec_store import from_obspec

P = ParamSpec("P")
T = TypeVar("T")

__all__ = ["ObspecView", "as_obspec", "from_obspec"]

PAGE_ENTRIES = 1000
"""Objects of one page of `list_async`, unless `chunk_size` says otherwise."""

RANGES_AT_ONCE = 64


class NotFoundError(FileNotFoundError):
    """The object is not stored. obspec recognises errors by the names of their classes."""


class AlreadyExistsError(PreconditionFailedError):
    """An object is stored there, and `mode` is "create"."""


class PreconditionError(PreconditionFailedError):
    """Another version is stored than `mode` or `if_match` requires."""


def as_obspec(store: Store, settings: Settings | None = None) -> ObspecView:
    """Return an object with obspec's methods over a store.

    Args:
        store: the store, which its owner closes.
        settings: retries and limits of the requests.
    """
    return ObspecView(store, settings_or_default(settings))


def _blocking(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return the blocking form of a coroutine method."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_blocking(lambda: method(*args, **kwargs))

    return call


class ObspecView:
    """A store with obspec's methods, asynchronous and blocking. They may be called on any loop and in any thread.

    obspec's records (`ObjectMeta`, `ListResult`, `PutResult`) are typed dictionaries of that package. They are `Any`
    here, so that type checkers accept a view for obspec's protocols, and obspec need not be installed.

    Stores do not know the dates of objects, so `last_modified` is the beginning of 1970.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    def __repr__(self) -> str:
        return f"ObspecView({self._store.url!r})"

    # --- reading -------------------------------------------------------------------------------------------------

    async def get_async(self, path: str, *, options: Any = None) -> GetResult:
        """Return the object at `path`, or the range and the version of it that `options` specify."""
        given = dict(options or {})
        wanted, if_match, is_head = given.pop("range", None), given.pop("if_match", None), given.pop("head", False)
        given.pop("version", None)
        unknown = [name for name, value in given.items() if value is not None]
        if unknown:
            raise UnsupportedOperationError(f"stores of aiozarr have no option {unknown[0]!r}", store=self._store.url)
        if is_head:
            return GetResult(path, Value(b"", *await self._stat(path)), None)
        byte_range = _byte_range(wanted)
        value = await self._run(lambda store: store.fetch(path, byte_range))
        if value is None:
            raise _not_found(self._store, path)
        if if_match is not None and (value.version is None or value.version.etag != if_match):
            raise PreconditionError("another version is stored", store=self._store.url, key=path)
        return GetResult(path, value, byte_range)

    async def get_range_async(
        self, path: str, *, start: int, end: int | None = None, length: int | None = None
    ) -> Buffer:
        """Return the bytes from `start` to `end`, or `length` bytes."""
        byte_range = _between(start, end, length)
        value = await self._run(lambda store: store.fetch(path, byte_range))
        if value is None:
            raise _not_found(self._store, path)
        return value.data

    async def get_ranges_async(
        self,
        path: str,
        *,
        starts: Sequence[int],
        ends: Sequence[int] | None = None,
        lengths: Sequence[int] | None = None,
    ) -> list[Buffer]:
        """Return the bytes of each range, in order; the requests run at the same time."""
        stops = ends or [start + length for start, length in zip(starts, lengths or (), strict=True)]

        async def fetch(pair: tuple[int, int]) -> Buffer:
            return await self.get_range_async(path, start=pair[0], end=pair[1])

        return await map_concurrently(fetch, tuple(zip(starts, stops, strict=True)), concurrency=RANGES_AT_ONCE)

    async def head_async(self, path: str) -> Any:
        """Return size and version of the object at `path`."""
        version, size = await self._stat(path)
        return _meta(path, size, version)

    async def list_async(
        self, prefix: str | None = None, *, offset: str | None = None, chunk_size: int = PAGE_ENTRIES
    ) -> AsyncIterator[Any]:
        """Iterate over the objects below `prefix`, page by page, in the order of their keys if `offset` is given."""
        entries = await self._entries(prefix)
        if offset is not None:
            entries = sorted([entry for entry in entries if entry.key > offset], key=lambda entry: entry.key)
        for first in range(0, len(entries), chunk_size):
            yield [_meta(entry.key, entry.size, entry.version) for entry in entries[first : first + chunk_size]]

    async def list_with_delimiter_async(self, prefix: str | None = None) -> Any:
        """Return the objects directly below `prefix`, and the prefixes one level below it."""
        below = _directory(prefix)
        keys, prefixes = await self._run(lambda store: store.list_dir(below))
        objects = await map_concurrently(self.head_async, keys, concurrency=RANGES_AT_ONCE)
        return {"objects": objects, "common_prefixes": [name.rstrip("/") for name in prefixes]}

    # --- writing -------------------------------------------------------------------------------------------------

    async def put_async(
        self, path: str, file: Any, *, mode: Any = None, use_multipart: bool | None = None, **options: Any
    ) -> Any:
        """Store bytes, or the content of a file or of an iterator of bytes, whole or not at all.

        `mode` is "create", "overwrite" or the version to replace. The store chooses how it uploads.
        """
        unknown = [name for name, value in options.items() if name in ("attributes", "tags") and value]
        if unknown:
            raise UnsupportedOperationError(f"stores of aiozarr have no {unknown[0]}", store=self._store.url)
        data = await _all_bytes(file)
        condition = _condition(mode)
        try:
            version = await self._run(lambda store: store.set(path, data, precondition=condition))
        except PreconditionFailedError as error:
            kind = AlreadyExistsError if isinstance(condition, IfAbsent) else PreconditionError
            raise kind(error.message, store=error.store, key=error.key) from error
        return {"e_tag": version and version.etag, "version": version and version.generation}

    async def delete_async(self, paths: str | Sequence[str]) -> None:
        """Remove objects. Missing ones are no error."""

        async def erase(store: ScheduledStore) -> None:
            await for_each(store.erase, [paths] if isinstance(paths, str) else paths, concurrency=RANGES_AT_ONCE)

        await self._run(erase)

    async def copy_async(self, from_: str, to: str, *, overwrite: bool = True) -> None:
        """Copy one object; its bytes pass through this process."""
        result = await self.get_async(from_)
        await self.put_async(to, result.data, mode="overwrite" if overwrite else "create")

    async def rename_async(self, from_: str, to: str, *, overwrite: bool = True) -> None:
        """Copy one object, then remove it."""
        await self.copy_async(from_, to, overwrite=overwrite)
        await self.delete_async(from_)

    # --- blocking ------------------------------------------------------------------------------------------------

    get = _blocking(get_async)
    get_range = _blocking(get_range_async)
    get_ranges = _blocking(get_ranges_async)
    head = _blocking(head_async)
    list_with_delimiter = _blocking(list_with_delimiter_async)
    put = _blocking(put_async)
    delete = _blocking(delete_async)
    copy = _blocking(copy_async)
    rename = _blocking(rename_async)

    def list(self, prefix: str | None = None, *, offset: str | None = None, chunk_size: int = PAGE_ENTRIES) -> Any:
        """Iterate as `list_async` does, with a plain iterator."""

        async def collect() -> list[Any]:
            return [page async for page in self.list_async(prefix, offset=offset, chunk_size=chunk_size)]

        return iter(run_blocking(collect))

    # --- helpers -------------------------------------------------------------------------------------------------

    async def _run(self, function: Callable[[ScheduledStore], Coroutine[Any, Any, T]]) -> T:
        """Await a call of the store on the I/O thread, retried and budgeted like all requests."""
        return await run(
            lambda engine: function(engine.scheduled(self._store, self._settings)), timeout=self._settings.timeout
        )

    async def _stat(self, path: str) -> tuple[Version | None, int | None]:
        entry = await self._run(lambda store: store.stat(path))
        if entry is None:
            raise _not_found(self._store, path)
        return entry.version, entry.size

    async def _entries(self, prefix: str | None) -> Sequence[Entry]:
        below = _directory(prefix)

        async def collect(store: ScheduledStore) -> Sequence[Entry]:
            return [entry async for entry in store.scan(below)]

        return await self._run(collect)


class GetResult:
    """The result of `get_async` and `get`: the bytes, their range, and the metadata of the object."""

    def __init__(self, path: str, value: Value, byte_range: ByteRange | None) -> None:
        self.data = value.data
        nbytes = memoryview(value.data).nbytes
        start = 0
        if isinstance(byte_range, Range):
            start = byte_range.start
        elif byte_range is not None and value.size is not None:
            start = value.size - nbytes
        self.attributes: Any = {}
        self.meta = _meta(path, nbytes if value.size is None else value.size, value.version)
        self.range = (start, start + nbytes)

    async def buffer_async(self) -> Buffer:
        """Return the bytes."""
        return self.data

    def buffer(self) -> Buffer:
        """Return the bytes."""
        return self.data

    # obstore's names.
    bytes_async = buffer_async
    bytes = buffer

    def __iter__(self) -> Iterator[Buffer]:
        yield self.data

    async def __aiter__(self) -> AsyncIterator[Buffer]:
        yield self.data


def _not_found(store: Store, path: str) -> NotFoundError:
    return NotFoundError(f"no object {path!r} is stored in {store.url}")


def _meta(path: str, size: int | None, version: Version | None) -> Any:
    return {
        "path": path,
        "last_modified": datetime.fromtimestamp(0, UTC),
        "size": size,
        "e_tag": version and version.etag,
        "version": version and version.generation,
    }


def _directory(prefix: str | None) -> str:
    """Return the prefix that a store lists. obspec's prefixes are whole segments, perhaps with a slash at their end."""
    return f"{prefix.rstrip('/')}/" if prefix and prefix.rstrip("/") else ""


def _byte_range(given: Any) -> ByteRange | None:
    if given is None:
        return None
    if isinstance(given, Mapping):
        return Suffix(given["suffix"]) if "suffix" in given else Range(given["offset"])
    start, end = given
    return _between(start, end, None)


def _between(start: int, end: int | None, length: int | None) -> Range:
    if (end is None) == (length is None):
        raise ValueError("a range has either end or length")
    return Range(start, length if end is None else end - start)


def _condition(mode: Any) -> Precondition | None:
    if mode is None or mode == "overwrite":
        return None
    if mode == "create":
        return IfAbsent()
    if not isinstance(mode, Mapping):
        raise ValueError(f"mode is 'create', 'overwrite' or a version, not {mode!r}")
    return IfMatch(Version(mode.get("e_tag"), mode.get("version")))


async def _all_bytes(file: Any) -> Buffer:
    """Return the bytes of a buffer, a file or an iterator."""
    try:
        return memoryview(file)
    except TypeError:
        pass
    if hasattr(file, "read"):
        return file.read()  # type: ignore[no-any-return]  # any file
    if hasattr(file, "__aiter__"):
        return b"".join([bytes(memoryview(part)) async for part in file])
    return b"".join([bytes(memoryview(part)) for part in file])
