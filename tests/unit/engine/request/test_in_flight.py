"""Chunks in flight: readers join until decoding begins, later ones are served by the worker or by another pass."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.engine.request.in_flight import (
    DEFAULT_OUTCOME_KEY,
    InFlightChunk,
    InFlightChunks,
    InternedKey,
    Subscription,
    merge_key,
    outcome_key,
)
from aiozarr.errors import StoreError
from aiozarr.settings import Settings
from tests.support.engine_samples import RAW


def test_equal_values_have_one_key_as_long_as_it_is_used() -> None:
    key = InternedKey(("store", 1))
    assert InternedKey(("store", 1)) is key
    assert InternedKey(("store", 2)) is not key
    assert key.value == ("store", 1)
    unused = weakref.ref(key)
    del key
    gc.collect()
    assert unused() is None


@pytest.mark.parametrize(
    "change", [{"retries": 1}, {"retry_seconds": 1.5}, {"missing_status": (403, 404)}, {"max_chunk_bytes": 1 << 20}]
)
def test_readers_whose_request_may_end_differently_do_not_share_it(change: dict[str, Any]) -> None:
    assert outcome_key(replace(Settings(), **change)) != DEFAULT_OUTCOME_KEY
    assert merge_key(replace(Settings(), **change)) != merge_key(Settings())


@pytest.mark.parametrize("change", [{"gap": 5}, {"max_over_read": 9.0}, {"max_request_bytes": 1 << 21}])
def test_readers_with_other_limits_of_merging_share_chunks_and_no_merged_requests(change: dict[str, Any]) -> None:
    assert outcome_key(replace(Settings(), **change)) == DEFAULT_OUTCOME_KEY
    assert merge_key(replace(Settings(), **change)) != merge_key(Settings())


@pytest.mark.parametrize("change", [{"missing": "raise"}, {"max_requests": 3}, {"timeout": 5.0}])
def test_settings_of_the_reader_alone_do_not_matter(change: dict[str, Any]) -> None:
    assert merge_key(replace(Settings(), **change)) == merge_key(Settings())


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
