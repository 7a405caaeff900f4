"""Decoding of chunks in workers: batches, late subscriptions, chunks without readers."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from itertools import pairwise
from time import monotonic
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aiozarr.codecs import ArraySpec
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.engine import in_flight
from aiozarr.engine.decoder import BatchOutput, ChunkDecoder, kept_copy
from aiozarr.engine.in_flight import ChunkDelivery, ChunkSet, ChunksInFlight, DecodeChunks, Subscription
from aiozarr.engine.worker_pool import complete_all, run_all
from aiozarr.errors import CodecError
from aiozarr.grid.axes import regular_axes
from aiozarr.grid.projection import Projection
from aiozarr.grid.transform import Strided
from aiozarr.model import Value

SPEC = ArraySpec((4,), np.dtype("<i4"), np.zeros((), "<i4"))
PIPELINE = CodecPipeline.resolve([{"name": "bytes", "configuration": {"endian": "little"}}], SPEC)
DATA = np.arange(4, dtype="<i4").tobytes()


class Reader:
    def __init__(self, *, stopped: bool = False, chunks: int = 1) -> None:
        self.operation = SimpleNamespace(stopped=stopped, has_progress=False)
        self.out = np.full(4 * chunks, -1, "<i4")
        self.ends: list[BaseException | None] = []

    def chunks_completed(
        self, subscription: Subscription, count: int, nbytes: int, error: BaseException | None
    ) -> None:
        self.ends += [error] * count

    def unpadded(self, projection: object) -> None:
        return None

    def subscription(self) -> Subscription:
        return self.subscriptions()[0]

    def subscriptions(self) -> list[Subscription]:
        subscriber: Any = self
        parts = Projection(regular_axes((4,), self.out.shape), [Strided(0, 1, self.out.size)])
        return [Subscription(subscriber, self.out, (part,)) for part in parts]


class Fetched:
    """The request that has fetched the chunk."""

    key, store, store_url, start, timing, fairness_key = "c/0", None, "memory://", None, None, None
    value: Value | None = None

    def __init__(self) -> None:
        self.later: list[DecodeChunks] = []
        self.released = 0
        self.pool = SimpleNamespace(submit=lambda work, _: self.later.append(work))

    def release(self) -> None:
        self.released += 1


def work_of(subscription: Subscription, body: bytes | None, *others: Subscription) -> tuple[DecodeChunks, Any]:
    chunk_set = ChunkSet(ChunksInFlight(), "key", PIPELINE, subscription, None)
    for other in others:
        chunk_set.join(other, 0)
    delivery = ChunkDelivery(((chunk_set, (0,)),), None)
    request: Any = Fetched()
    delivery.request = request
    (work,) = delivery.works(request)
    request.value = None if body is None else Value(body, None, None)
    return work, request


def works_of(reader: Reader, bodies: Sequence[bytes | None]) -> list[DecodeChunks]:
    """Return the work on the chunks of one reader, in one batch."""
    return [work_of(subscription, body)[0] for subscription, body in zip(reader.subscriptions(), bodies, strict=True)]


def decoding_of(*readers: Reader) -> tuple[DecodeChunks, Fetched]:
    first, *others = [reader.subscription() for reader in readers]
    return work_of(first, DATA, *others)


def test_a_chunk_whose_readers_were_all_cancelled_is_not_decoded() -> None:
    readers = [Reader(stopped=True), Reader(stopped=True)]
    work = decoding_of(*readers)[0]
    run_all([work])
    work.work_completed()
    for reader in readers:
        assert (reader.out == -1).all()
        assert [type(end) for end in reader.ends] == [CancelledError]


def test_a_chunk_that_one_reader_still_waits_for_is_decoded() -> None:
    gone, there = Reader(stopped=True), Reader()
    work = decoding_of(gone, there)[0]
    run_all([work])
    work.work_completed()
    assert there.out.tolist() == [0, 1, 2, 3]
    assert there.ends == [None]


def test_a_reader_that_joins_while_a_worker_skips_the_chunk_has_it_decoded_then() -> None:
    gone, late = Reader(stopped=True), Reader()
    work, request = decoding_of(gone)
    run_all([work])
    work.chunk_set.join(late.subscription(), 0)
    work.work_completed()
    (again,) = request.later
    run_all([again])
    again.work_completed()
    assert late.out.tolist() == [0, 1, 2, 3]
    assert late.ends == [None]


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many chunks each call has decoded."""
    counts: list[int] = []
    decode: Callable[..., bool] = ChunkDecoder.decode_batch

    def counted(self: ChunkDecoder, data: memoryview, starts: Sequence[int], chunk_set: BatchOutput) -> bool:
        counts.append(len(starts))
        return decode(self, data, starts, chunk_set)

    decode_shared: Callable[..., Any] = ChunkDecoder.decode_shared

    def counted_shared(self: ChunkDecoder, bodies: Sequence[bytes]) -> Any:
        counts.append(len(bodies))
        return decode_shared(self, bodies)

    monkeypatch.setattr(ChunkDecoder, "decode_batch", counted)
    monkeypatch.setattr(ChunkDecoder, "decode_shared", counted_shared)
    return counts


