"""Chunks in flight: readers join until decoding begins, later ones are served by the worker or by another pass."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.engine.request.in_flight import InFlightChunk, InFlightChunks, Subscription
from aiozarr.errors import StoreError
from tests.support.engine_samples import RAW

PIPELINE = CodecPipeline.resolve(RAW, ArraySpec((4,), np.dtype("<i4"), np.zeros((), "<i4")))


class Reader:
    """Notes the errors of its subscriptions, and whether the chunk was released by then."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def chunk_failed(self, subscription: Subscription, error: BaseException) -> None:
        assert subscription.chunk is not None
        self.errors.append(error)

    def subscription(self) -> Subscription:
        subscriber: Any = self
        projection: Any = SimpleNamespace(size=4)
        return Subscription(subscriber, np.zeros(4, "<i4"), projection)


def test_a_chunk_is_found_by_its_key_until_it_is_closed() -> None:
    table = InFlightChunks()
    chunk = InFlightChunk(table, "k", PIPELINE)
    assert table["k"] is chunk
    assert table.close(chunk)
    assert not table.close(chunk)
    assert not table


def test_closing_a_chunk_leaves_its_successor_to_readers() -> None:
    table = InFlightChunks()
    old = InFlightChunk(table, "k", PIPELINE)
    new = InFlightChunk(table, "k", PIPELINE)
    assert not table.close(old)
    assert table["k"] is new


def test_readers_that_join_after_decoding_began_do_not_disturb_the_worker() -> None:
    first, second, third = [Reader().subscription() for _ in range(3)]
    chunk = InFlightChunk(InFlightChunks(), "k", PIPELINE, first)
    chunk.join(second)
    assert chunk.subscriptions == [first, second]
    chunk.decoding_started = True
    chunk.join(third)
    assert chunk.subscriptions == [first, second]
    assert chunk.pop_late() == [third]
    assert chunk.pop_late() == []


def test_an_error_reaches_every_reader_once() -> None:
    readers = [Reader() for _ in range(3)]
    subscriptions = [reader.subscription() for reader in readers]
    chunk = InFlightChunk(InFlightChunks(), "k", PIPELINE, subscriptions[0])
    chunk.join(subscriptions[1])
    chunk.decoding_started = True
    chunk.join(subscriptions[2])
    error = StoreError("refused")
    chunk.fail(error)
    chunk.fail(StoreError("again"))
    assert [reader.errors for reader in readers] == [[error]] * 3
    assert all(each.chunk is None for each in subscriptions)


def test_a_subscription_counts_the_bytes_of_its_elements() -> None:
    assert Reader().subscription().nbytes == 16
