"""A store that keeps what was read, in memory or in a directory, and asks whether it is still so."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Any, TypeVar

from typing_extensions import Buffer

from aiozarr.model import ByteRange, Precondition, Value, Version, check_key, check_prefix
from aiozarr.stores.blocking import in_thread, to_the_end
from aiozarr.stores.contract import Store
from aiozarr.stores.wrappers.base import WrapperStore
from aiozarr.stores.wrappers.disk import DiskShelf
from aiozarr.stores.wrappers.flights import Flights
from aiozarr.stores.wrappers.shelf import Kept, MemoryShelf, Place, Shelf

T = TypeVar("T")


class CacheStore(WrapperStore):
    """Keeps up to `max_bytes` of values and ranges, those used last, and answers from them.

    Unless `max_age` says otherwise, every answer is validated: the store is asked by `stat` whether the value still has
    the version that was kept, which costs a request and no data. Values without a version are not kept, nor are those
    with a weak one, which two values may share (a time in whole seconds is such a version). Requests of a definite
    version (`if_match`) are validated too: that they fail is how readers of shards learn that the shard was replaced. A
    missing key is not kept.

    A whole value answers its ranges. Requests for the same that are under way at the same time are one, so what another
    writes may be seen as late as by a request that was under way then. What is written or erased through this store is
    forgotten before and after, whatever comes of the write. Closing the store closes the inner store; what is kept
    stays.

    With a `directory` the values are files there, complete and with checksums; several processes may share it, and the
    next one finds what this one kept. Whatever cannot be read there counts as missing, and anybody may remove any of it
    at any time. It holds the data in the clear, so it is created for this user alone.

    Args:
        store: the store to keep values of.
        max_bytes: at least 1; in a directory, of all files there, whichever process wrote them. A larger value is not
            kept.
        directory: where to keep the values; None: in memory, where a pickled copy begins empty.
        max_age: for how many seconds what was kept is used without asking; `math.inf` for data that never change. Then
            others' writes may be seen that much later, and values without a version, or with a weak one, are kept too.

    Raises:
        ValueError: `max_bytes` or `max_age` is out of bounds.
        UnsupportedOperationError: a directory on a system that is not POSIX.
    """

    def __init__(
        self,
        store: Store,
        max_bytes: int,
        directory: str | os.PathLike[str] | None = None,
        *,
        max_age: float = 0.0,
    ) -> None:
        super().__init__(store)
        if not max_age >= 0:
            raise ValueError(f"an age is at least 0 seconds, not {max_age}")
        name = None if directory is None else os.fsdecode(directory)
        if name is not None and (not name or "\0" in name):
            raise ValueError("a cache needs a directory whose name is not empty and holds no NUL")
        self._directory = None if name is None else os.path.abspath(name)
        self._max_age = max_age
        self._flights = Flights()
        self._shelf: Shelf
        self._shelf = MemoryShelf(max_bytes) if self._directory is None else DiskShelf(max_bytes, self._directory)

    @property
    def identity(self) -> Hashable:
        """The inner store's where every answer is validated; else its values are not always the same."""
        inner = self._store.identity
        return (CacheStore, inner, self._max_age) if self._max_age else inner

    @property
    def nbytes(self) -> int:
        """Bytes that are kept now; for a directory, counted file by file."""
        return self._shelf.nbytes

    def _settings(self) -> dict[str, Any]:
        return {"max_bytes": self._shelf.max_bytes, "directory": self._directory, "max_age": self._max_age}

    def __repr__(self) -> str:
        directory = "" if self._directory is None else f", {self._directory!r}"
        age = f", max_age={self._max_age}" if self._max_age else ""
        return f"CacheStore({self._store!r}, {self._shelf.max_bytes}{directory}{age})"

    # --- reading -------------------------------------------------------------------------------------------------

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        place = self._place(key)
        kept = await self._look(lambda: self._shelf.find(place, range))
        if (
            kept is not None
            and (if_match is None or kept.value.version == if_match)
            and (self._is_fresh(kept) or await self._is_current(place, kept))
        ):
            return kept.value
        return await self._flights.join(place, (range, if_match), lambda: self._load(place, range, if_match))

    async def get(self, key: str) -> Buffer | None:
        value = await self.fetch(key)
        return None if value is None else value.data

    async def get_partial_values(self, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]) -> list[Buffer | None]:
        return await Store.get_partial_values(self, key_ranges)

    def _place(self, key: str) -> Place:
        return (self._store.identity, check_key(key, store=self.url))

    def _is_fresh(self, kept: Kept) -> bool:
        return self._max_age == math.inf or 0 <= time.time() - kept.checked < self._max_age

    async def _is_current(self, place: Place, kept: Kept) -> bool:
        """Ask the store whether what is kept is what it has; if not, forget it."""
        version = kept.value.version
        if not _is_proof(version):
            return False
        asked = time.time()
        entry = await self._flights.join(place, "stat", lambda: self._store.stat(place[1]))
        if entry is None or entry.version != version:
            await self._change(lambda: self._shelf.forget(place))
            return False
        if self._max_age:
            await self._look(lambda: self._shelf.confirm(kept, asked))
        return True

    async def _load(self, place: Place, byte_range: ByteRange | None, if_match: Version | None) -> Value | None:
        with self._shelf.watching(place) as watch:
            asked = time.time()
            value = await self._store.fetch(place[1], byte_range, if_match=if_match)
            if value is not None and (self._max_age or _is_proof(value.version)):
                found = value
                whole = value.size == memoryview(value.data).nbytes
                part = None if whole else byte_range
                await self._change(lambda: self._shelf.keep(place, part, found, asked, watch))
            return value

    # --- writing -------------------------------------------------------------------------------------------------

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        return await self._replacing([key], lambda: self._store.set(key, value, precondition=precondition))

    async def set_partial_values(self, key_start_values: Iterable[tuple[str, int, Buffer]]) -> None:
        parts = [*key_start_values]
        await self._replacing([key for key, _, _ in parts], lambda: self._store.set_partial_values(parts))

    async def erase(self, key: str) -> None:
        await self._replacing([key], lambda: self._store.erase(key))

    async def erase_values(self, keys: Iterable[str]) -> None:
        listed = [*keys]
        await self._replacing(listed, lambda: self._store.erase_values(listed))

    async def erase_prefix(self, prefix: str) -> None:
        check_prefix(prefix, store=self.url)
        await self._forgetting(lambda: self._forget_below(prefix), lambda: self._store.erase_prefix(prefix))

    async def _replacing(self, keys: list[str], write: Callable[[], Awaitable[T]]) -> T:
        places = [self._place(key) for key in keys]
        return await self._forgetting(lambda: self._forget(places), write)

    async def _forgetting(self, forget: Callable[[], Awaitable[None]], write: Callable[[], Awaitable[T]]) -> T:
        """Forget before the write, lest it be used meanwhile, and after it, when what came meanwhile is old."""
        await forget()
        try:
            return await write()
        finally:
            await forget()

    async def _forget(self, places: list[Place]) -> None:
        def forget() -> None:
            for place in places:
                self._shelf.forget(place)

        for place in places:
            self._flights.forget(place)
        await self._change(forget)

    async def _forget_below(self, prefix: str) -> None:
        identity = self._store.identity
        self._flights.forget_below(identity, prefix)
        await self._change(lambda: self._shelf.forget_below(identity, prefix))

    # --- threads -------------------------------------------------------------------------------------------------

    async def _look(self, call: Callable[[], T]) -> T:
        """Ask the shelf something: of a directory, in a thread."""
        return call() if self._directory is None else await in_thread(call)

    async def _change(self, call: Callable[[], None]) -> None:
        """Change something on the shelf; a cancellation waits for the end of it."""
        if self._directory is None:
            call()
        else:
            await to_the_end(call)


def _is_proof(version: Version | None) -> bool:
    """Return whether equal versions mean equal bytes."""
    return version is not None and not version.weak
