"""A store of aiozarr as a mapping, or as a file system of fsspec, for libraries that take only those."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, MutableMapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

try:
    from fsspec.asyn import AsyncFileSystem
    from fsspec.spec import AbstractBufferedFile
    from fsspec.utils import isfilelike
except ImportError as error:
    raise ImportError("file systems of fsspec need the package fsspec: pip install 'aiozarr[fsspec]'") from error

from aiozarr.concurrency import map_concurrently
from aiozarr.engine import ScheduledStore, run
from aiozarr.errors import InvalidKeyError, PreconditionFailedError
from aiozarr.hierarchy.mutations.store_documents import set_if_absent
from aiozarr.model import ByteRange, Entry, Range, Suffix, check_key
from aiozarr.schedule.events import current_recorder
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores.contract import Store
from aiozarr.sync.wait import wait

T = TypeVar("T")

# The stores of this process by their tokens in the JSON of a file system.
_stores_by_token: WeakValueDictionary[str, Store] = WeakValueDictionary()


def mapping(store: Store, *, settings: Settings | None = None) -> MutableMapping[str, bytes]:
    """Return the values of `store` as a mapping from keys to bytes, for libraries that take one (zarr-python 2).

    Each access blocks, as the names of `aiozarr.sync` do. It works in any thread, but not in a coroutine on the I/O
    thread. Requests have retries and budget as all others. `getitems` reads many keys at once.

    Args:
        store: the store to read and write.
        settings: limits and policies of the requests.

    Raises:
        KeyError: nothing is stored under a key.
        StoreError: a request failed.
    """
    return StoreMapping(store, settings)


class StoreMapping(MutableMapping[str, bytes]):
    """A store as a mapping from keys to bytes; made by `mapping`."""

    def __init__(self, store: Store, settings: Settings | None = None) -> None:
        self.store = store
        self._settings = settings

    def _wait(self, function: Callable[[ScheduledStore], Coroutine[Any, Any, T]]) -> T:
        return wait(lambda _: _request(self.store, self._settings, function))

    def __getitem__(self, key: str) -> bytes:
        value = self._wait(lambda scheduled: scheduled.fetch(key))
        if value is None:
            raise KeyError(key)
        return bytes(value.data)

    def getitems(self, keys: Iterable[str], on_error: str = "omit") -> dict[str, bytes]:
        """Return the values of the stored ones among `keys`, read concurrently."""
        requested = tuple(keys)
        found = self._wait(lambda scheduled: map_concurrently(scheduled.fetch, requested))
        return {key: bytes(value.data) for key, value in zip(requested, found, strict=True) if value is not None}

    def __setitem__(self, key: str, value: Any) -> None:
        self._wait(lambda scheduled: scheduled.set(key, value))

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._wait(lambda scheduled: scheduled.erase(key))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._wait(lambda scheduled: scheduled.stat(key)) is not None

    def __iter__(self) -> Iterator[str]:
        return iter([entry.key for entry in self._wait(lambda scheduled: _scan(scheduled, ""))])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def clear(self) -> None:
        """Remove all keys."""
        self._wait(lambda scheduled: scheduled.erase_prefix(""))

    def __repr__(self) -> str:
        return f"mapping({self.store!r})"


class StoreFileSystem(AsyncFileSystem):  # type: ignore[misc]  # fsspec ships no types
    """A store as an asynchronous file system of fsspec; paths are keys.

    zarr-python and xarray open `StoreFileSystem(store).get_mapper("")`. Requests go through the scheduler of aiozarr
    from every loop: from fsspec's, or with `asynchronous=True` from any.

    Its JSON, which zarr-python uses to make a file system asynchronous, refers to its store and is valid in this
    process only. Pickling includes the store.
    """

    protocol = "aiozarr"
    cachable = False

    def __init__(self, store: Store | str, *, settings: Settings | None = None, **options: Any) -> None:
        super().__init__(**options)
        if isinstance(store, str):
            if store not in _stores_by_token:
                raise ValueError("this file system was written as JSON by another process, or its store is gone")
            store = _stores_by_token[store]
        self.store = store
        self._settings = settings

    @property
    def _fs_token(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return sha256(repr((type(self), self.store.identity)).encode()).hexdigest()

    def to_dict(self, *, include_password: bool = True) -> dict[str, Any]:
        """Return a description that is valid in this process, without secrets."""
        kind = type(self)
        token = f"{id(self.store):x}"
        _stores_by_token[token] = self.store
        return {"cls": f"{kind.__module__}:{kind.__name__}", "protocol": self.protocol, "args": [], "store": token}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return str(path).removeprefix("aiozarr://").strip("/")

    # --- reading -------------------------------------------------------------------------------------------------

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        key = self._key(path)
        byte_range = await self._range(key, start, end)
        value = await self._request(lambda scheduled: scheduled.fetch(key, byte_range))
        if value is None:
            raise FileNotFoundError(path)
        return bytes(value.data)

    async def _range(self, key: str, start: int | None, end: int | None) -> ByteRange | None:
        """Return the byte range of a slice."""
        if start is None and end is None:
            return None
        if start is not None and start < 0 and end is None:
            return Suffix(-start)
        start = start or 0
        if start < 0 or (end is not None and end < 0):
            entry = await self._request(lambda scheduled: scheduled.stat(key))
            if entry is None or entry.size is None:
                raise FileNotFoundError(key)
            start, end, _ = slice(start, end).indices(entry.size)
        return Range(start, None if end is None else max(0, end - start))

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if path:
            key = self._key(path)
            entry = await self._request(lambda scheduled: scheduled.stat(key))
            if entry is not None:
                return _file(entry)
            if not self.store.supports.listable or not any(await self._list_dir(f"{key}/")):
                raise FileNotFoundError(path)
        return _directory(path)

    async def _ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        keys, prefixes = await self._list_dir(f"{path}/" if path else "")
        if not keys and not prefixes and path:
            info = await self._info(path)
            return [info if detail else info["name"]]
        directories = [prefix[:-1] for prefix in prefixes]
        if not detail:
            return sorted([*keys, *directories])
        entries = await self._request(lambda scheduled: map_concurrently(scheduled.stat, keys))
        return [*(_file(entry) for entry in entries if entry is not None), *map(_directory, directories)]

    async def _find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        path = self._strip_protocol(path)
        if maxdepth is not None or withdirs:
            return await super()._find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        found = await self._request(lambda scheduled: _scan(scheduled, f"{path}/" if path else ""))
        if not found and path:
            key = self._key(path)
            entry = await self._request(lambda scheduled: scheduled.stat(key))
            found = [] if entry is None else [entry]
        infos = {entry.key: _file(entry) for entry in sorted(found, key=lambda entry: entry.key)}
        return infos if detail else list(infos)

    async def _list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        return await self._request(lambda scheduled: scheduled.list_dir(prefix))

    async def _get_file(self, rpath: str, lpath: Any, **kwargs: Any) -> None:
        try:
            data = await self._cat_file(rpath)
        except FileNotFoundError:
            if isfilelike(lpath) or not await self._isdir(rpath):
                raise
            await asyncio.to_thread(os.makedirs, lpath, exist_ok=True)
            return
        if isfilelike(lpath):
            lpath.write(data)
        else:
            await asyncio.to_thread(Path(lpath).write_bytes, data)

    # --- writing -------------------------------------------------------------------------------------------------

    async def _pipe_file(self, path: str, value: Any, mode: str = "overwrite", **kwargs: Any) -> None:
        key = check_key(self._strip_protocol(path), store=self.store.url)
        is_new = mode == "create"
        can_check = self.store.supports.conditional_writes
        if is_new and not can_check and await self._request(lambda scheduled: scheduled.stat(key)) is not None:
            raise FileExistsError(path)
        try:
            await self._request(
                lambda scheduled: set_if_absent(scheduled, key, value) if is_new else scheduled.set(key, value)
            )
        except PreconditionFailedError as error:
            raise FileExistsError(path) from error

    async def _put_file(self, lpath: str, rpath: str, mode: str = "overwrite", **kwargs: Any) -> None:
        await self._pipe_file(rpath, await asyncio.to_thread(Path(lpath).read_bytes), mode)

    async def _cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        await self._pipe_file(path2, await self._cat_file(path1))

    async def _rm_file(self, path: str, **kwargs: Any) -> Any:
        key = self._key(path)
        if await self._request(lambda scheduled: scheduled.stat(key)) is None:
            raise FileNotFoundError(path)
        await self._request(lambda scheduled: scheduled.erase(key))

    async def _rm(
        self, path: Any, recursive: bool = False, batch_size: Any = None, maxdepth: Any = None, **kwargs: Any
    ) -> Any:
        for each in [path] if isinstance(path, str) else path:
            each = self._strip_protocol(each)
            if not recursive:
                await self._rm_file(each)
                continue
            prefix = f"{each}/" if each else ""
            await self._request(lambda scheduled: scheduled.erase_prefix(prefix))  # noqa: B023  # awaited in this turn
            if each:
                key = self._key(each)
                await self._request(lambda scheduled: scheduled.erase(key))  # noqa: B023

    # --- files and requests --------------------------------------------------------------------------------------

    def _open(self, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        return _File(self, path, mode, *args, **kwargs)

    def _key(self, path: str) -> str:
        try:
            return check_key(self._strip_protocol(path), store=self.store.url)
        except InvalidKeyError as error:
            raise FileNotFoundError(path) from error

    async def _request(self, function: Callable[[ScheduledStore], Coroutine[Any, Any, T]]) -> T:
        return await _request(self.store, self._settings, function)


class _File(AbstractBufferedFile):  # type: ignore[misc]  # fsspec ships no types
    """An open file: read by ranges, written whole when it is closed."""

    def __init__(self, fs: Any, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> None:
        # Before anything else: closing a file that is constructed would write it.
        if mode == "xb" and fs.isfile(path):
            raise FileExistsError(path)
        self._data = b""
        if mode == "ab":
            with suppress(FileNotFoundError):
                self._data = fs.cat_file(path)
        super().__init__(fs, path, mode, *args, **kwargs)
        self.loc = len(self._data)

    def _fetch_range(self, start: int, end: int) -> bytes:
        data: bytes = self.fs.cat_file(self.path, start=start, end=end)
        return data

    def _initiate_upload(self) -> None:
        pass

    def _upload_chunk(self, final: bool = False) -> Any:
        if final:
            self._data += self.buffer.getvalue()
            if self.autocommit:
                self.commit()
        return final  # False: the buffer keeps its content.

    def commit(self) -> None:
        """Write the file: when it is closed, or at the end of a transaction."""
        self.fs.pipe_file(self.path, self._data, mode="create" if self.mode == "xb" else "overwrite")


async def _request(
    store: Store, settings: Settings | None, function: Callable[[ScheduledStore], Coroutine[Any, Any, T]]
) -> T:
    """Await `function` on the I/O thread, with the scheduled store."""
    settings, report = settings_or_default(settings), current_recorder()
    return await run(lambda engine: function(engine.scheduled(store, settings, report)), timeout=settings.timeout)


async def _scan(scheduled: ScheduledStore, prefix: str) -> list[Entry]:
    return [entry async for entry in scheduled.scan(prefix)]


def _file(entry: Entry) -> dict[str, Any]:
    return {"name": entry.key, "size": entry.size, "type": "file"}


def _directory(path: str) -> dict[str, Any]:
    return {"name": path, "size": 0, "type": "directory"}
