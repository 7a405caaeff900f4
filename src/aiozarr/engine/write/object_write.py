"""The write of one stored object: encode and put; where it is written in part, compare-and-swap on what is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import partial
from random import random
from time import sleep
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.plan.plan import inner_parts
from aiozarr.engine.request.errand import Errand
from aiozarr.engine.request.observed import RequestWatch
from aiozarr.engine.work.encode import ChangedShard, StoredShard, assemble_shard, encode_chunk, encode_inner, open_shard
from aiozarr.engine.work.pool import BATCH_BYTES
from aiozarr.errors import ChecksumError, CodecError, PreconditionFailedError
from aiozarr.grid.projection import Part
from aiozarr.grid.touched import LONG
from aiozarr.model import IfAbsent, IfMatch, Precondition, Value
from aiozarr.schedule.events import RequestEvent
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store
from aiozarr.stores.tasks import together

if TYPE_CHECKING:
    from aiozarr.engine.write.job import WriteJob

T = TypeVar("T")

MAX_RACES = 100
"""How many other writers of one object may come first before a partial write gives up."""

PART_BYTES = 2 << 20


class ObjectWrite(Errand):
    """One chunk or shard, and the values that go into it."""

    __slots__ = ("does", "fetched", "job", "keep", "layout", "projection", "put", "sent", "stored", "values")

    def __init__(
        self,
        job: WriteJob,
        store: Store,
        layout: ArrayLayout,
        values: NDArray[Any],
        key: str,
        projection: Part,
    ) -> None:
        self.stored = layout.object_of(projection)
        super().__init__(job, store, key, self.stored.spec.nbytes)
        self.job = job
        self.layout = layout
        # Where the metadata leave open what missing chunks hold, none may be missing for what it holds.
        self.keep = not layout.metadata.has_fill_value
        self.values = values
        self.projection = projection
        self.sent = self.fetched = self.put = 0
        # What it has come to, for who observes.
        self.does: Literal["set", "erase", "fetch"] = "set"

    # --- on the loop -----------------------------------------------------------------------------------------------

    async def send(self) -> None:
        if await self._is_whole():
            # Without conditional writes a partial write in progress would undo this one: they take turns.
            async with nullcontext() if self.store.supports.conditional_writes else self._turn():
                data = await self._encode(None, [self])
                await (self._erase() if data is None else self._put(data, None))
            return
        swap = await self._can_swap()
        # The writers of one object in this process queue up; races are with other processes.
        async with self.desk.convoys.join(self.store.place_of(self.key), self) as group:
            if not group:
                return
            await self._change(group, swap)

    def fits(self, other: ObjectWrite) -> bool:
        """Return whether the changes of `other`, to the same place, can be put together with these."""
        return other.layout is self.layout

    async def _change(self, group: list[ObjectWrite], swap: bool) -> None:
        for race in range(MAX_RACES):
            value = await self._fetch()
            data = await self._encode(value, group)
            if data is None:
                self.does = "fetch"
                return
            condition = self._condition(value, swap)
            try:
                await self._put(data, condition)
            except PreconditionFailedError:
                if race == MAX_RACES - 1:
                    raise
                await asyncio.sleep(random() * 0.01 * min(race, 10))
            else:
                return

    async def _is_whole(self) -> bool:
        if self.projection.listed < LONG:
            return self.projection.whole
        return await self.desk.pool.call(lambda: self.projection.whole)

    def _turn(self) -> AbstractAsyncContextManager[None]:
        return self.desk.locks.hold(self.store.place_of(self.key))

    async def _can_swap(self) -> bool:
        """Return whether the store checks conditions of writes; where nobody knows, it is asked to find out."""
        store, locks = self.store, self.desk.locks
        if store.supports.conditional_writes is None:
            # That takes several requests: one of many writes sends them. Where it fails, each finds out for itself.
            place = ("conditional writes", id(store))
            others = locks.held(place)
            async with locks.hold(place):
                if not others:
                    return await store.probe_conditional_writes()
        supported = store.supports.conditional_writes
        return await store.probe_conditional_writes() if supported is None else supported

    def _condition(self, value: Value | None, swap: bool) -> Precondition | None:
        if swap and value is None:
            return IfAbsent()
        if swap and value is not None and value.version is not None and not value.version.weak:
            return IfMatch(value.version)
        self.desk.warn_unsafe(self.store)
        return None

    async def _encode(self, value: Value | None, group: list[ObjectWrite]) -> Buffer | None:
        """Return the encoding of what is stored after the changes of `group`, one after the other.

        Whose values cannot be encoded is taken out of the group, and finds out in a turn of its own.
        """
        data = None if value is None else value.data
        if self.stored.shard is not None:
            return await self._encode_shard(data, group)
        for each in list(group):
            with self._without(each, group):
                data = await self._call(partial(each._encode_now, data), self.stored.spec.nbytes)
        return data

    @contextmanager
    def _without(self, each: ObjectWrite, group: list[ObjectWrite]) -> Iterator[None]:
        """Go on without `each` where it fails, unless it is this one."""
        try:
            yield
        except Exception:
            if each is self:
                raise
            group.remove(each)

    def _call(self, function: Callable[[], T], weight: int = BATCH_BYTES) -> Coroutine[Any, Any, T]:
        """Have a worker run `function`, which makes the bytes to be sent."""
        watch = self.watch
        return self.desk.pool.call(function if watch is None else lambda: watch.timed(function), weight)

    async def _encode_shard(self, data: Buffer | None, group: list[ObjectWrite]) -> Buffer | None:
        """Encode the inner chunks of a shard in parts, by as many threads as there are."""
        stored = self.stored
        shard = None if data is None else await self._call(lambda: self._open_now(data))
        changed: dict[int, Buffer | None] = {}
        for each in list(group):
            with self._without(each, group):
                changed.update(await self._encode_parts(each, ChangedShard(shard, changed)))
        keep = self.keep or data is not None
        return await self._call(lambda: assemble_shard(stored, changed, shard, keep=keep))

    async def _encode_parts(self, each: ObjectWrite, shard: ChangedShard) -> list[tuple[int, Buffer | None]]:
        """Encode what `each` changes; the time counts for the request that all of them are sent with, this one."""
        stored = self.stored
        assert stored.shard is not None
        if each.projection.listed < LONG:
            parts = list(inner_parts(stored, each.projection))
        else:
            parts = await self._call(lambda: list(inner_parts(stored, each.projection)))
        size = max(1, PART_BYTES // max(1, stored.shard.inner.spec.nbytes))
        if len(parts) <= size:
            return await self._call(partial(each._inner_now, parts, shard))
        groups = [parts[at : at + size] for at in range(0, len(parts), size)]
        encoded = await together(self._call(partial(each._inner_now, group, shard)) for group in groups)
        return [part for group in encoded for part in group]

    async def _fetch(self) -> Value | None:
        store = self.store
        self.sent += 1
        if isinstance(store, BlockingStore):
            value = await self.desk.pool.call(lambda: store.fetch_now(self.key))
        else:
            value = await store.fetch(self.key)
        self.fetched += 0 if value is None else memoryview(value.data).nbytes
        return value

    async def _put(self, data: Buffer, condition: Precondition | None) -> None:
        store = self.store
        self.sent += 1
        if isinstance(store, BlockingStore):
            await self.desk.pool.call(lambda: store.set_now(self.key, data, precondition=condition))
        else:
            version = await store.set(self.key, data, precondition=condition)
            if self.stored.shard is not None:
                self.desk.sizes.note(store, self.key, memoryview(data).nbytes, version)
        self.put += memoryview(data).nbytes

    async def _erase(self) -> None:
        store = self.store
        self.does = "erase"
        self.sent += 1
        if isinstance(store, BlockingStore):
            await self.desk.pool.call(lambda: store.erase_now(self.key))
        else:
            await store.erase(self.key)

    # --- in a worker -----------------------------------------------------------------------------------------------

    def send_now(self, store: BlockingStore) -> None:
        if self.projection.whole:
            data = self._encode_here(None)
            self.sent += 1
            if data is None:
                self.does = "erase"
                store.erase_now(self.key)
            else:
                store.set_now(self.key, data)
                self.put += memoryview(data).nbytes
            return
        for race in range(MAX_RACES):
            self.sent += 1
            value = store.fetch_now(self.key)
            self.fetched += 0 if value is None else memoryview(value.data).nbytes
            data = self._encode_here(None if value is None else value.data)
            if data is None:
                self.does = "fetch"
                return
            self.sent += 1
            condition = IfAbsent() if value is None else None if value.version is None else IfMatch(value.version)
            try:
                store.set_now(self.key, data, precondition=condition)
            except PreconditionFailedError:
                if race == MAX_RACES - 1:
                    raise
                sleep(random() * 0.002 * min(race, 10))
            else:
                self.put += memoryview(data).nbytes
                return

    def _encode_here(self, data: Buffer | None) -> Buffer | None:
        return self._encode_now(data) if self.watch is None else self.watch.timed(partial(self._encode_now, data))

    def _encode_now(self, data: Buffer | None) -> Buffer | None:
        pipeline = self.stored.pipeline
        keep = self.keep or data is not None
        with self._naming():
            try:
                return encode_chunk(pipeline, self.values, self.projection, data, keep=keep)
            except ChecksumError:
                raise
            except CodecError:
                padded = None if data is None else self._padded(data)
                if padded is None:
                    raise
                return encode_chunk(pipeline, self.values, self.projection, padded, keep=keep)

    def _padded(self, data: Buffer) -> Buffer | None:
        """Return the encoding of the whole chunk for that of its part inside the array; None where `data` is not that.

        Some writers do not store what of a chunk lies behind the array's end.
        """
        cropped = self.layout.unpadded(self.projection)
        try:
            values = None if cropped is None else cropped.decode(data)
        except CodecError:
            values = None
        if values is None:
            return None
        spec = self.stored.spec
        block = np.full(spec.shape, spec.fill_value, spec.dtype)
        block[tuple([slice(length) for length in values.shape])] = values
        return self.stored.pipeline.encode(block)

    def _open_now(self, data: Buffer) -> StoredShard:
        with self._naming():
            return open_shard(self.stored, data)

    def _inner_now(self, parts: list[tuple[int, Part]], shard: ChangedShard) -> list[tuple[int, Buffer | None]]:
        with self._naming():
            return encode_inner(self.stored, self.values, parts, shard, keep=self.keep)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Codecs know neither store nor key: their errors learn them here."""
        try:
            yield
        except CodecError as error:
            error.store, error.key = self.store_url, self.key
            raise

    # --- the end ---------------------------------------------------------------------------------------------------

    def done(self, error: BaseException | None) -> None:
        if error is None:
            self.origin.release(self.cost)
        if self.watch is not None and self.sent:
            self._note(self.watch, error)
        self.job.object_done(self, error)
        self.gone()

    def _note(self, watch: RequestWatch, error: BaseException | None) -> None:
        url, key = self.store_url, self.key
        if self.sent > self.attempts:
            # What was there is fetched where a part of it is written.
            extra, size = self.sent - self.attempts, self.fetched
            watch.observer.tell(
                RequestEvent("fetch", url, key, None, size, size, 0.0, extra, None, self.started), retries=0
            )
        attempts = min(self.sent, self.attempts)
        seconds = self.seconds or self.origin.now() - self.started
        watch.event = RequestEvent(
            self.does,
            url,
            key,
            None,
            self.put,
            self.put,
            seconds,
            attempts,
            error,
            self.started,
            self.started - watch.ready,
            1,
        )
