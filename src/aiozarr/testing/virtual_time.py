"""An event loop whose clock jumps to the next timer when nothing else is left to do: hours pass in no time.

    assert run_virtual(scenario()) == ...       # asyncio.sleep(3600) inside costs nothing; loop.time() begins at 0

What runs is deterministic: timers fire in the order of their times, callbacks in the order in which they were
scheduled, and work given to the default executor runs at once, in the loop's thread, in no time. When neither a
callback nor a timer is left and the main task still waits, nothing could ever wake it: that is a `DeadlockError`, not
a hang.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class DeadlockError(Exception):
    """Every task waits for something that no callback, timer or thread will ever bring."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A selector loop in virtual time, in seconds from 0.

    `busy`, where given, tells whether threads of the code under test are at work: then the clock stands still, and the
    loop really waits for their `call_soon_threadsafe`, at most `patience` seconds.
    """

    def __init__(self, *, busy: Callable[[], bool] | None = None, patience: float = 10.0) -> None:
        self._now = 0.0
        self._selector_in_virtual_time = _VirtualSelector(self, busy, patience)
        super().__init__(self._selector_in_virtual_time)

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Let the clock jump."""
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


def run_virtual(main: Coroutine[Any, Any, T], *, busy: Callable[[], bool] | None = None, patience: float = 10.0) -> T:
    """Run `main` to its end in virtual time, as `asyncio.run` does in real time.

    Raises:
        DeadlockError: everything waits, and nothing can happen any more.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(busy=busy, patience=patience)) as runner:
        return runner.run(main)


class _VirtualSelector(selectors.DefaultSelector):
    """Where the loop would sleep, the clock jumps."""

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
                raise DeadlockError(f"threads are at work, and reported nothing for {self._patience} s")
            return ready
        if timeout is None:
            waiting = sorted(task.get_name() for task in asyncio.all_tasks(self._loop))
            raise DeadlockError(f"nothing can happen any more; waiting: {', '.join(waiting) or 'nobody'}")
        self._loop.advance(timeout)
        return []
