"""Sub-queues of the workers' queue are served in turn."""

from __future__ import annotations

import gc
import threading
import weakref

from aiozarr.engine.workers.fair_queue import FairQueue


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
