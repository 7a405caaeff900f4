"""Chunks of one array in a blocking store: found, read, decoded and scattered by a worker, many in one hop."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.engine.errand import Errand, means_missing
from aiozarr.engine.flight import decode_into, decode_unpadded
from aiozarr.errors import ChecksumError, CodecError, StoreError
from aiozarr.grid.projection import Part
from aiozarr.schedule.events import RequestEvent
from aiozarr.stores.blocking import BlockingStore

if TYPE_CHECKING:
    from aiozarr.engine.read import Read, ReadJob


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

    __slots__ = ("_at", "_events", "_job", "_read", "_requests", "fetched", "places")

    def __init__(self, job: ReadJob, read: Read, places: list[Place], nbytes: int) -> None:
        super().__init__(job, read.store, "", nbytes)
        self.places = places
        self.fetched = 0
        self.fills_batch = len(places) > 1
        self._job = job
        self._read = read
        self._at = 0
        self._requests = 0
        self._events: list[tuple[str, int, float, StoreError | None]] = []

    async def send(self) -> None:
        raise AssertionError("the queue of a blocking store sends nothing on the loop")

    def send_now(self, store: BlockingStore) -> None:
        read = self._read
        prefix, encode, spec = read.prefix, read.layout.key_encoding.encode, read.layout.spec
        # A repetition goes on with the chunk that failed.
        while self._at < len(self.places) and not self.cancelled:
            place = self.places[self._at]
            self.key = prefix + encode(place.projection.coords)
            data = self._fetch(store)
            if data is not None:
                self._decode(store, data, place)
            elif (refused := self._job.missing_error(store, self.key)) is not None:
                raise refused
            else:
                place.projection.fill(place.out, spec.fill_value)
            self._at += 1

    def _fetch(self, store: BlockingStore) -> Buffer | None:
        self._requests += 1
        begun = perf_counter()
        try:
            value = store.fetch_now(self.key)
        except StoreError as error:
            if not means_missing(error, self.settings):
                self._note(0, begun, error)
                raise
            value = None
        size = 0 if value is None else memoryview(value.data).nbytes
        self.fetched += size
        self._note(size, begun)
        return None if value is None else value.data

    def _note(self, size: int, begun: float, error: StoreError | None = None) -> None:
        """Keep what the observer, if there is one, is told of on the loop."""
        if self.settings.on_event is not None:
            self._events.append((self.key, size, perf_counter() - begun, error))

    def _decode(self, store: BlockingStore, data: Buffer, place: Place) -> None:
        layout = self._read.layout
        pipeline = layout.object_of(place.projection).pipeline
        try:
            try:
                decode_into(pipeline, data, (place,))
            except ChecksumError:
                # As everywhere: what was damaged once is read once more.
                again = self._fetch(store)
                if again is None:
                    raise
                decode_into(pipeline, again, (place,))
            except CodecError as error:
                if not decode_unpadded(layout.unpadded(place.projection), error, data, (place,)):
                    raise
        except CodecError as error:
            error.store, error.key = self.store_url, self.key
            raise

    def done(self, error: BaseException | None) -> None:
        if self.recorder is not None and self._requests:
            self.recorder.request(
                attempts=self._requests,
                retries=max(0, self.attempts - 1),
                wanted=self.fetched,
                fetched=self.fetched,
                seconds=self.seconds,
            )
        if self.settings.on_event is not None:
            for key, size, seconds, failure in self._events:
                event = RequestEvent("fetch", self.store_url, key, None, size, size, seconds, 1, failure)
                self.desk.emit(self.settings.on_event, event)
            self._events.clear()
        self._job.direct_done(self, error)
        self.gone()
