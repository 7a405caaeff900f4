"""Shard indexes: cached, or requested once for all readers that ask at the same time (single flight)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from typing_extensions import Buffer

from aiozarr.codecs import ShardIndex, ShardLayout
from aiozarr.engine.cache.sizes import SizeCache
from aiozarr.engine.object_read import fetch_tail
from aiozarr.engine.plan.partial_plan import is_whole
from aiozarr.engine.request.chunk_requests import ChunkRequest
from aiozarr.engine.request.in_flight import ChunkOperation, InFlightChunk
from aiozarr.engine.request.object_request import AwaitableRequest, FetchOperation
from aiozarr.engine.workers.decoder import MIN_INDEX_BYTES, decode_index
from aiozarr.engine.workers.worker_pool import WorkItem
from aiozarr.errors import CodecError, ShortReadError, located
from aiozarr.model import Range, Suffix, Value, Version, resolve_range
from aiozarr.settings import DEFAULT_SETTINGS
from aiozarr.stores.contract import Store


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The index of one version of a shard; both are None if the shard is not stored."""

    index: ShardIndex | None
    version: Version | None


class IndexCache:
    """An LRU cache of indexes whose version later requests can insist on."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[Hashable, IndexEntry] = OrderedDict()

    def get(self, token: Hashable) -> IndexEntry | None:
        """Return the entry and mark it as used."""
        entry = self._entries.get(token)
        if entry is not None:
            self._entries.move_to_end(token)
        return entry

    def peek(self, token: Hashable) -> IndexEntry | None:
        """Return the entry, from any thread; it does not count as used."""
        return self._entries.get(token)

    def put(self, token: Hashable, entry: IndexEntry, max_bytes: int) -> None:
        """Cache `entry` within the caller's limit; the last caller's limit holds."""
        self.max_bytes = max_bytes
        if entry.index is None or entry.version is None or entry.index.nbytes > max_bytes:
            return
        self.drop(token)
        self._entries[token] = entry
        self._bytes += entry.index.nbytes
        while self._bytes > self.max_bytes:
            _, oldest = self._entries.popitem(last=False)
            assert oldest.index is not None
            self._bytes -= oldest.index.nbytes

    def drop(self, token: Hashable) -> None:
        """Drop the entry: its object has changed."""
        entry = self._entries.pop(token, None)
        if entry is not None and entry.index is not None:
            self._bytes -= entry.index.nbytes


class ShardIndexes:
    """The indexes of shards on one I/O thread.

    Attributes:
        cache: decoded indexes.
        sizes: sizes of shards, for stores that refuse suffix ranges.
        in_flight: indexes that are being fetched, by share key.
        answered: shards that were fetched whole, until all readers have added the inner chunks that they want.
    """

    def __init__(self, sizes: SizeCache) -> None:
        self.cache = IndexCache(DEFAULT_SETTINGS.index_cache_bytes)
        self.sizes = sizes
        self.in_flight: dict[Hashable, IndexRequest] = {}
        self.observe: set[WholeShardRequest] = set()

    @property
    def is_idle(self) -> bool:
        """True if no index is being fetched."""
        return not (self.in_flight or self.observe)

    def invalidate(self, key: str | None, identity: Hashable) -> None:
        """This process has changed the object `key` of this identity, or many objects (None)."""
        for share_key, request in list(self.in_flight.items()):
            if key is None or request.may_contain(key, identity):
                del self.in_flight[share_key]
        for whole in self.observe:
            if key is None or whole.may_contain(key, identity):
                whole.is_current = False

    async def get(
        self,
        operation: ChunkOperation,
        store: Store,
        key: str,
        shard: ShardLayout,
        shard_id: Hashable,
        *,
        whole_bytes: int | None = None,
        share_id: Hashable = None,
        ready_since: float | None = None,
    ) -> IndexRequest:
        """Return the request for an index once it has ended; join the one that is in flight, or send one.

        With `whole_bytes` the whole shard is fetched, if it has no more bytes than that. The caller must call
        `reader_done` of the returned request. Requests of one `share_id` are shared; None: those of one shard. The
        request could have been sent since `ready_since`; None for the beginning of the operation.

        Raises:
            StoreError, CodecError
        """
        share_key = operation.share_key(shard_id if share_id is None else share_id)
        request = self.in_flight.get(share_key)
        if request is None:
            if whole_bytes is None:
                request = IndexRequest(self, operation, store, key, shard, shard_id, share_key)
            else:
                request = WholeShardRequest(self, operation, store, key, shard, shard_id, share_key, whole_bytes)
            request.note_ready(ready_since)
            operation.enqueue(request)
            operation.resume()
        await request.join(operation)
        return request


class IndexRequest(AwaitableRequest):
    """Fetch and decode the index of one shard, for all readers that join.

    Attributes:
        entry: the decoded index.
        is_current: False if this process has changed the shard since the request was sent.
    """

    __slots__ = ("_indexes", "_layout", "_operations", "_shard_id", "_share_key", "entry", "is_current")

    def __init__(
        self,
        indexes: ShardIndexes,
        operation: ChunkOperation,
        store: Store,
        key: str,
        layout: ShardLayout,
        shard_id: Hashable,
        share_key: Hashable,
    ) -> None:
        nbytes = layout.index_nbytes
        super().__init__(operation, store, key, layout.index_range, None, nbytes, max_bytes=nbytes)
        self._indexes = indexes
        self._layout = layout
        self._shard_id = shard_id
        self._share_key = share_key
        self._operations: list[ChunkOperation] = []
        self.entry: IndexEntry | None = None
        self.is_current = False
        indexes.in_flight[share_key] = self

    # --- readers ----------------------------------------------------------------------------------------------------

    async def join(self, operation: ChunkOperation) -> None:
        """Wait for the index. The request is cancelled, and awaited, with the last reader that waits."""
        self._operations.append(operation)
        try:
            await asyncio.wait([self._ended])
        except asyncio.CancelledError:
            await self._leave(operation)
            raise
        if self.error is not None:
            try:
                raise self.error
            finally:
                self.reader_done(operation)

    def reader_done(self, operation: ChunkOperation) -> None:
        """The operation has taken from the answer what it wants."""
        self._operations.remove(operation)
        if not self._operations:
            self.error = None  # its traceback leads here

    async def _leave(self, operation: ChunkOperation) -> None:
        if self.is_over:
            self.reader_done(operation)
            return
        self._operations.remove(operation)
        if self._operations:
            return
        self._leave_table()
        self.cancel()
        self.queue.drop_cancelled()
        while not self.is_over:
            with suppress(asyncio.CancelledError):
                await asyncio.wait([self._ended])

    def next_owner(self) -> FetchOperation | None:
        return next((each for each in self._operations if not each.stopped), None)

    # --- fetching ---------------------------------------------------------------------------------------------------

    async def _fetch(self) -> Value | None:
        supports = self.store.supports
        if type(self.range) is Suffix and supports.partial_reads and not supports.suffix_reads:
            sizes = self._indexes.sizes
            return await fetch_tail(
                self.store,
                self.key,
                self.range,
                sizes,
                if_match=self.if_match,
                max_bytes=self.max_bytes,
                on_lookup=self._count_lookup,
            )
        return await super()._fetch()

    def _count_lookup(self) -> None:
        self.lookups += 1

    def decode_blocking(self, works: Sequence[WorkItem]) -> None:
        self.entry = self.decode()

    def completed(self, error: BaseException | None) -> None:
        if error is not None or self.entry is not None:
            self.settle(error)
        elif self._layout.index_nbytes >= MIN_INDEX_BYTES and not self.cancelled:
            self.pool.submit(_DecodeIndex(self), self.fairness_key)
        else:
            try:
                self.entry = self.decode()
            except CodecError as failure:
                self.settle(failure, is_answered=True)
            else:
                self.settle(None)

    def settle(self, error: BaseException | None, *, is_answered: bool = False) -> None:
        """The index is decoded, or cannot be had; `is_answered`: its bytes have come and cannot be decoded."""
        self.account(None if is_answered else error)
        self.is_current = self._leave_table()
        if error is None or is_answered:
            self.queue.release(self.cost)
            self.cost = 0
        if error is None:
            self._put_in_cache()
        self.value = None
        self._end(error)
        self.close()

    def _leave_table(self) -> bool:
        """Let no reader join any more; return whether readers could until now: the shard was not changed meanwhile."""
        if self._indexes.in_flight.get(self._share_key) is not self:
            return False
        del self._indexes.in_flight[self._share_key]
        return True

    def _put_in_cache(self) -> None:
        entry = self.entry
        if not self.is_current or entry is None or not self.can_condition(entry.version):
            return
        self._indexes.cache.put(self._shard_id, entry, self.settings.index_cache_bytes)

    def decode(self) -> IndexEntry:
        """Return the decoded index. Any thread.

        Raises:
            CodecError: with store, key and range.
        """
        value = self.value
        if value is None:
            return IndexEntry(None, None)
        return IndexEntry(self._parse(value.data, value.size), value.version)

    def _parse(self, data: Buffer, size: int | None) -> ShardIndex:
        return parse_index(self._layout, data, size, self.store, self.key, strict=self.settings.strict)


class WholeShardRequest(IndexRequest):
    """Fetch a shard whole, index and inner chunks. All readers that joined take their inner chunks from the answer.

    No more than `bound` bytes are requested, if the store clips ranges. A shard that could not be fetched so is
    `too_large`, and is read by its index.
    """

    __slots__ = ("_bound", "_chunks", "_wanted_bytes", "too_large")

    def __init__(
        self,
        indexes: ShardIndexes,
        operation: ChunkOperation,
        store: Store,
        key: str,
        layout: ShardLayout,
        shard_id: Hashable,
        share_key: Hashable,
        bound: int,
    ) -> None:
        super().__init__(indexes, operation, store, key, layout, shard_id, share_key)
        first_bytes = Range(0, bound)
        self.range = first_bytes if store.supports.clipped_reads else None
        self.cost = self._bound = bound
        self.max_bytes = None  # the range is one; a store that does not clip ranges is asked for the whole shard
        self._wanted_bytes = 0
        self.too_large = False
        # It takes the answer over: from there on the inner chunks are decoded as any others.
        self._chunks = ChunkRequest(operation, store, key, first_bytes, [], cost=0)

    def add(self, chunk: InFlightChunk, start: int, length: int) -> None:
        """Give `chunk` its bytes, from `start` of the shard on, when all readers have added theirs."""
        chunk.start, chunk.stop = start, start + length
        chunk.request = self._chunks
        self._chunks.chunks.append(chunk)
        self._wanted_bytes += length

    def wanted_bytes(self, fetched: int) -> int:
        return min(self._wanted_bytes, fetched)

    # A server may clip the range without the object's size. A read by the index then proves that no byte is missing.

    async def send(self) -> None:
        try:
            await super().send()
        except ShortReadError:
            self.too_large = True

    def failed(self, error: Exception) -> None:
        if isinstance(error, ShortReadError):
            self.too_large = True
            self.fetched(None)
        else:
            super().failed(error)

    def settle(self, error: BaseException | None, *, is_answered: bool = False) -> None:
        if self.value is not None:
            self.too_large = self.range is not None and not is_whole(self.value, self._bound)
        if error is not None or self.too_large or not self._operations:
            super().settle(error, is_answered=is_answered)
            return
        self.is_current = self._leave_table()
        self._put_in_cache()
        self._indexes.observe.add(self)
        self._end(None)

    def reader_done(self, operation: ChunkOperation) -> None:
        super().reader_done(operation)
        if self._operations or self not in self._indexes.observe:
            return
        self._indexes.observe.discard(self)
        if not self.is_current:
            # The shard may have been changed since: readers that come now must not join, and nothing is cached.
            for chunk in self._chunks.chunks:
                chunk.table.close(chunk)
        chunks = self._chunks
        self.account(None)
        if not chunks.chunks:
            self.release()
            return
        chunks.value, chunks.cost, self.value, self.cost = self.value, self.cost, None, 0
        chunks.timing, self.timing = self.timing, None
        chunks.wanted_chunks = len(chunks.chunks)
        chunks.deliver(None)
        self.close()

    def _put_in_cache(self) -> None:
        if not self.too_large:
            super()._put_in_cache()

    def decode(self) -> IndexEntry:
        value = self.value
        if value is None or (self.range is not None and not is_whole(value, self._bound)):
            return IndexEntry(None, None)
        data = memoryview(value.data)
        start, stop = resolve_range(data.nbytes, self._layout.index_range)
        index = self._parse(data[start:stop], data.nbytes)
        self._wanted_bytes = self._layout.index_nbytes
        return IndexEntry(index, value.version)


class _DecodeIndex(WorkItem):
    __slots__ = ("request",)

    def __init__(self, request: IndexRequest) -> None:
        super().__init__(request.cost)
        self.request = request

    def run(self) -> None:
        self.request.entry = self.request.decode()

    def finished(self) -> None:
        self.request.settle(self.error, is_answered=self.error is not None)


def parse_index(
    layout: ShardLayout, data: Buffer, size: int | None, store: Store, key: str, *, strict: bool
) -> ShardIndex:
    """Return the decoded index of a shard of `size` bytes, if that is known. Any thread.

    Raises:
        CodecError: with store, key and range.
    """
    with located(store=store.url, key=key, range=layout.index_range):
        return decode_index(layout, data, size, strict=strict)
