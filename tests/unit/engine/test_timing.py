"""What observers are told: waiting, requests and decoding add up; and where nobody observes, nothing is noted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aiozarr.engine import blocking_read, scheduled_store, timing
from aiozarr.engine import engine as engines
from aiozarr.engine.blocking_queue import BlockingQueue
from aiozarr.errors import StoreError
from aiozarr.schedule.events import Event, Report
from aiozarr.schedule.executor import RequestExecutor
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import first
from aiozarr.testing.virtual_time import in_virtual_time, run_virtual
from tests.support.engine_samples import SETTINGS, Sample, engine, layout_of, sample


@in_virtual_time
async def test_requests_wait_from_the_beginning_of_their_read_and_are_timed_one_by_one() -> None:
    array, _, reader = await sample((4, 4), (1, 4), latency=1.0)
    events: list[Event] = []
    report = Report()
    settings = replace(SETTINGS, max_requests=2, on_event=events.append)
    await asyncio.sleep(10)
    await reader.read([array.read(...)], settings=settings, report=report)
    assert [(event.started, event.queue_seconds, event.seconds) for event in events] == [
        (10, 0, 1),
        (10, 0, 1),
        (11, 1, 1),
        (11, 1, 1),
    ]
    assert (report.queue_seconds, report.request_seconds, report.requests) == (2, 4, 4)


@in_virtual_time
async def test_requests_of_the_second_round_wait_from_the_answer_of_the_first() -> None:
    array, _, reader = await sample((4, 64), (4, 64), inner=(1, 64), latency=1.0)
    events: list[Event] = []
    settings = replace(SETTINGS, max_requests=1, on_event=events.append)
    # Apart, so that they are not merged; the shard is too large to be fetched whole.
    await reader.read([array.read(slice(None, None, 2))], settings=replace(settings, max_over_read=1.0))
    index, *data = events
    assert (index.started, index.queue_seconds, index.chunks) == (0, 0, 0)
    assert [(event.queue_seconds, event.chunks) for event in data] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("inner", [None, (2, 4)])
@pytest.mark.parametrize("kind", [FakeStore, MemoryStore])
@in_virtual_time
async def test_the_events_of_a_write_and_a_read_add_up_to_the_report(
    kind: type[Any], inner: tuple[int, int] | None
) -> None:
    store = kind()
    array = Sample(layout_of((8, 8), (4, 8), inner=inner), store)
    events: list[Event] = []
    report = Report()
    settings = replace(SETTINGS, on_event=events.append)
    worker = engine()
    await worker.write(array.write(array.values), settings=settings, report=report)
    await worker.write(array.write(5, 1, slice(2, 6)), settings=settings, report=report)
    written = len(events)
    await worker.read([array.read(...)], settings=settings, report=report)
    same_sums(report, events)
    assert sum(event.chunks for event in events[written:]) == (2 if inner is None else 8)
    for event in events[written:]:
        if event.chunks:
            assert 0 < event.decode_started <= event.decode_ended
            assert event.decode_seconds <= event.decode_ended - event.decode_started + 1e-9
    assert report.decode_seconds > 0
    assert report.encode_seconds > 0
    assert list(report.origins) == [store.url]


def same_sums(report: Report, events: list[Event]) -> None:
    """The sums of the events are those of the report."""
    assert report.requests == sum(event.attempts for event in events)
    assert report.bytes_fetched == sum(event.bytes_fetched for event in events)
    assert report.bytes_wanted == sum(event.bytes_wanted for event in events)
    assert report.over_read == sum(event.over_read for event in events)
    assert report.bytes_written == sum(event.bytes_written for event in events)
    for name in ("queue_seconds", "decode_seconds", "encode_seconds"):
        assert getattr(report, name) == pytest.approx(sum(getattr(event, name) for event in events))
    assert report.request_seconds == pytest.approx(sum(event.seconds for event in events))


@in_virtual_time
async def test_filled_chunks_count_as_decoding_without_a_request() -> None:
    array = Sample(layout_of((8, 8), (8, 8), inner=(4, 8)), FakeStore())
    worker = engine()
    await worker.write(array.write(1, slice(0, 4)), settings=SETTINGS)
    report = Report()
    read = array.read(slice(4, 8))
    await worker.read([read], settings=SETTINGS, report=report)
    assert not read.out.any()
    assert report.decode_seconds > 0


@in_virtual_time
async def test_a_request_that_is_repeated_counts_its_repetitions_and_the_time_of_all_tries() -> None:
    array, store, reader = await sample((2, 4), (2, 4), latency=1.0)
    store.faults = first(2, StoreError("busy", retryable=True))
    events: list[Event] = []
    report = Report()
    await reader.read([array.read(...)], settings=replace(SETTINGS, on_event=events.append), report=report)
    assert (report.requests, report.retries) == (3, 2)
    (event,) = events
    assert event.attempts == 3
    assert event.seconds > 3
    assert report.request_seconds == event.seconds


@in_virtual_time
async def test_a_failed_read_reports_its_requests() -> None:
    array, store, reader = await sample((4, 4), (1, 4), latency=1.0)
    await store.memory.set("a/c/3/0", b"short")
    report = Report()
    events: list[Event] = []
    settings = replace(SETTINGS, on_event=events.append)
    with pytest.raises(Exception, match="a/c/3/0"):
        await reader.read([array.read(...)], settings=settings, report=report)
    same_sums(report, events)
    assert (report.requests, report.bytes_fetched) == (4, 3 * 16 + 5)
    assert report.decode_seconds > 0


@in_virtual_time
async def test_a_cancelled_read_reports_its_requests_and_the_cancelled_ones() -> None:
    array, _, reader = await sample((8, 4), (1, 4), latency=1.0)
    report = Report()
    events: list[Event] = []
    settings = replace(SETTINGS, max_requests=2, on_event=events.append)
    task = asyncio.ensure_future(reader.read([array.read(...)], settings=settings, report=report))
    await asyncio.sleep(1.5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    same_sums(report, events)
    assert [(event.seconds, type(event.error)) for event in events] == [
        (1, type(None)),
        (1, type(None)),
        (0.5, asyncio.CancelledError),
        (0.5, asyncio.CancelledError),
    ]
    assert (report.requests, report.bytes_fetched, report.seconds > 0) == (4, 32, True)


@in_virtual_time
async def test_a_chunk_that_two_readers_share_counts_for_the_one_whose_request_brings_it() -> None:
    array, _, reader = await sample((4, 4), (4, 4), latency=1.0)
    mine, yours = Report(), Report()
    await asyncio.gather(
        reader.read([array.read(0)], settings=SETTINGS, report=mine),
        reader.read([array.read(1)], settings=SETTINGS, report=yours),
    )
    assert (mine.requests, mine.shared, yours.requests, yours.shared) == (1, 0, 0, 1)
    assert mine.decode_seconds > 0
    assert yours.decode_seconds == 0


@in_virtual_time
async def test_a_request_that_outlives_its_cancelled_reader_is_reported_to_it_and_serves_the_other() -> None:
    array, _, reader = await sample((4, 4), (4, 4), latency=1.0)
    mine, yours = Report(), Report()
    other = array.read(1)
    first_reader = asyncio.ensure_future(reader.read([array.read(0)], settings=SETTINGS, report=mine))
    second = asyncio.ensure_future(reader.read([other], settings=SETTINGS, report=yours))
    await asyncio.sleep(0.5)
    first_reader.cancel()
    await second
    assert np.array_equal(other.out, array.values[1])
    assert (mine.requests, yours.requests, mine.bytes_fetched) == (1, 0, 64)


# --- off -------------------------------------------------------------------------------------------------------------


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whatever observation needs raise: its records, its sums, its clocks."""

    def noted(*_: Any, **__: Any) -> Any:
        raise AssertionError("something was noted")

    for name in ("RequestTiming", "RequestEvent", "Totals"):
        monkeypatch.setattr(getattr(timing, name), "__init__", noted)
    for module in (timing, blocking_read, engines, scheduled_store):
        monkeypatch.setattr(module, "monotonic", noted)
    monkeypatch.setattr(RequestExecutor, "now", noted)
    monkeypatch.setattr(BlockingQueue, "now", noted)


