"""Chunks of one array in a blocking store: found, read, decoded and scattered by a worker, many in one hop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.engine.read.part_read import place_part, ranges_of_chunk, read_part
from aiozarr.engine.read.read import Read
from aiozarr.engine.request.errand import Errand, means_missing
from aiozarr.engine.work.decode import decode_to, decode_unpadded
from aiozarr.engine.work.run import Places, Run, run_for
from aiozarr.errors import ChecksumError, CodecError, StoreError
from aiozarr.grid.projection import Part
from aiozarr.model import Range, Value
from aiozarr.schedule.events import RequestEvent
from aiozarr.stores.blocking import BlockingStore

if TYPE_CHECKING:
    from aiozarr.engine.read.job import ReadJob

T = TypeVar("T")


class Place(NamedTuple):
    """What is wanted of one chunk, and the array it goes to."""

    out: NDArray[Any]
    projection: Part


class DirectRead(Errand):
    """A run of chunks. On the loop it is one object, whatever their number; nobody joins it.

    Attributes:
        places: the chunks that are wanted.
        fetched: bytes that were read.
    """

    __slots__ = ("_at", "_events", "_job", "_one_by_one", "_read", "fetched", "places")

    def __init__(self, job: ReadJob, read: Read, places: list[Place], nbytes: int) -> None:
        super().__init__(job, read.store, "", nbytes)
        self.places = places
        self.fetched = 0
        self.fills_batch = len(places) > 1
        self._job = job
        self._read = read
        self._at = 0
        self._one_by_one = False  # whether chunks that were decoded together turned out not to be fit for it
        self._events: list[RequestEvent] = []  # what observers, if there are any, are told of on the loop

    async def send(self) -> None:
        raise AssertionError("the queue of a blocking store sends nothing on the loop")

    def send_now(self, store: BlockingStore) -> None:
        if self.watch is None and self._read.layout.largest.pipeline.raw is None:
            self._send_whole(store)
        else:
            self._send_each(store)

    def _send_whole(self, store: BlockingStore) -> None:
        """Read and decode chunks of which all is fetched, with nobody watching: no more than must be for each."""
        layout, places = self._read.layout, self.places
        single = None if layout.single is None else layout.single.pipeline
        # A repetition goes on with the chunk that failed, or the first of those that were read together with it.
        while self._at < len(places):
            if self.cancelled:
                return
            run = None if single is None or self._one_by_one else run_for(single)
            done = 0 if run is None else self._send_run(store, run)
            if not done:
                self._send_one(store)
            self._at += done or 1

    def _send_one(self, store: BlockingStore) -> None:
        place = self.places[self._at]
        self._name(place)
        data = self._ask_whole(store.read_now)
        if data is None:
            self._fill(store, place)
        else:
            self._decode(store, data, place)

    def _send_run(self, store: BlockingStore, run: Run) -> int:
        """Read and decode the next chunks together; return how many. 0: the next one has to be read by itself."""
        out = self.places[self._at].out
        places = list(takewhile(lambda place: place.out is out, self.places[self._at : self._at + run.count]))
        parts = [place.projection for place in places]
        found = run.places(out, parts, 0, len(parts))
        if found is None:
            return 0
        memory, used, starts = run.room, 0, []
        missing: Place | None = None
        for place in places[: found.count]:
            if self.cancelled:
                break
            self._name(place)
            size = self._ask_whole(store.read_into_now, memory[used:])
            if size is None:
                missing = place
                break
            if used + size > len(memory):
                break
            starts.append(used)
            used += size
        if len(starts) < found.count:
            found = run.places(out, parts, 0, len(starts)) if starts else None
        if starts and not self._decode_together(run, found, memory[:used], starts, places):
            # They are read again, which also tells what is wrong with which of them.
            self._one_by_one = True
            return 0
        if missing is not None:
            self._fill(store, missing)
        return len(starts) + (missing is not None)

    def _name(self, place: Place) -> None:
        self.key = self._read.prefix + self._read.layout.key_encoding.encode(place.projection.coords)

    def _ask_whole(self, read: Callable[..., T | None], *memory: memoryview) -> T | None:
        try:
            return read(self.key, *memory)
        except StoreError as error:
            if not means_missing(error, self.settings):
                raise
            return None

    def _fill(self, store: BlockingStore, place: Place) -> None:
        if (refused := self._job.missing_error(store, self.key)) is not None:
            raise refused
        place.projection.fill(place.out, self._read.layout.spec.fill_value)

    def _decode_together(
        self, run: Run, found: Places | None, data: memoryview, starts: Sequence[int], places: Sequence[Place]
    ) -> bool:
        if found is not None and found.count == len(starts):
            return run.decode(data, starts, found)
        # Those behind them were missing, or too large.
        try:
            for start, stop, (out, part) in zip(starts, [*starts[1:], len(data)], places, strict=False):
                decode_to(self._read.layout.object_of(part).pipeline, data[start:stop], out, part)
        except CodecError:
            return False
        return True

    def _send_each(self, store: BlockingStore) -> None:
        while self._at < len(self.places) and not self.cancelled:
            place = self.places[self._at]
            self._name(place)
            part = self._fetch_part(store, place)
            data = self._fetch_data(store) if part is None else part.data if part.size else None
            if data is None and (refused := self._job.missing_error(store, self.key)) is not None:
                raise refused
            if self.watch is not None:
                self._place_timed(store, data, place, part)
            else:
                self._place(store, data, place, part)
            self._at += 1

    def _fetch_part(self, store: BlockingStore, place: Place) -> NDArray[np.uint8] | None:
        """Return the bytes of a chunk as far as they are wanted, none if it is not stored; None: all of it is read."""
        pipeline = self._read.layout.object_of(place.projection).pipeline
        ranges = ranges_of_chunk(self.desk, self._job.parts, store, self.settings, pipeline, place.projection)
        return None if ranges is None else read_part(pipeline, ranges, partial(self._ask, store))

    def _fetch_data(self, store: BlockingStore) -> Buffer | None:
        if self.watch is not None:
            value = self._fetch_timed(store, None)
            return None if value is None else value.data
        return self._ask_whole(store.read_now)

    def _ask(self, store: BlockingStore, part: Range | None = None) -> Value | None:
        return self._fetch(store, part) if self.watch is None else self._fetch_timed(store, part)

    def _place(self, store: BlockingStore, data: Buffer | None, place: Place, part: NDArray[np.uint8] | None) -> None:
        if data is None:
            place.projection.fill(place.out, self._read.layout.spec.fill_value)
        elif part is not None:
            self._place_part(part, place)
        else:
            self._decode(store, data, place)

    def _place_part(self, part: NDArray[np.uint8], place: Place) -> None:
        try:
            place_part(self._read.layout.object_of(place.projection).pipeline, part, place)
        except CodecError as error:
            error.store, error.key = self.store_url, self.key
            raise

    def _fetch(self, store: BlockingStore, part: Range | None) -> Value | None:
        try:
            value = store.fetch_now(self.key, part)
        except StoreError as error:
            if not means_missing(error, self.settings):
                raise
            value = None
        if value is not None:
            self.fetched += memoryview(value.data).nbytes
        return value

    def _fetch_timed(self, store: BlockingStore, part: Range | None) -> Value | None:
        """As `_fetch`, noted for whoever observes."""
        assert self.watch is not None
        failure: BaseException | None = None
        before, begun = self.fetched, monotonic()
        try:
            return self._fetch(store, part)
        except StoreError as error:
            failure = error
            raise
        finally:
            size, seconds = self.fetched - before, monotonic() - begun
            self._events.append(
                RequestEvent(
                    "fetch",
                    self.store_url,
                    self.key,
                    part,
                    size,
                    size,
                    seconds,
                    1,
                    failure,
                    begun,
                    begun - self.watch.ready,
                )
            )

    def _place_timed(
        self, store: BlockingStore, data: Buffer | None, place: Place, part: NDArray[np.uint8] | None
    ) -> None:
        """As `_place`, noted with the request that brought the chunk."""
        at, begun = len(self._events) - 1, monotonic()
        try:
            self._place(store, data, place, part)
        finally:
            ended = monotonic()
            # What was damaged has been fetched once more meanwhile.
            spent = ended - begun - sum([again.seconds for again in self._events[at + 1 :]])
            self._events[at] = replace(
                self._events[at], chunks=1, decode_started=begun, decode_ended=ended, decode_seconds=spent
            )

    def _decode(self, store: BlockingStore, data: Buffer, place: Place) -> None:
        try:
            decode_to(self._read.layout.object_of(place.projection).pipeline, data, place.out, place.projection)
        except CodecError as error:
            self._mend(store, data, place, error)

    def _mend(self, store: BlockingStore, data: Buffer, place: Place, error: CodecError) -> None:
        """The bytes of a chunk do not decode: as everywhere, what was damaged is read once more."""
        layout = self._read.layout
        try:
            if isinstance(error, ChecksumError):
                again = self._fetch_data(store)
                if again is None:
                    raise error
                decode_to(layout.object_of(place.projection).pipeline, again, place.out, place.projection)
            elif not decode_unpadded(layout.unpadded(place.projection), error, data, (place,)):
                raise error
        except CodecError as failure:
            failure.store, failure.key = self.store_url, self.key
            raise

    def done(self, error: BaseException | None) -> None:
        if self.watch is not None:
            for number, event in enumerate(self._events):
                # A repetition goes on with the chunk whose request has failed.
                self.watch.observer.tell(event, retries=int(number > 0 and self._events[number - 1].error is not None))
            self._events.clear()
        self._job.direct_done(self, error)
        self.gone()
