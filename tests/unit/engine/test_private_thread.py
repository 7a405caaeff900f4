"""Calls from other threads: one wake-up of the loop per burst, and no call is lost."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from aiozarr.engine.private_thread import Mailbox, mailbox_of


async def test_a_burst_of_calls_wakes_the_loop_once_and_runs_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    wakes: list[Any] = []
    wake = loop.call_soon_threadsafe

    def counted(function: Callable[[], None]) -> object:
        wakes.append(function)
        return wake(function)

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    mailbox, called = Mailbox(loop), []
    for number in range(100):
        assert mailbox.post(lambda number=number: called.append(number))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert called == list(range(100))
    assert len(wakes) == 1
    mailbox.post(lambda: called.append(-1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert called[-1] == -1
    assert len(wakes) == 2


async def test_calls_of_many_threads_all_run_on_the_loop() -> None:
    mailbox, called = mailbox_of(asyncio.get_running_loop()), []
    done = asyncio.Event()

    def note() -> None:
        called.append(threading.get_ident())
        if len(called) == 400:
            done.set()

    threads = [threading.Thread(target=lambda: [mailbox.post(note) for _ in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    async with asyncio.timeout(30):
        await done.wait()
    for thread in threads:
        thread.join()
    assert set(called) == {threading.get_ident()}


async def test_an_error_of_one_call_is_reported_and_the_others_run() -> None:
    loop = asyncio.get_running_loop()
    reported: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))
    mailbox, called = Mailbox(loop), []

    def fail() -> None:
        raise RuntimeError("mine")

    mailbox.post(fail)
    mailbox.post(lambda: called.append(None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert called == [None]
    assert [str(context["exception"]) for context in reported] == ["mine"]


def test_a_closed_loop_takes_no_calls() -> None:
    loop = asyncio.new_event_loop()
    mailbox = Mailbox(loop)
    loop.close()
    assert not mailbox.post(lambda: None)


async def test_a_loop_has_one_mailbox() -> None:
    loop = asyncio.get_running_loop()
    assert mailbox_of(loop) is mailbox_of(loop)


def test_a_loop_that_is_closed_while_calls_wait_for_it_is_collected() -> None:
    def close_with_a_waiting_call() -> weakref.ref[asyncio.AbstractEventLoop]:
        loop = asyncio.new_event_loop()
        future = loop.create_future()
        mailbox_of(loop).post(lambda: future.set_result(None))
        loop.close()
        return weakref.ref(loop)

    closed_loop = close_with_a_waiting_call()
    other = asyncio.new_event_loop()
    mailbox_of(other)
    gc.collect()
    assert closed_loop() is None
    other.close()
