"""Fetches one object whole, of one state: in parts where it is large, each part bound to the version of the first."""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import Buffer

from aiozarr.engine import Session, WorkerPool
from aiozarr.errors import ChangedError, UnsupportedOperationError
from aiozarr.model import Range, Value, Version
from aiozarr.stores import byte_view
from aiozarr.stores.tasks import together
from aiozarr.transfer.judge import Taken, same_version

PARTS_AT_ONCE = 8


class Fetcher:
    """Fetches objects of one store; `part` is the most bytes of one request."""

    def __init__(self, session: Session, pool: WorkerPool, part: int) -> None:
        self._session = session
        self._pool = pool
        self._part = part

    async def fetch(self, key: str, room: int) -> Taken | int | None:
        """Return the object, None where there is none, or its size where that is more than `room`.

        Raises:
            ChangedError: the object was replaced between its parts.
            StoreError: the bytes could not be had.
        """
        head = await self._first(key, room)
        if head is None:
            return None
        size = await self._size(key, head)
        if size is None:
            return None
        if size > room:
            return size
        if size <= self._part or not self._session.store.supports.partial_reads:
            return Taken(head.data, size, head.version)
        return Taken(await self._rest(key, head, size), size, head.version)

    async def _first(self, key: str, room: int) -> Value | None:
        # A range bounds what an answer may bring, whatever the listing said; an empty object has no first byte.
        ranged = room > 0 and self._session.store.supports.partial_reads
        return await self._session.fetch(key, Range(0, self._part) if ranged else None, cost=min(room, self._part))

    async def _size(self, key: str, head: Value) -> int | None:
        """Return the size of the whole object; None where it is gone by now."""
        if head.size is not None:
            return head.size
        length = memoryview(head.data).nbytes
        if length < self._part or not self._session.store.supports.partial_reads:
            return length
        entry = await self._session.stat(key)
        if entry is not None and entry.size is None:
            raise UnsupportedOperationError(
                "the store does not tell the size of this object", store=self._session.store.url, key=key
            )
        return None if entry is None else entry.size

    async def _rest(self, key: str, head: Value, size: int) -> Buffer:
        whole = memoryview(bytearray(size))
        pin = self._pin(head.version)
        parts = self._parts(memoryview(head.data).nbytes, size)

        async def work() -> None:
            for start, length in parts:
                part = await self._session.fetch(key, Range(start, length), if_match=pin, cost=length)
                self._check(key, part, head, size, length)
                assert part is not None
                await self._place(whole[start : start + length], part.data)

        await self._place(whole[: memoryview(head.data).nbytes], head.data)
        await together(work() for _ in range(min(PARTS_AT_ONCE, -(-size // self._part) - 1)))
        return whole

    def _pin(self, version: Version | None) -> Version | None:
        if version is None or version.weak or not self._session.store.supports.conditional_reads:
            return None
        return version

    def _parts(self, start: int, size: int) -> Iterator[tuple[int, int]]:
        for at in range(start, size, self._part):
            yield at, min(self._part, size - at)

    def _check(self, key: str, part: Value | None, head: Value, size: int, length: int) -> None:
        """Refuse a part of another object than the first one's."""
        same_size = part is not None and part.size in (None, size) and memoryview(part.data).nbytes == length
        if part is None or not same_size or same_version(part.version, head.version) is False:
            raise ChangedError(
                "the object was replaced while its parts were fetched", store=self._session.store.url, key=key
            )

    async def _place(self, target: memoryview, data: Buffer) -> None:
        def place() -> None:
            target[:] = byte_view(data)

        # Megabytes are moved by a thread: the loop has other requests to answer.
        await self._pool.call(place, target.nbytes)
