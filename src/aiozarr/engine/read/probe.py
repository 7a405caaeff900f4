"""Looks up the sizes and indexes that turn a plan's bounds into exact figures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from aiozarr.engine.cache.indexes import IndexEntry
from aiozarr.engine.desk import Desk
from aiozarr.engine.plan.part_plan import PartPlan
from aiozarr.engine.plan.plan import GivenRows, Plan, keyed_projections, plan_bounds, wanted_ranges
from aiozarr.engine.plan.split_plan import NEVER, count_parts, cut, split_limit
from aiozarr.engine.plan.table import ROWS, PlanRow
from aiozarr.engine.plan.whole_shard import whole_of
from aiozarr.engine.read.part_read import fit_together, ranges_of_chunk
from aiozarr.engine.read.read import Read
from aiozarr.engine.request.flight import Token
from aiozarr.engine.session import Session
from aiozarr.errors import CodecError
from aiozarr.grid.projection import Part
from aiozarr.grid.touched import LONG, takes_long
from aiozarr.model import Range
from aiozarr.schedule.coalesce import coalesce
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores.tasks import together

WORKERS = 64


@dataclass(slots=True)
class _Sum:
    requests: int = 0
    fetched: int = 0
    wanted: int = 0
    missing: int = 0
    rows: dict[int, list[PlanRow]] = field(default_factory=dict)

    def add(self, number: int, row: PlanRow) -> None:
        """Add what is asked of the stored object of this number; the first objects' is kept."""
        self.requests += row.requests
        self.fetched += row.bytes
        self.wanted += row.bytes_wanted
        if len(rows := self.rows.setdefault(number, [])) < ROWS:
            rows.append(row)
        if len(self.rows) > ROWS:  # objects come out of order, and nothing is asked of those that are kept
            del self.rows[max(self.rows)]

    def first_rows(self) -> tuple[PlanRow, ...]:
        """Return the first rows of the whole plan."""
        return tuple([row for number in sorted(self.rows) for row in self.rows[number]][:ROWS])


async def probe(desk: Desk, read: Read, *, settings: Settings, recorder: Report | None = None) -> Plan:
    """Return exactly what `read` would fetch if it began now.

    Indexes that this looks up are kept as those of reads are, so the read that follows does not ask for them again,
    and the figures do not count them.
    """
    if takes_long(read.maps):
        bounds = await desk.pool.call(lambda: plan_bounds(read.layout, read.maps))
    else:
        bounds = plan_bounds(read.layout, read.maps)
    session = Session(desk, read.store, settings, recorder)
    steps = enumerate(keyed_projections(read.layout, read.parts, read.prefix))
    total = _Sum()
    queue = desk.queue_of(read.store)
    parts = PartPlan(queue.economy(settings), blocking=queue.blocking)
    workers = min(WORKERS, bounds.chunks)
    await together(_work(desk, session, read, steps, total, parts) for _ in range(workers))
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
        first=GivenRows(total.first_rows()),
    )


async def _work(
    desk: Desk,
    session: Session,
    read: Read,
    steps: Iterator[tuple[int, tuple[str, Part]]],
    total: _Sum,
    parts: PartPlan,
) -> None:
    for number, (key, projection) in steps:
        if read.layout.shard is not None:
            await _shard(desk, session, read, number, key, projection, total, parts)
            continue
        if desk.chunk_caches.has(session.settings, (read.token, key), _now()):
            continue
        entry = await session.stat(key)
        size = 0 if entry is None or entry.size is None else entry.size
        pipeline = read.layout.object_of(projection).pipeline
        total.missing += entry is None
        ranges = ranges_of_chunk(desk, parts, read.store, session.settings, pipeline, projection)
        for start, length in ranges or ():
            came = min(length, max(0, size - start))
            total.add(number, PlanRow(1, key, Range(start, length), 1, came, came, stored=entry is not None))
        if ranges is not None and (entry is None or fit_together(pipeline, entry, ranges)):
            continue
        requests = count_parts(pipeline, size, _limit_of(desk, session))
        total.add(number, PlanRow(1, key, None, 1, size, size, requests, stored=entry is not None))


def _limit_of(desk: Desk, session: Session) -> int:
    store = session.store
    if desk.queue_of(store).blocking or not desk.tells_versions(store):
        return NEVER
    return split_limit(store, session.settings)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _kept(desk: Desk, settings: Settings, object_token: Token) -> Callable[[int], bool] | None:
    """Return whether the inner chunk at a position is in the cache; None where there is no cache."""
    if not settings.chunk_cache_bytes:
        return None
    now = _now()
    return lambda position: desk.chunk_caches.has(settings, (object_token, position), now)


async def _shard(
    desk: Desk, session: Session, read: Read, number: int, key: str, projection: Part, total: _Sum, parts: PartPlan
) -> None:
    stored = read.layout.object_of(projection)
    shard = stored.shard
    assert shard is not None
    token = (read.store.identity, key, read.layout.token)
    # Not from the cache: the shard may have been replaced, and the figures are to be those of now.
    value = await session.fetch(key, shard.index_range)
    desk.indexes.drop(token)
    desk.sizes.note(read.store, key, None if value is None else value.size, None if value is None else value.version)
    if value is None:
        total.missing += 1
        total.add(number, PlanRow(1, key, shard.index_range, 0, 0, 0, stored=False))
        return
    try:
        index = shard.parse_index(value.data, value.size, strict=session.settings.strict)
    except CodecError as error:
        error.store, error.key, error.range = read.store.url, key, shard.index_range
        raise
    if value.version is not None and not value.version.weak and read.store.supports.conditional_reads:
        desk.indexes.put(token, IndexEntry(index, value.version), session.settings.index_cache_bytes)
    kept = _kept(desk, session.settings, Token((token, value.version)))
    runs = None if kept else partial(parts.ranges, pipeline=shard.inner, versioned=value.version is not None)

    def look() -> tuple[list[tuple[int, int]], list[tuple[int, int]], int | None]:
        ranges = wanted_ranges(stored, index, projection, runs=runs)
        missing = wanted_ranges(stored, index, projection, kept=kept) if kept else ranges
        return ranges, missing, None if known else whole_of(stored, projection, economy, read.store)

    known, economy = desk.indexes.get(token) is not None, desk.queue_of(read.store).economy(session.settings)
    ranges, missing, bound = look() if projection.listed < LONG else await desk.pool.call(look)
    size = shard.index_nbytes
    if bound is not None:
        whole, fetched = value.size is None or value.size <= bound, min(bound, value.size or bound)
        inner = wanted_ranges(stored, index, projection, kept=kept) if whole else []
        wanted = min(fetched, size + sum([length for _, length in inner])) if whole else 0
        total.add(number, PlanRow(1, key, Range(0, bound), len(inner), fetched, wanted, stored=True))
        if whole:
            return
    if not ranges or not known:
        # A kept index is used where a request for data checks that it still holds.
        total.add(number, PlanRow(1, key, shard.index_range, 0, size, size, stored=True))
    limit = _limit_of(desk, session) if value.version is not None else NEVER
    for each in coalesce(missing, economy):
        requests = 1 if each.length <= limit else len(cut(0, each.length, limit))
        wanted = min(each.length, sum([missing[member][1] for member in each.members]))
        part = Range(each.start, each.length)
        total.add(number, PlanRow(2, key, part, len(each.members), each.length, wanted, requests, stored=True))
