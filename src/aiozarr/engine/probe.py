"""Exact plans: looks up the sizes and indexes that turn bounds into figures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from aiozarr.common.concurrency import gather_all
from aiozarr.engine.decoder import MIN_INDEX_BYTES
from aiozarr.engine.in_flight import InternedKey
from aiozarr.engine.layout import keyed_projections
from aiozarr.engine.operation import MAX_PENDING_LOCATED
from aiozarr.engine.partial_chunk import ranges_of_chunk, ranges_suffice
from aiozarr.engine.partial_plan import PartialChunkPlanner, partial_planner, whole_of
from aiozarr.engine.plan import ROWS, FixedRows, Plan, PlanRow, count_parts, plan_bounds, wanted_ranges
from aiozarr.engine.read import Read
from aiozarr.engine.scheduled_store import ScheduledStore
from aiozarr.engine.shard_index import IndexEntry, parse_index
from aiozarr.engine.state import EngineState
from aiozarr.errors import AiozarrError
from aiozarr.grid.chunk_grid import LARGE_POINT_COUNT, is_expensive
from aiozarr.grid.projection import ChunkSelection
from aiozarr.model import Range
from aiozarr.schedule.coalesce import NO_SPLIT, MergeLimits, coalesce, split_limit, split_range
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores.capabilities import LocatingStore, Location, locate_prepared
from aiozarr.stores.contract import Store

WORKERS = 64


@dataclass(slots=True)
class _PlanTotals:
    requests: int = 0
    fetched: int = 0
    wanted: int = 0
    missing: int = 0
    rows: dict[int, list[PlanRow]] = field(default_factory=dict)
    located: list[tuple[int, Location]] = field(default_factory=list)

    def add(self, number: int, row: PlanRow) -> None:
        """Add a request for the stored object of this number; the rows of the first objects stay."""
        self.requests += row.requests
        self.fetched += row.bytes
        self.wanted += row.bytes_wanted
        if len(rows := self.rows.setdefault(number, [])) < ROWS:
            rows.append(row)
        if len(self.rows) > ROWS:  # objects come out of order, and some need no request
            del self.rows[max(self.rows)]

    def add_located(self, merge_limits: MergeLimits) -> None:
        """Add the requests for located chunks, merged as a read merges them: a window of the plan at a time."""
        located = sorted(self.located, key=lambda each: each[0])
        for first in range(0, len(located), MAX_PENDING_LOCATED):
            objects: dict[Hashable, list[tuple[int, Location]]] = {}
            for number, place in located[first : first + MAX_PENDING_LOCATED]:
                objects.setdefault(place.store.object_identity(place.key), []).append((number, place))
            for members in objects.values():
                ranges = [(place.start, place.length) for _, place in members]
                for each in coalesce(ranges, merge_limits):
                    number, place = members[each.members[0]]
                    wanted = min(each.length, sum([ranges[member][1] for member in each.members]))
                    part, count = Range(each.start, each.length), len(each.members)
                    self.add(number, PlanRow(1, place.key, part, count, each.length, wanted, stored=True))

    def first_rows(self) -> tuple[PlanRow, ...]:
        """Return the first rows of the whole plan."""
        return tuple([row for number in sorted(self.rows) for row in self.rows[number]][:ROWS])


async def probe(state: EngineState, read: Read, *, settings: Settings, report: Report | None = None) -> Plan:
    """Return exactly what `read` would fetch if it began now.

    Indexes that this looks up are cached, as in reads. The read that follows does not request them again, and
    the figures do not count them.
    """
    if is_expensive(read.maps):
        bounds = await state.pool.call(lambda: plan_bounds(read.layout, read.maps))
    else:
        bounds = plan_bounds(read.layout, read.maps)
    session = ScheduledStore(state, read.store, settings, report)
    steps = enumerate(keyed_projections(read.layout, read.parts, read.prefix))
    total = _PlanTotals()
    queue = state.queue_for(read.store)
    planner = partial_planner(queue.merge_limits(settings), queue.is_blocking)
    workers = min(WORKERS, bounds.chunks)
    await gather_all(_work(state, session, read, steps, total, planner) for _ in range(workers))
    total.add_located(queue.merge_limits(settings))
    return Plan(
        bounds.chunks,
        bounds.inner_chunks,
        total.requests,
        total.requests,
        total.fetched,
        total.wanted,
        exact=True,
        sharded=read.layout.shard is not None,
        missing=total.missing,
        first=FixedRows(total.first_rows()),
    )


async def _work(
    state: EngineState,
    session: ScheduledStore,
    read: Read,
    steps: Iterator[tuple[int, tuple[str, ChunkSelection]]],
    total: _PlanTotals,
    planner: PartialChunkPlanner,
) -> None:
    for number, (key, projection) in steps:
        if read.layout.shard is not None:
            await _shard(state, session, read, number, key, projection, total, planner)
            continue
        if state.chunk_caches.has(session.settings, (read.array_id, key), _now()):
            continue
        pipeline = read.layout.object_of(projection).pipeline
        ranges = ranges_of_chunk(state, planner, read.store, session.settings, pipeline, projection)
        location = await _location_of(read.store, key)
        if location is not None:
            # A range of a chunk that is shorter than its bytes is read with the whole chunk.
            whole = ranges is None or pipeline.raw is None or location.length != pipeline.raw.nbytes
            for start, length in ((0, location.length),) if whole else ranges or ():
                place = Location(location.store, location.key, location.start + start, length)
                total.located.append((number, place))
            continue
        entry = await session.stat(key)
        size = 0 if entry is None or entry.size is None else entry.size
        total.missing += entry is None
        for start, length in ranges or ():
            came = min(length, max(0, size - start))
            total.add(number, PlanRow(1, key, Range(start, length), 1, came, came, stored=entry is not None))
        if ranges is not None and (entry is None or ranges_suffice(pipeline, entry, ranges)):
            continue
        requests = count_parts(pipeline, size, _limit_of(state, session))
        total.add(number, PlanRow(1, key, None, 1, size, size, requests, stored=entry is not None))


async def _location_of(store: Store, key: str) -> Location | None:
    if isinstance(store, LocatingStore):
        with suppress(AiozarrError):  # `stat` raises it
            await store.prepare(key)
    return locate_prepared(store, key)


def _limit_of(state: EngineState, session: ScheduledStore) -> int:
    store = session.store
    if state.queue_for(store).is_blocking or not state.has_versions(store):
        return NO_SPLIT
    return split_limit(store, session.settings)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _cached(state: EngineState, settings: Settings, object_token: InternedKey) -> Callable[[int], bool] | None:
    """Return a function that says whether an inner chunk is cached; None without a cache."""
    if not settings.chunk_cache_bytes:
        return None
    now = _now()
    return lambda position: state.chunk_caches.has(settings, (object_token, position), now)


async def _shard(
    state: EngineState,
    session: ScheduledStore,
    read: Read,
    number: int,
    key: str,
    projection: ChunkSelection,
    total: _PlanTotals,
    planner: PartialChunkPlanner,
) -> None:
    stored = read.layout.object_of(projection)
    shard = stored.shard
    assert shard is not None
    shard_id = (read.store.identity, key, read.layout.decoding_id)
    # Not from the cache: the shard may have been replaced, and the figures must be current.
    value = await session.fetch(key, shard.index_range, max_bytes=shard.index_nbytes)
    state.indexes.cache.drop(shard_id)
    state.sizes.record(read.store, key, None if value is None else value.size, None if value is None else value.version)
    if value is None:
        total.missing += 1
        total.add(number, PlanRow(1, key, shard.index_range, 0, 0, 0, stored=False))
        return
    strict = session.settings.strict
    decode = partial(parse_index, shard, value.data, value.size, read.store, key, strict=strict)
    index = decode() if shard.index_nbytes < MIN_INDEX_BYTES else await state.pool.call(decode)
    if value.version is not None and not value.version.weak and read.store.supports.conditional_reads:
        state.indexes.cache.add(shard_id, IndexEntry(index, value.version), session.settings.index_cache_bytes)
    is_cached = _cached(state, session.settings, InternedKey((shard_id, value.version)))
    runs = None if is_cached else partial(planner.ranges, pipeline=shard.inner, versioned=value.version is not None)

    def look() -> tuple[list[tuple[int, int]], list[tuple[int, int]], int | None]:
        ranges = wanted_ranges(stored, index, projection, runs=runs)
        missing = wanted_ranges(stored, index, projection, cached=is_cached) if is_cached else ranges
        return ranges, missing, None if known else whole_of(stored, projection, merge_limits, read.store)

    known, merge_limits = (
        state.indexes.cache.get(shard_id) is not None,
        state.queue_for(read.store).merge_limits(session.settings),
    )
    ranges, missing, bound = look() if projection.point_count < LARGE_POINT_COUNT else await state.pool.call(look)
    size = shard.index_nbytes
    if bound is not None:
        whole, fetched = value.size is None or value.size <= bound, min(bound, value.size or bound)
        inner = wanted_ranges(stored, index, projection, cached=is_cached) if whole else []
        wanted = min(fetched, size + sum([length for _, length in inner])) if whole else 0
        total.add(number, PlanRow(1, key, Range(0, bound), len(inner), fetched, wanted, stored=True))
        if whole:
            return
    if not ranges or not known:
        # A cached index is used if a request for data validates it.
        total.add(number, PlanRow(1, key, shard.index_range, 0, size, size, stored=True))
    limit = _limit_of(state, session) if value.version is not None else NO_SPLIT
    for each in coalesce(missing, merge_limits):
        requests = 1 if each.length <= limit else len(split_range(0, each.length, limit))
        wanted = min(each.length, sum([missing[member][1] for member in each.members]))
        part = Range(each.start, each.length)
        total.add(number, PlanRow(2, key, part, len(each.members), each.length, wanted, requests, stored=True))
