"""An event loop whose clock jumps to the next timer when nothing else is left to do: hours pass in no time.

    @in_virtual_time
    async def test_a_request_is_repeated_after_an_hour() -> None:
        await asyncio.sleep(3600)                                   # costs no time
        assert asyncio.get_running_loop().time() == 3600            # the clock begins at 0

    assert run_virtual(scenario()) == ...                           # the same, as a call

The run is deterministic. Timers fire in the order of their times, callbacks in the order in which they were scheduled.
The random delays between aiozarr's attempts depend on a seed. Work given to the default executor runs at once in the
loop's thread. When no callback and no timer is left and the main task still waits, nothing can wake it any more: that
is a `DeadlockError`, not a hang.
"""

from __future__ import annotations

import asyncio
import functools
import random
import selectors
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

from aiozarr.common.concurrency import jitter_source

__all__ = ["DeadlockError", "VirtualTimeLoop", "in_virtual_time", "run_virtual"]

P = ParamSpec("P")
T = TypeVar("T")


class DeadlockError(Exception):
    """Every task is waiting, and no callback, timer or thread is left that could wake one."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A selector loop in virtual time, in seconds from 0.

    Args:
        busy: Returns whether threads of the code under test are working. While they are, the clock stands still and the
            loop waits in real time for their `call_soon_threadsafe`.
        patience: Real seconds to wait before a `DeadlockError` is raised.
    """

    def __init__(self, *, busy: Callable[[], bool] | None = None, patience: float = 10.0) -> None:
        self._now = 0.0
        self._selector_in_virtual_time = _VirtualSelector(self, busy, patience)
        super().__init__(self._selector_in_virtual_time)

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock on by `seconds`."""
        # To whole nanoseconds, the loop's own resolution: 0.05 s eight times is 0.4 s.
        self._now = round(self._now + seconds, 9)

    def run_in_executor(  # type: ignore[override]  # the executor and its thread are what is left out
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        if executor is not None:
            return super().run_in_executor(executor, func, *args)  # type: ignore[arg-type]
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except StopIteration as error:
            future.set_exception(RuntimeError(f"the call raised {error!r}"))
        except Exception as error:
            future.set_exception(error)
        return future


def run_virtual(
    main: Coroutine[Any, Any, T], *, busy: Callable[[], bool] | None = None, patience: float = 10.0, seed: int = 0
) -> T:
    """Run `main` to its end in virtual time, as `asyncio.run` does in real time.

    Args:
        main: the coroutine.
        busy: as in `VirtualTimeLoop`.
        patience: as in `VirtualTimeLoop`.
        seed: the seed of the delays between attempts.

    Raises:
        DeadlockError: every task is waiting, and nothing is left that could wake one.
    """
    context = copy_context()
    context.run(jitter_source.set, random.Random(seed).random)
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(busy=busy, patience=patience)) as runner:
        return runner.run(main, context=context)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Decorate a coroutine function, such as an async test, to run on a virtual loop of its own.

    Returns:
        A plain function with the same parameters, so pytest gives it its fixtures and needs no plugin to run it. Each
        call raises what `run_virtual` raises.
    """

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_virtual(test(*args, **kwargs))

    return run


class _VirtualSelector(selectors.DefaultSelector):
    """A selector that moves the clock on where the loop would sleep."""

    def __init__(self, loop: VirtualTimeLoop, busy: Callable[[], bool] | None, patience: float) -> None:
        super().__init__()
        self._loop = loop
        self._busy = busy
        self._patience = patience

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self._busy is not None and self._busy():
            ready = super().select(self._patience)
            if not ready:
                raise DeadlockError(f"threads are running but reported nothing for {self._patience} s")
            return ready
        if timeout is None:
            waiting = sorted(task.get_name() for task in asyncio.all_tasks(self._loop))
            raise DeadlockError(f"nothing can wake the loop any more; waiting tasks: {', '.join(waiting) or 'none'}")
        self._loop.advance(timeout)
        return []
