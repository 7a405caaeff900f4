"""Store operations on single keys, repeated and budgeted like everything else that goes to the store's origin."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from time import monotonic
from typing import Generic, Literal, TypeAlias, TypeVar

from typing_extensions import Buffer

from aiozarr.engine.desk import Desk
from aiozarr.engine.request.errand import means_missing
from aiozarr.engine.request.observed import Observer
from aiozarr.errors import LimitError, PreconditionFailedError, StoreError
from aiozarr.model import ByteRange, Entry, Precondition, Range, Value, Version
from aiozarr.schedule.call import Call, Source
from aiozarr.schedule.events import Report, RequestEvent
from aiozarr.schedule.origin import Origin
from aiozarr.schedule.retry import RetryPolicy
from aiozarr.settings import Settings
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store

T = TypeVar("T")
Operation: TypeAlias = Literal["fetch", "set", "erase", "list", "stat"]


class OneCall(Source):
    """A single request as a caller of its own: it waits its turn between the others' requests, not behind them."""

    def __init__(self, call: Call, settings: Settings) -> None:
        self.max_requests = None if settings.max_requests == "auto" else settings.max_requests
        self.max_bytes = settings.max_bytes_in_flight
        self._calls = deque([call])

    def next(self) -> Call | None:
        return self._calls.popleft() if self._calls else None

    def pending(self) -> int:
        return len(self._calls)

    def drop(self) -> None:
        """Forget the call if it has not been taken yet."""
        self._calls.clear()


class _Awaited(Call, Generic[T]):
    """A request that one task waits for."""

    __slots__ = ("error", "function", "future", "origin", "result")

    def __init__(self, origin: Origin, policy: RetryPolicy, function: Callable[[int], Awaitable[T]], cost: int) -> None:
        super().__init__(policy, cost)
        self.origin = origin
        self.function = function
        self.result: T | None = None
        self.error: BaseException | None = None
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    async def send(self) -> None:
        self.result = await self.function(self.attempts)

    def done(self, error: BaseException | None) -> None:
        self.error = error
        if error is None:
            self.origin.release(self.cost)
        if self.future.done():
            return
        if error is None:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # send() has set it
        elif isinstance(error, asyncio.CancelledError):
            self.future.cancel()
        else:
            self.future.set_exception(error)


