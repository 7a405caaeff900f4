"""Requests to blocking stores that fail: their retries wait on the loop, side by side; in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from typing_extensions import Buffer

from aiozarr.engine import Engine
from aiozarr.errors import StoreError
from aiozarr.model import ByteRange, Precondition, Value, Version
from aiozarr.stores import MemoryStore
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import SETTINGS, Sample, engine, layout_of, read_all

CHUNKS = 16
RETRYING = replace(SETTINGS, retries=5, retry_seconds=20.0)
# Five pauses of at most 0.1, 0.2, 0.4, 0.8 and 1.6 seconds.
LONGEST_RETRY = 3.1


class FailingStore(MemoryStore):
    """Refuses the next `failures` requests for a reason that may pass."""

    is_in_memory = False

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0
        self.asked = 0

    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        self._fail(key)
        return super().set_now(key, value, precondition=precondition)

    def fetch_now(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        self._fail(key)
        return super().fetch_now(key, range, if_match=if_match, max_bytes=max_bytes)

    def _fail(self, key: str) -> None:
        self.asked += 1
        if self.failures:
            self.failures -= 1
            raise StoreError("too many open files", key=key, retryable=True)


def failing_array(failures: int) -> tuple[Sample, FailingStore, Engine]:
    store = FailingStore()
    store.failures = failures
    return Sample(layout_of((CHUNKS,), (1,)), store), store, engine()


@in_virtual_time
async def test_a_lasting_fault_of_many_chunks_ends_a_write_after_the_retries_of_one() -> None:
    array, store, writer = failing_array(10**9)
    with pytest.raises(StoreError, match="too many open files") as raised:
        await writer.write(array.write(array.values), settings=RETRYING)
    assert raised.value.attempts == 6
    assert asyncio.get_running_loop().time() <= LONGEST_RETRY
    assert [entry async for entry in store.scan()] == []
    assert writer.idle()


@in_virtual_time
async def test_a_lasting_fault_ends_a_read_and_a_partial_write_after_the_retries_of_one() -> None:
    array, store, caller = failing_array(0)
    pairs = Sample(layout_of((2 * CHUNKS,), (2,)), store)
    store.failures = 10**9
    for work in (read_all(caller, array), caller.write(pairs.write(1, slice(None, None, 2)), settings=RETRYING)):
        started = asyncio.get_running_loop().time()
        with pytest.raises(StoreError, match="too many open files"):
            await work
        assert asyncio.get_running_loop().time() - started <= LONGEST_RETRY
    assert caller.idle()


@pytest.mark.parametrize("seconds", [0.0, 0.04, 1.0])
@in_virtual_time
async def test_a_cancellation_ends_the_pause_between_two_attempts(seconds: float) -> None:
    array, store, writer = failing_array(10**9)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await writer.write(array.write(array.values), settings=RETRYING)
    assert asyncio.get_running_loop().time() == seconds
    asked = store.asked
    await asyncio.sleep(60)
    assert store.asked == asked
    assert writer.idle()


@in_virtual_time
async def test_a_fault_that_passes_is_not_seen_by_the_caller() -> None:
    array, _, writer = failing_array(3 * CHUNKS)
    await writer.write(array.write(array.values), settings=RETRYING)
    assert np.array_equal(await read_all(writer, array), array.values)
    assert writer.idle()


@in_virtual_time
async def test_a_write_in_need_of_retries_does_not_delay_those_of_other_stores() -> None:
    array, _, writer = failing_array(10**9)
    other, _, _ = failing_array(0)
    stuck = asyncio.create_task(writer.write(array.write(array.values), settings=RETRYING))
    await asyncio.sleep(0.01)
    await writer.write(other.write(other.values), settings=RETRYING)
    assert asyncio.get_running_loop().time() == 0.01
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
