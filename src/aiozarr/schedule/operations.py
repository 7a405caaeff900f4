"""Observers of operations are called when a read, write, opening or copy begins and ends, and after its requests.

An operation that runs inside another one, such as a read of a conversion's task, is part of that one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from contextvars import ContextVar
from functools import wraps
from typing import Any, Literal, ParamSpec, Protocol, TypeAlias, TypeVar

from aiozarr.schedule.events import Report, RequestEvent, current_recorder, recording

OperationKind: TypeAlias = Literal["read", "stream", "write", "open", "create", "copy", "convert"]
P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("aiozarr")


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
        self.report = Report(outer=current_recorder(), listener=self._request)

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
