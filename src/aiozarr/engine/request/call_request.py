"""One call as a request of a queue: what a task awaits, and how it takes its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from aiozarr.common.concurrency import wait_uncancelled
from aiozarr.schedule.requests import RequestQueue, RequestSource, ScheduledRequest
from aiozarr.schedule.retry import RetryPolicy
from aiozarr.settings import Settings

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
            self.queue.release(self.held)
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
