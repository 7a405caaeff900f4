"""A trace store reports each operation once, after its end, and changes nothing."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

from aiozarr.errors import InvalidKeyError, PreconditionFailedError, StoreError
from aiozarr.model import IfAbsent, Range
from aiozarr.stores import MemoryStore, StoreEvent, TraceStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import on_operation
from aiozarr.testing.virtual_time import run_virtual


@dataclass
class Log:
    events: list[StoreEvent] = field(default_factory=list)

    def __call__(self, event: StoreEvent) -> None:
        self.events.append(event)

    @property
    def last(self) -> StoreEvent:
        return self.events[-1]


async def test_an_event_has_the_request_and_the_transferred_bytes() -> None:
    log = Log()
    store = TraceStore(MemoryStore.named("traced"), log)
    await store.set("a/k", b"12345")
    assert (log.last.operation, log.last.key, log.last.bytes, log.last.error) == ("set", "a/k", 5, None)
    assert log.last.store == "memory://traced"
    await store.fetch("a/k", Range(1, 3))
    assert (log.last.operation, log.last.range, log.last.bytes) == ("fetch", Range(1, 3), 3)
    await store.get("a/k")
    assert (log.last.operation, log.last.bytes) == ("get", 5)
    await store.get("missing")
    assert (log.last.key, log.last.bytes) == ("missing", 0)
    await store.get_partial_values([("a/k", (0, 2)), ("a/k", (4, None)), ("no", (0, 1))])
    assert (log.last.operation, log.last.key, log.last.bytes) == ("get_partial_values", None, 3)
    await store.set_partial_values([("a/k", 0, b"xy"), ("b", 0, b"z")])
    assert (log.last.operation, log.last.bytes) == ("set_partial_values", 3)
    await store.list_dir("a/")
    assert (log.last.operation, log.last.key, log.last.entries) == ("list_dir", "a/", 1)
    assert [log.last.entries for _ in [await store.list()]] == [2]
    await store.erase_prefix("")
    assert (log.last.operation, log.last.key, log.last.entries) == ("erase_prefix", "", None)
    assert len(log.events) == 9


async def test_a_listing_is_one_event_when_it_has_ended_also_early() -> None:
    log = Log()
    store = TraceStore(FakeStore({f"k{number}": b"" for number in range(25)}, latency=0, page_size=10), log)
    assert len([entry async for entry in store.scan()]) == 25
    assert [(event.operation, event.entries, event.error) for event in log.events] == [("scan", 25, None)]
    entries: Any = store.scan()
    await anext(entries)
    await anext(entries)
    assert len(log.events) == 1
    await entries.aclose()
    assert (log.last.entries, log.last.error) == (2, None)
    with pytest.raises(InvalidKeyError):
        await anext(aiter(store.scan("no prefix")))
    assert (log.last.entries, log.last.error) == (0, InvalidKeyError)


async def test_events_have_the_type_of_an_error_which_is_raised_unchanged() -> None:
    log = Log()
    wrong = StoreError("no")
    store = TraceStore(FakeStore({"k": b"1"}, latency=0, faults=on_operation("fetch", wrong)), log)
    with pytest.raises(StoreError, match="no"):
        await store.fetch("k")
    assert (log.last.error, log.last.bytes) == (StoreError, 0)
    with pytest.raises(PreconditionFailedError):
        await store.set("k", b"123", precondition=IfAbsent())
    assert (log.last.error, log.last.bytes) == (PreconditionFailedError, 0)


def test_events_use_loop_time_and_include_cancelled_operations() -> None:
    log = Log()

    async def main() -> None:
        store = TraceStore(FakeStore({"k": b"1"}, latency=5), log)
        await asyncio.sleep(1)
        await store.get("k")
        task = asyncio.create_task(store.fetch("k"))
        await asyncio.sleep(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(main())
    assert [(event.started, event.seconds, event.error) for event in log.events] == [
        (1, 5, None),
        (6, 2, asyncio.CancelledError),
    ]


async def test_errors_of_on_event_are_logged_only(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: StoreEvent) -> None:
        raise RuntimeError("a mistake")

    store = TraceStore(MemoryStore(), fail)
    with caplog.at_level(logging.ERROR, "aiozarr"):
        await store.set("k", b"1")
        assert bytes(await store.get("k") or b"") == b"1"
        assert [entry.key async for entry in store.scan()] == ["k"]
    assert [record.message for record in caplog.records] == ["TraceStore: on_event raised"] * 3


def test_an_on_event_that_is_not_callable_is_refused_without_showing_it() -> None:
    with pytest.raises(TypeError, match="on_event"):
        TraceStore(MemoryStore(), "print")  # type: ignore[arg-type]  # the mistake under test

    class Secret:
        def __call__(self, event: StoreEvent) -> None: ...

        def __repr__(self) -> str:
            return "password"

    assert "password" not in repr(TraceStore(MemoryStore(), Secret()))
