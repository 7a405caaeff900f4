"""The base of all blocking names: calls that wait for a coroutine on the I/O thread, and forwarded properties."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import copy_context
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Never, ParamSpec, Self, TypeVar, cast, overload

import numpy as np

from aiozarr.engine import bind_callback, run_blocking

if TYPE_CHECKING:
    from aiozarr.common.progress import Progress, ProgressLike

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
N = TypeVar("N")


def wait(
    function: Callable[[Callable[[Progress], None] | None], Coroutine[Any, Any, T]], progress: ProgressLike = None
) -> T:
    """Run the coroutine `function(callback)` on the I/O thread and return its result.

    It runs in the caller's context variables, so that `record()` counts it. `callback` calls `progress` in this thread.
    """

    async def call_without_progress() -> T:
        return await function(None)  # here, because wrong arguments raise before there is a coroutine

    if progress is None:
        return run_blocking(call_without_progress, has_callbacks=False)
    from aiozarr.common.progress import shown_progress

    context = copy_context()
    with shown_progress(progress, "aiozarr") as shown:

        async def call() -> T:
            callback = bind_callback(shown)
            return await asyncio.get_running_loop().create_task(function(callback), context=context)

        return run_blocking(call)


def blocking_function(function: Callable[P, Coroutine[Any, Any, A]], wrap: Callable[[A], B]) -> Callable[P, B]:
    """Return the blocking twin of a coroutine function; `wrap` converts its result to a class of this package."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> B:
        return wrap(wait(lambda _: function(*args, **kwargs)))

    return call


def blocking_operation(function: Callable[P, Coroutine[Any, Any, A]]) -> Callable[P, A]:
    """Return the blocking twin of a coroutine function with a keyword `progress`, which is called in this thread."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> A:
        progress = cast("ProgressLike", kwargs.pop("progress", None))
        bound = cast("Callable[..., Coroutine[Any, Any, A]]", function)
        return wait(lambda callback: bound(*args, **kwargs, progress=callback), progress)

    return call


def blocking_method(
    function: Callable[Concatenate[N, P], Coroutine[Any, Any, A]], wrap: Callable[[A], B]
) -> Callable[Concatenate[Any, P], B]:
    """Return the blocking twin of a coroutine method, for a class with the asynchronous object in `_async`."""

    @wraps(function)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> B:
        return wrap(wait(lambda _: function(self._async, *args, **kwargs)))

    return cast("Callable[Concatenate[Any, P], B]", call)


class Forwarded(property, Generic[T]):
    """A property of an asynchronous object, for the blocking class that has the object in `_async`.

    Its name and documentation come from the asynchronous class.

    Args:
        twin: the asynchronous class.
        get: returns the value from the asynchronous object.
    """

    def __init__(self, twin: type[N], get: Callable[[N], T]) -> None:
        super().__init__(lambda blocking: get(blocking._async))
        self._twin = twin

    def __set_name__(self, owner: type, name: str) -> None:
        self.__doc__ = getattr(self._twin, name).__doc__

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type | None = None) -> Self: ...
        @overload
        def __get__(self, instance: object, owner: type | None = None) -> T: ...
        def __get__(self, instance: object, owner: type | None = None) -> Any: ...
        # Assigning is an error, as for other properties without a setter.
        def __set__(self, instance: object, value: Never) -> None: ...


def data_in_this_thread(function: Callable[P, B]) -> Callable[P, B]:
    """Return a blocking function whose `data` become an array in the calling thread.

    Making an array may run user code, which may call this package again, so that the I/O thread would wait for itself.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> B:
        data = kwargs.get("data")
        if hasattr(data, "__array__"):
            kwargs["data"] = np.asarray(data)
        return function(*args, **kwargs)

    return call


def unchanged(value: A) -> A:
    """Return `value`, for results that need no wrapping."""
    return value


def iterate(
    items: AsyncGenerator[A, None],
    wrap: Callable[[A], B],
    # Bound: free-threaded builds may clear this module before they close the generators that are left.
    is_finalizing: Callable[[], bool] = sys.is_finalizing,
) -> Generator[B, None, None]:
    """Iterate over an asynchronous generator. Leaving early closes it, and waits until no request is in flight."""
    end = object()

    async def step(_: object) -> Any:
        return await anext(items, end)

    async def close(_: object) -> None:
        await items.aclose()

    try:
        while (item := wait(step)) is not end:
            yield wrap(item)
    finally:
        # At the interpreter's exit the I/O thread has ended already, and has closed the generator.
        if not is_finalizing():
            wait(close)
