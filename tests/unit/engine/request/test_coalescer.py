"""Ranges that several readers want in one turn of the loop become common requests."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.engine.request.chunk_batch import WantedRange
from aiozarr.engine.request.coalescer import RangeCoalescer
from aiozarr.engine.request.in_flight import MAX_PENDING_RANGES, InFlightChunk, InFlightChunks, Subscription
from aiozarr.model import Range
from aiozarr.schedule.coalesce import MergeLimits
from aiozarr.settings import Settings
from tests.support.engine_samples import RAW

PIPELINE = CodecPipeline.resolve(RAW, ArraySpec((4,), np.dtype("<i4"), np.zeros((), "<i4")))
LIMITS = MergeLimits(gap=10)


class Operation:
    """A reader: its requests, and how often it is resumed."""

    def __init__(self, **settings: Any) -> None:
        self.settings = Settings(**settings)
        self.pending_ranges = self.shared = self.resumed = 0
        self.requests: list[tuple[str, Range, int]] = []

    def resume(self) -> None:
        self.resumed += 1

    def enqueue_chunks(
        self, store: object, key: str, part: Range, chunks: list[InFlightChunk], cost: int, version: object
    ) -> None:
        self.requests.append((key, part, len(chunks)))

    def wants(self, start: int, length: int = 10) -> WantedRange:
        subscriber: Any = SimpleNamespace(operation=self)
        projection: Any = SimpleNamespace(size=4)
        subscription = Subscription(subscriber, np.zeros(4, "<i4"), projection)
        return WantedRange(InFlightChunk(InFlightChunks(), start, PIPELINE, subscription), start, length)


def add(coalescer: RangeCoalescer, reader: Operation, *starts: int, key: str = "k") -> list[WantedRange]:
    wanted = [reader.wants(start) for start in starts]
    operation: Any = reader
    store: Any = None
    coalescer.add(operation, store, key, key, None, LIMITS, wanted)
    return wanted


async def test_neighbours_of_two_readers_are_one_request_of_the_first_one() -> None:
    coalescer, first, second = RangeCoalescer(), Operation(), Operation()
    add(coalescer, first, 0)
    add(coalescer, second, 15)
    assert not coalescer.is_idle
    assert first.requests == []
    await asyncio.sleep(0)
    assert coalescer.is_idle
    assert first.requests == [("k", Range(0, 25), 2)]
    assert second.requests == []
    assert (first.shared, second.shared) == (0, 1)


async def test_each_chunk_finds_its_bytes_in_the_merged_response() -> None:
    coalescer, reader = RangeCoalescer(), Operation()
    wanted = add(coalescer, reader, 20, 35)
    await asyncio.sleep(0)
    assert [(each.chunk.start, each.chunk.stop) for each in wanted] == [(0, 10), (15, 25)]


async def test_other_objects_and_other_settings_have_requests_of_their_own() -> None:
    coalescer, plain, patient = RangeCoalescer(), Operation(), Operation(retries=9)
    add(coalescer, plain, 0)
    add(coalescer, plain, 10, key="other")
    add(coalescer, patient, 10)
    await asyncio.sleep(0)
    assert plain.requests == [("k", Range(0, 10), 1), ("other", Range(10, 10), 1)]
    assert patient.requests == [("k", Range(10, 10), 1)]


async def test_a_range_whose_readers_have_left_is_not_fetched() -> None:
    coalescer, reader = RangeCoalescer(), Operation()
    left, _ = add(coalescer, reader, 0, 100)
    left.chunk.subscriptions.clear()
    await asyncio.sleep(0)
    assert reader.requests == [("k", Range(100, 10), 1)]


async def test_a_reader_that_waited_for_its_ranges_is_resumed() -> None:
    coalescer, busy, other = RangeCoalescer(), Operation(), Operation()
    add(coalescer, busy, *[1000 * number for number in range(MAX_PENDING_RANGES)])
    assert busy.pending_ranges == MAX_PENDING_RANGES
    wanted = add(coalescer, other, 0, key="empty")
    wanted[0].chunk.subscriptions.clear()
    await asyncio.sleep(0)
    assert (busy.pending_ranges, busy.resumed) == (0, 1)
    assert other.resumed == 0
