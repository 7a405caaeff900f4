"""Calls of several tasks run in one thread, each with its own outcome."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.engine.private_thread import io_thread
from aiozarr.hierarchy.changes import Removal, changes_of
from aiozarr.stores import LocalStore, blocking
from aiozarr.stores.blocking import MAX_THREADS, MIN_CALLS, CallBatches, start_in_thread


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The batches that were handed to threads."""
    seen: list[object] = []

    def start(call: Any) -> Any:
        if getattr(call, "func", None) is blocking._run:
            seen.append(call)
        return start_in_thread(call)

    monkeypatch.setattr(blocking, "start_in_thread", start)
    return seen


async def test_the_calls_of_tasks_and_of_the_tasks_that_they_start_share_a_thread(jobs: list[object]) -> None:
    batches, threads = CallBatches(), set()

    async def nested() -> list[str]:
        return await asyncio.gather(*map(call, "cd"))

    async def call(name: str) -> str:
        return await batches.start(lambda: note(name))

    def note(name: str) -> str:
        threads.add(threading.get_ident())
        return name

    found = await asyncio.gather(call("a"), call("b"), nested())
    assert found == ["a", "b", ["c", "d"]]
    assert len(jobs) == len(threads) == 1
    assert threading.get_ident() not in threads


async def test_many_calls_are_divided_among_a_few_threads(jobs: list[object]) -> None:
    batches, count = CallBatches(), 3 * MAX_THREADS * MIN_CALLS
    found = await asyncio.gather(*[batches.start(lambda each=each: each) for each in range(count)])
    assert found == list(range(count))
    assert len(jobs) == MAX_THREADS


async def test_one_error_is_that_of_its_call_alone() -> None:
    batches = CallBatches()

    def fail() -> int:
        raise KeyError("this one")

    good, bad = await asyncio.gather(batches.start(lambda: 1), batches.start(fail), return_exceptions=True)
    assert good == 1
    assert isinstance(bad, KeyError)


async def test_a_cancelled_call_leaves_the_others() -> None:
    batches, begun, go_on = CallBatches(), threading.Event(), threading.Event()

    def wait() -> int:
        begun.set()
        go_on.wait(10)
        return 1

    cancelled, other = batches.start(wait), batches.start(lambda: 2)
    await asyncio.to_thread(begun.wait, 10)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    go_on.set()
    assert await other == 2


async def test_a_created_node_takes_one_thread_call_for_all_that_it_looks_at_and_one_for_its_document(
    tmp_path: Path, jobs: list[object]
) -> None:
    group = await aiozarr.create_group(tmp_path / "a" / "b")
    await group.create_array("warm", shape=2, dtype="u1")
    jobs.clear()
    await group.create_array("x", shape=2, dtype="u1")
    assert len(jobs) == 2


async def test_a_node_on_the_disk_is_updated_by_one_thread_call(tmp_path: Path, jobs: list[object]) -> None:
    array = await aiozarr.create_array(tmp_path / "a" / "b", shape=2, dtype="u1")
    engine = io_thread().engine
    assert engine is not None
    removals = changes_of(engine).removals
    changes_of(engine).add_removal("of another hierarchy", Removal(None, frozenset()))
    jobs.clear()
    await array.update_attributes({"a": 1})
    del removals["of another hierarchy"]
    assert len(jobs) == 1


async def test_reads_that_are_counted_are_requests(tmp_path: Path, jobs: list[object]) -> None:
    await aiozarr.create_array(tmp_path / "a", shape=2, dtype="u1")
    jobs.clear()
    with aiozarr.record() as report:
        await aiozarr.open_array(tmp_path / "a")
    assert report.requests >= 1
    assert not jobs


async def test_a_store_with_a_fetch_of_its_own_is_asked(tmp_path: Path, jobs: list[object]) -> None:
    class Counting(LocalStore):
        fetched = 0

        async def fetch(self, *args: Any, **keywords: Any) -> Any:
            type(self).fetched += 1
            return await super().fetch(*args, **keywords)

    await aiozarr.create_array(tmp_path / "a", shape=2, dtype="u1")
    jobs.clear()
    await aiozarr.open_array(Counting(tmp_path), "a")
    assert Counting.fetched >= 1
    assert not jobs
