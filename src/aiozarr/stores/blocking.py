"""Stores whose operations are system calls: blocking methods, and coroutines that run them in threads."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from aiozarr.common.concurrency import PerLoop, retrieve_error, wait_uncancelled
from aiozarr.errors import LimitError, StoreError
from aiozarr.model import ByteRange, Precondition, Value, Version
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from typing_extensions import Buffer


T = TypeVar("T")


class BlockingStore(Store):
    """A store with `fetch_now`, `set_now` and `erase_now`, which may be called from any thread at any time.

    Worker threads call these methods. The coroutines run them in the default executor of the calling loop, which
    `asyncio.run` shuts down. A cancelled read is abandoned. A cancelled write is awaited, so that nothing is written
    after `CancelledError`.
    """

    is_in_memory: ClassVar[bool] = False
    """True if no operation waits, so that an event loop may call it. A subclass that overrides reads must repeat it."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "is_in_memory" not in vars(cls) and not {"fetch_now", "_read_now"}.isdisjoint(vars(cls)):
            cls.is_in_memory = False
        for cheaper, ordinary in _CHEAPER.items():
            if cheaper not in vars(cls) and not ordinary.isdisjoint(vars(cls)):
                setattr(cls, cheaper, getattr(BlockingStore, cheaper))

    @abstractmethod
    def fetch_now(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        """Do what `fetch` does, in the calling thread."""

    def _read_now(self, key: str, *, max_bytes: int | None = None) -> Buffer | None:
        """Return the whole value of `key`, or None if nothing is stored, in the calling thread.

        A store may have a cheaper way than `fetch_now`, because neither version nor size is returned.
        """
        value = self.fetch_now(key) if max_bytes is None else self.fetch_now(key, max_bytes=max_bytes)
        return None if value is None else value.data

    def _read_values_now(self, keys: Iterable[str], memory: memoryview, sizes: list[int | None]) -> None:
        """Read whole values one after another into `memory`, which is writable bytes.

        A store may have a cheaper way than one call for each. A subclass that overrides other reads gets this one.

        Args:
            keys: their keys. They may end before all are read, if the read is cancelled.
            memory: where they go, without gaps.
            sizes: the size of each value that was read is appended, or None if nothing is stored. The first value
                for which there is no room ends the call, and its size is not appended.

        Raises:
            StoreError: the value after those in `sizes` cannot be read.
        """
        at = 0
        for key in keys:
            room = len(memory) - at
            try:
                data = self._read_now(key, max_bytes=room) if self.has_bounded_reads else self._read_now(key)
            except LimitError:
                return
            if data is None:
                sizes.append(None)
                continue
            view = memoryview(data).cast("B")
            if len(view) > room:
                return
            memory[at : at + len(view)] = view
            at += len(view)
            sizes.append(len(view))

    @abstractmethod
    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        """Do what `set` does, in the calling thread; a blocking store always has the version that it wrote."""

    def _set_values_now(self, values: Sequence[tuple[str, Buffer]]) -> None:
        """Store several (key, value), each as `set_now` does without a precondition.

        A store may have a cheaper way than one call for each. A subclass that overrides `set_now` alone gets this one.

        Raises:
            StoreError: one could not be stored. Others may have been.
        """
        for key, value in values:
            self.set_now(key, value)

    @abstractmethod
    def erase_now(self, key: str) -> None:
        """Do what `erase` does, in the calling thread."""

    def erase_if_match_now(self, key: str, version: Version) -> None:
        """Do what `erase_if_match` does, in the calling thread."""
        raise self._unsupported("erase by version")

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        bound = {} if max_bytes is None else {"max_bytes": max_bytes}
        if self.is_in_memory:
            return self.fetch_now(key, range, if_match=if_match, **bound)
        return await in_thread(lambda: self.fetch_now(key, range, if_match=if_match, **bound))

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        return await self._write(partial(self.set_now, key, value, precondition=precondition), memoryview(value).nbytes)

    async def erase(self, key: str) -> None:
        await self._write(lambda: self.erase_now(key))

    async def erase_if_match(self, key: str, version: Version) -> None:
        await self._write(lambda: self.erase_if_match_now(key, version))

    async def _write(self, call: Callable[[], T], nbytes: int = 0) -> T:
        return call() if self.is_in_memory else await in_thread_uncancelled(call, is_shared=nbytes <= MAX_SHARED_BYTES)


_CHEAPER = {
    "_read_now": {"fetch_now"},
    "_read_values_now": {"fetch_now", "_read_now"},
    "_set_values_now": {"set_now"},
}
"""Methods that a store may have as a cheaper way, and those that a subclass may override instead of them."""


async def in_thread(call: Callable[[], T]) -> T:
    """Return `call()`, run in a thread. A cancellation does not await it, so `call` must have no side effects."""
    future = start_in_thread(call)
    return call() if future is None else await future


async def in_thread_uncancelled(call: Callable[[], T], *, is_shared: bool = False) -> T:
    """Return `call()`, run in a thread of its own or a shared one. A cancellation is raised only after `call` ended."""
    future = call_batches().start(call) if is_shared else start_in_thread(call)
    if future is None:
        return call()
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        future.add_done_callback(retrieve_error)
        await wait_uncancelled(future)
        raise


def start_in_thread(call: Callable[[], T]) -> asyncio.Future[T] | None:
    """Start `call` in a thread of the loop's default executor.

    Returns: the future of its result, or None if the interpreter is exiting (atexit) and no thread can be started.
    """
    loop = asyncio.get_running_loop()
    try:
        return loop.run_in_executor(None, call)
    except RuntimeError:
        if loop.is_closed():
            raise
        return None


async def iterate_in_thread(batches: Iterator[T]) -> AsyncGenerator[T, None]:
    """Iterate over the generator `batches`, each step of which runs in a thread, and close it at the end."""
    end = object()
    try:
        # Wait for each step, because a generator cannot be closed while it runs. Steps are short.
        while (batch := await in_thread_uncancelled(lambda: next(batches, end))) is not end:
            yield batch  # type: ignore[misc]  # `end` is excluded just above
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()


MAX_THREADS = 4
"""Threads that share the calls of one turn, because a network disk serves several calls at once."""
MAX_SHARED_BYTES = 64 << 10
"""Larger values are written by a thread of their own: writing them takes longer than handing them over."""
MIN_CALLS = 16
"""Fewer calls are not worth another thread: this many small reads of a local disk take 0.1 ms."""


class CallBatches:
    """Runs the calls of two turns of the loop together: those of a task, and those of the tasks that it starts.

    Used on one loop.
    """

    def __init__(self) -> None:
        self._calls: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    def start(self, function: Callable[[], T]) -> asyncio.Future[T]:
        """Return the future of `function()`, which runs in a thread even if the future is cancelled."""
        loop = asyncio.get_running_loop()
        if not self._calls:
            loop.call_soon(loop.call_soon, self._start)
        future: asyncio.Future[T] = loop.create_future()
        self._calls.append((function, future))
        return future

    def _start(self) -> None:
        calls, self._calls = self._calls, []
        length = max(MIN_CALLS, -(-len(calls) // MAX_THREADS))
        for first in range(0, len(calls), length):
            part = calls[first : first + length]
            run = partial(_run, [function for function, _ in part])
            started = start_in_thread(run)
            if started is None:  # the interpreter is exiting
                started = asyncio.get_running_loop().create_future()
                started.set_result(run())
            started.add_done_callback(partial(_deliver, part))


def _run(functions: Sequence[Callable[[], Any]]) -> list[tuple[Any, Exception | None]]:
    outcomes: list[tuple[Any, Exception | None]] = []
    for function in functions:
        try:
            outcomes.append((function(), None))
        except Exception as error:
            outcomes.append((None, error))
    return outcomes


def _deliver(calls: Sequence[tuple[object, asyncio.Future[Any]]], done: asyncio.Future[Any]) -> None:
    if done.cancelled():  # the threads were shut down
        for _, future in calls:
            future.cancel()
        return
    for (_, future), (result, error) in zip(calls, done.result(), strict=True):
        if future.done():
            continue  # its task was cancelled meanwhile
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
            future.exception()  # retrieved: a task that awaits several calls raises one error only


call_batches: Callable[[], CallBatches] = PerLoop(lambda _: CallBatches()).get
"""Returns the batches of the running loop: handing over a call costs five times as much as a small read."""

UNDO_SECONDS = 5.0
"""The time limit for undoing a failed operation, for example for removing the parts of an upload."""


@asynccontextmanager
async def undone_on_failure(undo: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
    """Await `undo()` if the body fails or is cancelled, for at most `UNDO_SECONDS`. Its `StoreError` is dropped."""
    try:
        yield
    except BaseException:
        from anyio import move_on_after  # imported here because few operations fail

        with move_on_after(UNDO_SECONDS, shield=True), suppress(StoreError):
            await undo()
        raise
