"""What the reads and writes inside a context cost: event records, and the report that adds them up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from aiozarr.model import ByteRange


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """One request to a store has ended, and what it brought is decoded.

    Times are seconds of `time.monotonic`; a time of 0 says that there was none.

    Attributes:
        operation: what was asked for.
        store: the store's URL.
        key: the key; a prefix for operations on prefixes.
        range: the byte range; None for a whole value.
        bytes_wanted: bytes that the caller needs of the answer (reads), or sent (writes).
        bytes_fetched: bytes that came or were sent.
        seconds: from the first try to the end, waits between tries included. 0 for what is asked on the way of another
            request, whose seconds include it: a size before the end of an object, a chunk before a part of it is set.
        attempts: how often it was sent.
        error: the error it ended with, if any. An answer that does not decode is the read's error, not the request's.
        started: when it was first sent.
        queue_seconds: how long it had been waiting for its turn then.
        chunks: chunks that were decoded of the answer, or encoded to be sent.
        decode_started: when a worker began with the first of them.
        decode_ended: when a worker was done with the last of them.
        decode_seconds: time of the workers in codecs and in putting elements in place, added up over them.
        encode_seconds: the same of what was sent; `seconds` include it.
    """

    operation: Literal["fetch", "set", "erase", "list", "stat"]
    store: str
    key: str
    range: ByteRange | None
    bytes_wanted: int
    bytes_fetched: int
    seconds: float
    attempts: int
    error: BaseException | None = None
    started: float = 0.0
    queue_seconds: float = 0.0
    chunks: int = 0
    decode_started: float = 0.0
    decode_ended: float = 0.0
    decode_seconds: float = 0.0
    encode_seconds: float = 0.0

    @property
    def over_read(self) -> int:
        """Bytes that were fetched and not needed."""
        return self.bytes_fetched - self.bytes_wanted


Event: TypeAlias = RequestEvent


@dataclass(slots=True)
class Totals:
    """Sums over requests.

    Seconds are added over what goes on side by side, so any of them may be more than the time that has passed. None
    contains another, but for writes, whose `request_seconds` include their `encode_seconds`.

    Attributes:
        requests: requests sent to stores, repetitions included. A listing counts as one, however many pages it has,
            and so does the removal of all that lies below a prefix.
        retries: those of them that were repetitions.
        bytes_wanted: bytes of stored objects that the operations needed.
        bytes_fetched: bytes of stored objects that came; more than wanted where merging reads over gaps.
        bytes_written: bytes that were sent to be stored.
        request_seconds: wall time of the requests, from the first try to the end.
        queue_seconds: time in which requests could have been sent and waited for their turn.
        decode_seconds: time of the workers in codecs and in putting elements in place.
        encode_seconds: time of the workers in making the bytes of what is written; of a part, reading the rest of the
            chunk's values included.
    """

    requests: int = 0
    retries: int = 0
    bytes_wanted: int = 0
    bytes_fetched: int = 0
    bytes_written: int = 0
    request_seconds: float = 0.0
    queue_seconds: float = 0.0
    decode_seconds: float = 0.0
    encode_seconds: float = 0.0

    @property
    def over_read(self) -> int:
        """Bytes that were fetched and not needed."""
        return self.bytes_fetched - self.bytes_wanted

    def _add(self, more: Totals) -> None:
        for name in _SUMMED:
            value = getattr(more, name)
            if value:
                setattr(self, name, getattr(self, name) + value)


_SUMMED = tuple([each.name for each in fields(Totals)])


@dataclass(slots=True)
class Report(Totals):
    """The sums of what was done inside `record()`. Reading it while operations are under way shows the sums so far.

    A chunk that two readers share is fetched and decoded once, and counted for the one whose request brings it, also
    where that one is cancelled meanwhile.

    Attributes:
        chunks: chunks, or inner chunks of shards, that were read; stored objects that were written.
        shared: chunks that another reader's request delivered (single flight).
        cached: chunks that were decoded already (`Settings.chunk_cache_bytes`).
        seconds: wall time of the operations, added up.
    """

    chunks: int = 0
    shared: int = 0
    cached: int = 0
    seconds: float = 0.0
    outer: Report | None = field(default=None, repr=False, compare=False)
    _origins: dict[str, Totals] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def origins(self) -> dict[str, Totals]:
        """The sums of each origin, by scheme and server (of clouds: bucket or account) of the URL, without secrets.

        A copy as of now.
        """
        return {origin: replace(totals) for origin, totals in self._origins.copy().items()}

    def add(self, store: str, more: Totals) -> None:
        """Add what requests to the store of this URL have cost, here and in the enclosing records."""
        origin = origin_url(store)
        report: Report | None = self
        while report is not None:
            report._add(more)
            totals = report._origins.get(origin)
            if totals is None:
                # Complete before others can see it.
                report._origins[origin] = replace(more)
            else:
                totals._add(more)
            report = report.outer

    def operation(self, *, chunks: int = 0, shared: int = 0, cached: int = 0, seconds: float = 0.0) -> None:
        """Add one operation, here and in the enclosing records."""
        report: Report | None = self
        while report is not None:
            report.chunks += chunks
            report.shared += shared
            report.cached += cached
            report.seconds += seconds
            report = report.outer


@lru_cache(maxsize=256)
def origin_url(url: str) -> str:
    """Return scheme and authority of a store's URL: whom requests go to, as far as a URL says."""
    scheme, separator, rest = url.rpartition("::")[2].partition("://")
    if not separator:
        return url
    return f"{scheme}://{rest.partition('/')[0]}"


_recorder: ContextVar[Report | None] = ContextVar("aiozarr_recorder", default=None)


def current_recorder() -> Report | None:
    """Return the report of the innermost `record()` around the caller, or None."""
    return _recorder.get()


@contextmanager
def record() -> Iterator[Report]:
    """Add up what reads and writes inside this context cost.

    The context follows the caller's task (contextvars): concurrent tasks do not mix, and tasks started inside count in.
    Records nest; an inner one counts in the outer one too.
    """
    report = Report(outer=_recorder.get())
    token = _recorder.set(report)
    try:
        yield report
    finally:
        _recorder.reset(token)
