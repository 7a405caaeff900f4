"""`record()` and `on_event` miss no request: what opens, creates, probes, lists and writes in part is counted alike."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.model import Supports
from aiozarr.schedule.events import Report
from aiozarr.stores import LocalStore, MemoryStore, Store, WrapperStore

KINDS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "local": LocalStore,
    "as a network": lambda _: WrapperStore(MemoryStore()),
    "without suffix ranges": lambda _: NoSuffixes(MemoryStore()),
}


class NoSuffixes(WrapperStore):
    @property
    def supports(self) -> Supports:  # type: ignore[override]
        return replace(super().supports, suffix_reads=False)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_report_counts_the_events(kind: str, tmp_path: Path) -> None:
    store = KINDS[kind](tmp_path)
    events: list[Any] = []
    settings = aiozarr.Settings(on_event=events.append)

    async def counted(what: Callable[[], Awaitable[Any]]) -> tuple[Report, Any]:
        events.clear()
        with aiozarr.record() as report:
            result = await what()
        await asyncio.sleep(0)
        assert report.requests == sum(event.attempts for event in events) > 0
        assert {event.operation for event in events} <= {"fetch", "set", "erase", "list", "stat"}
        return report, result

    _, group = await counted(lambda: aiozarr.create_group(store, settings=settings))
    _, array = await counted(lambda: group.create_array("a", shape=(8,), dtype="i4", chunks=(2,), shards=(4,)))
    await counted(lambda: array[...].write(1))
    await counted(lambda: array[1:3].write(2))
    _, array = await counted(lambda: aiozarr.open_array(store, "a", settings=settings))
    report, plan = await counted(array[:3].probe)
    assert report.requests == plan.chunks == 1
    await counted(array[:3].read)
    report, info = await counted(array.info)
    assert (info.objects_stored, report.requests) == (2, 1)
    assert [event.operation for event in events] == ["list"]
    await counted(lambda: aiozarr.consolidate_metadata(store, settings=settings))
    _, copied = await counted(lambda: aiozarr.copy(store, MemoryStore(), settings=settings))
    assert "list" in {event.operation for event in events}
    # Calls of stores in memory and on disk are events, and no requests over a network.
    is_remote = [not event.store.startswith(("memory:", "file:")) for event in events]
    assert copied.requests == sum(event.attempts for event, counts in zip(events, is_remote, strict=True) if counts)
    await counted(lambda: group.delete("a"))


async def test_a_listing_that_is_left_early_is_closed_and_counted(tmp_path: Path) -> None:
    closed: list[str] = []

    class Watched(MemoryStore):
        async def scan(self, prefix: str = "") -> Any:
            try:
                async for entry in super().scan(prefix):
                    yield entry
            finally:
                closed.append(prefix)

    store = Watched()
    await aiozarr.create_group(store)
    await aiozarr.create_array(store, "g/h", shape=1, dtype="u1")  # a node below a folder makes it a group
    await store.erase("g/zarr.json")
    closed.clear()
    with aiozarr.record() as report:
        await aiozarr.open_group(store, "g")
    assert set(closed) == {"g/"}
    assert report.requests > 1
