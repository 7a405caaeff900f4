from __future__ import annotations

import json

import pytest

import aiozarr
from aiozarr.conversion.conversion_journal import JOURNAL_KEY, ConversionJournal, done_runs
from aiozarr.engine import Engine, run
from aiozarr.settings import Settings
from aiozarr.stores import MemoryStore
from aiozarr.transfer.journal import checksum_of


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

    await run(check)


@pytest.mark.parametrize(
    "done",
    [
        "[[0, 100000000000]]",
        "[[0, 1], [0, 1]]",
        "[[[0, 100000000000]]]",
        "[[[-5, -1]]]",
        "[[[0, 4]]]",
        '"done"',
        "null",
        "[[[0]]]",
    ],
)
async def test_a_damaged_journal_is_refused_with_advice(done: str) -> None:
    store = MemoryStore()

    async def check(engine: Engine) -> None:
        journal = ConversionJournal(engine.scheduled(store, Settings()), "a", [3])
        await journal.save()
        value = await store.get(JOURNAL_KEY)
        assert value is not None
        sound = bytes(value)
        foreign = json.dumps({"fingerprint": "a", "done": "RUNS"}).replace('"RUNS"', done).encode()
        checked = {"fingerprint": "a", "done": json.loads(done)}
        forged = json.dumps({**checked, "checksum": checksum_of(checked)}).encode()
        for damaged in (
            forged,
            sound.replace(b"[[]]", done.encode()),
            foreign,
            sound[:-9],
            b"[]",
            b"\xff",
            b"[" * 100_000,
        ):
            assert damaged != sound
            await store.set(JOURNAL_KEY, damaged)
            with pytest.raises(aiozarr.CopyError, match=r"conversion\.json.*is damaged.*overwrite=True"):
                await ConversionJournal(engine.scheduled(store, Settings()), "a", [3]).load()

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
