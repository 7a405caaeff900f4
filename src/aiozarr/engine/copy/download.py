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

from aiozarr.engine.copy.copy_route import Verify, is_replaced
from aiozarr.engine.copy.local_files import FILE_WORK_BYTES, store_now
from aiozarr.engine.engine import Engine
from aiozarr.engine.fetch_request import FetchRequest, ResponseHandler
from aiozarr.engine.operation import Operation
from aiozarr.engine.worker_pool import WorkItem
from aiozarr.errors import ChangedError, LimitError, ShortReadError
from aiozarr.model import Entry
from aiozarr.schedule.events import Report, Totals
from aiozarr.settings import Settings
from aiozarr.stores import BlockingStore
from aiozarr.stores.capabilities import NowaitStore

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_WAITING_ENTRIES = 2048
"""Listed objects that wait for their requests: two pages of a listing, so that the next one overlaps."""
ASSUMED_BYTES = 1 << 20
"""The bytes that an object of unknown size counts until its response has come."""


class Download(Operation, ResponseHandler):
    """The small objects of one copy. Lives on the I/O thread.

    Args:
        engine: the engine.
        source: the store that they are fetched from.
        destination: the store that workers write them to.
        verify: as of `aiozarr.copy`.
        settings: limits and policies.
        report: receives the totals at the end.
        on_copied: called with each object that was stored, and its size.
        on_failed: called with each object that was not. Its exception ends the operation.
        on_missing: called with each object that is not stored; None if all must be.

    Attributes:
        deferred: objects that are not as listed: they take more than one request.
    """

    def __init__(
        self,
        engine: Engine,
        source: NowaitStore,
        destination: BlockingStore,
        *,
        verify: Verify,
        settings: Settings,
        report: Report,
        on_copied: Callable[[Entry, int], None],
        on_failed: Callable[[Entry, Exception], None],
        on_missing: Callable[[Entry], None] | None = None,
    ) -> None:
        super().__init__(
            engine.state.pool,
            engine.state.queue_for(source),
            settings=settings,
            # A listener is told of each request, and the sums are then those of the events.
            report=report if report.has_listener else None,
            progress=None,
            total=1,  # not known while the listing streams
            bytes_total=settings.max_bytes_in_flight,
        )
        self._engine = engine
        self.source = source
        self.destination = destination
        self.verify: Verify = verify
        self.deferred: list[Entry] = []
        self._copy_report = report
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
        request = FetchRequest(self, self.source, entry.key, None, self, held=held, expected=held, max_bytes=most)
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
            self._copy_report.add(self.source.url, self._reads)
        self._copy_report.add(self.destination.url, self._written)
        self._reads, self._written = Totals(), Totals()

    # --- an object's way ---------------------------------------------------------------------------------------------

    def completed(self, request: FetchRequest, error: BaseException | None) -> None:
        """Have the object of a response written, or give it up."""
        entry, value = self._requests.pop(request), request.value
        self._reads.requests += request.attempts
        self._reads.retries += max(0, request.attempts - 1)
        if self.stopped or isinstance(error, asyncio.CancelledError):
            pass
        elif error is not None and not isinstance(error, ChangedError | LimitError | ShortReadError):
            self._fail(entry, error)
        elif value is None and error is None and entry.size is None and self._on_missing is not None:
            self._on_missing(entry)
        else:
            if error is None and value is not None:
                self._reads.bytes_wanted += request.held
                self._reads.bytes_fetched += request.held
                if is_replaced(entry, value, previous_size=None, strict=self.verify is not None) is False:
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
        self._engine.invalidate(self.destination, entry.key)
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
        self.run_batch_from([self], 0)

    def run_batch_from(self, batch: Sequence[WorkItem], at: int) -> int:
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
            errors = store_now(download.destination, values, verify=download.verify)
        for write, error in zip(writes, errors, strict=True):
            write.error = error
        return len(writes)

    def completed(self) -> None:
        self.download.written(self)
