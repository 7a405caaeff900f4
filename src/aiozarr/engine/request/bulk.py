"""Many chunks of one object that one reader wants: one thing to the loop, until somebody wants one of them too.

A large read of a shard takes thousands of inner chunks. A flight for each of them, to be joined, decoded and closed by
itself, costs the loop as much time as the workers need to decode a small one; and hardly ever does anybody join.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Hashable, Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from numpy.typing import NDArray

from aiozarr.codecs import CodecPipeline
from aiozarr.engine.request.fetch import ChunkFetch
from aiozarr.engine.request.flight import Flight, Sink, Waiter
from aiozarr.engine.request.unpack import Unpack
from aiozarr.engine.work.decode import decode_to
from aiozarr.engine.work.pool import BATCH_BYTES, Work
from aiozarr.engine.work.run import Run, run_for
from aiozarr.errors import CodecError
from aiozarr.grid.projection import Part
from aiozarr.model import Range, Version
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.engine.read.job import ReadJob

BULK_FROM = 16
"""Fewer chunks of one object have a flight each from the beginning."""


class Owner(Waiter, Protocol):
    """Who wants the chunks of a bulk. Called on the I/O loop, but for `absent`."""

    def bulk_landed(self, count: int, nbytes: int) -> None:
        """So many chunks are in place, of so many bytes as far as they are wanted."""

    def bulk_failed(self, count: int, error: BaseException) -> None:
        """So many are not, because of `error`."""

    def absent(self, key: str) -> BaseException | None:
        """Nothing is stored under `key`; return an error where that is one, None to read the fill value. Any thread."""


class Wanted(NamedTuple):
    """A chunk that somebody waits for, and where its bytes lie in the object."""

    flight: Flight
    start: int
    length: int


class Bulk:
    """Chunks of one version of one object. Lives on the I/O loop.

    Attributes:
        object_token: names the object and its version; with the number of a chunk, the chunk.
        wanted: its chunks with a flight each, where they were parted before anything was sent for.
    """

    __slots__ = (
        "_key",
        "_requests",
        "_where",
        "given_up",
        "job",
        "lengths",
        "object_token",
        "out",
        "owner",
        "parts",
        "pipeline",
        "positions",
        "starts",
        "wanted",
    )

    def __init__(
        self,
        job: ReadJob,
        owner: Owner,
        out: NDArray[Any],
        pipeline: CodecPipeline,
        object_token: Hashable,
        positions: Sequence[int],
        parts: Sequence[Part],
        starts: Sequence[int],
        lengths: Sequence[int],
    ) -> None:
        """Take the chunks, by their numbers, and for each what is wanted of it and where its bytes lie."""
        self.job = job
        self.owner = owner
        self.out = out
        self.pipeline = pipeline
        self.object_token = object_token
        self.positions = positions
        self.parts = parts
        self.starts = starts
        self.lengths = lengths
        self.wanted: list[Wanted] | None = None
        self.given_up = False
        self._key = job.sharing.on_terms(object_token)
        self._requests: list[BulkFetch] = []
        self._where: dict[int, tuple[BulkFetch, int]] | None = None
        job.desk.bulks.setdefault(self._key, []).append(self)

    def send(self, requests: list[BulkFetch]) -> None:
        """These requests bring the chunks."""
        self._requests = requests

    def part_all(self) -> list[Wanted]:
        """Give each chunk a flight, before anything was sent for."""
        if self.wanted is None:
            flights = [self.flight_of(index) for index in range(len(self.positions))]
            self.wanted = list(map(Wanted, flights, self.starts, self.lengths))
            self._end()
        return self.wanted

    def part(self, positions: Iterable[int]) -> None:
        """Give a flight to each of these chunks that is still on its way: another reader is about to join it."""
        if not self._requests:
            self.part_all()
            return
        if self._where is None:
            self._where = {
                self.positions[index]: (request, index) for request in self._requests for index in request.members
            }
        for position in positions:
            found = self._where.pop(position, None)
            if found is not None:
                request, index = found
                request.part(index)

    def flight_of(self, index: int) -> Flight:
        """Return a new flight for a chunk, which its owner waits for."""
        sink = Sink(self.owner, self.out, self.parts[index], self.job)
        self.job.expect(sink)
        return self.late_flight_of(index, sink)

    def late_flight_of(self, index: int, sink: Sink | None = None) -> Flight:
        """Return a new flight for a chunk, which nobody waits for yet."""
        token = self.job.sharing.on_terms((self.object_token, self.positions[index]))
        flight = self.job.desk.flights[token] = Flight(token, self.pipeline, sink)
        return flight

    def may_carry(self, key: str, place: Hashable) -> bool:
        """Return whether its chunks may be those of the object `key`, which is at `place`."""
        return any(request.may_carry(key, place) for request in self._requests) or not self._requests

    def over(self, request: BulkFetch) -> None:
        """One of the requests has ended."""
        self._requests.remove(request)
        self._where = None
        if not self._requests:
            self._end()

    def give_up(self) -> None:
        """The owner does not wait any longer; who has joined a chunk does."""
        self.given_up = True
        self._end()
        for request in list(self._requests):
            request.leave()

    def _end(self) -> None:
        """Nobody can join any more."""
        bulks = self.job.desk.bulks
        mine = bulks.get(self._key, [])
        if self in mine:
            mine.remove(self)
            if not mine:
                del bulks[self._key]


class BulkFetch(ChunkFetch):
    """Fetch one range of an object, and hand the chunks in it to the workers.

    Attributes:
        members: the chunks of the bulk that have no flight of their own, by their place in it.
    """

    __slots__ = ("_at_work", "_late", "bulk", "members")

    def __init__(
        self,
        bulk: Bulk,
        store: Store,
        key: str,
        byte_range: Range,
        members: Sequence[int],
        version: Version | None,
    ) -> None:
        assert byte_range.length is not None
        super().__init__(bulk.job, store, key, byte_range, [], cost=byte_range.length, if_match=version)
        self.bulk = bulk
        self.members = dict.fromkeys(members)
        self.waiting = 1
        self._at_work = False
        self._late: dict[int, Flight] = {}

    def part(self, index: int) -> None:
        """Another reader is about to join a chunk."""
        if index not in self.members or index in self._late:
            return
        if self._at_work:
            # It is decoded once more for those who come now: the bytes are here as long as its piece is at work.
            flight = self._late[index] = self.bulk.late_flight_of(index)
            flight.dispatched = True
        else:
            flight = self.bulk.flight_of(index)
            self.flights.append(flight)
            del self.members[index]
            self.waiting += bool(self.members)
        flight.request = self
        flight.start, flight.stop = self.place_of(index)

    def place_of(self, index: int) -> tuple[int, int]:
        """Return where a chunk begins and ends in the answer."""
        assert self.start is not None
        start = self.bulk.starts[index] - self.start
        return start, start + self.bulk.lengths[index]

    def places_of(self, members: Sequence[int]) -> tuple[list[int], list[int]]:
        """Return where these chunks begin in the answer, and where they end."""
        assert self.start is not None
        first, lengths, starts = self.start, self.bulk.lengths, self.bulk.starts
        begins = [starts[index] - first for index in members]
        return begins, [begin + lengths[index] for begin, index in zip(begins, members, strict=True)]

    def leave(self) -> None:
        """The owner has left: the chunks that nobody has joined are not wanted any more, unless a worker has them."""
        if self._at_work or not self.members:
            return
        self.members.clear()
        self.abandoned()
        self.bulk.job.watch(self)

    def wanted(self, fetched: int) -> int:
        return super().wanted(fetched) + sum([self.bulk.lengths[index] for index in self.members])

    def dispatch(self) -> list[Work]:
        works = super().dispatch()
        size = max(1, BATCH_BYTES // max(1, self.bulk.pipeline.spec.nbytes))
        members = list(self.members)
        pieces = [UnpackBulk(self, members[first : first + size]) for first in range(0, len(members), size)]
        self._at_work = True
        self.open += len(pieces)
        self.bulk.job.at_work += len(pieces)
        return [*works, *pieces]

    def load(self, works: Sequence[Work]) -> Sequence[Work]:
        pieces = [work for work in works if isinstance(work, UnpackBulk)]
        super().load([work for work in works if not isinstance(work, UnpackBulk)])
        if self.value is not None:
            view = memoryview(self.value.data)
            for piece in pieces:
                piece.data = view
        return works

    def piece_done(self, piece: UnpackBulk) -> None:
        """A worker is done with a piece."""
        bulk, error = self.bulk, piece.error
        for index in piece.members:
            del self.members[index]
            flight = self._late.pop(index, None) if self._late else None
            if flight is not None:
                flight.sinks = flight.take_late()
                self.open += 1
                self.unpack(Unpack(flight, None if piece.data is None else piece.data[slice(*self.place_of(index))]))
        bulk.job.at_work -= 1
        if error is None:
            bulk.owner.bulk_landed(len(piece.members), piece.nbytes)
        else:
            bulk.owner.bulk_failed(len(piece.members), error)
        self.unpacked()

    def gone(self) -> None:
        # However it has ended: bulk and request refer to each other, and to the reader's array.
        self.bulk.over(self)
        super().gone()

    def _fail(self, works: Sequence[Work], error: BaseException) -> None:
        pieces = [work for work in works if isinstance(work, UnpackBulk)]
        count = len(self.members)
        self.members.clear()
        self.bulk.job.at_work -= len(pieces)
        late, self._late = self._late, {}
        for flight in late.values():
            self._close(flight)
            for sink in flight.take_sinks():
                sink.waiter.failed(sink, error)
                sink.flight = None
        super()._fail([work for work in works if not isinstance(work, UnpackBulk)], error)
        if count:
            self.bulk.owner.bulk_failed(count, error)


class UnpackBulk(Work):
    """Decode some of the chunks that a request has brought, one after the other."""

    __slots__ = ("data", "members", "nbytes", "request", "seconds")

    def __init__(self, request: BulkFetch, members: Sequence[int]) -> None:
        super().__init__(len(members) * request.bulk.pipeline.spec.nbytes)
        self.request = request
        self.members = members
        self.data: memoryview | None = None
        self.nbytes = 0
        self.seconds: tuple[float, float] | None = None

    def run(self) -> None:
        request, bulk = self.request, self.request.bulk
        begun = 0.0 if request.watch is None else monotonic()
        parts = [bulk.parts[index] for index in self.members]
        if self.data is None:
            self._fill(parts)
        else:
            self._decode(self.data, parts)
        if request.watch is not None:
            self.seconds = (begun, monotonic())
        if bulk.job.watched:
            self.nbytes = sum([part.size for part in parts]) * bulk.out.dtype.itemsize

    def _fill(self, parts: Sequence[Part]) -> None:
        bulk = self.request.bulk
        for part in parts:
            self._check_stopped()
            refused = bulk.owner.absent(self.request.key)
            if refused is not None:
                raise refused
            part.fill(bulk.out, bulk.pipeline.spec.fill_value)

    def _decode(self, data: memoryview, parts: Sequence[Part]) -> None:
        starts, stops = self.request.places_of(self.members)
        run = run_for(self.request.bulk.pipeline)
        at = stretch = alone = 0
        while at < len(parts):
            self._check_stopped()
            done = 0
            if run is not None and at >= alone:
                if at >= stretch:
                    stretch = _end_of_stretch(starts, stops, at)
                done, decoded = self._decode_run(run, data, starts, stops, parts, at, stretch)
                if not decoded:
                    # One by one: all of them, or the rest would be tried together again after each.
                    alone, done = at + done, 0
            if not done:
                self._decode_one(data[starts[at] : stops[at]], parts[at], self.members[at])
            at += done or 1

    def _decode_run(
        self,
        run: Run,
        data: memoryview,
        starts: Sequence[int],
        stops: Sequence[int],
        parts: Sequence[Part],
        at: int,
        stretch: int,
    ) -> tuple[int, bool]:
        """Decode chunks that lie one behind the other together; return how many those are, and whether they are."""
        places = run.places(self.request.bulk.out, parts, at, stretch)
        if places is None:
            return 0, True
        first, behind = starts[at], at + places.count
        begins = [start - first for start in starts[at:behind]]
        return places.count, run.decode(data[first : stops[behind - 1]], begins, places)

    def _decode_one(self, data: memoryview, part: Part, index: int) -> None:
        bulk = self.request.bulk
        try:
            decode_to(bulk.pipeline, data, bulk.out, part)
        except CodecError as error:
            error.store, error.key = self.request.store_url, self.request.key
            error.range = Range(bulk.starts[index], bulk.lengths[index])
            raise

    def _check_stopped(self) -> None:
        if self.request.bulk.job.stopped:
            raise CancelledError

    def finished(self) -> None:
        watch = self.request.watch
        if watch is not None and self.seconds is not None:
            watch.decoded(*self.seconds, chunks=len(self.members))
        self.request.piece_done(self)
        self.data = None


def _end_of_stretch(starts: Sequence[int], stops: Sequence[int], at: int) -> int:
    """Return up to which number chunks lie one behind the other, from number `at` on."""
    behind = at + 1
    while behind < len(starts) and starts[behind] == stops[behind - 1]:
        behind += 1
    return behind
