"""Requests that are one call of a store: operations on single keys, and pages of listings.

A task awaits such a request, which takes its turn in the queue. A page that fails is requested again; a listing
without pages is started again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Generic, TypeVar

from aiozarr.common.concurrency import cancel_and_wait, random_jitter, wait_uncancelled
from aiozarr.errors import StoreError, StoreTimeoutError
from aiozarr.model import Entry
from aiozarr.schedule.requests import RequestQueue, RequestSource, RetryPolicy, ScheduledRequest, retry
from aiozarr.settings import Settings

if TYPE_CHECKING:
    from aiozarr.stores.bucket.listing import ListingPage

T = TypeVar("T")


class SingleRequestSource(RequestSource):
    """A source of one request, which so takes its turn between the requests of other sources, not after them."""

    def __init__(self, request: ScheduledRequest, settings: Settings) -> None:
        self.limit_to(settings)
        self._request: ScheduledRequest | None = request

    def next(self) -> ScheduledRequest | None:
        request, self._request = self._request, None
        return request

    def pending(self) -> int:
        return int(self._request is not None)

    def drop(self) -> bool:
        """Drop the request.

        Returns: False if the queue has taken it already.
        """
        return self.next() is not None


class CallRequest(ScheduledRequest, Generic[T]):
    """The call of a coroutine function as a request. One task awaits its `future`.

    Args:
        queue: the queue.
        policy: decides about repetitions.
        function: is called with the number of the attempt, from 1 on.
        held: bytes of the budget that are in use meanwhile.

    Attributes:
        result: what the function has returned.
        error: why the request has failed.
        is_completed: True if the queue has finished with it.
    """

    __slots__ = ("error", "function", "future", "is_completed", "queue", "result")

    def __init__(
        self, queue: RequestQueue, policy: RetryPolicy, function: Callable[[int], Awaitable[T]], held: int
    ) -> None:
        super().__init__(policy, held)
        self.queue = queue
        self.function = function
        self.result: T | None = None
        self.error: BaseException | None = None
        self.is_completed = False
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    async def send(self) -> None:
        self.result = await self.function(self.attempts)

    def completed(self, error: BaseException | None) -> None:
        self.error = error
        self.is_completed = True
        if error is None:
            self.queue.charge(-self.held)
        if self.future.done():
            return
        if error is None:
            self.future.set_result(self.result)  # type: ignore[arg-type]  # send() has set it
        elif isinstance(error, asyncio.CancelledError):
            self.future.cancel()
        else:
            self.future.set_exception(error)

    async def run(self, settings: Settings) -> T:
        """Send the request in its turn, within the limits of `settings`, and return its result.

        A cancellation waits for the end of the request.
        """
        queue, source = self.queue, SingleRequestSource(self, settings)
        queue.register(source)
        queue.wake(source)
        try:
            return await self.future
        except asyncio.CancelledError:
            if not source.drop() and not self.is_completed:
                self.future = asyncio.get_running_loop().create_future()
                queue.cancel(self)
                await wait_uncancelled(self.future)
                if not self.future.cancelled():
                    self.future.exception()
            raise
        finally:
            queue.unregister(source)


class PageRequests:
    """The requests for the pages of one listing, each of which takes its turn in the queue and is repeated there.

    Args:
        queue: the queue of the store.
        policy: decides about repetitions.
        settings: limits of the caller.
        has_slot: True if the listing itself is a request, whose place in the budget its pages take.

    Attributes:
        attempts: number of requests so far.
    """

    def __init__(self, queue: RequestQueue, policy: RetryPolicy, settings: Settings, *, has_slot: bool = False) -> None:
        self._queue = queue
        self._policy = policy
        self._settings = settings
        self._has_slot = has_slot
        self.attempts = 0

    async def request(self, send: Callable[[], Awaitable[ListingPage]]) -> ListingPage:
        """Await `send()` until it gives the page, or the policy gives up."""
        request = CallRequest(self._queue, self._policy, lambda _: send(), 0)
        try:
            if not self._has_slot:
                return await request.run(self._settings)
            await retry(request, request.send, self._queue.now)
        except StoreError as error:
            error.retryable = False  # it was repeated as often as the settings allow
            raise
        finally:
            self.attempts += request.attempts
        assert request.result is not None
        return request.result

    async def within(self, step: Awaitable[T]) -> T:
        """Await a step of the listing, whose pages are requested by this object."""
        from aiozarr.stores.bucket.listing import page_requests

        token = page_requests.set(self.request)
        try:
            return await step
        finally:
            page_requests.reset(token)


async def list_objects(
    scan: Callable[[], AsyncIterator[Entry]], pages: PageRequests, policy: RetryPolicy, *, store_url: str
) -> AsyncGenerator[Entry, None]:
    """Iterate over the entries of a listing as it streams in.

    A store whose listing has no pages lists again after a temporary failure. Entries up to the last one seen are then
    skipped. That needs no memory if the listing is in the order of its keys. A listing in another order raises instead.

    Args:
        scan: starts the listing.
        pages: requests the pages, if the listing has any.
        policy: limits the repetitions, counted from the last entry.
        store_url: the URL of the store, for errors.

    Raises:
        StoreError: the store could not be listed.
    """
    clock = asyncio.get_running_loop().time
    last_key = ""
    is_ordered = True
    attempts, began = 0, clock()
    while True:
        resume_after = last_key
        skipped_key = ""
        try:
            async with AsyncExitStack() as stack:
                listing = scan()
                if isinstance(listing, AsyncGenerator):
                    stack.push_async_callback(listing.aclose)
                while True:
                    try:
                        entry = await pages.within(anext(listing))
                    except StopAsyncIteration:
                        return
                    if attempts and entry.key <= resume_after:
                        if entry.key < skipped_key:
                            raise StoreError(
                                "the listing was interrupted and resumed in another order", store=store_url
                            )
                        skipped_key = entry.key
                        continue
                    is_ordered = is_ordered and entry.key > last_key
                    last_key = entry.key
                    yield entry
                    # After the yield: the time that the caller spends on an entry is not the listing's.
                    began = clock()
        except StoreError as error:
            if not error.retryable:
                raise
            attempts = attempts + 1 if last_key == resume_after else 1
            elapsed = clock() - began
            # A listing that made no progress is repeated once, however long that took.
            spent = 0.0 if attempts == 1 and isinstance(error, StoreTimeoutError) else elapsed
            delay = policy.delay(error, attempt=attempts, elapsed=spent, jitter=random_jitter())
            if delay is None or not is_ordered:
                error.attempts, error.elapsed = attempts, elapsed
                raise
        await asyncio.sleep(delay)


class StartedListing:
    """A listing that requests its first page at once, although its reader is not ready yet.

    Args:
        entries: the listing, not begun.
    """

    def __init__(self, entries: AsyncGenerator[Entry, None]) -> None:
        self._entries = entries
        self._first: asyncio.Future[Entry] | None = asyncio.ensure_future(anext(entries))

    def __aiter__(self) -> AsyncIterator[Entry]:
        return self

    async def __anext__(self) -> Entry:
        first, self._first = self._first, None
        return await (anext(self._entries) if first is None else first)

    async def aclose(self) -> None:
        """End the listing, also an unread one."""
        first, self._first = self._first, None
        if first is not None:
            await cancel_and_wait(first)
        await self._entries.aclose()
