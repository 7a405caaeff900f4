"""A read: elements of one array, and their output. A small one may do without the I/O thread.

A call to the I/O thread and back takes 60 to 150 µs, in which two threads wait for the interpreter's lock. To copy a
few cached chunks, or to read and decode a small chunk, takes less. The caller's thread does it, or a worker if the
store's calls block. Everything else, and every error, is left to the ordinary read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from numpy.typing import NDArray

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.engine.caches import ChunkCache
from aiozarr.engine.decoder import ChunkOutput, thread_decoder
from aiozarr.engine.in_flight import InternedKey
from aiozarr.engine.layout import ArrayLayout, inner_parts
from aiozarr.engine.state import EngineState
from aiozarr.errors import AiozarrError, StoreError
from aiozarr.grid.chunk_grid import chunk_count_bound, project
from aiozarr.grid.projection import ChunkSelection, CoreRegion, SizedSelections
from aiozarr.grid.transform import DimensionMap
from aiozarr.memory import empty
from aiozarr.settings import Settings
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.engine.listed_chunks import ListedChunks
    from aiozarr.grid.fields import Fields

MAX_OUT_BYTES = 256 << 10
"""Elements of a direct read: copying them takes at most 0.1 ms, in which the caller's loop does nothing else."""


@dataclass(frozen=True, eq=False, repr=False)
class Read:
    """Elements of one array and where they go.

    Attributes:
        prefix: the array's keys begin with it; `""` or ending with `/`.
        maps: the elements, one map per dimension of the array, and of `fields` behind them.
        out: an array of the core shape: `core_shape_of` the maps.
        fields: the part of each element that is wanted; None for all of it.
        fresh: the contiguous array behind `out` if it is new: its memory has not been touched yet.
        missing: receives the keys of the objects that are not stored, if the caller wants to know them.
        listed: the chunks, in place of `maps`, if the caller lists them.
    """

    layout: ArrayLayout
    store: Store
    prefix: str
    maps: tuple[DimensionMap, ...]
    out: NDArray[Any]
    fields: Fields | None = None
    fresh: NDArray[Any] | None = None
    missing: set[str] | None = None
    listed: ListedChunks | None = None

    @classmethod
    def of_listed(
        cls, store: Store, chunks: ListedChunks, out: NDArray[Any], *, fresh: NDArray[Any] | None = None
    ) -> Self:
        """Return the read of listed chunks. Afterwards `missing` has the keys of those that are not stored."""
        return cls(chunks.layout, store, "", (), out, fresh=fresh, missing=set(), listed=chunks)

    @fork_safe_cached_property
    def array_id(self) -> InternedKey:
        """The common part of the ids of this array's chunks, by which readers share them."""
        return InternedKey((self.store.identity, self.layout.decoding_id))

    @fork_safe_cached_property
    def parts(self) -> SizedSelections:
        """The stored objects that the read touches. If the maps are expensive, a worker computes this first."""
        return project(self.layout.axes, self.maps, self.fields) if self.listed is None else self.listed


class StreamBlocks:
    """Makes a new array for each stored object, and has the read pause while too many wait for the consumer."""

    def __init__(self, settings: Settings, prefetch: int | None) -> None:
        self._prefetch = prefetch
        self._max_bytes = settings.max_bytes_in_flight
        self._regions: dict[int, CoreRegion] = {}
        self._out_count = 0
        self._out_bytes = 0
        self.blocks: deque[tuple[CoreRegion, NDArray[Any]]] = deque()
        self.arrived = asyncio.Event()

    def has_room(self) -> bool:
        """Return whether another stored object may be begun."""
        if self._prefetch is None:
            return self._out_bytes < self._max_bytes
        # The block that the consumer has next is not ahead.
        return self._out_count < self._prefetch + 1

    def target(self, read: Read, part: ChunkSelection) -> ChunkOutput:
        """Return a new array for a stored object's elements, and their places in it."""
        shape, region, moved = part.rebased()
        block = empty(shape, read.out.dtype)
        self._regions[id(block)] = region
        self._out_count += 1
        self._out_bytes += block.nbytes
        return ChunkOutput(block, moved)

    def add(self, out: NDArray[Any]) -> None:
        """Add a block that is complete."""
        self.blocks.append((self._regions.pop(id(out)), out))
        self.arrived.set()

    def pop(self) -> tuple[CoreRegion, NDArray[Any]]:
        """Remove and return the next block, which makes room for another."""
        region, block = self.blocks.popleft()
        self._out_count -= 1
        self._out_bytes -= block.nbytes
        return region, block


MAX_DIRECT_CHUNKS = 64
"""Chunks of one read: looking up and copying one takes about 5 µs."""

MAX_DECODED_BYTES = 64 << 10
"""A chunk that is decoded on the caller's loop: that takes at most 0.1 ms."""

MAX_BLOCKING_BYTES = 1 << 20
"""A chunk that a thread decodes which may block. For larger ones the I/O thread's time does not matter."""

