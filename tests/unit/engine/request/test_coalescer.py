"""Ranges that several readers want in one turn of the loop become common requests."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.engine import InlinePool
from aiozarr.engine.chunk_request import RangeCoalescer
from aiozarr.engine.fetch_request import FetchRequest
from aiozarr.engine.in_flight import ChunkSet, ChunksInFlight, Subscription
from aiozarr.engine.operation import MAX_PENDING_RANGES, Operation
from aiozarr.model import Range
from aiozarr.schedule.coalesce import MergeLimits
from aiozarr.schedule.executor import RequestExecutor
from aiozarr.settings import Settings
from aiozarr.testing.fakes import FakeStore
from tests.support.engine_samples import RAW

PIPELINE = CodecPipeline.resolve(RAW, ArraySpec((4,), np.dtype("<i4"), np.zeros((), "<i4")))
LIMITS = MergeLimits(gap=10)


class Caller(Operation):
    """A reader: its requests, and how often it is resumed."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            InlinePool(),
            RequestExecutor(),
            settings=Settings(**{"merge_gap_bytes": 10, **settings}),
            report=None,
            progress=None,
            total=1,
            bytes_total=1,
        )
        self.resumed = 0
        self.stores_without_versions = set()
        self.store = FakeStore()

    def resume(self) -> None:
        self.resumed += 1

    @property
    def requests(self) -> list[tuple[str, Range]]:
        return [(each.key, each.range) for each in self._ready if isinstance(each, FetchRequest)]  # type: ignore[misc]

    def next_request(self) -> None: ...
    def pending(self) -> int: ...  # type: ignore[empty-body]
    def abandon(self) -> None: ...
    def add_to_report(self) -> None: ...

    def wants(self, *starts: int) -> ChunkSet:
        subscriber: Any = SimpleNamespace(operation=self)
        projection: Any = SimpleNamespace(size=4)
        subscription = Subscription(subscriber, np.zeros(4, "<i4"), [projection] * len(starts))
        return ChunkSet(ChunksInFlight(), "k", PIPELINE, subscription, "k", starts, starts, [10] * len(starts))


def new_coalescer() -> RangeCoalescer:
    return RangeCoalescer()


def add(coalescer: RangeCoalescer, reader: Caller, *starts: int, key: str = "k") -> ChunkSet:
    chunk_set = reader.wants(*starts)
    coalescer.add(reader, reader.store, key, key, None, [chunk_set])
    return chunk_set


async def test_neighbours_of_two_readers_are_one_request_of_the_first_one() -> None:
    coalescer, first, second = new_coalescer(), Caller(), Caller()
    add(coalescer, first, 0)
    add(coalescer, second, 15)
    assert not coalescer.is_idle
    assert first.requests == []
    await asyncio.sleep(0)
    assert coalescer.is_idle
    assert first.requests == [("k", Range(0, 25))]
    assert second.requests == []
    assert (first.shared, second.shared) == (0, 1)


async def test_each_chunk_finds_its_bytes_in_the_merged_response() -> None:
    coalescer, reader = new_coalescer(), Caller()
    chunk_set = add(coalescer, reader, 20, 35)
    await asyncio.sleep(0)
    (delivery,) = chunk_set.deliveries
    numbers = delivery.numbers_of(chunk_set)
    assert delivery.bounds(chunk_set, numbers) == ([0, 15], [10, 25])


async def test_other_objects_and_other_settings_have_requests_of_their_own() -> None:
    coalescer, plain, patient = new_coalescer(), Caller(), Caller(retries=9)
    add(coalescer, plain, 0)
    add(coalescer, plain, 10, key="other")
    add(coalescer, patient, 10)
    await asyncio.sleep(0)
    assert plain.requests == [("k", Range(0, 10)), ("other", Range(10, 10))]
    assert patient.requests == [("k", Range(10, 10))]


async def test_a_range_whose_readers_have_left_is_not_fetched() -> None:
    coalescer, reader = new_coalescer(), Caller()
    left, _ = add(coalescer, reader, 0), add(coalescer, reader, 100)
    assert left.subscription is not None
    left.leave(left.subscription)
    await asyncio.sleep(0)
    assert reader.requests == [("k", Range(100, 10))]


async def test_a_reader_that_waited_for_its_ranges_is_resumed() -> None:
    coalescer, busy, other = new_coalescer(), Caller(), Caller()
    add(coalescer, busy, *[1000 * number for number in range(MAX_PENDING_RANGES)])
    assert busy.pending_ranges == MAX_PENDING_RANGES
    left = add(coalescer, other, 0, key="empty")
    assert left.subscription is not None
    left.leave(left.subscription)
    await asyncio.sleep(0)
    assert (busy.pending_ranges, busy.resumed) == (0, 1)
    assert other.resumed == 0
