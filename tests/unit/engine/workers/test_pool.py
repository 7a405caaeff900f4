"""Worker threads: batches, errors, and calls whose cancellation waits for the function."""

from __future__ import annotations

import asyncio
import threading

import pytest

from aiozarr.engine.workers.worker_pool import BATCH_BYTES, MIN_BATCH_BYTES, ThreadPool, WorkItem, cut_batches


class Work(WorkItem):
    """Notes the threads that run and finish it, and raises `fault`."""

    def __init__(self, weight: int = 1, fault: BaseException | None = None) -> None:
        super().__init__(weight)
        self.fault = fault
        self.ran_in: str = ""
        self.done: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def run(self) -> None:
        self.ran_in = threading.current_thread().name
        if self.fault is not None:
            raise self.fault

    def finished(self) -> None:
        self.done.set_result(self.error)


async def test_work_runs_in_a_worker_and_is_finished_on_the_loop() -> None:
    pool = ThreadPool(asyncio.get_running_loop(), 2)
    works = [Work() for _ in range(10)]
    for work in works:
        pool.submit(work)
    assert [await work.done for work in works] == [None] * 10
    assert all(work.ran_in.startswith("aiozarr-worker") for work in works)
    pool.close()


async def test_an_error_of_one_item_is_its_own() -> None:
    pool, fault = ThreadPool(asyncio.get_running_loop(), 1), RuntimeError("mine")
    works = [Work(), Work(fault=fault), Work()]
    pool.submit_batch(works)
    assert [await work.done for work in works] == [None, fault, None]
    pool.close()


async def test_batches_are_about_a_mebibyte_and_smaller_if_threads_would_be_idle() -> None:
    def weights(count: int, weight: int, threads: int) -> list[int]:
        return [len(batch) for batch in cut_batches([Work(weight) for _ in range(count)], threads)]

    assert weights(8, BATCH_BYTES // 4, 1) == [4, 4]
    assert weights(4, BATCH_BYTES // 4, 4) == [1, 1, 1, 1]
    assert weights(4, MIN_BATCH_BYTES // 4, 4) == [4]
    assert weights(2, 3 * BATCH_BYTES, 1) == [1, 1]


async def test_a_call_returns_the_result_or_raises_the_error_of_its_function() -> None:
    pool = ThreadPool(asyncio.get_running_loop(), 1)
    assert (await pool.call(lambda: threading.current_thread().name)).startswith("aiozarr-worker")
    with pytest.raises(ZeroDivisionError):
        await pool.call(lambda: 1 // 0)
    pool.close()


async def test_a_cancelled_call_waits_until_its_function_has_returned() -> None:
    pool = ThreadPool(asyncio.get_running_loop(), 1)
    begun, release = threading.Event(), threading.Event()
    ended: list[bool] = []

    def work() -> None:
        begun.set()
        assert release.wait(60)
        ended.append(True)

    task = asyncio.ensure_future(pool.call(work))
    while not begun.is_set():
        await asyncio.sleep(0.001)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.001)
        assert not task.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [True]
    pool.close()
