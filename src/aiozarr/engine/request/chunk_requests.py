"""Requests for the bytes of chunks, without a task per request: callbacks hand the answer to the workers.

Everything else of a read is a coroutine per stored object. Whole small chunks, merged ranges and batches of inner
chunks (`chunk_batch.py`) are not, because of what a task costs each of them: 20 to 25 µs, and 13 of the 22 objects per
chunk that the garbage collector walks through (coroutines, a future, its iterator, handles). 4,096 chunks of 32 KiB
took 0.38 to 0.41 s with a task for each, 0.34 to 0.36 s without (`docs/design/004-reading-and-writing.md`).

The work of the workers is in `chunk_work_items.py`. It calls `chunk_decoded`, `submit` and `chunk_closed` here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from aiozarr.engine.operation import Operation
from aiozarr.engine.request.chunk_work_items import DecodeChunk, TimedDecodeChunk
from aiozarr.engine.request.in_flight import InFlightChunk
from aiozarr.engine.request.object_request import FetchOperation, FetchRequest
from aiozarr.engine.workers.worker_pool import WorkItem, finish, run_captured
from aiozarr.model import Range, Version
from aiozarr.stores.contract import Store


class ChunkRequest(FetchRequest):
    """Fetch the bytes of one or more chunks of one object, and hand them to the workers."""

    __slots__ = ("chunks", "undecoded", "wanted_chunks")

    def __init__(
        self,
        operation: Operation,
        store: Store,
        key: str,
        byte_range: Range | None,
        chunks: list[InFlightChunk],
        *,
        cost: int,
        if_match: Version | None = None,
    ) -> None:
        # A range bounds itself.
        max_bytes = chunks[0].pipeline.max_stored_size if byte_range is None else None
        super().__init__(operation, store, key, byte_range, if_match, cost, max_bytes)
        self.chunks = chunks
        self.undecoded = self.wanted_chunks = len(chunks)
        for chunk in chunks:
            chunk.request = self

    def wanted_bytes(self, fetched: int) -> int:
        if self.range is None:
            return fetched
        return sum([chunk.stop - chunk.start for chunk in self.chunks if chunk.stop is not None])

    # --- to the workers ---------------------------------------------------------------------------------------------

    def start_decoding(self) -> list[WorkItem]:
        """Return the decoding of the chunks; subscriptions that come from now on are late."""
        works: list[WorkItem] = []
        timing = self.timing
        for chunk in self.chunks:
            chunk.decoding_started = True
            if chunk.subscriptions:
                works.append(DecodeChunk(self, chunk) if timing is None else TimedDecodeChunk(self, chunk, timing))
        self.undecoded = len(works)
        return works

    def attach_bytes(self, works: Sequence[WorkItem]) -> None:
        """Give each piece of work its bytes of the answer."""
        value = self.value
        if value is None:
            return
        view = None if self.range is None else memoryview(value.data)
        for work in works:
            if isinstance(work, DecodeChunk):  # a batch has other work too
                chunk = work.chunk
                work.data = value.data if view is None else view[chunk.start : chunk.stop]

    def start_blocking(self) -> Sequence[WorkItem]:
        return self.start_decoding()

    def decode_blocking(self, works: Sequence[WorkItem]) -> None:
        self.attach_bytes(works)
        for work in works:
            run_captured(work)

    def finish_blocking(self, works: Sequence[WorkItem], error: BaseException | None) -> None:
        self.account(error)
        self.value = None
        if error is not None:
            self.fail(error)
        else:
            finish(works)

    def completed(self, error: BaseException | None) -> None:
        self.account(error)
        self.deliver(error)

    def deliver(self, error: BaseException | None) -> None:
        """Hand the answer to the workers, or fail."""
        works = self.start_decoding()
        if error is not None:
            self.fail(error)
            return
        if not works:
            self.queue.release(self.cost)
            self.close()
            return
        self.attach_bytes(works)
        self.value = None
        for work in works:
            self.pool.submit(work, self.fairness_key)

    def fail(self, error: BaseException) -> None:
        """Tell all subscribers of `error`."""
        # A subscriber may ask for the chunk again at once, and must not join this one.
        for chunk in self.chunks:
            chunk.table.close(chunk)
        for chunk in self.chunks:
            chunk.fail(error)
        self.chunks.clear()
        self.close()

    # --- from the workers -------------------------------------------------------------------------------------------

    def chunk_decoded(self, chunk: InFlightChunk, values: NDArray[Any] | None) -> None:
        """A worker has finished with `chunk`. Readers cannot join it any more; `values` go to its caches, if any."""
        # If readers could not join it until now, this process may have changed it since its bytes were read.
        if chunk.table.close(chunk) and values is not None and chunk.caches:
            now = asyncio.get_running_loop().time()
            for cache, chunk_id in chunk.caches.items():
                cache.put(chunk_id, self.store, self.key, values, now)

    def submit(self, work: WorkItem) -> None:
        """Have a worker do `work`, which belongs to no request."""
        timing = self.timing
        self.pool.submit(work if timing is None else timing.observer.timed(work, self.store_url), self.fairness_key)

    def chunk_closed(self) -> None:
        """One of the chunks is finished."""
        self.undecoded -= 1
        if not self.undecoded:
            self.queue.release(self.cost)
            self.chunks.clear()
            self.close()

    # --- sharing ----------------------------------------------------------------------------------------------------

    def chunk_abandoned(self) -> None:
        self.wanted_chunks -= 1
        if not self.wanted_chunks:
            self.cancel()

    def next_owner(self) -> FetchOperation | None:
        for chunk in self.chunks:
            for subscription in chunk.subscriptions:
                return subscription.subscriber.operation
        return None


class RangeRequest(ChunkRequest):
    """Fetch one range of a chunk, and remember version and size of the object that it is of.

    Attributes:
        object_state: version and size, each None if the store does not say; None if nothing came.
    """

    __slots__ = ("object_state",)

    def __init__(
        self, operation: Operation, store: Store, key: str, start: int, length: int, chunk: InFlightChunk
    ) -> None:
        super().__init__(operation, store, key, Range(start, length), [chunk], cost=length)
        chunk.stop = length
        self.object_state: tuple[Version | None, int | None] | None = None

    def _check(self) -> None:
        super()._check()
        if self.value is not None:
            self.object_state = (self.value.version, self.value.size)
