"""Stores whose operations are system calls: blocking methods, and coroutines that run them in threads."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from aiozarr.common.concurrency import retrieve_error, wait_uncancelled
from aiozarr.errors import LimitError
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
    """True if no operation waits, so that an event loop may call it. A subclass that overrides reads says so again."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "is_in_memory" not in vars(cls) and not {"fetch_now", "read_now"}.isdisjoint(vars(cls)):
            cls.is_in_memory = False
        if "set_now" in vars(cls) and "set_values_now" not in vars(cls):
            cls.set_values_now = BlockingStore.set_values_now  # type: ignore[method-assign]

    @abstractmethod
    def fetch_now(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        """Do what `fetch` does, in the calling thread."""

    def read_now(self, key: str, *, max_bytes: int | None = None) -> Buffer | None:
        """Return the whole value of `key`, or None if nothing is stored, in the calling thread.

        A store may have a cheaper way than `fetch_now`, because neither version nor size is returned.
        """
        value = self.fetch_now(key) if max_bytes is None else self.fetch_now(key, max_bytes=max_bytes)
        return None if value is None else value.data

    def read_into_now(self, key: str, memory: memoryview) -> int | None:
        """Read the whole value of `key` into the beginning of `memory`, which is writable bytes.

        Returns: the value's size, or None if nothing is stored. If it is larger than `memory`, the memory holds
        undefined bytes.
        """
        try:
            data = self.read_now(key, max_bytes=len(memory)) if self.has_bounded_reads else self.read_now(key)
        except LimitError as error:
            return error.value if error.value is not None else len(memory) + 1
        if data is None:
            return None
        view = memoryview(data).cast("B")
        if len(view) <= len(memory):
            memory[: len(view)] = view
        return len(view)

    @abstractmethod
    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        """Do what `set` does, in the calling thread; a blocking store always has the version that it wrote."""

    def set_values_now(self, values: Sequence[tuple[str, Buffer]]) -> None:
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
        return await self._write(lambda: self.set_now(key, value, precondition=precondition))

    async def erase(self, key: str) -> None:
        await self._write(lambda: self.erase_now(key))

    async def erase_if_match(self, key: str, version: Version) -> None:
        await self._write(lambda: self.erase_if_match_now(key, version))

    async def _write(self, call: Callable[[], T]) -> T:
        return call() if self.is_in_memory else await in_thread_uncancelled(call)


async def in_thread(call: Callable[[], T]) -> T:
    """Return `call()`, run in a thread. A cancellation does not await it, so `call` must have no side effects."""
    future = start_in_thread(call)
    return call() if future is None else await future


async def in_thread_uncancelled(call: Callable[[], T]) -> T:
    """Return `call()`, run in a thread. A cancellation is raised only after `call` has ended."""
    future = start_in_thread(call)
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
        # A generator cannot be closed while it runs, so each step is waited for. Steps are short.
        while (batch := await in_thread_uncancelled(lambda: next(batches, end))) is not end:
            yield batch  # type: ignore[misc]  # `end` is excluded just above
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()
