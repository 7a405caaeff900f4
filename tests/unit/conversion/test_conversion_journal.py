from __future__ import annotations

import pytest

import aiozarr
from aiozarr.conversion.conversion_journal import JOURNAL_KEY, ConversionJournal, done_runs
from aiozarr.engine import Engine, run
from aiozarr.settings import Settings
from aiozarr.stores import MemoryStore


def test_done_tasks_are_stored_as_runs() -> None:
    assert done_runs(bytearray([0, 1, 1, 0, 1])) == [(1, 3), (4, 5)]
    assert done_runs(bytearray()) == []


async def test_a_journal_is_loaded_by_an_equal_conversion_and_refused_by_another() -> None:
    store = MemoryStore()

    async def check(engine: Engine) -> None:
        scheduled = engine.scheduled(store, Settings())
        journal = ConversionJournal(scheduled, "a", [3, 2])
        assert not await journal.load()
        await journal.add(0, 1)
        await journal.add(1, 0)
        await journal.save()
        again = ConversionJournal(scheduled, "a", [3, 2])
        assert await again.load()
        assert [list(flags) for flags in again.done] == [[0, 1, 0], [1, 0]]
        with pytest.raises(aiozarr.CopyError, match="other arguments"):
            await ConversionJournal(scheduled, "b", [3, 2]).load()
        await store.set(JOURNAL_KEY, b"[]")
        with pytest.raises(aiozarr.CopyError, match="other arguments"):
            await ConversionJournal(scheduled, "a", [3, 2]).load()

    await run(check)


async def test_the_journal_is_written_once_a_second_and_not_for_every_task() -> None:
    store = MemoryStore()

    async def check(engine: Engine) -> None:
        with aiozarr.record() as report:
            journal = ConversionJournal(engine.scheduled(store, Settings(), report), "a", [100])
            for task in range(100):
                await journal.add(0, task)
        assert report.requests <= 3

    await run(check)
