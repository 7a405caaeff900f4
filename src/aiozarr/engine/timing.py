"""Timing of requests, decoding and encoding for observers. Without an observer none of these objects is made."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import TypeVar

from aiozarr.model import ByteRange
from aiozarr.schedule.events import Event, Report, RequestEvent, RequestOperation, Totals, add_requests, listener_of
from aiozarr.schedule.requests import ScheduledRequest
from aiozarr.settings import Settings
from aiozarr.stores.contract import Store

T = TypeVar("T")

_log = logging.getLogger("aiozarr")


class RequestObserver:
    """Receives the events of one operation: a report, `Settings.on_event`, or both. Used on the loop only."""

    __slots__ = ("_on_event", "_report")

    def __init__(self, settings: Settings, report: Report | None) -> None:
        self._on_event = settings.on_event
        self._report = report

    def report(self, event: RequestEvent, *, retries: int | None = None) -> None:
        """Report a request that has ended, of whose attempts `retries` were repetitions (default: all but one)."""
        if self._report is not None:
            add_requests(self._report, event.store, totals_of(event, retries))
            if (listener := listener_of(self._report)) is not None:
                listener(event)
        if self._on_event is not None:
            emit(self._on_event, event)

    def add_decode_time(self, store: str, seconds: float) -> None:
        """Report time of a worker that belongs to no request of this operation."""
        if self._report is not None:
            add_requests(self._report, store, Totals(decode_seconds=seconds))


def emit(on_event: Callable[[Event], None], event: Event) -> None:
    """Call `Settings.on_event`. Its exceptions are logged and do not stop the operation."""
    try:
        on_event(event)
    except Exception:
        _log.exception("Settings.on_event raised")


def totals_of(event: RequestEvent, retries: int | None = None) -> Totals:
    """Return what a request adds to a report."""
    return Totals(
        requests=event.attempts,
        retries=event.attempts - 1 if retries is None else retries,
        bytes_wanted=event.bytes_wanted,
        bytes_fetched=event.bytes_fetched,
        bytes_written=event.bytes_written,
        request_seconds=event.seconds,
        queue_seconds=event.queue_seconds,
        decode_seconds=event.decode_seconds,
        encode_seconds=event.encode_seconds,
    )


def status_of(error: BaseException | None, status: int | None) -> int | None:
    """Return the HTTP status of the error of a request, or `status` if there is no error."""
    return status if error is None else getattr(error, "status", None)


class RequestTiming:
    """The timing of one request, reported when its response was processed.

    On the loop, except for `timed`, which workers call.

    Attributes:
        observer: receives the event.
        ready: since when the request could have been sent, by the clock of its queue.
        event: the event of the request, or None before its end, and if it was never sent.
        chunks: number of chunks that were decoded.
    """

    __slots__ = (
        "_decode_ended",
        "_decode_seconds",
        "_decode_started",
        "_encode_seconds",
        "chunks",
        "event",
        "observer",
        "ready",
    )

    def __init__(self, observer: RequestObserver, ready: float) -> None:
        self.observer = observer
        self.ready = ready
        self.event: RequestEvent | None = None
        self.chunks = 0
        self._encode_seconds: list[float] = []
        self._decode_started = self._decode_ended = self._decode_seconds = 0.0

    def event_of(
        self,
        request: ScheduledRequest,
        operation: RequestOperation,
        *,
        store: Store,
        key: str,
        range: ByteRange | None = None,
        bytes_fetched: int = 0,
        bytes_wanted: int | None = None,
        bytes_written: int = 0,
        now: float,
        attempts: int | None = None,
        error: BaseException | None,
        chunks: int = 0,
        status: int | None = None,
    ) -> RequestEvent:
        """Return the event of a request that has ended.

        Args:
            request: has the times, and the number of attempts unless `attempts` is given.
            now: the time by the clock of the queue. A cancelled request ends now.
            operation: as all others, an attribute of `RequestEvent`.
            store: the store.
            key: the key.
            range: the byte range.
            bytes_fetched: bytes received.
            bytes_wanted: how many of them are wanted; None for all.
            bytes_written: bytes sent.
            attempts: number of attempts.
            error: the error of the request.
            chunks: number of chunks encoded.
            status: HTTP status of the response; if there is an error, its status is used.
        """
        return RequestEvent(
            operation=operation,
            store=store.url,
            key=key,
            range=range,
            bytes_wanted=bytes_fetched if bytes_wanted is None else bytes_wanted,
            bytes_fetched=bytes_fetched,
            bytes_written=bytes_written,
            seconds=request.seconds or now - request.started,
            attempts=request.attempts if attempts is None else attempts,
            error=error,
            started=request.started,
            queue_seconds=max(0.0, request.started - self.ready),
            chunks=chunks,
            status=status_of(error, status),
            server=store.server,
        )

    def timed(self, function: Callable[[], T]) -> T:
        """Run `function` and count its time as encoding."""
        begun = monotonic()
        try:
            return function()
        finally:
            # Several workers may encode for one request: appending to a list is atomic.
            self._encode_seconds.append(monotonic() - begun)

    def decoded(self, started: float, ended: float, chunks: int = 1) -> None:
        """Note that a worker has decoded `chunks` of the response from `started` to `ended`."""
        self._decode_started = min(self._decode_started, started) if self.chunks else started
        self._decode_ended = max(self._decode_ended, ended)
        self._decode_seconds += ended - started
        self.chunks += chunks

    def note_wanted(self, nbytes: int) -> None:
        """Note how many bytes of the response are wanted, which is known only now."""
        if self.event is not None:
            self.event = replace(self.event, bytes_wanted=min(nbytes, self.event.bytes_fetched))

    def close(self) -> None:
        """Report the request, whose response was processed."""
        event, self.event = self.event, None
        if event is None:
            return
        if self.chunks:
            event = replace(
                event,
                chunks=self.chunks,
                decode_started=self._decode_started,
                decode_ended=self._decode_ended,
                decode_seconds=self._decode_seconds,
            )
        if self._encode_seconds:
            event = replace(event, encode_seconds=sum(self._encode_seconds))
        self.observer.report(event)
