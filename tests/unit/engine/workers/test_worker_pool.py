"""Worker threads: batches, errors, cancelled calls, and a queue whose sub-queues are served in turn."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Sequence

import pytest

from aiozarr.engine.worker_pool import (
    BATCH_BYTES,
    MIN_BATCH_BYTES,
    FairQueue,
    ThreadPool,
    WorkItem,
    cut_batches,
)


class Work(WorkItem):
    """Notes the threads that run and complete it, and raises `fault`."""

    def __init__(self, weight: int = 1, fault: BaseException | None = None) -> None:
        super().__init__(weight)
        self.fault = fault
        self.ran_in: str = ""
        self.done: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def run(self) -> None:
        self.ran_in = threading.current_thread().name
        if self.fault is not None:
            raise self.fault

    def work_completed(self) -> None:
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


async def test_a_batch_that_fails_as_such_ends_with_its_error_and_the_thread_goes_on() -> None:
    class Together(Work):
        def run_together(self, batch: Sequence[WorkItem], at: int) -> int:
            raise MemoryError

    pool = ThreadPool(asyncio.get_running_loop(), 1)
    works = [Work(), Together(), Work()]
    pool.submit_batch(works)
    assert [type(await work.done) for work in works] == [type(None), MemoryError, MemoryError]
    pool.submit(last := Work())
    assert await last.done is None
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


def taken(queue: FairQueue[str], count: int) -> str:
    return "".join([queue.get() or "" for _ in range(count)])


def test_within_a_sub_queue_it_is_first_in_first_out() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in "abc":
        queue.put(item)
    assert taken(queue, 3) == "abc"


def test_a_long_sub_queue_does_not_delay_the_others() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in "AAAAAA":
        queue.put(item, "long")
    for item in "bc":
        queue.put(item)
    queue.put("D", "third")
    assert taken(queue, 9) == "AbDAcAAAA"


def test_a_sub_queue_that_was_empty_goes_to_the_end() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.put("a", 1)
    assert taken(queue, 1) == "a"
    queue.put("b", 2)
    queue.put("c", 1)
    assert taken(queue, 2) == "bc"


def test_a_thread_stops_after_all_items_are_taken() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.put("a")
    queue.stop_one()
    assert queue.get() == "a"
    assert queue.get() is None


def test_an_empty_sub_queue_does_not_keep_its_key_alive() -> None:
    class Name:
        pass

    queue: FairQueue[str] = FairQueue()
    name = Name()
    dead = weakref.ref(name)
    queue.put("a", name)
    del name
    assert queue.get() == "a"
    gc.collect()
    assert dead() is None


def test_threads_get_each_item_once() -> None:
    queue: FairQueue[int] = FairQueue()
    got: list[list[int]] = [[] for _ in range(4)]

    def take(mine: list[int]) -> None:
        while (item := queue.get()) is not None:
            mine.append(item)

    threads = [threading.Thread(target=take, args=(mine,)) for mine in got]
    for thread in threads:
        thread.start()
    for number in range(1000):
        queue.put(number, number % 7)
    for _ in threads:
        queue.stop_one()
    for thread in threads:
        thread.join()
    assert sorted(item for mine in got for item in mine) == list(range(1000))
