"""Store operations on single keys, retried and budgeted like all other requests to the store's origin."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from aiozarr.engine.call_requests import CallRequest
from aiozarr.engine.fetch_request import is_missing_status
from aiozarr.engine.state import EngineState
from aiozarr.engine.timing import RequestObserver, RequestTiming
from aiozarr.errors import LimitError, PreconditionFailedError, ShortReadError, StoreError, UnsupportedOperationError
from aiozarr.model import ByteRange, Entry, IfAbsent, Precondition, Range, Value, Version
from aiozarr.schedule.events import Report, RequestEvent, RequestOperation
from aiozarr.schedule.requests import retry_policy
from aiozarr.settings import Settings
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.capabilities import CopyFromStore, UploadStore
from aiozarr.stores.contract import Store, too_large

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from aiozarr.engine.object_read import PartLimits, ReadTarget
    from aiozarr.http1.request import BodyReader
    from aiozarr.schedule.executor import RequestExecutor


T = TypeVar("T")

PART_CONCURRENCY = 8
"""Parts of one object that are uploaded concurrently."""


class ScheduledStore:
    """A store whose requests go through the queue of its origin. Lives on the I/O thread."""

    def __init__(self, state: EngineState, store: Store, settings: Settings, report: Report | None = None) -> None:
        self.store = store
        self.settings = settings
        self._state = state
        is_observed = report is not None or settings.on_event is not None
        self._observer = RequestObserver(settings, report) if is_observed else None
        self._policy = retry_policy(settings.retries, settings.retry_seconds)

    @property
    def _queue(self) -> RequestExecutor:
        return self._state.loop_queue(self.store)

    async def fetch(
        self,
        key: str,
        range: ByteRange | None = None,
        *,
        if_match: Version | None = None,
        max_bytes: int | None = None,
        held: int = 0,
    ) -> Value | None:
        """Return the bytes of `key`, or None if nothing is stored. Meanwhile `held` bytes of the budget are in use.

        Raises:
            LimitError: the value has more than `max_bytes` bytes. At most one byte more than that was fetched.
        """
        is_bounded = max_bytes is not None and self.store.has_bounded_reads
        bound: dict[str, Any] = {"max_bytes": max_bytes} if max_bytes is not None and is_bounded else {}
        # A store without bounded reads shows by one byte more that there are too many.
        asked = range
        if max_bytes is not None and range is None and not is_bounded and self.store.supports.clipped_reads:
            asked = Range(0, max_bytes + 1)

        async def send(_: int) -> Value | None:
            try:
                return await self._none_if_missing(self.store.fetch(key, asked, if_match=if_match, **bound))
            except StoreError as error:
                if asked is not range and error.range == asked:
                    error.range = None  # the caller did not ask for it
                raise

        value = await self._call("fetch", key, send, held=held, byte_range=asked)
        if value is not None and max_bytes is not None and (size := memoryview(value.data).nbytes) > max_bytes:
            size_or_none = size if asked is range else value.size
            raise too_large(size_or_none, max_bytes, store=self.store.url, key=key, range=range)
        return value

    async def fetch_whole(self, key: str, *, part_bytes: int, max_bytes: int) -> Value | None:
        """Return all bytes of `key`, of one version. A large object is fetched in parts, side by side.

        The parts of an object without a version must agree on its size.

        Args:
            key: the object.
            part_bytes: the limit of one request.
            max_bytes: the size up to which the object is fetched whole. A smaller range of it may be returned.

        Returns: the bytes, with size and version of the object, or None if nothing is stored.

        Raises:
            ChangedError: the object was replaced between its parts.
            LimitError: the object has more than `max_bytes` bytes. At most one part of it was fetched.
            UnsupportedOperationError: the store does not report the size of a large object.
        """
        from aiozarr.engine.object_read import MemoryTarget, PartLimits

        # A range bounds the response, whatever the caller expects. An empty object has no byte to start at.
        supports = self.store.supports
        is_ranged = max_bytes > 0 and supports.partial_reads and supports.clipped_reads
        limits = PartLimits(part_bytes, part_bytes, max_bytes, f"and {max_bytes} are allowed", accepts_unversioned=True)
        if is_ranged and max_bytes > part_bytes:
            return await self._fetch_parts(key, None, None, limits, MemoryTarget(self._copy_in_worker))
        held = min(max_bytes, part_bytes)
        try:
            value = await self.fetch(key, Range(0, part_bytes) if is_ranged else None, held=held)
        except ShortReadError:
            # A server may clip the range without the object's size. The whole object proves its length.
            value = await self.fetch(key, held=held, max_bytes=held)
        if is_ranged and value is not None and value.size is None and memoryview(value.data).nbytes >= part_bytes:
            # There may be bytes behind a full part of an object of unknown size.
            return await self._fetch_parts(key, None, None, limits, MemoryTarget(self._copy_in_worker))
        return value

    async def fetch_version(self, entry: Entry, target: ReadTarget, *, part_bytes: int) -> None:
        """Fetch all bytes of one version of an object into `target`, in parts, side by side.

        Args:
            entry: the object, with its size and a version that the store can check.
            target: receives the bytes.
            part_bytes: the limit of one request.

        Raises:
            ChangedError: the object has another version or size, or is gone.
        """
        from aiozarr.engine.object_read import PartLimits

        size = entry.size
        assert size is not None
        limits = PartLimits(min(part_bytes, size), part_bytes, size, "")
        await self._fetch_parts(entry.key, Range(0, size), entry.version, limits, target, size=size)

    async def _fetch_parts(
        self,
        key: str,
        byte_range: Range | None,
        if_match: Version | None,
        limits: PartLimits,
        target: ReadTarget,
        *,
        size: int | None = None,
    ) -> Value | None:
        from aiozarr.engine.object_read import MultipartRead

        async def run_request(part: Range | None, *, is_first: bool) -> Value | None:
            part_bytes = limits.total if part is None or part.length is None else part.length
            value = await self._call(
                "fetch",
                key,
                lambda _: self._none_if_missing(read.fetch(part)),
                held=part_bytes,
                byte_range=part,
                received=0 if size is None else part_bytes,
            )
            if value is None or not is_first or size is not None:
                return value
            if value.size is None:
                value = await self._with_size(key, value, limits.first)
            if value is not None and value.size is not None and value.size > limits.total:
                raise too_large(value.size, limits.total, store=self.store.url, key=key)
            return value

        read = MultipartRead(
            self.store, key, byte_range, if_match, limits, run_request, max_attempts=1, target=target, size=size
        )
        return await read.read()

    async def _copy_in_worker(self, target: memoryview, data: memoryview) -> None:
        def copy() -> None:
            target[:] = data

        # Copying megabytes would block the loop.
        await self._state.pool.call(copy, target.nbytes)

    async def _with_size(self, key: str, value: Value, part_bytes: int) -> Value | None:
        """Return the first part of an object with the object's size, or None if the object is gone meanwhile."""
        length = memoryview(value.data).nbytes
        if length < part_bytes:
            return replace(value, size=length)
        entry = await self.stat(key)
        if entry is None:
            return None
        if entry.size is None:
            raise UnsupportedOperationError(
                "the store does not report the size of this object", store=self.store.url, key=key
            )
        return replace(value, size=entry.size)

    async def _none_if_missing(self, fetch: Awaitable[Value | None]) -> Value | None:
        """Await `fetch`. A refusal whose status is in `Settings.missing_status` becomes None."""
        try:
            return await fetch
        except StoreError as error:
            if not is_missing_status(error, self.settings):
                raise
            return None

    async def stat(self, key: str) -> Entry | None:
        """Return size and version of `key`, or None if nothing is stored."""
        return await self._call("stat", key, lambda _: self.store.stat(key))

    async def set(self, key: str, data: Buffer, *, precondition: Precondition | None = None) -> Version | None:
        """Store `data`, whole or not at all.

        Raises:
            PreconditionFailedError: `precondition` does not hold.
        """
        store = self.store
        if self._observer is None and isinstance(store, BlockingStore) and type(store).set is BlockingStore.set:
            # One call of a thread: there is no server whose requests would be limited or counted.
            version = await self.at_once(key, store.set(key, data, precondition=precondition))
            if version is not None:
                return version
        size = memoryview(data).nbytes

        async def send(attempt: int) -> Version | None:
            try:
                return await self.store.set(key, data, precondition=precondition)
            except PreconditionFailedError:
                if attempt == 1:
                    raise
                # An earlier attempt may have succeeded and its response been lost: then our own bytes are stored.
                bound: dict[str, Any] = {"max_bytes": size} if self.store.has_bounded_reads else {}
                try:
                    stored = await self.store.fetch(key, **bound)
                except LimitError:
                    stored = None
                if stored is None or bytes(stored.data) != bytes(data):
                    raise
                return stored.version

        return await self._call("set", key, send, held=size, written=size)

    async def at_once(self, key: str, change: Awaitable[T]) -> T | None:
        """Await `change`, which stores the value of `key` without a request. None: it failed, and may be repeated."""
        begun = monotonic()
        try:
            return await change
        except StoreError as error:
            if error.retryable:
                return None
            error.attempts, error.elapsed = 1, monotonic() - begun
            raise
        finally:
            self._state.invalidate(self.store, key)

    async def if_absent(self, store: Callable[[Precondition | None], Awaitable[T]]) -> T:
        """Await `store` with the precondition that nothing is stored, and without one if the store checks none.

        Raises:
            PreconditionFailedError: something is stored.
        """
        supported = self.store.supports.conditional_writes
        if supported is not False:
            try:
                return await store(IfAbsent())
            except UnsupportedOperationError:
                # Support was unknown until now. A server that ignores the condition is no worse than one without it.
                if supported:
                    raise
        return await store(None)

    async def set_if_absent(self, key: str, data: Buffer) -> Version | None:
        """Store `data` if nothing is stored under `key`, as `if_absent` says."""
        return await self.if_absent(lambda precondition: self.set(key, data, precondition=precondition))

    async def upload(self, key: str, body: BodyReader, *, precondition: Precondition | None = None) -> Version | None:
        """Store an object that is read while it is sent, whole or not at all. A large one is sent in parts.

        Each attempt of a request reads its bytes again.

        Raises:
            PreconditionFailedError: `precondition` does not hold, or an earlier attempt has stored the object.
            UnsupportedOperationError: the store takes whole values only, or checks no conditions of them.
            ChangedError: the body was changed meanwhile.
        """
        store = self.store
        if not isinstance(store, UploadStore):
            raise UnsupportedOperationError("this store can write whole values only", store=store.url, key=key)

        def run_request(send: Callable[[int], Awaitable[T]], nbytes: int = 0) -> Awaitable[T]:
            return self._call("set", key, send, held=nbytes, written=nbytes)

        part_bytes = store._upload_part_bytes(body.nbytes, conditional=precondition is not None)
        if part_bytes is None:
            return await run_request(lambda _: store._upload(key, body, precondition=precondition), body.nbytes)
        from aiozarr.engine.object_upload import upload_in_parts

        return await upload_in_parts(
            store, key, body, part_bytes, run_request, precondition, concurrency=PART_CONCURRENCY
        )

    def report_file(self, key: str, *, read: int = 0, written: int = 0) -> None:
        """Report that a file was read or written while the other store's requests were in flight.

        The seconds of these include it.
        """
        if self._observer is not None:
            self._observer.report(
                RequestEvent(
                    operation="set" if written else "fetch",
                    store=self.store.url,
                    key=key,
                    range=None,
                    bytes_wanted=read,
                    bytes_fetched=read,
                    bytes_written=written,
                    seconds=0.0,
                    attempts=1,
                    started=monotonic(),
                    server=self.store.server,
                )
            )

    async def copy_from(
        self, source: Store, source_key: str, key: str, *, size: int, if_match: Version | None
    ) -> Version | None:
        """Have the server copy an object, as `CopyFromStore._copy_from` says. No byte of it is held here."""
        store = self.store
        if not isinstance(store, CopyFromStore):
            raise UnsupportedOperationError("this store cannot copy objects itself", store=store.url, key=key)
        return await self._call(
            "set", key, lambda _: store._copy_from(source, source_key, key, size=size, if_match=if_match)
        )

    async def erase(self, key: str) -> None:
        """Remove `key`. A key that is not stored is no error."""
        await self._call("erase", key, lambda _: self.store.erase(key))

    async def erase_values(self, keys: Sequence[str]) -> None:
        """Remove all of `keys`, which counts as one request. Keys that are not stored are no error.

        Raises:
            EraseError: some could not be removed.
        """
        try:
            await self._call("erase", "", lambda _: self.store.erase_values(keys))
        finally:
            self._state.invalidate(self.store, None)

    async def erase_prefix(self, prefix: str) -> None:
        """Remove every key that starts with `prefix`."""
        try:
            await self._call("erase", prefix, lambda _: self.store.erase_prefix(prefix))
        finally:
            self._state.invalidate(self.store, None)

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        """Return the keys directly below `prefix`, and the prefixes one level below it."""
        from aiozarr.engine.call_requests import PageRequests

        # Its requests take the place of this one in the budget.
        pages = PageRequests(self._queue, self._policy, self.settings, has_slot=True)
        return await self._call("list", prefix, lambda _: pages.within(self.store.list_dir(prefix)))

    async def scan(self, prefix: str = "", *, faults: bool = False) -> AsyncGenerator[Entry, None]:
        """Iterate over all objects below `prefix`. Temporary failures are retried, by page where there are pages.

        Entries with a fault are left out, unless `faults` is true.

        The sizes in it are cached: they save a request before the first read of a shard from stores that refuse suffix
        ranges. The listing counts as one request, with the time of all its pages.
        """
        from aiozarr.engine.call_requests import PageRequests, list_objects

        store, sizes = self.store, self._state.sizes
        pages = PageRequests(self._queue, self._policy, self.settings)
        entries = list_objects(lambda: store.scan(prefix), pages, self._policy, store_url=store.url)
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
                    sizes.record(store, entry.key, entry.size, entry.version)
                if faults or not entry.fault:
                    yield entry
        except Exception as error:
            failure = error
            raise
        finally:
            await entries.aclose()
            if self._observer is not None:
                self._observer.report(
                    RequestEvent(
                        operation="list",
                        store=self.store.url,
                        key=prefix,
                        range=None,
                        bytes_wanted=0,
                        bytes_fetched=0,
                        seconds=seconds,
                        attempts=max(1, pages.attempts),
                        error=failure,
                        started=first,
                        server=self.store.server,
                    )
                )

    async def _call(
        self,
        operation: RequestOperation,
        key: str,
        function: Callable[[int], Awaitable[T]],
        *,
        held: int = 0,
        written: int = 0,
        byte_range: ByteRange | None = None,
        received: int = 0,
    ) -> T:
        """Send one request.

        Args:
            operation: its name in events.
            key: the key that it is about.
            function: sends it, given the number of the attempt.
            held: bytes of the budget that are in use meanwhile.
            written: the bytes that it sends.
            byte_range: the range that it requests.
            received: the bytes that it receives, if the result does not hold them.
        """
        queue = self._queue
        request = CallRequest(queue, self._policy, function, held)
        timing = None if self._observer is None else RequestTiming(self._observer, queue.now())
        try:
            return await request.run(self.settings)
        finally:
            if request.attempts and operation in ("set", "erase"):
                self._state.invalidate(self.store, key)
            if timing is not None and request.attempts:
                timing.event = timing.event_of(
                    request,
                    operation,
                    store=self.store,
                    key=key,
                    range=byte_range,
                    bytes_fetched=_size(request.result) or (0 if request.result is None or request.error else received),
                    bytes_written=written,
                    now=queue.now(),
                    error=request.error,
                    status=request.result.status if isinstance(request.result, Value) else None,
                )
                timing.close()


def _size(value: object) -> int:
    return memoryview(value.data).nbytes if isinstance(value, Value) else 0
