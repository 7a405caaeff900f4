"""Shard indexes: cached, or requested once for all readers that ask at the same time (single flight)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from typing_extensions import Buffer

from aiozarr.codecs.chunk_layouts import ShardIndex, ShardLayout
from aiozarr.engine.caches import SizeCache, SizedCache
from aiozarr.engine.decoder import MIN_INDEX_BYTES
from aiozarr.engine.fetch_request import FetchRequest, ResponseHandler, can_condition
from aiozarr.engine.in_flight import ChunkDelivery, ChunkSet
from aiozarr.engine.operation import Operation
from aiozarr.engine.partial_plan import is_whole
from aiozarr.engine.worker_pool import FunctionCall, WorkItem
from aiozarr.errors import CodecError, fill_location, located
from aiozarr.model import ByteRange, Entry, Range, Suffix, Value, Version, resolve_range
from aiozarr.settings import DEFAULT_SETTINGS
from aiozarr.stores.capabilities import fetch_tail
from aiozarr.stores.contract import Store


class ShardObject(NamedTuple):
    """A shard as a stored object.

    Attributes:
        store: its store.
        key: its key.
        layout: where its index and its inner chunks are.
        shard_id: stands for it in caches.
    """

    store: Store
    key: str
    layout: ShardLayout
    shard_id: Hashable


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """The index of one version of a shard; both are None if the shard is not stored."""

    index: ShardIndex | None
    version: Version | None


class IndexCache(SizedCache[IndexEntry]):
    """A cache of indexes whose version later requests can insist on."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, lambda entry: 0 if entry.index is None else entry.index.nbytes)

    def add(self, shard_id: Hashable, entry: IndexEntry, max_bytes: int) -> None:
        """Cache `entry` within the caller's limit; the last caller's limit holds."""
        self.max_size = max_bytes
        if entry.index is not None and entry.version is not None and entry.index.nbytes <= max_bytes:
            self.put(shard_id, entry)


class ShardIndexes:
    """The indexes of shards on one I/O thread.

    Attributes:
        cache: decoded indexes.
        sizes: sizes of shards, for stores that refuse suffix ranges.
        in_flight: indexes that are being fetched, by share key.
    """

    def __init__(self, sizes: SizeCache) -> None:
        self.cache = IndexCache(DEFAULT_SETTINGS.index_cache_bytes)
        self.sizes = sizes
        self.in_flight: dict[Hashable, IndexFetch] = {}

    @property
    def is_idle(self) -> bool:
        """True if no index is being fetched."""
        return not self.in_flight

    def invalidate(self, key: str | None, identity: Hashable) -> None:
        """Let no reader join a request for `key` of this identity, or for any object (None): it may be outdated."""
        for share_key, fetch in list(self.in_flight.items()):
            if key is None or fetch.request.may_contain(key, identity):
                del self.in_flight[share_key]

    def request(
        self,
        operation: Operation,
        on_completed: OnIndex,
        shard: ShardObject,
        share_key: Hashable,
        *,
        whole_bytes: int | None = None,
        is_first: bool = True,
    ) -> IndexFetch:
        """Request an index, or join the request that is in flight.

        Args:
            operation: the read of which the shard is a part.
            on_completed: called when the index is there, or cannot be had because of an error.
            shard: the shard.
            share_key: requests of one key are shared.
            whole_bytes: fetch the whole shard, if it has no more bytes than that.
            is_first: True if the request could have been sent since the operation began, False from now on.
        """
        fetch = self.in_flight.get(share_key)
        if fetch is None:
            fetch = self.in_flight[share_key] = IndexFetch(self, operation, shard, share_key, whole_bytes)
            if not is_first and fetch.request.timing is not None:
                fetch.request.timing.ready = operation.queue.now()
            operation.enqueue(fetch.request)
            operation.resume()
        else:
            operation.note_join()
        fetch.readers[on_completed] = operation
        return fetch


