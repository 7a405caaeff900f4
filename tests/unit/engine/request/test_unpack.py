"""What workers do with chunks whose readers have left."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from itertools import pairwise
from time import monotonic
from typing import Any

import numpy as np
import pytest

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.engine.request.flight import Flight, Sink
from aiozarr.engine.request.observed import Observer, RequestWatch, TimedUnpack
from aiozarr.engine.request.unpack import Unpack
from aiozarr.engine.work import run
from aiozarr.engine.work.pool import finish, run_all
from aiozarr.errors import CodecError
from aiozarr.grid.axes import regular_axes
from aiozarr.grid.projection import Projection
from aiozarr.grid.transform import Strided
from aiozarr.schedule import Report
from aiozarr.settings import Settings

SPEC = ArraySpec((4,), np.dtype("<i4"), np.zeros((), "<i4"))
PIPELINE = CodecPipeline.resolve([{"name": "bytes", "configuration": {"endian": "little"}}], SPEC)
DATA = np.arange(4, dtype="<i4").tobytes()


class Reader:
    def __init__(self, *, gave_up: bool = False, chunks: int = 1) -> None:
        self.gave_up = gave_up
        self.out = np.full(4 * chunks, -1, "<i4")
        self.ends: list[BaseException | None] = []

    def landed(self, sink: Sink) -> None:
        self.ends.append(None)

    def failed(self, sink: Sink, error: BaseException) -> None:
        self.ends.append(error)

    def unpadded(self, sink: Sink) -> None:
        return None

    def sink(self) -> Sink:
        return self.sinks()[0]

    def sinks(self) -> list[Sink]:
        waiter: Any = self
        parts = Projection(regular_axes((4,), self.out.shape), [Strided(0, 1, self.out.size)])
        return [Sink(waiter, self.out, part) for part in parts]


class Fetched:
    """The request that has brought the chunk."""

    key, store_url, start = "c/0", "memory://", None

    def __init__(self) -> None:
        self.later: list[Any] = []

    def landed(self, flight: Flight, chunk: Any) -> None:
        pass

    def unpack(self, work: Any) -> None:
        self.later.append(work)

    def unpacked(self) -> None:
        pass


def works_of(reader: Reader, bodies: Sequence[bytes | None]) -> list[Unpack]:
    """Return the work on the chunks of one reader, in one batch."""
    works = []
    for sink, body in zip(reader.sinks(), bodies, strict=True):
        flight = Flight("token", PIPELINE, sink)
        bringer: Any = Fetched()
        flight.request = bringer
        works.append(Unpack(flight, body))
    return works


def flight_of(*readers: Reader) -> tuple[Flight, Fetched]:
    first, *others = [reader.sink() for reader in readers]
    flight, request = Flight("token", PIPELINE, first), Fetched()
    for sink in others:
        flight.join(sink)
    bringer: Any = request
    flight.request = bringer
    return flight, request


def test_a_chunk_that_all_its_readers_have_given_up_is_not_decoded() -> None:
    readers = [Reader(gave_up=True), Reader(gave_up=True)]
    work = Unpack(flight_of(*readers)[0], DATA)
    work.run()
    work.finished()
    for reader in readers:
        assert (reader.out == -1).all()
        assert [type(end) for end in reader.ends] == [CancelledError]


def test_a_chunk_that_one_of_its_readers_waits_for_is() -> None:
    gone, there = Reader(gave_up=True), Reader()
    work = Unpack(flight_of(gone, there)[0], DATA)
    work.run()
    work.finished()
    assert there.out.tolist() == [0, 1, 2, 3]
    assert there.ends == [None]


def test_who_joins_while_a_worker_leaves_a_chunk_undecoded_has_it_decoded_then() -> None:
    gone, late = Reader(gave_up=True), Reader()
    flight, request = flight_of(gone)
    flight.dispatched = True
    work = Unpack(flight, DATA)
    work.run()
    flight.join(late.sink())
    work.finished()
    (again,) = request.later
    again.run()
    again.finished()
    assert late.out.tolist() == [0, 1, 2, 3]
    assert late.ends == [None]


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many chunks each call has decoded."""
    counts: list[int] = []
    decode: Callable[..., bool] = run.Run.decode

    def counted(self: run.Run, data: memoryview, starts: Sequence[int], places: run.Places) -> bool:
        counts.append(len(starts))
        return decode(self, data, starts, places)

    monkeypatch.setattr(run.Run, "decode", counted)
    return counts


def numbered(count: int) -> list[bytes | None]:
    return [np.arange(4 * number, 4 * number + 4, dtype="<i4").tobytes() for number in range(count)]


def test_chunks_of_one_reader_that_come_in_one_batch_are_decoded_together(together: list[int]) -> None:
    reader = Reader(chunks=9)
    works = works_of(reader, numbered(9))
    run_all(works)
    finish(works)
    assert reader.out.tolist() == list(range(36))
    assert reader.ends == [None] * 9
    assert together == [9]


def test_what_is_missing_kept_or_not_wanted_is_not_decoded_with_others(together: list[int]) -> None:
    reader, gone, another = Reader(chunks=16), Reader(gave_up=True, chunks=16), Reader(chunks=16)
    works = works_of(reader, numbered(16))
    works[4] = works_of(gone, numbered(16))[4]
    works[8] = works_of(another, numbered(16))[8]
    joined = works[12].flight
    joined.dispatched = True
    joined.join(another.sinks()[12])
    run_all(works)
    finish(works)
    expected = np.arange(64)
    assert another.out[32:36].tolist() == [32, 33, 34, 35]
    assert another.out[48:52].tolist() == [48, 49, 50, 51]
    expected[16:20] = expected[32:36] = -1
    assert reader.out.tolist() == expected.tolist()
    assert [type(end) for end in gone.ends] == [CancelledError]
    assert (reader.ends, another.ends) == ([None] * 14, [None] * 2)
    assert together == [4, 3, 3, 3]


def test_one_that_is_damaged_fails_alone(together: list[int]) -> None:
    reader = Reader(chunks=9)
    bodies = numbered(9)
    bodies[6] = b"short"
    works = works_of(reader, bodies)
    run_all(works)
    finish(works)
    expected = list(range(36))
    expected[24:28] = [-1] * 4
    assert reader.out.tolist() == expected
    assert [type(end) for end in reader.ends] == [*[type(None)] * 6, CodecError, *[type(None)] * 2]
    assert together == [9]  # and not again for each


def test_those_that_are_timed_share_the_time_of_what_was_done_for_all(together: list[int]) -> None:
    reader = Reader(chunks=5)
    watch = RequestWatch(Observer(None, Settings(), Report()), 0.0)  # type: ignore[arg-type]  # no engine's desk
    works = [TimedUnpack(work.flight, watch) for work in works_of(reader, numbered(5))]
    for work, body in zip(works, numbered(5), strict=True):
        work.data = body
    begun = monotonic()
    run_all(works)
    ended = monotonic()
    times = [begun, *[time for work in works for time in (work.started, work.ended)], ended]
    assert together == [5]
    assert reader.out.tolist() == list(range(20))
    assert sum([work.ended - work.started for work in works]) <= ended - begun
    assert all(one <= other + 1e-9 for one, other in pairwise(times))
