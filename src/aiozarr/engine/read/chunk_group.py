"""Several chunks that a coroutine awaits together."""

from __future__ import annotations

import asyncio
from typing import Any

from numpy.typing import NDArray

from aiozarr.engine.read.read_operation import ReadOperation
from aiozarr.engine.request.chunk_batch import BatchSubscriber
from aiozarr.engine.request.in_flight import Subscription
from aiozarr.grid.projection import ChunkSelection
from aiozarr.stores.contract import Store


class ChunkGroup(BatchSubscriber):
    """Subscriptions of one coroutine.

    Args:
        operation: the read.
        store: the store of the chunks.
        retried: errors that are raised when all other chunks have ended, because the coroutine reads them again.
    """

    def __init__(self, operation: ReadOperation, store: Store, retried: tuple[type[Exception], ...]) -> None:
        self.operation = self._read_operation = operation
        self._store = store
        self._retried = retried
        self._open = 0
        self._error: BaseException | None = None
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add(self, out: NDArray[Any], part: ChunkSelection) -> Subscription:
        """Return a subscription whose outcome is awaited."""
        self._open += 1
        return Subscription(self, out, part)

    def expect(self, count: int) -> None:
        """Await the outcome of so many chunks more; `ended` reports it."""
        self._open += count

    async def wait(self) -> None:
        """Wait until all have ended; raise the first error."""
        if self._open:
            await self._future
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback holds this frame

    def ended(self, count: int, error: BaseException | None = None) -> None:
        """So many chunks have ended, well or with `error`."""
        self._open -= count
        if self._error is None:
            self._error = error
        is_over = not self._open or (error is not None and not isinstance(error, self._retried))
        if is_over and not self._future.done():
            if error is not None and not isinstance(error, self._retried):
                self._error = error
            self._future.set_result(None)

    # --- outcomes ---------------------------------------------------------------------------------------------------

    def chunk_done(self, subscription: Subscription) -> None:
        self._read_operation.subscription_ended(subscription, is_done=True)
        self.ended(1)

    def chunk_failed(self, subscription: Subscription, error: BaseException) -> None:
        self._read_operation.subscription_ended(subscription, is_done=False)
        self.ended(1, error)

    def batch_done(self, count: int, nbytes: int) -> None:
        self._read_operation.add_done(count, nbytes)
        self.ended(count)
        self._read_operation.check_end()

    def batch_failed(self, count: int, error: BaseException) -> None:
        self.ended(count, error)
        self._read_operation.check_end()

    def missing_error(self, key: str) -> BaseException | None:
        return self._read_operation.missing_error(self._store, key)
