from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.conversion.conversion_journal import FOLDER, JOURNAL_KEY
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore

VALUES = np.arange(64.0)


async def source() -> MemoryStore:
    store = MemoryStore()
    await aiozarr.create_array(store, data=VALUES, chunks=4)
    return store


class CountingExecutor(Executor):
    """Runs a task when it is submitted, and counts those that were submitted and not yet taken."""

    def __init__(self, fail_at: int = 1000) -> None:
        self.submitted = 0
        self.fail_at = fail_at
        self._max_workers = 2

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1
        future: Future[Any] = Future()
        if self.submitted == self.fail_at:
            future.set_exception(KeyError("killed worker"))
        else:
            future.set_result(function(*args, **kwargs))
        return future


async def test_documents_are_staged_before_chunks_and_stored_after_them() -> None:
    result = FakeStore(latency=0)
    await aiozarr.convert(await source(), result, chunks=8, max_memory=100)
    keys = [key for key, _ in result.log("set") if key != JOURNAL_KEY]
    assert keys[0].startswith(f"{FOLDER}/")
    assert keys[-1] == "zarr.json"
    assert all(key.startswith("c/") for key in keys[1:-1])


async def test_a_task_that_an_executor_loses_is_done_by_the_next_run() -> None:
    result, executor = MemoryStore(), CountingExecutor(fail_at=5)
    options: dict[str, Any] = {"chunks": 4, "max_memory": 100}
    store = await source()
    with pytest.raises(aiozarr.CopyError, match="killed worker"):
        await aiozarr.convert(store, result, **options, executor=executor)
    again = CountingExecutor()
    report = await aiozarr.convert(store, result, **options, executor=again, resume=True)
    assert report.skipped >= 1
    assert again.submitted == report.tasks
    assert np.array_equal(await (await aiozarr.open_array(result))[...], VALUES)


async def test_requests_inside_record_count_those_of_tasks() -> None:
    with aiozarr.record() as recorded:
        report = await aiozarr.convert(await source(), MemoryStore(), chunks=8)
    assert recorded.requests > report.requests == 0  # no network was used
    assert report.bytes == VALUES.nbytes
