"""Calls methods of a file system: coroutines on its own loop for callers on another, blocking methods in threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from aiozarr.common.concurrency import retrieve_error
from aiozarr.common.fork_safe import ForkSafeLock
from aiozarr.errors import ForkedProcessError, StoreError
from aiozarr.stores.blocking import in_thread, in_thread_uncancelled
from aiozarr.stores.fsspec.errors import translate
from aiozarr.stores.fsspec.instances import FileSystemTraits, InstanceSource, UrlSource, is_async, usable_instance

T = TypeVar("T")


async def run_on_loop(there: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine that `make` returns on the loop `there`, and return its result here.

    A cancellation is passed on and waited for, so the coroutine has ended when it is raised here.

    Raises:
        StoreError: the loop `there` has ended, or the coroutine was cancelled there.
    """
    here = asyncio.get_running_loop()
    if here is there:
        return await make()
    call = _LoopCall(there, here, make)
    try:
        there.call_soon_threadsafe(call.begin)
    except RuntimeError as error:
        raise StoreError("the event loop of the file system has ended") from error
    try:
        await call.answer
    except BaseException as stop:
        with contextlib.suppress(RuntimeError):  # the loop there has ended, and with it the coroutine
            there.call_soon_threadsafe(call.cancel)
            while not call.ended and not isinstance(stop, GeneratorExit):
                call.answer = here.create_future()
                with contextlib.suppress(asyncio.CancelledError):
                    await call.answer
        raise
    task = call.task
    if task is None or task.cancelled():
        raise StoreError("the request was cancelled on the event loop of the file system", retryable=True)
    return task.result()


class _LoopCall(Generic[T]):
    def __init__(
        self,
        there: asyncio.AbstractEventLoop,
        here: asyncio.AbstractEventLoop,
        make: Callable[[], Coroutine[Any, Any, T]],
    ) -> None:
        self._there, self._here, self._make = there, here, make
        self.task: asyncio.Task[T] | None = None
        self.ended = False
        self.answer: asyncio.Future[None] = here.create_future()

    def begin(self) -> None:
        """Run on the loop `there`, before `cancel`: callbacks run in the order in which they were posted."""
        self.task = self._there.create_task(self._make())
        self.task.add_done_callback(self._report_end)

    def cancel(self) -> None:
        """Run on the loop `there`."""
        if self.task is not None:
            self.task.cancel()

    def _report_end(self, task: asyncio.Task[T]) -> None:
        retrieve_error(task)  # the caller may have been cancelled
        with contextlib.suppress(RuntimeError):  # the loop of a cancelled caller may be closed
            self._here.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        self.ended = True
        if not self.answer.done():
            self.answer.set_result(None)


class FileSystemCalls:
    """Calls a file system by the names of its blocking methods.

    A coroutine runs on the loop of the file system. A cancelled call is cancelled there and waited for. In threads, a
    cancelled read is abandoned and a cancelled write is waited for.
    """

    def __init__(self, recipe: InstanceSource | UrlSource, traits: FileSystemTraits) -> None:
        self._recipe = recipe
        self._traits = traits
        self._fs: Any = None
        self._pid = os.getpid()
        self._create_lock = ForkSafeLock()

    @property
    def fs(self) -> Any:
        """The file system, created at the first access; in a forked child, a new one by the same arguments.

        Raises:
            ForkedProcessError: it cannot be created again.
        """
        # Threads that call at once must get the same instance, because the locks belong to it.
        with self._create_lock:
            if self._pid != os.getpid():
                try:
                    self._fs = self._recipe.recreate()
                except Exception as error:
                    raise ForkedProcessError("the file system of the parent process cannot be created again") from error
                self._pid = os.getpid()
            elif self._fs is None:
                self._fs = _create(self._recipe)
            return self._fs

    async def _instance(self) -> Any:
        if self._fs is None or self._pid != os.getpid():
            return await in_thread(lambda: self.fs)
        return self._fs

    async def read(self, name: str, path: str, *args: Any, fresh: bool = False, **kwargs: Any) -> Any:
        """Call the method `name`, which only reads; with `fresh`, cached listings are invalidated before."""
        return await self._call(name, path, args, kwargs, fresh=fresh, write=False)

    async def write(self, name: str, path: str, *args: Any, **kwargs: Any) -> Any:
        """Call the method `name`, which writes."""
        return await self._call(name, path, args, kwargs, fresh=False, write=True)

    async def _call(
        self, name: str, path: str, args: tuple[Any, ...], kwargs: dict[str, Any], *, fresh: bool, write: bool
    ) -> Any:
        fs = await self._instance()
        if is_async(fs):
            if not fs.loop.is_running():  # the loop of an instance from the user has ended
                fs = self._fs = usable_instance(fs)

            async def there() -> Any:
                if fresh:
                    fs.invalidate_cache()
                return await getattr(fs, f"_{name}")(path, *args, **kwargs)

            return await run_on_loop(fs.loop, there)

        def now() -> Any:
            try:
                with self._lock():
                    if fresh:
                        fs.invalidate_cache()
                    return getattr(fs, name)(path, *args, **kwargs)
            except (StopIteration, asyncio.CancelledError) as error:
                # A future refuses StopIteration, and the caller would mistake CancelledError for its own cancellation.
                raise RuntimeError(f"the file system raised {type(error).__name__}") from error

        return await (in_thread_uncancelled(now) if write else in_thread(now))

    def _lock(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._traits.is_thread_safe else _locks.of(self._fs)


def _create(recipe: InstanceSource | UrlSource) -> Any:
    try:
        return recipe.make()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        # A missing archive or repository does not mean that a value in it is missing.
        raise translate(error) from error


class _Locks:
    """The locks of blocking file systems, each shared by all stores of one file system."""

    def __init__(self) -> None:
        self._locks: WeakKeyDictionary[Any, ForkSafeLock] = WeakKeyDictionary()
        self._guard = ForkSafeLock()

    def of(self, fs: Any) -> ForkSafeLock:
        with self._guard:
            lock = self._locks.get(fs)
            if lock is None:
                lock = self._locks[fs] = ForkSafeLock()
            return lock


_locks = _Locks()
