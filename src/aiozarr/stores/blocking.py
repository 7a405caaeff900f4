"""Stores whose operations are system calls: synchronous, thread-safe twins, and coroutines that run them in threads."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from typing import TypeVar

from anyio import CancelScope
from typing_extensions import Buffer

from aiozarr.model import ByteRange, Precondition, Range, Value, Version
from aiozarr.stores.contract import Store

T = TypeVar("T")


class BlockingStore(Store):
    """A store with `fetch_now`, `set_now` and `erase_now`, which may be called from any thread at any time.

    Whoever has a worker thread at hand calls those; the coroutines run them in the default executor of the calling
    loop, which `asyncio.run` winds up by itself. Reads are abandoned by a cancellation, writes are waited for: after
    `CancelledError` nothing is written any more.
    """

    @abstractmethod
    def fetch_now(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        """As `fetch`, in the calling thread."""

    def read_now(self, key: str) -> Buffer | None:
        """As `fetch_now` of a whole value, for whoever does not want to know its version and size."""
        value = self.fetch_now(key)
        return None if value is None else value.data

    def read_into_now(self, key: str, memory: memoryview) -> int | None:
        """As `read_now`, to the beginning of `memory`, which is writable bytes; return the value's size.

        A value that is larger than `memory` is not there, or not all of it.
        """
        data = self.read_now(key)
        if data is None:
            return None
        view = memoryview(data).cast("B")
        if len(view) <= len(memory):
            memory[: len(view)] = view
        return len(view)

    @abstractmethod
    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        """As `set`, in the calling thread; a blocking store always knows the version it wrote."""

    @abstractmethod
    def erase_now(self, key: str) -> None:
        """As `erase`, in the calling thread."""

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        return await in_thread(lambda: self.fetch_now(key, range, if_match=if_match))

    async def get_partial_values(self, key_ranges: Iterable[tuple[str, tuple[int, int | None]]]) -> list[Buffer | None]:
        wanted = [(key, Range(start, length)) for key, (start, length) in key_ranges]

        def fetch_all() -> list[Value | None]:
            return [self.fetch_now(key, part) for key, part in wanted]

        return [None if value is None else value.data for value in await in_thread(fetch_all)]

    async def set(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        return await to_the_end(lambda: self.set_now(key, value, precondition=precondition))

    async def erase(self, key: str) -> None:
        await to_the_end(lambda: self.erase_now(key))


async def in_thread(call: Callable[[], T]) -> T:
    """Run `call` in a thread; a cancellation does not wait for it, so it must leave nothing behind."""
    future = _start(call)
    return call() if future is None else await future


async def to_the_end(call: Callable[[], T]) -> T:
    """Run `call` in a thread; a cancellation is raised only after it has ended."""
    future = _start(call)
    if future is None:
        return call()
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        # A second cancellation may interrupt the wait; the result is then nobody's, and must not be reported as lost.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        with CancelScope(shield=True):
            await asyncio.wait([future])
        raise


def _start(call: Callable[[], T]) -> asyncio.Future[T] | None:
    """Start `call` in a thread; None where there are none any more, because the interpreter is exiting (atexit)."""
    loop = asyncio.get_running_loop()
    try:
        return loop.run_in_executor(None, call)
    except RuntimeError:
        if loop.is_closed():
            raise
        return None


async def stepwise(batches: Iterator[T]) -> AsyncGenerator[T, None]:
    """Iterate over the generator `batches`, each step of which runs in a thread, and close it at the end."""
    end = object()
    try:
        # Steps are short, and a generator cannot be closed while it runs: each is waited for.
        while (batch := await to_the_end(lambda: next(batches, end))) is not end:
            yield batch  # type: ignore[misc]  # `end` is excluded just above
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()