class Session:
    """A store as the hierarchy uses it. Lives on the I/O thread."""

    def __init__(self, desk: Desk, store: Store, settings: Settings, recorder: Report | None = None) -> None:
        self.store = store
        self.settings = settings
        self._desk = desk
        self._observer = Observer.of(desk, settings, recorder)
        self._policy = RetryPolicy(settings.retries, settings.retry_seconds)

    async def fetch(
        self,
        key: str,
        range: ByteRange | None = None,
        *,
        if_match: Version | None = None,
        max_bytes: int | None = None,
        cost: int = 0,
    ) -> Value | None:
        """Return the bytes of `key`, or None where nothing is stored; `cost` bytes of the budget are held meanwhile.

        Raises:
            LimitError: the value has more than `max_bytes` bytes; no more than that were fetched.
        """
        asked = Range(0, max_bytes + 1) if max_bytes is not None and range is None else range

        async def send(_: int) -> Value | None:
            try:
                return await self.store.fetch(key, asked, if_match=if_match)
            except StoreError as error:
                if not means_missing(error, self.settings):
                    raise
                return None

        value = await self._call("fetch", key, send, cost=cost, byte_range=asked)
        if value is not None and max_bytes is not None and (size := memoryview(value.data).nbytes) > max_bytes:
            raise LimitError(
                f"the value of {key!r} has more than {max_bytes} bytes (store {self.store.url})",
                limit="max_bytes",
                value=size if value.size is None else value.size,
                allowed=max_bytes,
            )
        return value

    async def stat(self, key: str) -> Entry | None:
        """Return size and version of `key`, or None where nothing is stored."""
        return await self._call("stat", key, lambda _: self.store.stat(key))

    async def set(self, key: str, data: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        """Store `data`, whole or not at all.

        Raises:
            PreconditionFailedError: `precondition` does not hold.
        """
        size = memoryview(data).nbytes

        async def send(attempt: int) -> Version | None:
            try:
                return await self.store.set(key, data, precondition=precondition)
            except PreconditionFailedError:
                if attempt == 1:
                    raise
                # An earlier try may have succeeded and its answer been lost: then what is stored are our own bytes.
                stored = await self.store.fetch(key)
                if stored is None or bytes(stored.data) != bytes(data):
                    raise
                return stored.version

        return await self._call("set", key, send, cost=size, written=size)

    async def erase(self, key: str) -> None:
        """Remove `key`; a key that is not stored is no error."""
        await self._call("erase", key, lambda _: self.store.erase(key))

    async def erase_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`."""
        try:
            await self._call("erase", prefix, lambda _: self.store.erase_prefix(prefix))
        finally:
            self._desk.changed(self.store, None)

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys directly below `prefix`, and the prefixes one level below it."""
        return await self._call("list", prefix, lambda _: self.store.list_dir(prefix))

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        """Iterate over all objects below `prefix`; a listing that has begun is not repeated.

        The sizes that it tells spare the first reads of shards a request, where suffix ranges are refused. It counts as
        one request, with the time that its pages took: how many those were only the store knows.
        """
        store, sizes = self.store, self._desk.sizes
        entries = store.scan(prefix)
        observed = self._observer is not None
        first = monotonic() if observed else 0.0
        seconds, failure = 0.0, None
        try:
            while True:
                begun = monotonic() if observed else 0.0
                try:
                    entry = await anext(entries)
                except StopAsyncIteration:
                    return
                finally:
                    if observed:
                        seconds += monotonic() - begun
                if entry.size is not None and entry.version is not None:
                    sizes.note(store, entry.key, entry.size, entry.version)
                yield entry
        except Exception as error:
            failure = error
            raise
        finally:
            if isinstance(entries, AsyncGenerator):
                await entries.aclose()
            if self._observer is not None:
                self._observer.tell(
                    RequestEvent("list", self.store.url, prefix, None, 0, 0, seconds, 1, failure, first)
                )

    async def _call(
        self,
        operation: Operation,
        key: str,
        function: Callable[[int], Awaitable[T]],
        *,
        cost: int = 0,
        written: int = 0,
        byte_range: ByteRange | None = None,
    ) -> T:
        origin = self._desk.scheduler.origin(self.store.origin)
        call = _Awaited(origin, self._policy, function, cost)
        source = OneCall(call, self.settings)
        ready = 0.0 if self._observer is None else origin.now()
        origin.enter(source)
        origin.offer(source)
        try:
            return await call.future
        except asyncio.CancelledError:
            source.drop()
            await _end(call)
            raise
        finally:
            origin.leave(source)
            if call.attempts and operation in ("set", "erase"):
                self._desk.changed(self.store, key)
            if self._observer is not None and call.attempts:
                moved = _size(call.result) or written
                self._observer.tell(
                    RequestEvent(
                        operation,
                        self.store.url,
                        key,
                        byte_range,
                        moved,
                        moved,
                        call.seconds or origin.now() - call.started,  # a cancelled call has been cut off
                        call.attempts,
                        call.error,
                        call.started,
                        call.started - ready,
                    )
                )


async def _end(call: _Awaited[T]) -> None:
    """Cancel `call`, also where it waits for room in the budget, and wait until its worker has let go of it."""
    call.cancel()
    while call.worker is not None:
        call.future = asyncio.get_running_loop().create_future()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([call.future])
    if call.future.done() and not call.future.cancelled():
        call.future.exception()


def _size(value: object) -> int:
    return memoryview(value.data).nbytes if isinstance(value, Value) else 0


def blocking(store: Store) -> BlockingStore | None:
    """Return `store` where its operations may be called in a worker."""
    return store if isinstance(store, BlockingStore) else None
