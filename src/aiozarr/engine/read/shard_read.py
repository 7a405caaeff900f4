"""The read of one shard: its index, then the inner chunks that are wanted, merged into few requests."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from aiozarr.codecs import ShardIndex
from aiozarr.codecs.pipeline.shard_layout import EMPTY
from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.plan.partial_plan import whole_request
from aiozarr.engine.plan.projections import inner_parts
from aiozarr.engine.read.partial_chunk import PartialChunk
from aiozarr.engine.read.read_operation import ChunkGroup, ReadOperation
from aiozarr.engine.request.chunk_batch import MIN_BATCH_CHUNKS, InnerChunkBatch, WantedRange
from aiozarr.engine.request.in_flight import InFlightChunk, InternedKey, Subscription
from aiozarr.engine.request.index_request import IndexEntry, IndexRequest, WholeShardRequest
from aiozarr.errors import ChangedError, ChecksumError
from aiozarr.grid.chunk_counting import LARGE_POINT_COUNT
from aiozarr.grid.projection import ChunkSelection
from aiozarr.model import Version
from aiozarr.stores.contract import Store

MAX_ATTEMPTS = 4
"""How often a shard that is replaced meanwhile is read from its index on, before that is an error."""


CHANGES_BEFORE_WHOLE = 2
"""How often a shard has to be replaced during one read before it is fetched whole, by one request."""
MAX_WHOLE_BYTES = 64 << 20
"""The size up to which a shard that is replaced again and again is fetched whole."""


class ShardRead:
    """One shard of one read. All its inner chunks are of one version of the object, or it is read again."""

    def __init__(
        self,
        operation: ReadOperation,
        layout: ArrayLayout,
        store: Store,
        key: str,
        out: NDArray[Any],
        projection: ChunkSelection,
    ) -> None:
        stored = layout.object_of(projection)
        assert stored.shard is not None
        self._operation = operation
        self._stored = stored
        self._shard = stored.shard
        self._store = store
        self._key = key
        self._out = out
        self._projection = projection
        self._parts: list[tuple[int, ChunkSelection]] | None = None
        self._shard_id = (store.identity, key, layout.token)
        self._changes = 0

    async def read(self) -> None:
        """Read the shard.

        Raises:
            StoreError, CodecError, MissingChunkError
        """
        operation = self._operation
        if self.is_long:
            try:
                await operation.pool.call(self.sort)
            finally:
                operation.sorting_ended()
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                entry, request = await self._find_index(attempt)
            except ChecksumError:
                # Bytes can be damaged on the way: they are fetched once more before the stored ones count as damaged.
                if attempt > 1:
                    raise
                continue
            try:
                await self._read_chunks(entry, request, attempt)
            except (ChangedError, ChecksumError) as error:
                self._changes += isinstance(error, ChangedError)
                if attempt == MAX_ATTEMPTS or (isinstance(error, ChecksumError) and attempt > 1):
                    raise
                # All of it again: old and new inner chunks must not stand side by side.
                operation.state.indexes.cache.drop(self._shard_id)
                operation.state.chunk_caches.drop(self._store.object_identity(self._key))
            else:
                break
        operation.object_done(self._out)
        operation.report_progress(0)

    # --- the wanted inner chunks ------------------------------------------------------------------------------------

    @property
    def is_long(self) -> bool:
        """True if the points of index arrays must be sorted by inner chunk first."""
        return self._projection.point_count >= LARGE_POINT_COUNT

    def sort(self) -> None:
        """Sort the points of index arrays by inner chunk; in a worker."""
        self._inner_parts()

    def _inner_parts(self) -> list[tuple[int, ChunkSelection]]:
        """Return the linear index of every inner chunk, with what is wanted of it; made once for all steps."""
        if self._parts is None:
            self._parts = list(inner_parts(self._stored, self._projection))
        return self._parts

    def _count_inner(self) -> int:
        return len(self._inner_parts())

    # --- the index --------------------------------------------------------------------------------------------------

    async def _find_index(self, attempt: int) -> tuple[IndexEntry, IndexRequest | None]:
        """Return the index, and the request that has fetched it; None if it was cached."""
        operation = self._operation
        indexes = operation.state.indexes
        is_unsteady = self._changes >= CHANGES_BEFORE_WHOLE
        entry = None if is_unsteady else indexes.cache.get(self._shard_id)
        if entry is not None and self._will_be_validated(entry):
            return entry, None
        whole_bytes = None
        if entry is None:
            ranges = self._store.supports.partial_reads
            limits = operation.merge_limits
            whole_bytes = whole_request(self._shard, self._projection, self._count_inner, limits, ranges=ranges)
            if is_unsteady and whole_bytes is None:
                whole_bytes = MAX_WHOLE_BYTES
        is_first = attempt == 1 and not self.is_long
        while True:
            request = await indexes.get(
                operation,
                self._store,
                self._key,
                self._shard,
                self._shard_id,
                whole_bytes=whole_bytes,
                # An index that another reader waits for may be outdated when its inner chunks are requested.
                share_id=(self._shard_id, "whole") if is_unsteady and whole_bytes is not None else None,
                ready_since=None if is_first else operation.now(),
            )
            if isinstance(request, WholeShardRequest) and request.too_large:
                request.reader_done(operation)
                whole_bytes, is_first = None, False
                continue
            assert request.entry is not None
            return request.entry, request

    def _will_be_validated(self, entry: IndexEntry) -> bool:
        """Return whether using a cached index sends a request that insists on its version, or did so lately.

        A chunk of that version in the cache of chunks is no older than settings allow. If all wanted chunks are empty,
        no request would be sent, and a newer shard would go unnoticed.
        """
        index = entry.index
        return index is not None and any(index.locate(position) is not None for position, _ in self._inner_parts())

    # --- the inner chunks -------------------------------------------------------------------------------------------

    async def _read_chunks(self, entry: IndexEntry, request: IndexRequest | None, attempt: int) -> None:
        """Read the inner chunks that `entry` locates; others read as the fill value."""
        operation = self._operation
        retried = (ChangedError, ChecksumError) if attempt == 1 else (ChangedError,)
        group = ChunkGroup(operation, self._store, retried)
        partial: list[tuple[PartialChunk, ChunkSelection]] = []
        batch: InnerChunkBatch | None = None
        try:
            if entry.index is None:
                self._fill_all(group)
            elif isinstance(request, WholeShardRequest):
                self._subscribe(group, entry.index, entry.version, partial, request)
            else:
                batch = self._subscribe_batch(group, entry.index, entry.version)
                if batch is None:
                    self._subscribe(group, entry.index, entry.version, partial, None)
        finally:
            if request is not None:
                request.reader_done(operation)
            if not self.is_long:
                self._parts = None  # those who wait for the chunks have what they need of it
        operation.resume()
        try:
            await group.wait()
        finally:
            if batch is not None:
                batch.give_up()
                operation.batches.discard(batch)
        if partial:
            await self._place(partial, retried)

    def _fill_all(self, group: ChunkGroup) -> None:
        operation = self._operation
        error = operation.missing_error(self._store, self._key)
        if error is not None:
            raise error
        operation.fill([group.add(self._out, self._projection)], self._stored.spec.fill_value, self._store)

    def _subscribe(
        self,
        group: ChunkGroup,
        index: ShardIndex,
        version: Version | None,
        partial: list[tuple[PartialChunk, ChunkSelection]],
        whole: WholeShardRequest | None,
    ) -> None:
        """Subscribe to each inner chunk; have those fetched that are neither cached nor in flight nor in `whole`."""
        operation = self._operation
        object_id = InternedKey((self._shard_id, version))
        wanted: list[WantedRange] = []
        empty: list[Subscription] = []
        # Without a version nothing says whether a cached chunk is still stored.
        cached = version is not None and not version.weak
        inner, out = self._shard.inner, self._out
        may_be_partial = whole is None and inner.raw is not None
        numbered = self._inner_parts()
        starts, lengths = index.locate_all([position for position, _ in numbered])
        for (position, part), start, length in zip(numbered, starts, lengths, strict=True):
            if start == EMPTY:
                empty.append(group.add(out, part))
                continue
            chunk_id = (object_id, position)
            if may_be_partial:
                ranges = self._subscribe_partial(group, partial, part, chunk_id, length, versioned=version is not None)
                if ranges is not None:
                    wanted += [WantedRange(chunk, start + first, nbytes) for chunk, first, nbytes in ranges]
                    continue
            subscription = group.add(out, part)
            if cached and operation.serve_cached(subscription, chunk_id):
                continue
            chunk = operation.subscribe(subscription, chunk_id, inner, cached=cached)
            if chunk is not None:
                wanted.append(WantedRange(chunk, start, length))
        if empty:
            operation.fill(empty, self._stored.spec.fill_value, self._store)
        if whole is not None:
            for each in wanted:
                whole.add(*each)
        elif wanted:
            self._fetch(object_id, version, wanted)

    def _fetch(
        self, object_id: InternedKey, version: Version | None, wanted: list[WantedRange] | list[InnerChunkBatch]
    ) -> None:
        operation = self._operation
        operation.state.coalescer.add(
            operation, self._store, self._key, object_id, version, operation.merge_limits, wanted
        )

    def _subscribe_partial(
        self,
        group: ChunkGroup,
        partial: list[tuple[PartialChunk, ChunkSelection]],
        part: ChunkSelection,
        chunk_id: tuple[InternedKey, int],
        length: int,
        *,
        versioned: bool,
    ) -> list[tuple[InFlightChunk, int, int]] | None:
        """Subscribe to ranges of an uncompressed inner chunk; return those to fetch, or None to fetch all of it."""
        operation, inner = self._operation, self._shard.inner
        # The codecs refuse one of another length.
        if inner.raw is None or length != inner.raw.nbytes or operation.has_cache or operation.is_in_flight(chunk_id):
            return None
        ranges = operation.partial_planner.ranges(part, inner, versioned=versioned)
        if ranges is None:
            return None
        chunk = PartialChunk(operation, self._store, inner, inner.raw, ranges)
        partial.append((chunk, part))
        return chunk.subscribe(group, chunk_id)

    async def _place(
        self, partial: list[tuple[PartialChunk, ChunkSelection]], retried: tuple[type[Exception], ...]
    ) -> None:
        """Copy the elements of chunks whose ranges have come to their places."""
        operation = self._operation
        group = ChunkGroup(operation, self._store, retried)
        for chunk, part in partial:
            target = group.add(self._out, part)
            operation.track(target)
            operation.submit(chunk.place(target), self._store)
        await group.wait()

    def _subscribe_batch(self, group: ChunkGroup, index: ShardIndex, version: Version | None) -> InnerChunkBatch | None:
        """As `_subscribe`, for many chunks that no other reader wants; return None if that is not the case."""
        operation, inner = self._operation, self._shard.inner
        batches = operation.state.batches
        object_id = InternedKey((self._shard_id, version))
        others = batches.get(operation.share_key(object_id))
        if others is not None:
            positions = [position for position, _ in self._inner_parts()]
            for other in list(others):
                other.split_out(positions)
            return None
        if operation.has_cache or self._count_inner() < MIN_BATCH_CHUNKS:
            return None
        numbered = self._inner_parts()
        planner, versioned = operation.partial_planner, version is not None
        if inner.raw is not None and any(planner.ranges(part, inner, versioned=versioned) for _, part in numbered):
            return None
        positions = [position for position, _ in numbered]
        if any(operation.is_in_flight((object_id, position)) for position in positions):
            return None
        offsets, sizes = index.locate_all(positions)
        stored = [at for at, start in enumerate(offsets) if start != EMPTY]
        lengths = [sizes[at] for at in stored]
        if len(stored) < MIN_BATCH_CHUNKS or max(lengths) > operation.merge_limits.max_request_bytes:
            return None
        if len(stored) < len(numbered):
            empty = [group.add(self._out, numbered[at][1]) for at, start in enumerate(offsets) if start == EMPTY]
            operation.fill(empty, self._stored.spec.fill_value, self._store)
        group.expect(len(stored))
        batch = InnerChunkBatch(
            batches,
            group,
            self._out,
            inner,
            object_id,
            [positions[at] for at in stored],
            [numbered[at][1] for at in stored],
            [offsets[at] for at in stored],
            lengths,
        )
        operation.batches.add(batch)
        self._fetch(object_id, version, [batch])
        return batch
