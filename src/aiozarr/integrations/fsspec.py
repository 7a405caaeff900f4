"""The way back: a store of aiozarr as a mapping, or as a file system of fsspec, for who knows those only."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
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

from aiozarr.engine import Session, run
from aiozarr.errors import InvalidKeyError, PreconditionFailedError
from aiozarr.model import ByteRange, Entry, IfAbsent, Range, Suffix, check_key
from aiozarr.schedule import current_recorder
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores.contract import Store
from aiozarr.stores.tasks import map_bounded
from aiozarr.sync.wait import wait

T = TypeVar("T")

# What was written as JSON stands for a store of this process.
_named: WeakValueDictionary[str, Store] = WeakValueDictionary()


def mapping(store: Store, *, settings: Settings | None = None) -> MutableMapping[str, bytes]:
    """Return the values of `store` as a mapping from keys to bytes, for libraries that are given one (zarr-python 2).

    Each access waits, as the names of `aiozarr.sync` do, and may be made in any thread but in no coroutine on the I/O
    thread. Requests are repeated and budgeted like all others. `getitems` reads many keys at once.

    Args:
        store: what is read and written.
        settings: limits and policies of the requests.

    Raises:
        KeyError: nothing is stored under a key.
        StoreError: the store could not do what was asked.
    """
    return StoreMapping(store, settings)


class StoreMapping(MutableMapping[str, bytes]):
    """What `mapping` returns."""

    def __init__(self, store: Store, settings: Settings | None = None) -> None:
        self.store = store
        self._settings = settings

    def _wait(self, function: Callable[[Session], Awaitable[T]]) -> T:
        return wait(lambda _: _ask(self.store, self._settings, function))

    def __getitem__(self, key: str) -> bytes:
        value = self._wait(lambda session: session.fetch(key))
        if value is None:
            raise KeyError(key)
        return bytes(value.data)

    def getitems(self, keys: Iterable[str], on_error: str = "omit") -> dict[str, bytes]:
        """Return the values of those of `keys` that are stored, read at once."""
        wanted = tuple(keys)
        found = self._wait(lambda session: map_bounded(session.fetch, wanted))
        return {key: bytes(value.data) for key, value in zip(wanted, found, strict=True) if value is not None}

    def __setitem__(self, key: str, value: Any) -> None:
        self._wait(lambda session: session.set(key, value))

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._wait(lambda session: session.erase(key))

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._wait(lambda session: session.stat(key)) is not None

    def __iter__(self) -> Iterator[str]:
        return iter([entry.key for entry in self._wait(lambda session: _scanned(session, ""))])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def clear(self) -> None:
        """Remove all keys."""
        self._wait(lambda session: session.erase_prefix(""))

    def __repr__(self) -> str:
        return f"mapping({self.store!r})"


class StoreFileSystem(AsyncFileSystem):  # type: ignore[misc]  # fsspec ships no types
    """A store as an asynchronous file system of fsspec; paths are keys.

    `StoreFileSystem(store).get_mapper("")` is what zarr-python and xarray open. Requests go through the scheduler of
    aiozarr, wherever they are made: on fsspec's loop, or with `asynchronous=True` on any.

    As JSON, which zarr-python uses to make a file system asynchronous, it stands for its store in this process only;
    pickled, it brings the store along.
    """

    protocol = "aiozarr"
    cachable = False

    def __init__(self, store: Store | str, *, settings: Settings | None = None, **options: Any) -> None:
        super().__init__(**options)
        if isinstance(store, str):
            if store not in _named:
                raise ValueError("this file system was written as JSON by another process, or its store is gone")
            store = _named[store]
        self.store = store
        self._settings = settings

    @property
    def _fs_token(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        return sha256(repr((type(self), self.store.identity)).encode()).hexdigest()

    def to_dict(self, *, include_password: bool = True) -> dict[str, Any]:
        """Return a description for this process, which holds no secret."""
        kind = type(self)
        token = f"{id(self.store):x}"
        _named[token] = self.store
        return {"cls": f"{kind.__module__}:{kind.__name__}", "protocol": self.protocol, "args": [], "store": token}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        return str(path).removeprefix("aiozarr://").strip("/")

    # --- reading -------------------------------------------------------------------------------------------------

    async def _cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        key = self._key(path)
        wanted = await self._range(key, start, end)
        value = await self._ask(lambda session: session.fetch(key, wanted))
        if value is None:
            raise FileNotFoundError(path)
        return bytes(value.data)

    async def _range(self, key: str, start: int | None, end: int | None) -> ByteRange | None:
        """Return the range that a slice means."""
        if start is None and end is None:
            return None
        if start is not None and start < 0 and end is None:
            return Suffix(-start)
        start = start or 0
        if start < 0 or (end is not None and end < 0):
            entry = await self._ask(lambda session: session.stat(key))
            if entry is None or entry.size is None:
                raise FileNotFoundError(key)
            start, end, _ = slice(start, end).indices(entry.size)
        return Range(start, None if end is None else max(0, end - start))

    async def _info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        if path:
            key = self._key(path)
            entry = await self._ask(lambda session: session.stat(key))
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
        entries = await self._ask(lambda session: map_bounded(session.stat, keys))
        return [*(_file(entry) for entry in entries if entry is not None), *map(_directory, directories)]

    async def _find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **kwargs: Any
    ) -> Any:
        path = self._strip_protocol(path)
        if maxdepth is not None or withdirs:
            return await super()._find(path, maxdepth=maxdepth, withdirs=withdirs, detail=detail, **kwargs)
        found = await self._ask(lambda session: _scanned(session, f"{path}/" if path else ""))
        if not found and path:
            key = self._key(path)
            entry = await self._ask(lambda session: session.stat(key))
            found = [] if entry is None else [entry]
        infos = {entry.key: _file(entry) for entry in sorted(found, key=lambda entry: entry.key)}
        return infos if detail else list(infos)

    async def _list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        return await self._ask(lambda session: session.list_dir(prefix))

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
        condition = None
        if mode == "create":
            if self.store.supports.conditional_writes:
                condition = IfAbsent()
            elif await self._ask(lambda session: session.stat(key)) is not None:
                raise FileExistsError(path)
        try:
            await self._ask(lambda session: session.set(key, value, precondition=condition))
        except PreconditionFailedError as error:
            raise FileExistsError(path) from error

    async def _put_file(self, lpath: str, rpath: str, mode: str = "overwrite", **kwargs: Any) -> None:
        await self._pipe_file(rpath, await asyncio.to_thread(Path(lpath).read_bytes), mode)

    async def _cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        await self._pipe_file(path2, await self._cat_file(path1))

    async def _rm_file(self, path: str, **kwargs: Any) -> Any:
        key = self._key(path)
        if await self._ask(lambda session: session.stat(key)) is None:
            raise FileNotFoundError(path)
        await self._ask(lambda session: session.erase(key))

    async def _rm(
        self, path: Any, recursive: bool = False, batch_size: Any = None, maxdepth: Any = None, **kwargs: Any
    ) -> Any:
        for each in [path] if isinstance(path, str) else path:
            each = self._strip_protocol(each)
            if not recursive:
                await self._rm_file(each)
                continue
            prefix = f"{each}/" if each else ""
            await self._ask(lambda session: session.erase_prefix(prefix))  # noqa: B023  # awaited in this turn
            if each:
                key = self._key(each)
                await self._ask(lambda session: session.erase(key))  # noqa: B023

    # --- files, and how things are asked -------------------------------------------------------------------------

    def _open(self, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        return _File(self, path, mode, *args, **kwargs)

    def _key(self, path: str) -> str:
        try:
            return check_key(self._strip_protocol(path), store=self.store.url)
        except InvalidKeyError as error:
            raise FileNotFoundError(path) from error

    async def _ask(self, function: Callable[[Session], Awaitable[T]]) -> T:
        return await _ask(self.store, self._settings, function)


class _File(AbstractBufferedFile):  # type: ignore[misc]  # fsspec ships no types
    """An open value: read by ranges, written as a whole when it is closed."""

    def __init__(self, fs: Any, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> None:
        # First of all: what was not made yet is not closed either, which would write it.
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
        return final  # False: the buffer keeps what it has

    def commit(self) -> None:
        """Write the value: on closing the file, or at the end of a transaction."""
        self.fs.pipe_file(self.path, self._data, mode="create" if self.mode == "xb" else "overwrite")


async def _ask(store: Store, settings: Settings | None, function: Callable[[Session], Awaitable[T]]) -> T:
    """Await `function` of the store as the scheduler reaches it."""
    chosen, recorder = settings_or_default(settings), current_recorder()
    return await run(lambda engine: function(engine.session(store, chosen, recorder)), timeout=chosen.timeout)


async def _scanned(session: Session, prefix: str) -> list[Entry]:
    return [entry async for entry in session.scan(prefix)]


def _file(entry: Entry) -> dict[str, Any]:
    return {"name": entry.key, "size": entry.size, "type": "file"}


def _directory(path: str) -> dict[str, Any]:
    return {"name": path, "size": 0, "type": "directory"}
