"""The cost of reads and writes: an event per request, the report that sums the events inside a context, and observers.

Observers of operations are called when a read, write, opening or copy begins and ends, and after its requests. An
operation that runs inside another one, such as a read of a conversion's task, is part of that one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, wraps
from typing import Any, Literal, ParamSpec, Protocol, TypeAlias, TypeVar

from aiozarr.common.formatting import format_bytes, format_seconds, format_table, preformatted
from aiozarr.model import ByteRange

RequestOperation: TypeAlias = Literal["fetch", "set", "erase", "list", "stat"]
OperationKind: TypeAlias = Literal["read", "stream", "write", "open", "create", "copy", "convert"]
P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("aiozarr")


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
        queue_seconds: seconds that the request waited in the queue before its first attempt.
        chunks: number of chunks decoded or encoded.
        decode_started: when a worker began to decode the first of them.
        decode_ended: when a worker had decoded the last of them.
        decode_seconds: time of all workers in codecs and in copying elements to the output.
        encode_seconds: time of all workers in encoding. `seconds` include it.
        status: HTTP status of the response; None for stores without one, and if the object is missing.
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
        requests: requests sent to stores, with repetitions. A listing with all its pages counts as one request, and so
            does the removal of all keys below a prefix.
        retries: how many of these requests were repetitions.
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
    if that reader is cancelled.

    Attributes:
        chunks: number of chunks (of shards: inner chunks) read, and of stored objects written.
        shared: number of chunks that the request of another reader fetched (single flight).
        cached: number of chunks from the cache of decoded chunks (`Settings.chunk_cache_bytes`).
        seconds: sum of the wall times of the operations.
    """

    chunks: int = 0
    shared: int = 0
    cached: int = 0
    seconds: float = 0.0
    _outer: Report | None = field(default=None, init=False, repr=False, compare=False)
    _listener: Callable[[RequestEvent], None] | None = field(default=None, init=False, repr=False, compare=False)
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


def nested_report(outer: Report | None, listener: Callable[[RequestEvent], None] | None = None) -> Report:
    """Return a new report whose sums are added to `outer` too.

    Args:
        outer: the enclosing report, or None.
        listener: called with the event of each request, on the I/O thread or in a worker. Must not raise. None: the
            nearest enclosing report that has a listener is notified.
    """
    report = Report()
    report._outer, report._listener = outer, listener
    return report


def _with_enclosing(report: Report | None) -> Iterator[Report]:
    while report is not None:
        yield report
        report = report._outer


def add_requests(report: Report, store: str, more: Totals) -> None:
    """Add the sums of requests to the store of this URL to `report` and the enclosing ones."""
    origin = origin_url(store)
    for each in _with_enclosing(report):
        each._add(more)
        totals = each._origins.get(origin)
        if totals is None:
            # Complete before other threads can see it.
            each._origins[origin] = replace(more)
        else:
            totals._add(more)


def add_operation(report: Report, *, chunks: int = 0, shared: int = 0, cached: int = 0, seconds: float = 0.0) -> None:
    """Add one operation to `report` and the enclosing ones."""
    for each in _with_enclosing(report):
        each.chunks += chunks
        each.shared += shared
        each.cached += cached
        each.seconds += seconds


def listener_of(report: Report) -> Callable[[RequestEvent], None] | None:
    """Return the listener of `report`, or of the nearest enclosing report that has one."""
    return next((each._listener for each in _with_enclosing(report) if each._listener is not None), None)


def _counted(number: int, **parts: int) -> str:
    """Return a number, and how many of it are special."""
    special = [f"{count:,} {name}" for name, count in parts.items() if count]
    return f"{number:,} ({', '.join(special)})" if special else f"{number:,}"


def network_requests(report: Report) -> int:
    """Return the requests without calls of local disks and of stores in memory, which no server sees."""
    origins = report.origins.items()
    return sum([totals.requests for origin, totals in origins if not origin.startswith(("file://", "memory://"))])


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
    report = nested_report(_recorder.get())
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


# --- observers of operations --------------------------------------------------------------------------------------


class OperationTrace(Protocol):
    """One operation, as an observer follows it. Its exceptions are logged, and never end the operation."""

    def request(self, event: RequestEvent) -> None:
        """Receive a request that has ended, on the I/O thread or in a worker. A late one may arrive after `end`."""

    def end(self, report: Report, url: str | None, error: BaseException | None) -> None:
        """The operation has ended, with `error` if it failed. Called where `begin` was called.

        Args:
            report: the sums of the operation.
            url: the URL of the node, without secrets; None if it is unknown.
            error: the error, a cancellation included.
        """