class IndexFetch(ResponseHandler):
    """The fetch of the index of one shard, or of the whole shard, for all readers that join.

    No more than `whole_bytes` bytes of a whole shard are requested, if the store clips ranges. A shard that could not
    be fetched so `is_too_large`, and is read by its index.

    Attributes:
        request: brings the bytes.
        readers: what each reader that waits is called with, and its operation.
        entry: the decoded index.
        is_whole: True if the inner chunks came with it.
        is_too_large: True if the shard is larger than `whole_bytes`.
    """

    def __init__(
        self,
        indexes: ShardIndexes,
        operation: Operation,
        shard: ShardObject,
        share_key: Hashable,
        whole_bytes: int | None,
    ) -> None:
        store, layout = shard.store, shard.layout
        nbytes = layout.index_nbytes if whole_bytes is None else whole_bytes
        byte_range: Range | Suffix | None = layout.index_range
        if whole_bytes is not None:
            # A store that does not clip ranges is asked for the whole shard.
            byte_range = Range(0, whole_bytes) if store.supports.clipped_reads else None
        supports = store.supports
        needs_size = type(byte_range) is Suffix and supports.partial_reads and not supports.suffix_reads
        self._indexes = indexes
        self._shard = shard
        self._share_key = share_key
        self._whole_bytes = whole_bytes
        self._wanted_bytes = 0
        self._chunk_sets: list[tuple[ChunkSet, Sequence[int]]] = []
        self.readers: dict[OnIndex, Operation] = {}
        self.entry = IndexEntry(None, None)
        self.is_whole = self.is_too_large = False
        self.request = FetchRequest(
            operation,
            store,
            shard.key,
            byte_range,
            self,
            held=nbytes,
            expected=nbytes,
            max_bytes=nbytes if whole_bytes is None else None,
            fetch=self._fetch_tail if needs_size else None,
            # A server may clip the range without the object's size. A read by the index proves that no byte is missing.
            tolerates_clipping=whole_bytes is not None,
        )

    async def _fetch_tail(self, request: FetchRequest) -> Value | None:
        """Fetch the index from a store that refuses suffix ranges, by the size of the shard, which may be known."""
        store, key, suffix, sizes = request.store, request.key, request.range, self._indexes.sizes
        assert type(suffix) is Suffix

        async def stat() -> Entry | None:
            request.lookups += 1
            entry = await store.stat(key)
            sizes.record(store, key, None if entry is None else entry.size, None if entry is None else entry.version)
            return entry

        async def fetch(tail: ByteRange, version: Version | None) -> Value | None:
            condition = version if can_condition(store, version) else None
            value = await store.fetch(key, tail, if_match=condition, **request.bound)
            if value is None:
                sizes.drop(store, key)
            return value

        def forget() -> None:
            request.lookups += 1
            sizes.drop(store, key)

        with located(store=store.url, key=key):
            return await fetch_tail(suffix, stat, fetch, if_match=None, known=sizes.get(store, key), on_changed=forget)

    def next_owner(self) -> Operation | None:
        return next((operation for operation in self.readers.values() if not operation.stopped), None)

    def leave(self, on_completed: OnIndex) -> None:
        """Drop a reader that does not wait any more. Without readers the request is cancelled."""
        # Another reader of its operation may have been told of an error just now.
        operation = self.readers.pop(on_completed, None)
        if operation is not None and not self.readers:
            self._leave_table()
            self.request.cancel_for(operation)

    def wanted_bytes(self, fetched: int) -> int:
        return fetched if self._whole_bytes is None else min(self._wanted_bytes, fetched)

    def add(self, chunk_set: ChunkSet) -> None:
        """Have inner chunks decoded from the whole shard, after all readers have added theirs."""
        self._chunk_sets.append((chunk_set, range(len(chunk_set.positions))))
        self._wanted_bytes += sum(chunk_set.lengths)

    # --- the response -----------------------------------------------------------------------------------------------

    def works(self, request: FetchRequest) -> Sequence[WorkItem]:
        return (FunctionCall(self._decode, lambda work: self._end(work.error), request.held),)

    def response_completed(self, request: FetchRequest, error: BaseException | None) -> None:
        if error is None and self._shard.layout.index_nbytes >= MIN_INDEX_BYTES:
            for work in self.works(request):
                request.pool.submit(work, request.fairness_key)
            return
        if error is None:
            try:
                self._decode()
            except Exception as damage:
                error = damage
        try:
            self._end(error)
        finally:
            error = None  # its traceback may hold this frame

    def _decode(self) -> None:
        """Decode the index. Any thread."""
        request, layout = self.request, self._shard.layout
        value = request.value
        if value is None:
            self.is_too_large = request.is_clipped
            return
        data = memoryview(value.data)
        size = value.size
        if self._whole_bytes is not None:
            if request.range is not None and not is_whole(value, self._whole_bytes):
                self.is_too_large = True
                return
            start, stop = resolve_range(data.nbytes, layout.index_range)
            data, size = data[start:stop], data.nbytes
            self.is_whole = True
            self._wanted_bytes = layout.index_nbytes
        index = parse_index(layout, data, size, request.store, request.key, strict=request.settings.strict)
        self.entry = IndexEntry(index, value.version)

    def _end(self, error: BaseException | None) -> None:
        """Pass the index, or the error, to all readers."""
        request = self.request
        is_current = self._leave_table()
        if error is None and is_current and can_condition(request.store, self.entry.version):
            self._indexes.cache.add(self._shard.shard_id, self.entry, request.settings.index_cache_bytes)
        readers, self.readers = self.readers, {}
        if not self.is_whole or error is not None:
            request.release()
        for on_completed in readers:
            on_completed(self, error)
        if self.is_whole and error is None:
            self._deliver(is_current=is_current)

    def _leave_table(self) -> bool:
        """Let no reader join any more.

        Returns: whether readers could until now, because this process has not changed the shard meanwhile.
        """
        if self._indexes.in_flight.get(self._share_key) is not self:
            return False
        del self._indexes.in_flight[self._share_key]
        return True

    def _deliver(self, *, is_current: bool) -> None:
        """Have the inner chunks decoded that the readers of the whole shard want."""
        request = self.request
        if request.timing is not None:
            request.timing.note_wanted(self._wanted_bytes)
        if not self._chunk_sets:
            request.release()
            return
        if not is_current:
            # The shard may have been changed since: readers that come now must not join, and nothing is cached.
            for chunk_set, _ in self._chunk_sets:
                chunk_set.invalidate()
        delivery = ChunkDelivery(self._chunk_sets, 0)
        delivery.request = request
        self._chunk_sets = []
        request.hand_over(delivery)


OnIndex: TypeAlias = Callable[[IndexFetch, BaseException | None], None]


def parse_index(
    layout: ShardLayout, data: Buffer, size: int | None, store: Store, key: str, *, strict: bool
) -> ShardIndex:
    """Return the decoded index of a shard of `size` bytes, if that is known, in a worker from `MIN_INDEX_BYTES` on.

    Raises:
        ChecksumError: the checksum of the index does not match.
        CodecError: the shard is shorter than its index, or an entry is impossible; with store, key and range.
    """
    try:
        return layout.parse_index(data, size, strict=strict)
    except CodecError as error:
        fill_location(error, store=store.url, key=key, range=layout.index_range)
        raise
