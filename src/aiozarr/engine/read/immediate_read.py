"""Reads what is in memory in the caller's own thread: cached chunks, and one small chunk of a store in memory.

A call to the I/O thread and back takes 60 to 150 µs, in which two threads wait for the interpreter's lock. To copy a
few cached chunks takes less. Everything else, and every error, is left to the ordinary read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from aiozarr.codecs.pipeline.shard_layout import EMPTY
from aiozarr.engine.cache.chunks import ChunkCache
from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.plan.plan import inner_parts
from aiozarr.engine.read.read import Read
from aiozarr.engine.request.share_key import InternedKey
from aiozarr.engine.state import EngineState
from aiozarr.errors import AiozarrError
from aiozarr.grid.chunk_counting import chunk_count_bound
from aiozarr.grid.projection import ChunkSelection
from aiozarr.settings import Settings
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store

MAX_OUT_BYTES = 256 << 10
"""Elements of one read: copying them takes at most 0.1 ms, in which the caller's loop does nothing else."""

MAX_CHUNKS = 64
"""Chunks of one read: looking up and copying one takes about 5 µs."""

MAX_DECODED_BYTES = 64 << 10
"""A chunk of a store in memory: decoding it takes at most 0.1 ms."""

_Copies = list[tuple[ChunkSelection, NDArray[Any] | None]]
"""Selections of chunks with the decoded chunk; None: the fill value."""


def may_read_immediately(store: Store, settings: Settings) -> bool:
    """Return whether chunks of `store` can be in memory at all."""
    return settings.chunk_cache_bytes > 0 or (isinstance(store, BlockingStore) and store.is_in_memory)


def read_immediately(state: EngineState, read: Read, settings: Settings, now: float) -> bool:
    """Fill `read.out` if that needs neither a request nor a wait. Any thread.

    Args:
        state: the state of the I/O thread, of which only lookups that any thread may do are used.
        read: elements without long index arrays.
        settings: of the reader.
        now: the time of the I/O loop.

    Returns:
        False if the ordinary read has to be done. `read.out` may have been changed.
    """
    if read.out.nbytes > MAX_OUT_BYTES:
        return False
    if settings.chunk_cache_bytes:
        cache = state.chunk_caches.find(settings.chunk_cache_bytes)
        return cache is not None and _copy_cached(state, cache, read, now - settings.chunk_cache_seconds)
    store = read.store
    if not isinstance(store, BlockingStore) or not store.is_in_memory or settings.on_event is not None:
        return False
    return _decode_one(store, read, settings)


def _copy_cached(state: EngineState, cache: ChunkCache, read: Read, since: float) -> bool:
    if chunk_count_bound(read.layout.axes, read.maps) > MAX_CHUNKS:
        return False
    copies: _Copies = []
    find = _find_in_shards if read.layout.shard is not None else _find_chunks
    for selection, chunk in find(state, cache, read, since):
        if selection is None or len(copies) == MAX_CHUNKS:
            return False
        copies.append((selection, chunk))
    for selection, chunk in copies:
        if chunk is None:
            selection.fill(read.out, read.layout.spec.fill_value)
        else:
            selection.scatter(read.out, selection.gather(chunk))
    return True


_Found = Iterator[tuple[ChunkSelection | None, NDArray[Any] | None]]
"""As `_Copies`; a selection of None ends the search: a chunk is not cached."""


def _find_chunks(state: EngineState, cache: ChunkCache, read: Read, since: float) -> _Found:
    token = InternedKey.find((read.store.identity, read.layout.token))
    encode = read.layout.key_encoding.encode
    for part in read.parts:
        chunk = None if token is None else cache.peek((token, read.prefix + encode(part.coords)), since)
        yield (None if chunk is None else part), chunk


def _find_in_shards(state: EngineState, cache: ChunkCache, read: Read, since: float) -> _Found:
    layout = read.layout
    for part in read.parts:
        shard_id = (read.store.identity, read.prefix + layout.key_encoding.encode(part.coords), layout.token)
        entry = state.indexes.cache.peek(shard_id)
        object_id = None if entry is None else InternedKey.find((shard_id, entry.version))
        if entry is None or entry.index is None or object_id is None:
            yield None, None
            return
        is_any_stored = False
        numbered = list(inner_parts(layout.object_of(part), part))
        starts, _ = entry.index.locate_all([position for position, _ in numbered])
        for (position, inner), start in zip(numbered, starts, strict=True):
            chunk = None
            if start != EMPTY:
                is_any_stored = True
                chunk = cache.peek((object_id, position), since)
                if chunk is None:
                    yield None, None
                    return
            yield inner, chunk
        if not is_any_stored:
            # No cached chunk vouches for the version of this index: a newer shard would go unnoticed.
            yield None, None
            return


def _decode_one(store: BlockingStore, read: Read, settings: Settings) -> bool:
    layout: ArrayLayout = read.layout
    if layout.shard is not None or layout.single is None or chunk_count_bound(layout.axes, read.maps) != 1:
        return False
    pipeline = layout.single.pipeline
    max_bytes = pipeline.max_stored_size
    if pipeline.spec.nbytes > MAX_DECODED_BYTES or pipeline.spec.is_variable or max_bytes is None:
        return False
    part = next(iter(read.parts))
    try:
        # A longer value would hold the caller's loop up before its codecs refuse it.
        data = store.read_now(read.prefix + layout.key_of(part), max_bytes=max_bytes)
        if data is None:
            if settings.missing != "fill":
                return False
            part.fill(read.out, layout.spec.fill_value)
        else:
            part.scatter(read.out, part.gather(pipeline.decode(data)))
    except AiozarrError:
        return False  # The ordinary read repeats, and says what is wrong.
    return True
