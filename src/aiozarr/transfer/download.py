"""Objects of a network store, written to a blocking store without a task for each.

The request queue asks for requests one by one. A response goes to a worker, which writes it, in a batch with others.
An object thus costs two callbacks on the loop, where a task and its wake-ups would cost more than the request itself.
A large object is requested in parts of its listed version, which are written side by side into one new file.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator

from typing_extensions import Buffer

from aiozarr.engine import Engine
from aiozarr.engine.plan.multipart_plan import split_range
from aiozarr.engine.request.object_request import FetchOperation, FetchRequest
from aiozarr.engine.workers.worker_pool import WorkItem
from aiozarr.errors import ChangedError, LimitError, ShortReadError
from aiozarr.model import Entry, Range
from aiozarr.schedule.events import Report, Totals
from aiozarr.settings import Settings
from aiozarr.stores import BlockingStore, LocalStore
from aiozarr.stores.capabilities import NowaitStore
from aiozarr.stores.local.store import LocalFile
from aiozarr.transfer.copy_object import (
    MIN_WORK_BYTES,
    CopyDecision,
    FetchedObject,
    Verify,
    decide,
    write_now,
)

MAX_WAITING_ENTRIES = 2048
"""Listed objects that wait for their requests: two pages of a listing, so that the next one overlaps."""

MAX_PART_BYTES = 8 << 20
"""Parts of a large object: small enough that writing one overlaps with receiving the others."""
ASSUMED_BYTES = 1 << 20
"""The bytes that an object of unknown size counts until its response has come."""


class Download(FetchOperation):
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
        state = engine.state
        super().__init__(
            state.pool,
            state.queue_for(source),
            settings=settings,
            # A listener is told of each request, and the sums are then those of the events.
            report=report if report.has_listener else None,
            progress=None,
            total=1,  # not known while the listing streams
            bytes_total=settings.max_bytes_in_flight,
        )
        self.source = source
        self.destination = destination
        self.verify: Verify = verify
        self.deferred: list[Entry] = []
        self._engine = engine
        self._copy_report = report
        self._on_copied = on_copied
        self._on_failed = on_failed
        self._on_missing = on_missing
        self._entries: deque[Entry] = deque()
        self._ready: deque[FetchRequest] = deque()
        self._parts: deque[_ObjectDownload] = deque()
        self._part_bytes = min(settings.max_request_bytes, MAX_PART_BYTES)
        self._files = 0
        self._requests: set[_ObjectDownload] = set()
        self._writes = 0
        self._is_closed = False
        self._room: asyncio.Future[None] | None = None
        self._reads = Totals()
        self._written = Totals()

    def accepts(self, entry: Entry) -> bool:
        """Return whether one request fetches the object."""
        if entry.size is None:
            return self._on_missing is not None
        return entry.size <= self._part_bytes or self._takes_parts(entry)

    def _takes_parts(self, entry: Entry) -> bool:
        """Return whether a large object can be fetched in parts of one version, into a file."""
        supports, version = self.source.supports, entry.version
        return (
            self.verify != "checksum"
            and isinstance(self.destination, LocalStore)
            and supports.partial_reads
            and supports.conditional_reads
            and version is not None
            and not version.weak
        )

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
        if self.stopped:
            return None
        if self._parts:
            request = self._parts.popleft()
            self._requests.add(request)
            return request
        if not self._entries:
            return None
        entry = self._entries.popleft()
        if self._room is not None and len(self._entries) <= MAX_WAITING_ENTRIES // 2:
            room, self._room = self._room, None
            if not room.done():
                room.set_result(None)
        if entry.size is None or entry.size <= self._part_bytes:
            request = _ObjectDownload(self, entry)
        else:
            self._parts.extend(self._split(entry, entry.size))
            request = self._parts.popleft()
        self._requests.add(request)
        return request

    def _split(self, entry: Entry, size: int) -> Iterator[_ObjectDownload]:
        assert isinstance(self.destination, LocalStore)
        parts = split_range(0, size, self._part_bytes)
        self._files += 1
        file = _PartFile(self.destination, entry, len(parts))
        for part in parts:
            yield _ObjectDownload(self, entry, part, file)

    def pending(self) -> int:
        return len(self._entries) + len(self._parts)

    def abandon(self) -> None:
        self._entries.clear()
        for part in self._parts:
            assert part.file is not None
            part.file.is_failed = True
            self._part_ended(part.file)
        self._parts.clear()
        for request in list(self._requests):
            request.cancel()

    def is_idle(self) -> bool:
        return not self._requests and not self._writes and not self._files

    def is_complete(self) -> bool:
        return self._is_closed and not self._entries and not self._parts

    def add_to_report(self) -> None:
        if self.observer is None:
            self._copy_report.add(self.source.url, self._reads)
        self._copy_report.add(self.destination.url, self._written)
        self._reads, self._written = Totals(), Totals()

    # --- an object's way ---------------------------------------------------------------------------------------------

    def downloaded(self, request: _ObjectDownload, error: BaseException | None) -> None:
        """A request has ended: have the object written, or give it up."""
        self._requests.discard(request)
        self._reads.requests += request.attempts
        self._reads.retries += max(0, request.attempts - 1)
        value, entry, file = request.value, request.entry, request.file
        if file is not None:
            self._part_downloaded(request, file, error)
            return
        if self.stopped or isinstance(error, asyncio.CancelledError):
            request.release()
            self.check_end()
            return
        if error is not None and not isinstance(error, ChangedError | LimitError | ShortReadError):
            self._fail(entry, error)
        elif value is None and error is None and entry.size is None and self._on_missing is not None:
            self._on_missing(entry)
        elif error is not None or value is None:
            self.deferred.append(entry)
        else:
            nbytes = request.cost
            self._reads.bytes_wanted += nbytes
            self._reads.bytes_fetched += nbytes
            fetched = FetchedObject(value.data, nbytes if value.size is None else value.size, value.version)
            if decide(entry, fetched, previous_size=None, strict=self.verify is not None) is CopyDecision.AS_LISTED:
                self._writes += 1
                self.pool.submit(_FileWrite(self, request, fetched), self.fairness_key)
                return
            self.deferred.append(entry)
        request.release()
        self.check_end()

    def written(self, write: _FileWrite) -> None:
        """A worker has written an object, or failed to."""
        self._writes -= 1
        request, error = write.request, write.error
        self._engine.invalidate(self.destination, request.entry.key)
        self._written.requests += 1
        size = request.cost
        request.release()
        if error is None:
            self._written.bytes_written += size
            self._on_copied(request.entry, size)
        elif not self.stopped:
            self._fail(request.entry, error)
        self.check_end()

    # --- a large object's way ----------------------------------------------------------------------------------------

    def _part_downloaded(self, request: _ObjectDownload, file: _PartFile, error: BaseException | None) -> None:
        value = request.value
        if error is None and value is not None and not self.stopped and not file.is_failed:
            nbytes = request.cost
            self._reads.bytes_wanted += nbytes
            self._reads.bytes_fetched += nbytes
            self._writes += 1
            self.pool.submit(_PartWrite(self, request, file, value.data), self.fairness_key)
            return
        self._give_up(file, error or ChangedError("the object is gone", store=self.source.url, key=request.key))
        request.release()
        self._part_ended(file)
        self.check_end()

    def part_written(self, write: _PartWrite) -> None:
        """A worker has written a part, and with the last one stored the object."""
        self._writes -= 1
        request, file, error = write.request, write.file, write.error
        request.release()
        if error is not None:
            self._give_up(file, error)
        self._part_ended(file)
        self.check_end()

    def _give_up(self, file: _PartFile, error: BaseException) -> None:
        """Have an object copied anew if it has changed, or give it up."""
        if file.is_failed or self.stopped:
            file.is_failed = True
            return
        file.is_failed = True
        if isinstance(error, ChangedError | LimitError | ShortReadError):
            self.deferred.append(file.entry)
        elif not isinstance(error, asyncio.CancelledError):
            self._fail(file.entry, error)

    def _part_ended(self, file: _PartFile) -> None:
        """A part is written, or will not be."""
        file.pending -= 1
        if file.pending:
            return
        self._files -= 1
        if file.is_failed:
            if file.file is not None:
                self._writes += 1
                self.pool.submit(_FileEnd(self, file))
            return
        self._engine.invalidate(self.destination, file.entry.key)
        self._written.requests += 1
        self._written.bytes_written += file.entry.size or 0
        self._on_copied(file.entry, file.entry.size or 0)

    def file_ended(self) -> None:
        """A worker has removed the file of an object that was given up."""
        self._writes -= 1
        self.check_end()

    def _fail(self, entry: Entry, error: BaseException) -> None:
        if not isinstance(error, Exception):
            self.stop(error)
            return
        try:
            self._on_failed(entry, error)
        except Exception as failure:
            self.stop(failure)


class _ObjectDownload(FetchRequest):
    """The request for one whole object, or a part of the file of a large one."""

    __slots__ = ("download", "entry", "file")

    def __init__(
        self, download: Download, entry: Entry, part: Range | None = None, file: _PartFile | None = None
    ) -> None:
        size = entry.size if part is None else part.length
        version = None if part is None else entry.version
        if size is None:
            cost, most = ASSUMED_BYTES, download.settings.max_request_bytes
        else:
            cost, most = size, max(1, size)
        super().__init__(download, download.source, entry.key, part, version, cost, most)
        self.download = download
        self.entry = entry
        self.file = file

    def completed(self, error: BaseException | None) -> None:
        self.account(error)
        if error is not None:
            self.cost = 0  # the queue has given it back
        self.download.downloaded(self, error)

    def release(self) -> None:
        """The bytes are not needed any more."""
        cost, self.cost = self.cost, 0
        self.queue.release(cost)
        self.value = None
        self.close()


class _FileWrite(WorkItem):
    """The write of one object in a worker."""

    __slots__ = ("download", "fetched", "request")

    def __init__(self, download: Download, request: _ObjectDownload, fetched: FetchedObject) -> None:
        super().__init__(max(request.cost, MIN_WORK_BYTES))
        self.download = download
        self.request = request
        self.fetched: FetchedObject | None = fetched

    def run(self) -> None:
        fetched, self.fetched = self.fetched, None
        assert fetched is not None
        if not self.download.stopped:
            write_now(self.download.destination, self.request.key, fetched.data, verify=self.download.verify)

    def finished(self) -> None:
        self.download.written(self)


class _PartFile:
    """The file of a large object.

    Attributes:
        entry: the object.
        pending: parts that are neither written nor given up.
        unwritten: parts that workers have not written.
        is_failed: True if the object was given up.
        file: the new file; None before a part has come.
    """

    def __init__(self, destination: LocalStore, entry: Entry, parts: int) -> None:
        self.entry = entry
        self.pending = self.unwritten = parts
        self.is_failed = False
        self.file: LocalFile | None = None
        self._destination = destination
        self._lock = threading.Lock()

    def write(self, start: int, data: Buffer) -> None:
        """Write a part, in a worker; the last one stores the object."""
        with self._lock:
            if self.file is None:
                self.file = self._destination.begin_file(self.entry.key, self.entry.size or 0)
        self.file.write(start, data)
        with self._lock:
            self.unwritten -= 1
            is_last = not self.unwritten
        if is_last:
            self.file.commit()


class _PartWrite(WorkItem):
    """The write of one part in a worker."""

    __slots__ = ("data", "download", "file", "request")

    def __init__(self, download: Download, request: _ObjectDownload, file: _PartFile, data: Buffer) -> None:
        super().__init__(request.cost)
        self.download = download
        self.request = request
        self.file = file
        self.data: Buffer | None = data

    def run(self) -> None:
        data, self.data = self.data, None
        assert data is not None
        if not self.file.is_failed:
            self.file.write(self.request.start or 0, data)

    def finished(self) -> None:
        self.download.part_written(self)


class _FileEnd(WorkItem):
    """Removes the file of an object that was given up, in a worker."""

    __slots__ = ("download", "file")

    def __init__(self, download: Download, file: _PartFile) -> None:
        super().__init__(MIN_WORK_BYTES)
        self.download = download
        self.file = file

    def run(self) -> None:
        if self.file.file is not None:
            self.file.file.abort()

    def finished(self) -> None:
        self.download.file_ended()
