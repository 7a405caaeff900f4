"""Blocking stores: their coroutines run the blocking methods in threads, and cancellations leave nothing behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from aiozarr.stores.blocking import in_thread, in_thread_uncancelled, iterate_in_thread


class Gate:
    """A blocking call that waits until the test lets it go."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.released = threading.Event()
        self.ended = threading.Event()

    def __call__(self) -> int:
        self.begun.set()
        assert self.released.wait(60)
        self.ended.set()
        return threading.get_ident()

    async def until_begun(self) -> None:
        while not self.begun.is_set():
            await asyncio.sleep(0.001)


async def test_a_call_runs_in_another_thread_and_the_loop_goes_on() -> None:
    gate = Gate()
    task = asyncio.ensure_future(in_thread(gate))
    await gate.until_begun()
    gate.released.set()
    assert await task != threading.get_ident()


async def test_a_cancelled_read_does_not_wait_for_its_call() -> None:
    gate = Gate()
    task = asyncio.ensure_future(in_thread(gate))
    await gate.until_begun()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not gate.ended.is_set()
    gate.released.set()


async def test_a_cancelled_write_waits_for_its_call() -> None:
    gate = Gate()
    task = asyncio.ensure_future(in_thread_uncancelled(gate))
    await gate.until_begun()
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.001)
        assert not task.done()
    gate.released.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.ended.is_set()


async def test_a_generator_is_iterated_in_threads_and_closed_when_it_is_left_early() -> None:
    closed: list[bool] = []
    threads: set[int] = set()

    def batches() -> Iterator[int]:
        try:
            for number in range(10):
                threads.add(threading.get_ident())
                yield number
        finally:
            closed.append(True)

    assert [number async for number in iterate_in_thread(batches())] == list(range(10))
    items = iterate_in_thread(batches())
    assert await anext(items) == 0
    await items.aclose()
    assert closed == [True, True]
    assert threading.get_ident() not in threads
