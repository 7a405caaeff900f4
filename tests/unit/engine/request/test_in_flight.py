"""Chunks in flight: readers join single chunks of a batch, and leave them."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.engine.in_flight import (
    DEFAULT_OUTCOME_KEY,
    ChunkDelivery,
    ChunkSet,
    ChunksInFlight,
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


@pytest.mark.parametrize("change", [{"merge_gap_bytes": 5}, {"max_over_read": 9.0}, {"max_request_bytes": 1 << 21}])
def test_readers_with_other_limits_of_merging_share_chunks_and_no_merged_requests(change: dict[str, Any]) -> None:
    assert outcome_key(replace(Settings(), **change)) == DEFAULT_OUTCOME_KEY
    assert merge_key(replace(Settings(), **change)) != merge_key(Settings())


@pytest.mark.parametrize("change", [{"missing_chunks": "raise"}, {"max_requests": 3}, {"timeout": 5.0}])
def test_settings_of_the_reader_alone_do_not_matter(change: dict[str, Any]) -> None:
    assert merge_key(replace(Settings(), **change)) == merge_key(Settings())


PIPELINE = CodecPipeline.resolve(RAW, ArraySpec((4,), np.dtype("<i4"), np.zeros((), "<i4")))


class Reader:
    """Notes the outcome of its subscriptions."""

    def __init__(self) -> None:
        self.ends: list[BaseException | None] = []
        self.operation: Any = SimpleNamespace(stopped=False, begin_wait=lambda: None)

    def chunks_completed(
        self, subscription: Subscription, count: int, nbytes: int, error: BaseException | None
    ) -> None:
        assert subscription.chunk_set is not None
        self.ends += [error] * count

    def subscription(self, chunks: int = 1) -> Subscription:
        subscriber: Any = self
        projection: Any = SimpleNamespace(size=4)
        return Subscription(subscriber, np.zeros(4, "<i4"), [projection] * chunks)


def batch_of(table: ChunksInFlight, subscription: Subscription | None = None, chunks: int = 1) -> ChunkSet:
    subscription = subscription or Reader().subscription(chunks)
    places = ([5 * number for number in range(chunks)], [16 * number for number in range(chunks)], [16] * chunks)
    return ChunkSet(table, "object", PIPELINE, subscription, "object", *places)


def delivery_of(*chunk_sets: ChunkSet) -> tuple[ChunkDelivery, Any]:
    delivery = ChunkDelivery([(chunk_set, range(len(chunk_set.positions))) for chunk_set in chunk_sets], 0)
    request: Any = SimpleNamespace(cancelled=False, released=0, timing=None)
    delivery.request = request
    request.release = lambda: setattr(request, "released", request.released + 1)
    return delivery, request


def test_a_chunk_is_found_by_its_position_until_it_is_closed() -> None:
    table = ChunksInFlight()
    chunk_set = batch_of(table, chunks=3)
    assert table.find("object", 10) == (chunk_set, 2)
    assert table.find("object", 1) is None
    assert chunk_set.close([2])
    assert table.find("object", 10) is None
    assert table.find("object", 5) == (chunk_set, 1)
    assert chunk_set.close([0, 1])
    assert not chunk_set.close([0])
    assert not table


def test_closing_a_chunk_leaves_its_successor_to_readers() -> None:
    table = ChunksInFlight()
    old, new = batch_of(table), batch_of(table)
    assert old.close([0])
    assert table.find("object", 0) == (new, 0)


def test_a_changed_object_is_not_joined_and_not_cached() -> None:
    table = ChunksInFlight()
    chunk_set = batch_of(table)
    cache: Any = object()
    chunk_set.caches = (cache,)
    chunk_set.invalidate()
    assert (chunk_set.caches, chunk_set.close([0]), dict(table)) == ((), False, {})


def test_an_error_reaches_every_reader_once() -> None:
    readers = [Reader() for _ in range(3)]
    table = ChunksInFlight()
    chunk_set = batch_of(table, readers[0].subscription(chunks=2), chunks=2)
    for reader in readers[1:]:
        chunk_set.join(reader.subscription(), 1)
    delivery, request = delivery_of(chunk_set)
    error = StoreError("refused")
    delivery.response_completed(request, error)
    assert [reader.ends for reader in readers] == [[error] * 2, [error], [error]]
    assert (request.released, dict(table)) == (1, {})


def test_a_chunk_that_another_reader_has_joined_stays_when_the_first_one_leaves() -> None:
    first, second = Reader(), Reader()
    mine, theirs = first.subscription(chunks=3), second.subscription()
    chunk_set = batch_of(ChunksInFlight(), mine, chunks=3)
    chunk_set.join(theirs, 1)
    delivery, request = delivery_of(chunk_set)
    chunk_set.leave(mine)
    assert (mine.left, theirs.left, request.cancelled) == (0, 1, False)
    assert chunk_set.wanted(range(3)) == [1]
    assert delivery.next_owner() is second.operation
    assert [list(work.numbers) for work in delivery.works(request)] == [[1]]


def test_a_reader_waits_for_the_worker_that_has_its_chunks() -> None:
    mine = Reader().subscription(chunks=3)
    chunk_set = batch_of(ChunksInFlight(), mine, chunks=3)
    delivery, request = delivery_of(chunk_set)
    delivery.works(request)
    chunk_set.leave(mine)
    assert mine.left == 3


@pytest.mark.parametrize("leaves_first", [True, False])
def test_a_batch_that_all_readers_leave_before_its_requests_are_made_cannot_be_joined(leaves_first: bool) -> None:
    table = ChunksInFlight()
    mine, theirs = Reader().subscription(chunks=3), Reader().subscription()
    chunk_set = batch_of(table, mine, chunks=3)
    chunk_set.join(theirs, 1)
    for subscription in (mine, theirs) if leaves_first else (theirs, mine):
        chunk_set.leave(subscription)
    assert (mine.left, theirs.left, dict(table)) == (0, 0, {})
