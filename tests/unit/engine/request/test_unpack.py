"""What workers do with chunks whose readers have left."""

from __future__ import annotations

from asyncio import CancelledError
from typing import Any

import numpy as np

from aiozarr.codecs import ArraySpec, CodecPipeline
from aiozarr.engine.request.flight import Flight, Sink
from aiozarr.engine.request.unpack import Unpack
from aiozarr.grid.axes import regular_axes
from aiozarr.grid.projection import Projection
from aiozarr.grid.transform import Strided

SPEC = ArraySpec((4,), np.dtype("<i4"), np.zeros((), "<i4"))
PIPELINE = CodecPipeline.resolve([{"name": "bytes", "configuration": {"endian": "little"}}], SPEC)
DATA = np.arange(4, dtype="<i4").tobytes()


class Reader:
    def __init__(self, *, gave_up: bool = False) -> None:
        self.gave_up = gave_up
        self.out = np.full(4, -1, "<i4")
        self.ends: list[BaseException | None] = []

    def landed(self, sink: Sink) -> None:
        self.ends.append(None)

    def failed(self, sink: Sink, error: BaseException) -> None:
        self.ends.append(error)

    def sink(self) -> Sink:
        part = next(iter(Projection(regular_axes((4,), (4,)), [Strided(0, 1, 4)])))
        waiter: Any = self
        return Sink(waiter, self.out, part)


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
