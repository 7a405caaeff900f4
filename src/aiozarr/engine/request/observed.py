"""What is noted of requests, decoding and encoding where somebody observes; where nobody does, none of this is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from aiozarr.engine.request.flight import Flight
from aiozarr.engine.request.unpack import Unpack
from aiozarr.engine.work.pool import Work
from aiozarr.schedule.events import Report, RequestEvent, Totals
from aiozarr.settings import Settings

if TYPE_CHECKING:
    from aiozarr.engine.desk import Desk

T = TypeVar("T")


class Observer:
    """Whom one operation is reported to: a report, `Settings.on_event`, or both. Used on the loop only."""

    __slots__ = ("_desk", "_on_event", "_recorder")

    def __init__(self, desk: Desk, settings: Settings, recorder: Report | None) -> None:
        self._desk = desk
        self._on_event = settings.on_event
        self._recorder = recorder

    @classmethod
    def of(cls, desk: Desk, settings: Settings, recorder: Report | None) -> Observer | None:
        """Return an observer where somebody observes, else None."""
        return cls(desk, settings, recorder) if recorder is not None or settings.on_event is not None else None

    def tell(self, event: RequestEvent, *, retries: int | None = None) -> None:
        """Report a request that is over; all of its `attempts` but the first were repetitions, or `retries` of them."""
        if self._recorder is not None:
            self._recorder.add(event.store, totals_of(event, retries))
        if self._on_event is not None:
            self._desk.emit(self._on_event, event)

    def timed(self, work: Work, store: str) -> Work:
        """Return `work`, for an array in this store, as work whose time is reported."""
        return Timed(work, self, store)

    def worked(self, store: str, seconds: float) -> None:
        """A worker has spent `seconds` on what no request has brought, or another reader's."""
        if self._recorder is not None:
            self._recorder.add(store, Totals(decode_seconds=seconds))


def totals_of(event: RequestEvent, retries: int | None = None) -> Totals:
    """Return what a request adds to a report."""
    fetch = event.operation == "fetch"
    return Totals(
        requests=event.attempts,
        retries=event.attempts - 1 if retries is None else retries,
        bytes_wanted=event.bytes_wanted if fetch else 0,
        bytes_fetched=event.bytes_fetched if fetch else 0,
        bytes_written=event.bytes_fetched if event.operation == "set" else 0,
        request_seconds=event.seconds,
        queue_seconds=event.queue_seconds,
        decode_seconds=event.decode_seconds,
        encode_seconds=event.encode_seconds,
    )


class RequestWatch:
    """The notes on one request: begun with it, reported when all that it brought is done with. On the loop, but for
    `timed`, which workers call.

    Attributes:
        observer: who is told at the end.
        ready: since when the request could have been sent, by the clock of its queue.
        event: the request as it has ended; None before, and where it was never sent.
    """

    __slots__ = ("_first", "_last", "_spent", "chunks", "encoded", "event", "observer", "ready")

    def __init__(self, observer: Observer, ready: float) -> None:
        self.observer = observer
        self.ready = ready
        self.event: RequestEvent | None = None
        self.chunks = 0
        self.encoded: list[float] = []
        self._first = self._last = self._spent = 0.0

    def timed(self, function: Callable[[], T]) -> T:
        """Run `function`, and note its time as spent on what is to be sent."""
        begun = monotonic()
        try:
            return function()
        finally:
            # Several workers may encode for one request: a list takes appends from all of them.
            self.encoded.append(monotonic() - begun)

    def decoded(self, started: float, ended: float, chunks: int = 1) -> None:
        """A worker was at `chunks` of the answer from `started` to `ended`."""
        self._first = min(self._first, started) if self.chunks else started
        self._last = max(self._last, ended)
        self._spent += ended - started
        self.chunks += chunks

    def close(self) -> None:
        """All is done with: report it."""
        event, self.event = self.event, None
        if event is None:
            return
        if self.chunks:
            event = replace(
                event,
                chunks=self.chunks,
                decode_started=self._first,
                decode_ended=self._last,
                decode_seconds=self._spent,
            )
        if self.encoded:
            event = replace(event, encode_seconds=sum(self.encoded))
        self.observer.tell(event)


class TimedUnpack(Unpack):
    """As `Unpack`, with the time it takes."""

    __slots__ = ("ended", "started", "watch")

    def __init__(self, flight: Flight, watch: RequestWatch) -> None:
        super().__init__(flight, None)
        self.watch = watch
        self.started = self.ended = 0.0

    def run_from(self, batch: Sequence[Work], at: int) -> int:
        begun = monotonic()
        count = super().run_from(batch, at)
        if count > 1:
            # What was done for all of them at once is told as if it had been one after the other.
            share = (monotonic() - begun) / count
            for number, work in enumerate(batch[at : at + count]):
                assert isinstance(work, TimedUnpack)
                work.started = begun + number * share
                work.ended = work.started + share
        return count

    def run(self) -> None:
        self.started = monotonic()
        try:
            super().run()
        finally:
            self.ended = monotonic()

    def finished(self) -> None:
        self.watch.decoded(self.started, self.ended)
        super().finished()


class Timed(Work):
    """Work that belongs to no request, such as giving the fill value to what is not stored, with the time it takes."""

    __slots__ = ("observer", "seconds", "store", "work")

    def __init__(self, work: Work, observer: Observer, store: str) -> None:
        super().__init__(work.weight)
        self.work = work
        self.observer = observer
        self.store = store
        self.seconds = 0.0

    def run(self) -> None:
        begun = monotonic()
        try:
            self.work.run()
        finally:
            self.seconds = monotonic() - begun

    def finished(self) -> None:
        self.observer.worked(self.store, self.seconds)
        self.work.error = self.error
        self.work.finished()
        self.work.error = None