class OperationObserver(Protocol):
    """Follows operations. Its exceptions are logged, and never end an operation."""

    def begin(self, kind: OperationKind) -> OperationTrace | None:
        """Return the trace of an operation that begins, in the context of its caller; None not to follow it."""


_observers: tuple[OperationObserver, ...] = ()


def add_observer(observer: OperationObserver) -> None:
    """Have `observer` follow all operations that begin from now on."""
    global _observers
    _observers = (*_observers, observer)


def remove_observer(observer: OperationObserver) -> None:
    """End `add_observer`. Operations that have begun are followed to their end."""
    global _observers
    _observers = tuple([each for each in _observers if each is not observer])


def has_observers() -> bool:
    """Return whether operations that begin now are followed."""
    return bool(_observers)


class _ObservedOperation:
    """One operation with the traces of all observers.

    Attributes:
        report: receives the sums of the operation, and passes the events of its requests to the traces.
        url: the URL of the node, if the operation itself has named it.
        has_ended: whether it has ended. Callbacks of the caller may still run in its context.
    """

    def __init__(self, kind: OperationKind) -> None:
        self.url: str | None = None
        self.has_ended = False
        begun = [_guarded(observer.begin, kind) for observer in _observers]
        self._traces = [trace for trace in begun if trace is not None]
        self.report = nested_report(current_recorder(), self._request)

    def _request(self, event: RequestEvent) -> None:
        for trace in self._traces:
            _guarded(trace.request, event)

    def end(self, url: str | None, error: BaseException | None) -> None:
        self.has_ended = True
        for trace in self._traces:
            _guarded(trace.end, self.report, self.url or url, error)


_operation: ContextVar[_ObservedOperation | None] = ContextVar("aiozarr_operation", default=None)


def _current_operation() -> _ObservedOperation | None:
    """Return the operation that runs around the caller and is followed, or None."""
    operation = _operation.get()
    return None if operation is None or operation.has_ended else operation


def name_operation(url: str) -> None:
    """Name the node of the operation around the caller, which knows it only now."""
    operation = _current_operation()
    if operation is not None:
        operation.url = url


def observed(
    kind: OperationKind, url_of: Callable[..., str | None]
) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """Return a decorator of coroutine functions, whose calls become operations. Without observers it adds one check.

    Args:
        kind: the kind of the operation.
        url_of: returns the URL of the node, given the result (None after an error) and the arguments of the call.
    """

    def decorate(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        async def follow(*args: P.args, **kwargs: P.kwargs) -> T:
            operation = _ObservedOperation(kind)
            result: T | None = None
            failure: BaseException | None = None
            token = _operation.set(operation)
            try:
                with recording(operation.report):
                    result = await function(*args, **kwargs)
                return result
            except BaseException as error:
                failure = error
                raise
            finally:
                _operation.reset(token)
                operation.end(_guarded(url_of, result, *args), failure)
                # The traceback of the error holds this frame.
                del failure, operation

        # A coroutine function itself: frameworks ask `inspect.iscoroutinefunction`.
        @wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            is_followed = _observers and _current_operation() is None
            return await (follow(*args, **kwargs) if is_followed else function(*args, **kwargs))

        return call

    return decorate


def observed_stream(url: str, start: Callable[[Report | None], AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
    """Return the generator `start(report)`, as an operation of kind "stream" if there are observers."""
    if not _observers or _current_operation() is not None:
        return start(current_recorder())
    return _follow_stream(_ObservedOperation("stream"), url, start)


async def _follow_stream(
    operation: _ObservedOperation, url: str, start: Callable[[Report | None], AsyncGenerator[T, None]]
) -> AsyncGenerator[T, None]:
    failure: BaseException | None = None
    try:
        async with aclosing(start(operation.report)) as items:
            async for item in items:
                yield item
    except GeneratorExit:
        raise  # left early, which is no error
    except BaseException as error:
        failure = error
        raise
    finally:
        operation.end(url, failure)
        del failure, operation


def _guarded(function: Callable[..., T], *args: Any) -> T | None:
    """Call a function of an observer. Its exception is logged."""
    try:
        return function(*args)
    except Exception:
        _log.exception("an observer of operations raised")
        return None
