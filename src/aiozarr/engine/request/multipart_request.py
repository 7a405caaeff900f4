"""The request for a chunk that is too large for one: its parts are requests, which a coroutine awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import replace

from aiozarr.engine.object_read import MultipartRead, PartLimits
from aiozarr.engine.plan.multipart_plan import first_part
from aiozarr.engine.request.chunk_requests import ChunkRequest
from aiozarr.engine.request.in_flight import InFlightChunk
from aiozarr.engine.request.object_request import AwaitableRequest, FetchOperation, is_missing_status
from aiozarr.errors import StoreError
from aiozarr.model import Range, Value, Version
from aiozarr.schedule.queue import ScheduledRequest
from aiozarr.stores.capabilities import PendingFetch
from aiozarr.stores.contract import Store

MAX_SIZE_FACTOR = 4
"""An object may be so many times larger than its codecs make it: some writers leave old bytes in objects."""


class MultipartRequest(ChunkRequest):
    """Fetch the bytes of one chunk in parts. It is not sent itself: the parts are, the first by its operation's turn.

    The first part counts with the bytes of all, and the others count nothing: no part waits for room that another one
    holds.
    """

    __slots__ = ("_first", "_operation", "_read", "_stores_without_versions", "_task")

    def __init__(
        self,
        operation: FetchOperation,
        store: Store,
        key: str,
        byte_range: Range | None,
        chunk: InFlightChunk,
        *,
        cost: int,
        part_bytes: int,
        if_match: Version | None,
        stores_without_versions: set[Hashable],
    ) -> None:
        super().__init__(operation, store, key, byte_range, [chunk], cost=0, if_match=if_match)
        pipeline = chunk.pipeline
        known = pipeline.encoded_size if byte_range is None else byte_range.length
        most = pipeline.max_encoded_size
        limits = PartLimits(
            first_part(known, part_bytes),
            part_bytes,
            MAX_SIZE_FACTOR * most,
            f"and a chunk encodes to {most} at most",
        )
        self._operation = operation
        self._stores_without_versions = stores_without_versions
        self._read = MultipartRead(
            store,
            key,
            byte_range,
            if_match,
            limits,
            self._run_request,
            on_size=self._charge,
            on_wasted=self._note_wasted,
        )
        self._first: _PartRequest | None = None
        self._start_first(cost)
        self._task = asyncio.get_running_loop().create_task(self._read.read())
        self._task.add_done_callback(self._finish)

    def _start_first(self, cost: int) -> _PartRequest:
        self._first = _PartRequest(self._operation, self, self._read.first, cost)
        self._first.timing = self.timing
        return self._first

    def enqueue(self) -> None:
        """Have the operation send the first part."""
        assert self._first is not None
        self._operation.enqueue(self._first)

    async def _run_request(self, part: Range | None, *, is_first: bool) -> Value | None:
        if is_first:
            request = self._first
            if request is None or request.is_over:
                # The object was replaced: it is read again in the place of the request that has ended.
                self._give_back()
                request = self._start_first(self.chunks[0].pipeline.spec.nbytes)
                self.queue.submit_prepaid([request])
            return await request.wait()
        request = _PartRequest(self._operation, self, part, 0)
        self.queue.submit_prepaid([request])
        try:
            return await request.wait()
        finally:
            request.release()

    async def fetch_part(self, part: Range | None) -> Value | None:
        """Send the request for one part once."""
        return await self._read.fetch(part)

    def _charge(self, nbytes: int) -> None:
        first = self._first
        if first is not None:
            self.queue.charge(nbytes - first.cost)
            first.cost = nbytes

    def _note_wasted(self) -> None:
        if self._first is not None and self._first.value is not None and self._first.value.version is None:
            self._stores_without_versions.add(self.store.identity)
        if self.timing is not None and self.timing.event is not None:
            self.timing.event = replace(self.timing.event, bytes_wanted=0)

    def _give_back(self) -> None:
        first, self._first = self._first, None
        if first is not None:
            self.queue.release(first.cost)
            first.cost = 0

    def _finish(self, task: asyncio.Task[Value | None]) -> None:
        """All requests have ended: hand the bytes to the workers, or fail."""
        error: BaseException | None = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            self.value = task.result()
        if self.value is None:
            self._give_back()
        elif self._first is not None:
            self.cost, self._first.cost, self._first = self._first.cost, 0, None
        try:
            self.deliver(error)
        finally:
            error = None  # its traceback leads to this request

    def cancel(self) -> None:
        self.cancelled = True
        self._task.cancel()
        if self._first is not None and not self._first.is_over:
            # Now, not when the task runs: a request that waits for room is forgotten by the end of this turn.
            self._first.cancel()


class _PartRequest(AwaitableRequest):
    """One part of a large object; `range` is None for all of it."""

    __slots__ = ("_whole",)

    def __init__(self, operation: FetchOperation, whole: MultipartRequest, part: Range | None, cost: int) -> None:
        super().__init__(operation, whole.store, whole.key, part, None, cost)
        self._whole = whole

    def start_nowait(self) -> PendingFetch | None:
        return None  # its bytes are received into memory that the head of an answer decides about

    async def send(self) -> None:
        try:
            self.value = await self._whole.fetch_part(self.range if type(self.range) is Range else None)
        except StoreError as error:
            if not is_missing_status(error, self.settings):
                raise
            self.value = None

    def account(self, error: BaseException | None) -> None:
        fetched = 0 if self.value is None or error is not None else memoryview(self.value.data).nbytes
        if error is None:
            self.queue.observe(self.seconds, fetched)
        timing = self.timing
        if timing is None or not self.attempts:
            return
        if timing.event is not None:  # of the first part, before the object was replaced
            timing.observer.report(timing.event)
        timing.event = self.event(self.range, fetched, fetched, self.attempts, error, timing)

    def cancel(self) -> None:
        withdrawn: list[ScheduledRequest] = self.queue.cancel_prepaid([self])
        super().cancel()
        if withdrawn and not self.is_over:
            self.completed(asyncio.CancelledError())

    def close(self) -> None:
        # The first part shares its times with the whole, which reports them when its bytes are decoded.
        if self.timing is not self._whole.timing:
            super().close()

    def next_owner(self) -> FetchOperation | None:
        return self._whole.next_owner()
