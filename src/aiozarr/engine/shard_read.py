"""The read of one shard: its index, then the inner chunks that are wanted, merged into few requests."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial

from aiozarr.codecs.chunk_layouts import EMPTY, ShardIndex
from aiozarr.engine.decoder import ChunkOutput
from aiozarr.engine.in_flight import ChunkSet, InternedKey, Subscriber, Subscription
from aiozarr.engine.layout import ArrayLayout, inner_parts
from aiozarr.engine.partial_chunk import PartialChunk
from aiozarr.engine.partial_plan import whole_request
from aiozarr.engine.read_operation import ReadOperation
from aiozarr.engine.shard_index import IndexEntry, IndexFetch, ShardObject
from aiozarr.engine.worker_pool import BATCH_BYTES
from aiozarr.errors import ChangedError, ChecksumError
from aiozarr.grid.chunk_grid import LARGE_POINT_COUNT
from aiozarr.grid.projection import ChunkSelection
from aiozarr.model import Version
from aiozarr.stores.capabilities import Location
from aiozarr.stores.contract import Store

MAX_ATTEMPTS = 4
"""How often a shard that is replaced meanwhile is read from its index on, before that is an error."""

CHANGES_BEFORE_WHOLE = 2
"""How often a shard has to be replaced during one read before it is fetched whole, by one request."""

MAX_WHOLE_BYTES = 64 << 20
"""The size up to which a shard that is replaced again and again is fetched whole."""


class ShardRead(Subscriber[ReadOperation]):
    """One shard of one read. All its inner chunks are of one version of the object, or it is read again."""

    def __init__(
        self,
        operation: ReadOperation,
        layout: ArrayLayout,
        store: Store,
        key: str,
        output: ChunkOutput,
    ) -> None:
        self._projection = output.projection
        stored = layout.object_of(self._projection)
        assert stored.shard is not None
        self.operation = operation
        self._stored = stored
        self._shard = ShardObject(store, key, stored.shard, (store.identity, key, layout.decoding_id))
        self._out = output.out
        self._parts: list[tuple[int, ChunkSelection]] | None = None
        # The object that contains the shard, and where it begins there: ranges of inner chunks are merged by object.
        self._object, self._object_key, self._base = store, key, 0
        # The points of index arrays must be sorted by inner chunk first.
        self._is_long = self._projection.point_count >= LARGE_POINT_COUNT
        self._attempt = 1
        self._changes = 0
        self._open = 0
        self._error: BaseException | None = None
        self._partial: list[tuple[PartialChunk, ChunkOutput]] = []

    def begin(self, location: Location | None = None) -> None:
        """Read the shard, from its `location` if it has one. An error stops the read of which it is a part."""
        if location is not None:
            self._object, self._object_key, self._base = location[:3]
        if not self._is_long:
            self._find_index()
            return
        self.operation.sorting += 1
        self.operation.call_in_worker(self._inner_parts, self._sorted, BATCH_BYTES)

    def _sorted(self, error: BaseException | None) -> None:
        operation = self.operation
        operation.sorting -= 1
        operation.resume()
        if error is not None:
            operation.stop(error)
        elif not operation.stopped:
            self._find_index()

    def _inner_parts(self) -> list[tuple[int, ChunkSelection]]:
        """Return the linear index of every inner chunk with its selection; computed once for all steps."""
        if self._parts is None:
            self._parts = list(inner_parts(self._stored, self._projection))
        return self._parts

    # --- the index --------------------------------------------------------------------------------------------------

    def _find_index(self) -> None:
        operation = self.operation
        is_unsteady = self._changes >= CHANGES_BEFORE_WHOLE
        entry = None if is_unsteady else operation.state.indexes.cache.get(self._shard.shard_id)
        if entry is not None and self._will_be_validated(entry):
            self._read_chunks(entry, None)
            return
        whole_bytes = None
        if entry is None:
            ranges, limits = self._shard.store.supports.partial_reads, operation.merge_limits
            count = lambda: len(self._inner_parts())  # noqa: E731  # few shards need it
            whole_bytes = whole_request(self._shard.layout, self._projection, count, limits, ranges=ranges)
            if is_unsteady and whole_bytes is None:
                whole_bytes = MAX_WHOLE_BYTES
        # An index that another reader waits for may be outdated when its inner chunks are requested.
        is_own = is_unsteady and whole_bytes is not None
        self._request_index(whole_bytes, is_first=self._attempt == 1 and not self._is_long, is_own=is_own)

    def _will_be_validated(self, entry: IndexEntry) -> bool:
        """Return whether a cached index leads to a request that requires its version, or did so recently.

        A chunk of that version in the cache of chunks is no older than settings allow. If all wanted chunks are empty,
        no request would be sent, and a newer shard would go unnoticed.
        """
        index = entry.index
        return index is not None and any(index.locate(position) is not None for position, _ in self._inner_parts())

    def _request_index(self, whole_bytes: int | None, *, is_first: bool, is_own: bool = False) -> None:
        operation, shard_id = self.operation, self._shard.shard_id
        fetch = operation.state.indexes.request(
            operation,
            self._index_completed,
            self._shard,
            operation.share_key((shard_id, "whole") if is_own else shard_id),
            whole_bytes=whole_bytes,
            is_first=is_first,
        )
        operation.index_fetches[self._index_completed] = fetch

    def _index_completed(self, fetch: IndexFetch, error: BaseException | None) -> None:
        operation = self.operation
        operation.index_fetches.pop(self._index_completed, None)
        if operation.stopped:
            return
        if error is not None and self._may_succeed(error):
            self._attempt += 1
            self._find_index()
        elif error is not None:
            operation.stop(error)
        elif fetch.is_too_large:
            self._request_index(None, is_first=False)
        else:
            self._read_chunks(fetch.entry, fetch if fetch.is_whole else None)

    # --- the inner chunks -------------------------------------------------------------------------------------------

    def _read_chunks(self, entry: IndexEntry, whole: IndexFetch | None) -> None:
        """Read the inner chunks that `entry` locates, from `whole` if it brings the shard; fill the others."""
        self._partial.clear()
        self._open = 1  # until all are subscribed to
        if entry.index is None:
            error = self.operation.note_missing(self._shard.store, self._shard.key)
            if error is not None:
                self.operation.stop(error)
                return
            self._fill([self._projection])
        else:
            self._subscribe(entry.index, entry.version, whole)
        if not self._is_long:
            self._parts = None  # those who wait for the chunks have what they need of it
        self._count_down(1, None)

    def _subscribe(self, index: ShardIndex, version: Version | None, whole: IndexFetch | None) -> None:
        """Subscribe to the inner chunks; have those fetched that are neither cached nor in flight nor in `whole`."""
        operation, inner = self.operation, self._shard.layout.inner
        object_id = InternedKey((self._shard.shard_id, version))
        share_key = operation.share_key(object_id)
        # Without a version nothing says whether a cached chunk is still stored.
        cached = version is not None and not version.weak
        numbered = self._inner_parts()
        positions, parts = [position for position, _ in numbered], [part for _, part in numbered]
        starts, lengths = index.locate_all(positions)
        chunk_sets: list[ChunkSet] = []
        is_in_flight = share_key in operation.state.in_flight
        if EMPTY in starts or is_in_flight or operation.has_cache or (whole is None and inner.raw is not None):
            left: list[int] = []
            empty: list[ChunkSelection] = []
            for at, (position, part, start) in enumerate(zip(positions, parts, starts, strict=True)):
                chunk_id = (object_id, position)
                if start == EMPTY:
                    empty.append(part)
                elif whole is None and inner.raw is not None and lengths[at] == inner.raw.nbytes:
                    # The codecs refuse one of another length.
                    first = start + self._base
                    ranges = self._partial_chunk_sets(part, share_key, chunk_id, first, versioned=version is not None)
                    if ranges is None:
                        left.append(at)
                    else:
                        chunk_sets += ranges
                else:
                    left.append(at)
            if empty:
                self._fill(empty)
            if is_in_flight or operation.has_cache:
                find = partial(self._find_chunk, share_key, object_id, cached=cached)
                left = [at for at in left if not find(positions[at], parts[at])]
            positions, parts = [positions[at] for at in left], [parts[at] for at in left]
            starts, lengths = [starts[at] for at in left], [lengths[at] for at in left]
        if positions:
            self._open += len(positions)
            if whole is None and self._base:  # a whole shard was fetched by its own key
                starts = [start + self._base for start in starts]
            subscription = Subscription(self, self._out, parts)
            chunk_set = operation.new_chunk_set(
                subscription, share_key, inner, object_id, positions, starts, lengths, cached=cached
            )
            if whole is not None:
                whole.add(chunk_set)
            else:
                chunk_sets.append(chunk_set)
        if chunk_sets:
            merge_id: Hashable = object_id
            if self._object is not self._shard.store:
                merge_id = (self._object.object_identity(self._object_key), version)
            operation.state.coalescer.add(operation, self._object, self._object_key, merge_id, version, chunk_sets)

    def _find_chunk(
        self, share_key: Hashable, object_id: InternedKey, position: int, part: ChunkSelection, *, cached: bool
    ) -> bool:
        """Read an inner chunk that is cached or in flight; return whether it is."""
        operation = self.operation
        subscription = Subscription(self, self._out, (part,))
        chunk_id = (object_id, position)
        found = cached and operation.has_cache and operation.serve_cached(subscription, chunk_id, self._shard.store)
        found = found or operation.join(subscription, share_key, position, cached=cached)
        self._open += found
        return found

    def _partial_chunk_sets(
        self,
        part: ChunkSelection,
        share_key: Hashable,
        chunk_id: tuple[InternedKey, int],
        start: int,
        *,
        versioned: bool,
    ) -> list[ChunkSet] | None:
        """Subscribe to ranges of an uncompressed inner chunk; return those to fetch, or None to fetch all of it."""
        operation, inner = self.operation, self._shard.layout.inner
        if operation.has_cache or operation.state.in_flight.find(share_key, chunk_id[1]) is not None:
            return None
        ranges = operation.partial_planner.ranges(part, inner, versioned=versioned)
        if ranges is None:
            return None
        self._open += 1
        chunk = PartialChunk(operation, self._shard.store, inner, ranges, partial(self._count_down, 1))
        self._partial.append((chunk, ChunkOutput(self._out, part)))
        return chunk.subscribe(chunk_id, start)

    def _fill(self, parts: Sequence[ChunkSelection]) -> None:
        """Have a worker write the fill value to these parts, which are not stored."""
        out, fill_value = self._out, self._stored.spec.fill_value

        def fill() -> None:
            for part in parts:
                part.fill(out, fill_value)

        nbytes = sum([part.size for part in parts]) * fill_value.dtype.itemsize
        self._open += len(parts)
        self.operation.call_in_worker(fill, partial(self._placed, len(parts), nbytes), nbytes, self._shard.store.url)

    # --- outcomes ---------------------------------------------------------------------------------------------------

    def chunks_completed(
        self, subscription: Subscription, count: int, nbytes: int, error: BaseException | None
    ) -> None:
        self.operation.subscription_completed(subscription)
        self._placed(count, nbytes, error)

    def _placed(self, count: int, nbytes: int, error: BaseException | None) -> None:
        if error is None:
            self.operation.add_chunks(count, nbytes)
        self._count_down(count, error)

    def _count_down(self, count: int, error: BaseException | None) -> None:
        """Count `count` chunks that have their outcome. After the last one, complete the shard or read it again."""
        operation = self.operation
        self._open -= count
        if isinstance(error, ChangedError) or (error is not None and self._may_succeed(error)):
            self._error = self._error or error
        elif error is not None:
            operation.stop(error)
        if self._open or operation.stopped:
            return
        error, self._error = self._error, None
        if error is not None:
            self._read_again(error)
        elif self._partial:
            placed, self._partial = self._partial, []
            self._open = len(placed)
            for chunk, output in placed:
                nbytes = output.projection.size * self._out.dtype.itemsize
                chunk.place(output, partial(self._placed, 1, nbytes))
        else:
            operation.objects_completed((self._out,))

    def _may_succeed(self, error: BaseException) -> bool:
        """Return whether another request may bring the same bytes without this error."""
        # Bytes can be damaged on the way: they are fetched once more before the stored ones count as damaged.
        is_damaged = isinstance(error, ChecksumError) and self._attempt == 1
        return is_damaged or self.operation.has_inherited(error)

    def _read_again(self, error: BaseException) -> None:
        """Read all of the shard again, because a result must not mix old and new inner chunks."""
        operation = self.operation
        self._changes += isinstance(error, ChangedError)
        if self._attempt == MAX_ATTEMPTS:
            operation.stop(error)
            return
        self._attempt += 1
        operation.state.indexes.cache.drop(self._shard.shard_id)
        operation.state.chunk_caches.drop_object(self._shard.store.object_identity(self._shard.key))
        self._find_index()

    def note_missing(self, key: str) -> BaseException | None:
        return self.operation.note_missing(self._shard.store, key)
