"""The cost of reads and writes: an event per request, and the report that sums the events inside a context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Literal, TypeAlias

from aiozarr.common.formatting import format_bytes, format_seconds, format_table, preformatted
from aiozarr.model import ByteRange

RequestOperation: TypeAlias = Literal["fetch", "set", "erase", "list", "stat"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEvent:
    """One request to a store that has ended, and whose response was decoded.

    Times are seconds of `time.monotonic`, or 0 for none.

    Attributes:
        operation: the operation of the store.
        store: the store's URL.
        key: the key, or the prefix of an operation on a prefix.
        range: the byte range, or None for a whole value.
        bytes_wanted: bytes of the response that the caller needs.
        bytes_fetched: bytes of values that were received.
        bytes_written: bytes of a value that were sent.
        seconds: from the first attempt to the end, with the pauses between attempts. 0 for a request that is sent on
            behalf of another one, whose seconds include it: for the size of an object before its end is read, for a
            chunk before part of it is written.
        attempts: number of attempts.
        error: the error of the request, or None. A response that does not decode is an error of the read.
        started: time of the first attempt.
        queue_seconds: how long the request had waited in the queue then.
        chunks: number of chunks decoded or encoded.
        decode_started: when a worker began to decode the first of them.
        decode_ended: when a worker had decoded the last of them.
        decode_seconds: time of all workers in codecs and in copying elements to the output.
        encode_seconds: time of all workers in encoding. `seconds` include it.
        status: HTTP status of the response; None for stores without one, and where the response said "missing".
        server: URL of the server, without its path; None for stores without one.
    """

    operation: RequestOperation
    store: str
    key: str
    range: ByteRange | None
    bytes_wanted: int
    bytes_fetched: int
    seconds: float
    attempts: int
    bytes_written: int = 0
    error: BaseException | None = None
    started: float = 0.0
    queue_seconds: float = 0.0
    chunks: int = 0
    decode_started: float = 0.0
    decode_ended: float = 0.0
    decode_seconds: float = 0.0
    encode_seconds: float = 0.0
    status: int | None = None
    server: str | None = None

    @property
    def over_read(self) -> int:
        """Bytes that were fetched but not wanted."""
        return self.bytes_fetched - self.bytes_wanted


Event: TypeAlias = RequestEvent


@dataclass(slots=True)
class Totals:
    """Sums over requests.

    Seconds of concurrent requests and workers are added, so a sum may exceed the time that has passed. The sums do not
    overlap, except that `request_seconds` of writes include their `encode_seconds`.

    Attributes:
        requests: requests sent to stores, with repetitions. A listing counts as one request, with all its pages. So
            does the removal of all keys below a prefix.
        retries: how many of them were repetitions.
        bytes_wanted: bytes of stored objects that the operations needed.
        bytes_fetched: bytes of stored objects that were received: more than wanted if merged requests include gaps.
        bytes_written: bytes that were sent to stores.
        request_seconds: wall time of the requests, from the first attempt to the end.
        queue_seconds: time in which requests were ready and waited in the queue.
        decode_seconds: time of the workers in codecs and in copying elements to the output.
        encode_seconds: time of the workers in encoding. For partial writes it includes decoding the stored chunk.
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
        """Bytes that were fetched but not wanted."""
        return self.bytes_fetched - self.bytes_wanted

    def _add(self, more: Totals) -> None:
        for name in _SUMMED:
            value = getattr(more, name)
            if value:
                setattr(self, name, getattr(self, name) + value)


_SUMMED = tuple([each.name for each in fields(Totals)])


@dataclass(slots=True)
class Report(Totals):
    """The sums of the operations inside `record()`. During an operation it has the sums so far.

    A chunk that two readers share is fetched and decoded once. It counts for the reader whose request fetches it, even
    if that reader is cancelled meanwhile.

    Attributes:
        chunks: number of chunks (of shards: inner chunks) read, and of stored objects written.
        shared: number of chunks that the request of another reader fetched (single flight).
        cached: number of chunks from the cache of decoded chunks (`Settings.chunk_cache_bytes`).
        seconds: sum of the wall times of the operations.
        listener: called with the event of each request, on the I/O thread or in a worker. Must not raise.
    """

    chunks: int = 0
    shared: int = 0
    cached: int = 0
    seconds: float = 0.0
    outer: Report | None = field(default=None, repr=False, compare=False)
    listener: Callable[[RequestEvent], None] | None = field(default=None, repr=False, compare=False)
    _origins: dict[str, Totals] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __str__(self) -> str:
        facts = [
            ("requests", _counted(self.requests, retries=self.retries)),
            ("fetched", f"{format_bytes(self.bytes_fetched)}, {format_bytes(self.over_read)} of them not wanted"),
            ("written", format_bytes(self.bytes_written)),
            ("chunks", _counted(self.chunks, shared=self.shared, cached=self.cached)),
            ("time", format_seconds(self.seconds)),
        ]
        summed = {
            "requests": self.request_seconds,
            "queue": self.queue_seconds,
            "decoding": self.decode_seconds,
            "encoding": self.encode_seconds,
        }
        facts.append(("summed time", ", ".join([f"{name} {format_seconds(each)}" for name, each in summed.items()])))
        return format_table(facts)

    def _repr_html_(self) -> str:
        return preformatted(str(self))

    @property
    def origins(self) -> dict[str, Totals]:
        """A copy of the sums per origin.

        The keys are scheme and server of the URLs (for clouds: bucket or account), without secrets.
        """
        return {origin: replace(totals) for origin, totals in self._origins.copy().items()}

    def add(self, store: str, more: Totals) -> None:
        """Add the sums of requests to the store of this URL, here and in the enclosing records."""
        origin = origin_url(store)
        report: Report | None = self
        while report is not None:
            report._add(more)
            totals = report._origins.get(origin)
            if totals is None:
                # Complete before other threads can see it.
                report._origins[origin] = replace(more)
            else:
                totals._add(more)
            report = report.outer

    @property
    def has_listener(self) -> bool:
        """Whether this report, or an enclosing one, has a listener."""
        report: Report | None = self
        while report is not None:
            if report.listener is not None:
                return True
            report = report.outer
        return False

    def notify(self, event: RequestEvent) -> None:
        """Call the listener of this report, or of the nearest enclosing one that has a listener."""
        report: Report | None = self
        while report is not None:
            if report.listener is not None:
                report.listener(event)
                return
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


def _counted(number: int, **parts: int) -> str:
    """Return a number, and how many of it are special."""
    special = [f"{count:,} {name}" for name, count in parts.items() if count]
    return f"{number:,} ({', '.join(special)})" if special else f"{number:,}"


@lru_cache(maxsize=256)
def origin_url(url: str) -> str:
    """Return scheme and authority of a store's URL."""
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
    """Sum the cost of reads and writes inside this context.

    The context follows the caller's task (contextvars): concurrent tasks do not mix, and tasks started inside count.
    Records nest: an inner one counts in the outer one too.
    """
    report = Report(outer=_recorder.get())
    with recording(report):
        yield report


@contextmanager
def recording(report: Report) -> Iterator[None]:
    """Sum the cost of reads and writes inside this context in `report`."""
    token = _recorder.set(report)
    try:
        yield
    finally:
        _recorder.reset(token)