def numbered(count: int) -> list[bytes | None]:
    return [np.arange(4 * number, 4 * number + 4, dtype="<i4").tobytes() for number in range(count)]


def test_chunks_of_one_reader_that_come_in_one_batch_are_decoded_together(together: list[int]) -> None:
    reader = Reader(chunks=9)
    works = works_of(reader, numbered(9))
    run_all(works)
    complete_all(works)
    assert reader.out.tolist() == list(range(36))
    assert reader.ends == [None] * 9
    assert together == [9]


def test_chunks_of_several_readers_are_decoded_together_and_unwanted_ones_are_not(together: list[int]) -> None:
    reader, gone, another = Reader(chunks=16), Reader(stopped=True, chunks=16), Reader(chunks=16)
    works = works_of(reader, numbered(16))
    works[4] = works_of(gone, numbered(16))[4]
    works[8] = works_of(another, numbered(16))[8]
    works[12].chunk_set.join(another.subscriptions()[12], 0)
    run_all(works)
    complete_all(works)
    expected = np.arange(64)
    assert another.out[32:36].tolist() == [32, 33, 34, 35]
    assert another.out[48:52].tolist() == [48, 49, 50, 51]
    expected[16:20] = expected[32:36] = -1
    assert reader.out.tolist() == expected.tolist()
    assert [type(end) for end in gone.ends] == [CancelledError]
    assert (reader.ends, another.ends) == ([None] * 14, [None] * 2)
    assert together == [4, 11]


def test_chunks_for_a_cache_are_decoded_together_and_own_their_memory(together: list[int]) -> None:
    reader = Reader(chunks=6)
    works = works_of(reader, numbered(6))
    cache: Any = SimpleNamespace(add=lambda *_: None)
    for work in works:
        work.chunk_set.caches = [cache]
    run_all(works)
    assert together == [6]
    assert reader.out.tolist() == list(range(24))
    for number, work in enumerate(works):
        values = work.values[0]
        assert values.flags.owndata
        assert not values.flags.writeable
        assert values.tolist() == list(range(4 * number, 4 * number + 4))


async def test_a_chunk_that_finds_no_memory_in_a_cache_fails_alone(
    together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(values: Any) -> Any:
        if values[0] == 4:
            raise MemoryError
        return kept_copy(values)

    monkeypatch.setattr(in_flight, "kept_copy", full)
    reader = Reader(chunks=3)
    works = works_of(reader, numbered(3))
    cache: Any = SimpleNamespace(add=lambda *_: None)
    for work in works:
        work.chunk_set.caches = [cache]
    run_all(works)
    complete_all(works)
    assert [type(end) for end in reader.ends] == [type(None), MemoryError, type(None)]
    assert reader.out.tolist() == [*range(4), *[-1] * 4, *range(8, 12)]
    assert together == [3]


def test_a_damaged_chunk_fails_for_its_readers_alone(together: list[int]) -> None:
    reader, another = Reader(chunks=5), Reader(chunks=5)
    bodies = numbered(5)
    bodies[2] = b"short"
    works = works_of(reader, bodies)
    for work, subscription in zip(works, another.subscriptions(), strict=True):
        work.chunk_set.join(subscription, 0)
    run_all(works)
    complete_all(works)
    expected = [*range(8), *[-1] * 4, *range(12, 20)]
    for each in (reader, another):
        assert each.out.tolist() == expected
        assert [type(end) for end in each.ends] == [*[type(None)] * 2, CodecError, *[type(None)] * 2]
    assert together == [5]


def test_one_that_is_damaged_fails_alone(together: list[int]) -> None:
    reader = Reader(chunks=9)
    bodies = numbered(9)
    bodies[6] = b"short"
    works = works_of(reader, bodies)
    run_all(works)
    complete_all(works)
    expected = list(range(36))
    expected[24:28] = [-1] * 4
    assert reader.out.tolist() == expected
    assert [type(end) for end in reader.ends] == [*[type(None)] * 6, CodecError, *[type(None)] * 2]
    assert together == [9]  # and not again for each


def test_chunks_that_are_decoded_together_share_the_time_of_that(together: list[int]) -> None:
    reader = Reader(chunks=5)
    works = works_of(reader, numbered(5))
    begun = monotonic()
    run_all(works)
    ended = monotonic()
    times = [begun, *[time for work in works for time in (work.started, work.ended)], ended]
    assert together == [5]
    assert reader.out.tolist() == list(range(20))
    assert sum([work.ended - work.started for work in works]) <= ended - begun
    assert all(one <= other + 1e-9 for one, other in pairwise(times))


def test_the_bytes_are_given_back_after_the_last_late_reader() -> None:
    reader, late = Reader(), Reader()
    work, request = decoding_of(reader)
    run_all([work])
    work.chunk_set.join(late.subscription(), 0)
    work.work_completed()
    assert request.released == 0
    (again,) = request.later
    run_all([again])
    again.work_completed()
    assert (reader.ends, late.ends, request.released) == ([None], [None], 1)
