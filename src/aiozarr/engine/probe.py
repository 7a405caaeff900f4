"""Looks up the sizes and indexes that turn a plan's bounds into exact figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aiozarr.engine.desk import Desk
from aiozarr.engine.index_cache import IndexEntry
from aiozarr.engine.plan import Plan, keyed_projections, plan_bounds, wanted_ranges
from aiozarr.engine.read import Read
from aiozarr.engine.session import Session
from aiozarr.errors import CodecError
from aiozarr.grid.projection import Part
from aiozarr.grid.touched import LONG, takes_long
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
    steps = keyed_projections(read.layout, read.parts, read.prefix)
    total = _Sum()
    workers = min(WORKERS, bounds.chunks)
    await together(_work(desk, session, read, steps, total) for _ in range(workers))
    return Plan(
        bounds.chunks,
        bounds.inner_chunks,
        total.requests,
        total.requests,
        total.fetched,
        total.wanted,
        exact=True,
    )


async def _work(desk: Desk, session: Session, read: Read, steps: Iterator[tuple[str, Part]], total: _Sum) -> None:
    for key, projection in steps:
        if read.layout.shard is not None:
            await _shard(desk, session, read, key, projection, total)
            continue
        entry = await session.stat(key)
        size = 0 if entry is None or entry.size is None else entry.size
        total.requests += 1
        total.fetched += size
        total.wanted += size


async def _shard(desk: Desk, session: Session, read: Read, key: str, projection: Part, total: _Sum) -> None:
    stored = read.layout.object_of(projection)
    shard = stored.shard
    assert shard is not None
    token = (read.store.identity, key, read.layout.token)
    # Not from the cache: the shard may have been replaced, and the figures are to be those of now.
    value = await session.fetch(key, shard.index_range)
    desk.indexes.drop(token)
    desk.sizes.note(read.store, key, None if value is None else value.size, None if value is None else value.version)
    if value is None:
        total.requests += 1
        return
    try:
        index = shard.parse_index(value.data, value.size, strict=session.settings.strict)
    except CodecError as error:
        error.store, error.key, error.range = read.store.url, key, shard.index_range
        raise
    if value.version is not None and not value.version.weak and read.store.supports.conditional_reads:
        desk.indexes.put(token, IndexEntry(index, value.version), session.settings.index_cache_bytes)
    if projection.listed < LONG:
        ranges = wanted_ranges(stored, index, projection)
    else:
        ranges = await desk.pool.call(lambda: wanted_ranges(stored, index, projection))
    if not ranges or desk.indexes.get(token) is None:
        # A kept index is used where a request for data checks that it still holds.
        total.requests += 1
        total.fetched += shard.index_nbytes
        total.wanted += shard.index_nbytes
    merged = coalesce(ranges, desk.queue_of(read.store).economy(session.settings))
    total.requests += len(merged)
    total.fetched += sum([each.length for each in merged])
    total.wanted += sum([length for _, length in ranges])
