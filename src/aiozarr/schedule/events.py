"""What the reads and writes inside a context cost: event records, and the report that adds them up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from aiozarr.model import ByteRange


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """One request to a store has ended.

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
        error: the error it ended with, if any.
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


Event: TypeAlias = RequestEvent


@dataclass(slots=True)
class Report:
    """The sums of what was done inside `record()`. Reading it while operations are under way shows the sums so far.

    Attributes:
        requests: requests sent to stores, repetitions included. A listing counts as one, however many pages it has,
            and so does the removal of all that lies below a prefix.
        retries: those of them that were repetitions.
        bytes_wanted: bytes of stored objects that the operations needed.
        bytes_fetched: bytes of stored objects that came; more than wanted where merging reads over gaps.
        bytes_written: bytes that were sent to be stored.
        chunks: chunks, or inner chunks of shards, that were read; stored objects that were written.
        shared: chunks that another reader's request delivered (single flight).
        seconds: wall time of the operations, added up.
        request_seconds: wall time of the requests, added up over all that overlap.
    """

    requests: int = 0
    retries: int = 0
    bytes_wanted: int = 0
    bytes_fetched: int = 0
    bytes_written: int = 0
    chunks: int = 0
    shared: int = 0
    seconds: float = 0.0
    request_seconds: float = 0.0
    outer: Report | None = field(default=None, repr=False, compare=False)

    def request(
        self,
        *,
        attempts: int = 1,
        retries: int | None = None,
        wanted: int = 0,
        fetched: int = 0,
        written: int = 0,
        seconds: float = 0.0,
    ) -> None:
        """Add `attempts` requests, of which all but the first are repetitions unless `retries` says otherwise."""
        report: Report | None = self
        while report is not None:
            report.requests += attempts
            report.retries += attempts - 1 if retries is None else retries
            report.bytes_wanted += wanted
            report.bytes_fetched += fetched
            report.bytes_written += written
            report.request_seconds += seconds
            report = report.outer

    def operation(self, *, chunks: int = 0, shared: int = 0, seconds: float = 0.0) -> None:
        """Add one operation, here and in the enclosing records."""
        report: Report | None = self
        while report is not None:
            report.chunks += chunks
            report.shared += shared
            report.seconds += seconds
            report = report.outer


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