_Copies: TypeAlias = list[tuple[ChunkSelection, NDArray[Any] | None]]
"""Selections of chunks with the decoded chunk; None: the fill value."""


def read_direct(state: EngineState, read: Read, settings: Settings, now: float, *, may_block: bool = False) -> bool:
    """Fill `read.out` if that needs neither a request nor a wait. Any thread.

    Args:
        state: the state of the I/O thread. Only lookups that any thread may do are used.
        read: elements without long index arrays.
        settings: of the reader.
        now: the time of the I/O loop.
        may_block: whether the calling thread may wait for the disk: it has no loop.

    Returns:
        False if the ordinary read has to be done. `read.out` may have been changed.

    Raises:
        StoreError: with `may_block`, if the ordinary read may repeat the request after a pause.
    """
    if read.out.nbytes > MAX_OUT_BYTES:
        return False
    if settings.chunk_cache_bytes:
        cache = state.chunk_caches.find(settings.chunk_cache_bytes)
        return cache is not None and _copy_cached(state, cache, read, now - settings.chunk_cache_seconds)
    store = read.store
    if not isinstance(store, BlockingStore) or settings.on_event is not None:
        return False
    return (may_block or store.is_in_memory) and _decode_one(store, read, settings, may_block=may_block)


def _copy_cached(state: EngineState, cache: ChunkCache, read: Read, since: float) -> bool:
    if chunk_count_bound(read.layout.inner_axes, read.maps) > MAX_DIRECT_CHUNKS:
        return False
    copies = _find_chunks(cache, read, since) if read.layout.shard is None else _find_inner(state, cache, read, since)
    if copies is None:
        return False
    out = read.out
    for selection, chunk in copies:
        if chunk is None:
            selection.fill(out, read.layout.spec.fill_value)
        else:
            selection.scatter(out, selection.gather(chunk))
    return True


def _find_chunks(cache: ChunkCache, read: Read, since: float) -> _Copies | None:
    """Return all chunks; None if one is not cached."""
    array_id = InternedKey.find((read.store.identity, read.layout.decoding_id))
    if array_id is None:
        return None
    encode, prefix, parts = read.layout.key_encoding.encode, read.prefix, list(read.parts)
    chunks = cache.find_all([(array_id, prefix + encode(part.coords)) for part in parts], since)
    return None if chunks is None else list(zip(parts, chunks, strict=True))


def _find_inner(state: EngineState, cache: ChunkCache, read: Read, since: float) -> _Copies | None:
    """Return all inner chunks; None if one is stored and not cached, or an index is not cached."""
    from aiozarr.codecs.chunk_layouts import EMPTY

    layout, indexes = read.layout, state.indexes_if_made
    if indexes is None:
        return None
    copies: _Copies = []
    for part in read.parts:
        shard_id = (read.store.identity, read.prefix + layout.key_encoding.encode(part.coords), layout.decoding_id)
        entry = indexes.cache.peek(shard_id)
        object_id = None if entry is None else InternedKey.find((shard_id, entry.version))
        if entry is None or entry.index is None or object_id is None:
            return None
        numbered = list(inner_parts(layout.object_of(part), part))
        starts, _ = entry.index.locate_all([position for position, _ in numbered])
        if EMPTY in starts:
            pairs = list(zip(numbered, starts, strict=True))
            copies += [(inner, None) for (_, inner), start in pairs if start == EMPTY]
            numbered = [each for each, start in pairs if start != EMPTY]
        if not numbered:
            # No cached chunk vouches for the version of this index: a newer shard would go unnoticed.
            return None
        chunks = cache.find_all([(object_id, position) for position, _ in numbered], since)
        if chunks is None:
            return None
        copies += [(inner, chunk) for (_, inner), chunk in zip(numbered, chunks, strict=True)]
    return copies


def _decode_one(store: BlockingStore, read: Read, settings: Settings, *, may_block: bool) -> bool:
    layout: ArrayLayout = read.layout
    if layout.shard is not None or layout.single is None or chunk_count_bound(layout.axes, read.maps) != 1:
        return False
    pipeline = layout.single.pipeline
    max_bytes, most = pipeline.max_stored_size, MAX_BLOCKING_BYTES if may_block else MAX_DECODED_BYTES
    if pipeline.spec.nbytes > most or pipeline.spec.is_variable or max_bytes is None:
        return False
    part = next(iter(read.parts))
    try:
        # A longer value would hold the caller's loop up before its codecs refuse it.
        bound = {"max_bytes": max_bytes} if store.has_bounded_reads else {}
        data = store._read_now(read.prefix + layout.key_of(part), **bound)
        if data is None:
            if settings.missing_chunks != "fill":
                return False
            part.fill(read.out, layout.spec.fill_value)
        else:
            thread_decoder(pipeline).decode(data, read.out, part)
    except AiozarrError as error:
        if may_block and isinstance(error, StoreError) and error.retryable:
            raise
        return False  # The ordinary read tries again, and raises the error.
    return True
