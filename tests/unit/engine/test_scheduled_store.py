"""Operations on single keys: retried, bounded, cancelled and counted like all other requests."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from aiozarr.errors import LimitError, PreconditionFailedError, StoreError
from aiozarr.model import IfAbsent, Range
from aiozarr.schedule.events import Report
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import LoseResponse, first, nth
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import SETTINGS, engine


@in_virtual_time
async def test_a_temporary_failure_is_retried_and_counted() -> None:
    store, one, report = FakeStore(), engine(), Report()
    store.memory.set_now("k", b"value")
    store.faults = first(2, StoreError("busy", retryable=True))
    value = await one.scheduled(store, SETTINGS, report).fetch("k")
    assert value is not None
    assert bytes(value.data) == b"value"
    assert (report.requests, report.retries) == (3, 2)
    assert one.idle()


@in_virtual_time
async def test_no_more_than_one_byte_beyond_the_limit_is_fetched() -> None:
    store, one = FakeStore(), engine()
    store.memory.set_now("k", bytes(100))
    with pytest.raises(LimitError) as caught:
        await one.scheduled(store, SETTINGS).fetch("k", max_bytes=10)
    assert (caught.value.value, caught.value.allowed) == (100, 10)
    assert store.log() == [("k", None)]  # the store bounds the read itself

    plain = FakeStore(supports=replace(store.supports, bounded_reads=False))
    plain.memory.set_now("k", bytes(100))
    with pytest.raises(LimitError):
        await one.scheduled(plain, SETTINGS).fetch("k", max_bytes=10)
    assert plain.log() == [("k", Range(0, 11))]


@in_virtual_time
async def test_a_write_whose_response_was_lost_succeeds_if_its_bytes_are_stored() -> None:
    store, one = FakeStore(), engine()
    store.faults = nth(1, LoseResponse(StoreError("reset", retryable=True)))
    version = await one.scheduled(store, SETTINGS).set("k", b"mine", precondition=IfAbsent())
    found = store.memory.fetch_now("k")
    assert found is not None
    assert (bytes(found.data), found.version) == (b"mine", version)
    with pytest.raises(PreconditionFailedError):
        await one.scheduled(store, SETTINGS).set("k", b"mine", precondition=IfAbsent())
    assert one.idle()


@in_virtual_time
async def test_a_cancelled_operation_leaves_nothing_in_flight_whether_it_was_sent_or_waits() -> None:
    store, one = FakeStore(latency=1.0), engine()
    scheduled = one.scheduled(store, replace(SETTINGS, max_requests=1))
    sent, waiting = [asyncio.ensure_future(scheduled.stat(key)) for key in ("a", "b")]
    await asyncio.sleep(0.5)
    assert not one.idle()
    for task in (waiting, sent):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert one.idle()
    assert store.count == 1
