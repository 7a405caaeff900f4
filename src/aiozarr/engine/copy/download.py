"""Small objects of a network store, written to a blocking store without a task for each.

The request queue asks for requests one by one. A response goes to a worker, which writes it, in a batch with others.
An object thus costs two callbacks on the loop, where a task and its wake-ups would cost more than the request itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from aiozarr.engine.copy.copy_route import is_replaced
from aiozarr.engine.copy.local_files import FILE_WORK_BYTES, store_now
from aiozarr.engine.copy.object_copier import ObjectCopier
from aiozarr.engine.fetch_request import FetchRequest, ResponseHandler
from aiozarr.engine.operation import Operation
from aiozarr.engine.worker_pool import WorkItem
from aiozarr.errors import ChangedError, LimitError, ShortReadError
from aiozarr.model import Entry
from aiozarr.schedule.events import Totals, add_requests, listener_of
from aiozarr.stores import BlockingStore

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_WAITING_ENTRIES = 2048
"""Listed objects that wait for their requests: two pages of a listing, so that the next one overlaps."""
ASSUMED_BYTES = 1 << 20
"""The bytes that an object of unknown size counts until its response has come."""


class Download(Operation, ResponseHandler):
    """The small objects of one copy, from a store that needs no tasks to one that blocks. Lives on the I/O thread.

    Args:
        copier: the copier of the other objects, whose stores, policy and report it shares.
        on_copied: called with each object that was stored, and its size.
        on_failed: called with each object that was not. Its exception ends the operation.
        on_missing: called with each object that is not stored, if the policy says that it may be missing.

    Attributes:
        deferred: objects that are not as listed: they take more than one request.
    """

    def __init__(
        self,
        copier: ObjectCopier,
        on_copied: Callable[[Entry, int], None],
        on_failed: Callable[[Entry, Exception], None],
        on_missing: Callable[[Entry], None],
    ) -> None:
        state, settings, report = copier.engine.state, copier.settings, copier.totals
        super().__init__(
            state.pool,
            state.queue_for(copier.source),
            settings=settings,
            # A listener receives an event for each request, and the sums are made from the events.
            report=None if listener_of(report) is None else report,
            progress=None,
            total=1,  # not known while the listing streams
            bytes_total=settings.max_bytes_in_flight,
        )
        self.copier = copier
        self.deferred: list[Entry] = []
        self._on_copied = on_copied
        self._on_failed = on_failed
        self._on_missing = on_missing
        self._entries: deque[Entry] = deque()
        self._requests: dict[FetchRequest, Entry] = {}
        self._writes = 0
        self._is_closed = False
        self._room: asyncio.Future[None] | None = None
        self._reads = Totals()
        self._written = Totals()

    async def put(self, entry: Entry) -> None:
        """Copy an object, as soon as there is room; wait while many others wait."""
        while len(self._entries) >= MAX_WAITING_ENTRIES:
            self._room = asyncio.get_running_loop().create_future()
            await self._room
        if not self._entries:
            self.resume()
        self._entries.append(entry)

    def close(self) -> None:
        """No further object follows: `run` returns when all were copied."""
        self._is_closed = True
        self.check_end()

    # --- as an operation of the engine -------------------------------------------------------------------------------

    def next_request(self) -> FetchRequest | None:
        if self.stopped or not self._entries:
            return None
        entry = self._entries.popleft()
        if self._room is not None and len(self._entries) <= MAX_WAITING_ENTRIES // 2:
            room, self._room = self._room, None
            if not room.done():
                room.set_result(None)
        size = entry.size
        held, most = (ASSUMED_BYTES, self.settings.max_request_bytes) if size is None else (size, max(1, size))
        source = self.copier.source
        request = FetchRequest(self, source, entry.key, None, self, held=held, expected=held, max_bytes=most)
        self._requests[request] = entry
        return request

    def pending(self) -> int:
        return len(self._entries)

    def abandon(self) -> None:
        self._entries.clear()
        for request in list(self._requests):
            self.queue.cancel(request)

    def is_idle(self) -> bool:
        return not self._requests and not self._writes

    def is_complete(self) -> bool:
        return self._is_closed and not self._entries

    def add_to_report(self) -> None:
        if self.observer is None:
            add_requests(self.copier.totals, self.copier.source.url, self._reads)
        add_requests(self.copier.totals, self.copier.destination.url, self._written)
        self._reads, self._written = Totals(), Totals()

    # --- an object's way ---------------------------------------------------------------------------------------------

    def response_completed(self, request: FetchRequest, error: BaseException | None) -> None:
        """Have the object of a response written, or give it up."""
        entry, value = self._requests.pop(request), request.value
        self._reads.requests += request.attempts
        self._reads.retries += max(0, request.attempts - 1)
        if self.stopped or isinstance(error, asyncio.CancelledError):
            pass
        elif error is not None and not isinstance(error, ChangedError | LimitError | ShortReadError):
            self._fail(entry, error)
        elif value is None and error is None and entry.size is None and self.copier.policy.may_be_missing:
            self._on_missing(entry)
        else:
            if error is None and value is not None:
                self._reads.bytes_wanted += request.held
                self._reads.bytes_fetched += request.held
                if is_replaced(entry, value, previous_size=None, strict=self.copier.policy.verify is not None) is False:
                    self._writes += 1
                    self.pool.submit(_FileWrite(self, request, entry), self.fairness_key)
                    return
            self.deferred.append(entry)
        request.release()
        self.check_end()

    def written(self, write: _FileWrite) -> None:
        """Count an object that a worker has written, or failed to."""
        self._writes -= 1
        request, entry, error = write.request, write.entry, write.error
        self.copier.engine.invalidate(self.copier.destination, entry.key)
        self._written.requests += 1
        size = request.held
        request.release()
        if error is None:
            self._written.bytes_written += size
            self._on_copied(entry, size)
        elif not self.stopped:
            self._fail(entry, error)
        self.check_end()

    def _fail(self, entry: Entry, error: BaseException) -> None:
        if not isinstance(error, Exception):
            self.stop(error)
            return
        try:
            self._on_failed(entry, error)
        except Exception as failure:
            self.stop(failure)


class _FileWrite(WorkItem):
    """The write of one object in a worker."""

    __slots__ = ("download", "entry", "request")

    def __init__(self, download: Download, request: FetchRequest, entry: Entry) -> None:
        super().__init__(max(request.held, FILE_WORK_BYTES))
        self.download = download
        self.request = request
        self.entry = entry

    def run(self) -> None:
        self.run_together([self], 0)

    def run_together(self, batch: Sequence[WorkItem], at: int) -> int:
        download = self.download
        writes: list[_FileWrite] = []
        values: list[tuple[str, Buffer]] = []
        for work in islice(batch, at, None):
            if not isinstance(work, _FileWrite) or work.download is not download:
                break
            value, work.request.value = work.request.value, None
            assert value is not None
            writes.append(work)
            values.append((work.request.key, value.data))
        if download.stopped:
            errors: Sequence[BaseException | None] = [asyncio.CancelledError()] * len(writes)
        else:
            destination = download.copier.destination
            assert isinstance(destination, BlockingStore)
            errors = store_now(destination, values, verify=download.copier.policy.verify)
        for write, error in zip(writes, errors, strict=True):
            write.error = error
        return len(writes)

    def work_completed(self) -> None:
        self.download.written(self)