async def write_and_read(store: Any, inner: tuple[int, int] | None, **observers: Any) -> None:
    array = Sample(layout_of((8, 8), (4, 8), inner=inner), store)
    worker = engine()
    settings = replace(SETTINGS, on_event=observers.get("on_event"))
    report = observers.get("report")
    await worker.write(array.write(array.values), settings=settings, report=report)
    await worker.write(array.write(5, 1, slice(2, 6)), settings=settings, report=report)
    await worker.write(array.write(0, slice(0, 2)), settings=settings, report=report)
    await worker.read([array.read(...)], settings=settings, report=report)
    access = worker.scheduled(store, settings, report)
    assert await access.fetch("nothing") is None
    assert [entry.key async for entry in access.scan()]


@pytest.mark.parametrize("inner", [None, (2, 8)])
@pytest.mark.parametrize("kind", [FakeStore, MemoryStore])
def test_without_an_observer_nothing_is_recorded_and_no_clock_is_read(
    kind: Callable[[], Any], inner: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid(monkeypatch)
    run_virtual(write_and_read(kind(), inner))


@pytest.mark.parametrize("observers", [{"report": Report()}, {"on_event": print}])
def test_the_test_above_would_notice(observers: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    forbid(monkeypatch)
    scenario: Coroutine[Any, Any, None] = write_and_read(MemoryStore(), None, **observers)
    with pytest.raises(AssertionError, match="something was noted"):
        run_virtual(scenario)


@pytest.mark.parametrize("inner", [None, (2, 4)])
@pytest.mark.parametrize("kind", [FakeStore, MemoryStore])
@in_virtual_time
async def test_the_report_of_a_write_agrees_with_its_events(kind: type[Any], inner: tuple[int, int] | None) -> None:
    array = Sample(layout_of((4, 4), (4, 4), inner=inner), kind())
    events: list[Event] = []
    report = Report()
    settings = replace(SETTINGS, on_event=events.append)
    worker = engine()
    await worker.write(array.write(0, 1), settings=settings, report=report)  # nothing is there, nor comes there
    await worker.write(array.write(1, ...), settings=settings, report=report)
    await worker.write(array.write(0, ...), settings=settings, report=report)
    assert [event.operation for event in events] == ["fetch", "set", "erase"]
    same_sums(report, events)


class Refusing(MemoryStore):
    """Refuses every read."""

    def fetch_now(self, key: str, *args: Any, **keywords: Any) -> Any:
        raise StoreError("no", key=key)


@pytest.mark.parametrize("inner", [None, (2, 4)])
@in_virtual_time
async def test_a_refused_read_before_a_write_counts_in_blocking_stores_too(
    inner: tuple[int, int] | None,
) -> None:
    array = Sample(layout_of((4, 4), (4, 4), inner=inner), Refusing())
    events: list[Event] = []
    report = Report()
    settings = replace(SETTINGS, on_event=events.append)
    with pytest.raises(StoreError):
        await engine().write(array.write(1, 1), settings=settings, report=report)
    same_sums(report, events)
    assert report.requests == 1
    assert type(events[0].error) is StoreError


@in_virtual_time
async def test_each_request_of_a_group_commit_is_reported_once() -> None:
    array, store, writer = await sample((8, 8), (8, 8), latency=1.0)
    events: list[Event] = []
    report = Report()
    settings = replace(SETTINGS, on_event=events.append)
    await asyncio.gather(*(writer.write(array.write(0, row), settings=settings, report=report) for row in range(8)))
    same_sums(report, events)
    assert report.requests == store.count == 4
    assert report.chunks == 8
    assert all(event.encode_seconds > 0 for event in events if event.operation == "set")
