"""The write of one stored object: encode and put. A partial write is a compare-and-swap of the stored object."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from typing_extensions import Buffer

from aiozarr.engine.decoder import MAX_CHUNK_BYTES
from aiozarr.engine.encoder import ChangedShard, ObjectEncoder, StoredShard, assemble_shard, open_shard
from aiozarr.engine.fetch_request import ObjectRequest, is_missing_status
from aiozarr.engine.group_commit import GroupCommit, compare_and_swap, compare_and_swap_blocking
from aiozarr.engine.operation import Operation
from aiozarr.engine.state import EngineState
from aiozarr.engine.timing import RequestTiming
from aiozarr.engine.worker_pool import BATCH_BYTES
from aiozarr.errors import CodecError, StoreError
from aiozarr.grid.chunk_grid import LARGE_POINT_COUNT
from aiozarr.grid.projection import ChunkSelection
from aiozarr.model import IfAbsent, IfMatch, Precondition, Value, Version
from aiozarr.schedule.events import RequestEvent, RequestOperation
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class WriteContext:
    """The state that the object writes of one operation share.

    Attributes:
        state: the state of the engine.
        group_commit: partial writes that wait for the one in progress.
        encoder: encodes the values of the operation.
        encoding: limits the shards whose inner chunks are encoded at once. So the first is stored while workers encode
            the next, and the disk is not idle until many shards are ready at the same time.
        stores_empty, is_guarded: as in `Write`.
    """

    state: EngineState
    group_commit: GroupCommit[ObjectWrite]
    encoder: ObjectEncoder
    encoding: asyncio.Semaphore
    stores_empty: bool | None
    is_guarded: bool


class ObjectWrite(ObjectRequest):
    """The write of one chunk or shard. `on_completed` is called with it and its error.

    Attributes:
        event_kind: the operation of the store that it came to, for observers.
        is_alone: True after a batch with it has failed: it is sent by itself.
        sent, fetched, put: requests sent, bytes fetched and bytes stored, for observers.
    """

    __slots__ = (
        "_on_completed",
        "context",
        "event_kind",
        "fetched",
        "is_alone",
        "projection",
        "put",
        "sent",
        "stored",
    )

    def __init__(
        self,
        operation: Operation,
        context: WriteContext,
        store: Store,
        key: str,
        projection: ChunkSelection,
        on_completed: Callable[[ObjectWrite, BaseException | None], object],
    ) -> None:
        self.stored = context.encoder.layout.object_of(projection)
        super().__init__(operation, store, key, self.stored.spec.nbytes)
        self.context = context
        self._on_completed = on_completed
        self.projection = projection
        self.is_alone = False
        self.sent = self.fetched = self.put = 0
        self.event_kind: RequestOperation = "set"

    # --- on the loop -----------------------------------------------------------------------------------------------

    async def send(self) -> None:
        small = self.projection.point_count < LARGE_POINT_COUNT
        if self._is_whole() if small else await self.context.state.pool.call(self._is_whole):
            # Without conditional writes a concurrent partial write would undo this one: the lock excludes it.
            async with nullcontext() if self.store.supports.conditional_writes else self._lock():
                data, _ = await self._encode(None, [self])
                await self._store(data)
            return
        is_conditional = await self._checks_conditions()
        # The lock of the commit excludes other writers in this process. Races are with other processes.
        await self.context.group_commit.commit(
            self.store.object_identity(self.key),
            self,
            partial(self._commit, is_conditional=is_conditional),
            self._can_merge_with,
        )

    def _can_merge_with(self, other: ObjectWrite) -> bool:
        """Return whether one write can store the values of both, which are for the same object."""
        return other.context.encoder.layout is self.context.encoder.layout

    async def _commit(self, group: Sequence[ObjectWrite], *, is_conditional: bool) -> Sequence[ObjectWrite]:
        """Change the stored object.

        Returns: the members of `group` whose values were stored.
        """

        async def attempt() -> Sequence[ObjectWrite]:
            nonlocal group
            value = await self._fetch()
            erasable = self._erasable(value) if is_conditional else None
            can_erase = self._can_erase(erasable)
            try:
                data, group = await self._encode(value, group, can_erase=can_erase)
            except CodecError:
                if value is None or not all([member.projection.is_complete for member in group]):
                    raise
                # All of the chunk inside the array is replaced: a damaged one is no reason to refuse.
                data, group = await self._encode(None, group, can_erase=can_erase)
            if data is None and value is None:
                self.event_kind = "fetch"
            else:
                precondition = None if data is None else self._precondition(value, is_conditional=is_conditional)
                await self._store(data, precondition, erasable)
            return group

        return await compare_and_swap(attempt)

    def _is_whole(self) -> bool:
        """Return whether every element of the stored object is replaced.

        A chunk across the array's edge never is: another process may have grown the array, and stored values there.
        """
        return self.projection.is_complete and self.projection.extents == self.stored.spec.shape

    def _lock(self) -> AbstractAsyncContextManager[None]:
        return self.context.state.key_locks.hold(self.store.object_identity(self.key))

    async def _checks_conditions(self) -> bool:
        """Return whether the store checks conditions of writes. A store that does not know is probed."""
        store, locks = self.store, self.context.state.key_locks
        if store.supports.conditional_writes is None:
            # A probe takes several requests: one of many writes sends them. If it fails, each of the others probes.
            key = ("conditional writes", id(store))
            is_probed = locks.held(key)
            async with locks.hold(key):
                if not is_probed:
                    return await store.probe_conditional_writes()
        supported = store.supports.conditional_writes
        return await store.probe_conditional_writes() if supported is None else supported

    def _erasable(self, value: Value | None) -> Version | None:
        """Return the version by which the stored object can be erased; None to store its fill values. Any thread."""
        version = None if value is None else value.version
        return version if version is not None and not version.weak and self.store.has_conditional_erases else None

    def _can_erase(self, version: Version | None) -> bool:
        """Return whether a stored object is erased if it gets only fill values. `_erasable` has returned `version`."""
        return version is not None or self.context.stores_empty is False

    def _precondition(self, value: Value | None, *, is_conditional: bool) -> Precondition | None:
        if is_conditional and value is None:
            return IfAbsent()
        if is_conditional and value is not None and value.version is not None and not value.version.weak:
            return IfMatch(value.version)
        if self.context.is_guarded and not self.projection.is_complete:
            self.context.state.warn_unsafe(self.store)
        return None

    async def _encode(
        self, value: Value | None, group: Sequence[ObjectWrite], *, can_erase: bool = False
    ) -> tuple[Buffer | None, Sequence[ObjectWrite]]:
        """Encode the stored values after the changes of `group`, one after the other.

        Returns: the encoded object, or None if it holds fill values only and nothing is stored or `can_erase`, and the
            members of `group` whose values could be encoded. The others fail in a commit of their own.
        """
        data, stored = None if value is None else value.data, self.stored
        is_shard = stored.shard is not None
        shard: StoredShard | None = None
        changed: dict[int, Buffer | None] = {}
        if is_shard and data is not None:
            with self._naming():
                shard = await self._call(partial(open_shard, stored, data))
        encoded: list[ObjectWrite] = []
        for member in group:
            try:
                if is_shard:
                    # The inner chunks of a shard are encoded in groups, in all threads.
                    with member._naming():
                        inner = await member.context.encoder.encode_inner_chunks(
                            stored, member.projection, ChangedShard(shard, changed), self._call, self.context.encoding
                        )
                    changed.update(inner)
                else:
                    encode = partial(member._encode_chunk, data, can_erase=can_erase)
                    data = await self._call(encode, stored.spec.nbytes)
            except Exception:
                if member is self:
                    raise
            else:
                encoded.append(member)
        if is_shard:
            keep = self.context.encoder.keeps(data, can_erase=can_erase)
            data = await self._call(partial(assemble_shard, stored, changed, shard, keep=keep))
        return data, encoded

    def _call(self, function: Callable[[], T], weight: int = BATCH_BYTES) -> Coroutine[Any, Any, T]:
        """Run `function`, which encodes, in a worker."""
        timing = self.timing
        return self.context.state.pool.call(function if timing is None else lambda: timing.timed(function), weight)

    async def _fetch(self) -> Value | None:
        store = self.store
        if isinstance(store, BlockingStore):
            return await self.context.state.pool.call(partial(self._fetch_blocking, store))
        self.sent += 1
        try:
            value = await store.fetch(self.key, **self._bound())
        except StoreError as error:
            if not is_missing_status(error, self.settings):
                raise
            value = None
        self.fetched += 0 if value is None else memoryview(value.data).nbytes
        return value

    def _bound(self) -> dict[str, Any]:
        """Return the keyword that bounds the response, or nothing if the store or the object has no bound.

        Any thread.
        """
        most = self.stored.pipeline.max_stored_size
        return {"max_bytes": most} if most is not None and self.store.has_bounded_reads else {}

    async def _store(
        self, data: Buffer | None, precondition: Precondition | None = None, version: Version | None = None
    ) -> None:
        """Put `data`. None: erase the stored object, with a version only if it has this one."""
        self.sent += 1
        if data is not None:
            # Not in a worker, also if the store blocks: the workers encode other shards while a disk is waited for.
            stored = await self.store.set(self.key, data, precondition=precondition)
            if self.stored.shard is not None:
                self.context.state.sizes.record(self.store, self.key, memoryview(data).nbytes, stored)
            self.put += memoryview(data).nbytes
            return
        self.event_kind = "erase"
        if version is None:
            await self.store.erase(self.key)
        else:
            await self.store.erase_if_match(self.key, version)

    # --- in a worker -----------------------------------------------------------------------------------------------

    def send_blocking(self, store: BlockingStore) -> None:
        self._check_cancelled()
        if self._is_whole():
            self._store_blocking(store, self._encode_timed(None))
        else:
            compare_and_swap_blocking(partial(self._change_blocking, store))

    def send_blocking_with(self, store: BlockingStore, others: Iterable[ObjectRequest]) -> int:
        # A store writes several small values at less cost. Everything else, and every error, takes `send_blocking`.
        group: list[ObjectWrite] = []
        values: list[tuple[str, Buffer]] = []
        erased: list[str] = []
        for request in chain((self,), others):
            if not isinstance(request, ObjectWrite) or not request._can_be_batched(store):
                break
            try:
                data = request._encode_chunk(None)
            except Exception:
                break
            group.append(request)
            if data is None:
                erased.append(request.key)
            else:
                values.append((request.key, data))
        if not group:
            return 0
        try:
            if values:
                store._set_values_now(values)
            for key in erased:
                store.erase_now(key)
        except Exception:
            for request in group:
                request.is_alone = True
            return 0
        for request in group:
            request.attempts = request.sent = 1
        return len(group)

    def _can_be_batched(self, store: BlockingStore) -> bool:
        """Return whether this is a small chunk that is written whole, and need not be sent by itself."""
        if self.is_alone or self.cancelled or self.store is not store or self.timing is not None:
            return False
        return self.stored.spec.nbytes <= MAX_CHUNK_BYTES and self._is_whole()

    def _check_cancelled(self) -> None:
        """Raise `CancelledError` after a cancellation, because a batch, or many attempts, may still follow."""
        if self.cancelled:
            raise asyncio.CancelledError

    def _change_blocking(self, store: BlockingStore) -> None:
        self._check_cancelled()
        value = self._fetch_blocking(store)
        version = self._erasable(value)
        can_erase = self._can_erase(version)
        try:
            data = self._encode_timed(None if value is None else value.data, can_erase=can_erase)
        except CodecError:
            if not self.projection.is_complete:
                raise
            data = self._encode_timed(None, can_erase=can_erase)  # as in `_commit`
        if data is None and value is None:
            self.event_kind = "fetch"
            return
        self._store_blocking(store, data, self._precondition(value, is_conditional=True), version)

    def _fetch_blocking(self, store: BlockingStore) -> Value | None:
        self.sent += 1
        try:
            value = store.fetch_now(self.key, **self._bound())
        except StoreError as error:
            if not is_missing_status(error, self.settings):
                raise
            value = None
        self.fetched += 0 if value is None else memoryview(value.data).nbytes
        return value

    def _store_blocking(
        self,
        store: BlockingStore,
        data: Buffer | None,
        precondition: Precondition | None = None,
        version: Version | None = None,
    ) -> None:
        """Put `data`. None: erase the stored object, with a version only if it has this one."""
        self.sent += 1
        if data is not None:
            store.set_now(self.key, data, precondition=precondition)
            self.put += memoryview(data).nbytes
            return
        self.event_kind = "erase"
        if version is None:
            store.erase_now(self.key)
        else:
            store.erase_if_match_now(self.key, version)

    def _encode_timed(self, data: Buffer | None, *, can_erase: bool = False) -> Buffer | None:
        encode = partial(self._encode_chunk, data, can_erase=can_erase)
        return encode() if self.timing is None else self.timing.timed(encode)

    def _encode_chunk(self, data: Buffer | None, *, can_erase: bool = False) -> Buffer | None:
        with self._naming():
            return self.context.encoder.encode_chunk(self.stored, self.projection, data, can_erase=can_erase)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Add store and key to errors of codecs, which do not know them."""
        try:
            yield
        except CodecError as error:
            error.store, error.key = self.store_url, self.key
            raise

    # --- the end ---------------------------------------------------------------------------------------------------

    def completed(self, error: BaseException | None) -> None:
        if error is not None:
            self.held = 0  # the queue has given it back
        if self.timing is not None and self.sent:
            self._record(self.timing, error)
        self._on_completed(self, error)
        self.release()

    def _record(self, timing: RequestTiming, error: BaseException | None) -> None:
        now = self.queue.now()
        if self.sent > self.attempts:
            # A partial write fetches the stored object first. The seconds of the write include that.
            fetched = RequestEvent(
                operation="fetch",
                store=self.store_url,
                key=self.key,
                range=None,
                bytes_wanted=self.fetched,
                bytes_fetched=self.fetched,
                seconds=0.0,
                attempts=self.sent - self.attempts,
                started=self.started,
                server=self.store.server,
            )
            timing.observer.report(fetched, retries=0)
        timing.event = timing.event_of(
            self,
            self.event_kind,
            store=self.store,
            key=self.key,
            bytes_written=self.put,
            now=now,
            attempts=min(self.sent, self.attempts),
            error=error,
            chunks=1,
        )
