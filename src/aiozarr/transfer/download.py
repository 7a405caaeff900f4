"""Objects of a network store, written to a blocking store without a task for each.

The request queue asks for requests one by one. A response goes to a worker, which writes it, in a batch with others.
An object thus costs two callbacks on the loop, where a task and its wake-ups would cost more than the request itself.
A large object is requested in parts of its listed version, which are written side by side into one new file.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING

from aiozarr.engine import Engine
from aiozarr.engine.operation import Operation
from aiozarr.engine.plan.multipart_plan import split_range
from aiozarr.engine.request.fetch_request import FetchRequest, ResponseHandler
from aiozarr.engine.workers.worker_pool import WorkItem
from aiozarr.errors import ChangedError, LimitError, ShortReadError, StoreError
from aiozarr.memory import empty_bytes
from aiozarr.model import Entry, Range, Value
from aiozarr.schedule.events import Report, Totals
from aiozarr.settings import Settings
from aiozarr.stores import BlockingStore, LocalStore
from aiozarr.stores.capabilities import FetchIntoStore, NowaitStore, ResponseHead
from aiozarr.stores.local.store import LocalFile
from aiozarr.transfer.copy_object import MIN_WORK_BYTES, CopyDecision, FetchedObject, decide, store_now, write_now
from aiozarr.transfer.copy_rules import Verify

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_WAITING_ENTRIES = 2048
"""Listed objects that wait for their requests: two pages of a listing, so that the next one overlaps."""

MAX_PART_BYTES = 8 << 20
"""Parts of a large object: large enough that the time of a request does not count."""
PIECE_BYTES = 256 << 10
"""Bytes of a part that are received, and then written, at once: a piece is still in the processor's cache then."""
MAX_WRITE_SECONDS = 0.02
"""Once a piece has taken longer, the loop writes no more of that file. A piece takes 50 µs on a local disk."""
ASSUMED_BYTES = 1 << 20
"""The bytes that an object of unknown size counts until its response has come."""

_NO_BYTES = memoryview(b"")


class Download(Operation):
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
        self._parts: deque[_PartDownload] = deque()
        self._part_bytes = min(settings.max_request_bytes, MAX_PART_BYTES)
        self._buffers: list[memoryview] = []
        self._files = 0
        self._requests: set[_ObjectDownload | _PartDownload] = set()
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
            part = self._parts.popleft()
            self._requests.add(part)
            return part.request
        if not self._entries:
            return None
        entry = self._entries.popleft()
        if self._room is not None and len(self._entries) <= MAX_WAITING_ENTRIES // 2:
            room, self._room = self._room, None
            if not room.done():
                room.set_result(None)
        if entry.size is not None and entry.size > self._part_bytes:
            self._parts.extend(self._split(entry, entry.size))
            return self.next_request()
        download = _ObjectDownload(self, entry)
        self._requests.add(download)
        return download.request

    def _split(self, entry: Entry, size: int) -> Iterator[_PartDownload]:
        assert isinstance(self.destination, LocalStore)
        parts = split_range(0, size, self._part_bytes)
        self._files += 1
        file = _PartFile(self.destination, entry, len(parts))
        for part in parts:
            yield _PartDownload(self, entry, part, file)

    def pending(self) -> int:
        return len(self._entries) + len(self._parts)

    def abandon(self) -> None:
        self._entries.clear()
        for part in self._parts:
            part.file.is_failed = True
            self._part_finished(part.file)
        self._parts.clear()
        for download in list(self._requests):
            self.queue.cancel(download.request)

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

    def downloaded(self, download: _ObjectDownload, error: BaseException | None) -> None:
        """A request has ended: have the object written, or give it up."""
        request = download.request
        self._requests.discard(download)
        self._reads.requests += request.attempts
        self._reads.retries += max(0, request.attempts - 1)
        value, entry = request.value, download.entry
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
            nbytes = request.held
            self._reads.bytes_wanted += nbytes
            self._reads.bytes_fetched += nbytes
            fetched = FetchedObject(value.data, nbytes if value.size is None else value.size, value.version)
            if decide(entry, fetched, previous_size=None, strict=self.verify is not None) is CopyDecision.AS_LISTED:
                self._writes += 1
                self.pool.submit(_FileWrite(self, download, fetched), self.fairness_key)
                return
            self.deferred.append(entry)
        request.release()
        self.check_end()

    def written(self, write: _FileWrite) -> None:
        """A worker has written an object, or failed to."""
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

    # --- a large object's way ----------------------------------------------------------------------------------------

    def take_buffer(self) -> memoryview:
        """Return memory for a piece of a part."""
        return self._buffers.pop() if self._buffers else empty_bytes(PIECE_BYTES)

    def write_piece(self, part: _PartDownload, start: int, data: memoryview, buffer: memoryview | None = None) -> None:
        """A piece of a part has come: write it, or have it written. `buffer` is the memory to reuse afterwards."""
        if part.file.write_quickly(start, data):
            if buffer is not None:
                self._buffers.append(buffer)
            return
        part.writes += 1
        self._writes += 1
        self.pool.submit(_PieceWrite(self, part, start, data, buffer), self.fairness_key)

    def piece_written(self, write: _PieceWrite) -> None:
        """A worker has written a piece."""
        self._writes -= 1
        part = write.part
        part.writes -= 1
        if write.buffer is not None:
            self._buffers.append(write.buffer)
        if write.error is not None:
            self._give_up(part.file, write.error)
        if part.is_received and not part.writes:
            self._part_ended(part)
        self.check_end()

    def part_downloaded(self, part: _PartDownload, error: BaseException | None) -> None:
        """The request for a part has ended; workers may still write some of its pieces."""
        request = part.request
        self._requests.discard(part)
        self._reads.requests += request.attempts
        self._reads.retries += max(0, request.attempts - 1)
        value, file = request.value, part.file
        part.is_received = True
        if error is None and value is not None and not self.stopped:
            self._reads.bytes_wanted += request.held
            self._reads.bytes_fetched += request.held
            data = memoryview(value.data)
            if data.nbytes:  # not in pieces
                self.write_piece(part, part.part.start, data)
        else:
            self._give_up(file, error or ChangedError("the object is gone", store=self.source.url, key=request.key))
        if not part.writes:
            self._part_ended(part)
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

    def _part_ended(self, part: _PartDownload) -> None:
        """A part is written, or will not be."""
        part.request.release()
        self._part_finished(part.file)

    def _part_finished(self, file: _PartFile) -> None:
        file.pending -= 1
        if file.pending:
            return
        if self.stopped:
            file.is_failed = True
        self._writes += 1
        self.pool.submit(_FileEnd(self, file), self.fairness_key)

    def file_ended(self, end: _FileEnd) -> None:
        """A worker has stored a large object, or has removed the file of one that was given up."""
        self._writes -= 1
        self._files -= 1
        file, entry = end.file, end.file.entry
        if end.error is not None:
            self._give_up(file, end.error)
        elif not file.is_failed:
            self._engine.invalidate(self.destination, entry.key)
            self._written.requests += 1
            self._written.bytes_written += entry.size or 0
            self._on_copied(entry, entry.size or 0)
        self.check_end()

    def _fail(self, entry: Entry, error: BaseException) -> None:
        if not isinstance(error, Exception):
            self.stop(error)
            return
        try:
            self._on_failed(entry, error)
        except Exception as failure:
            self.stop(failure)


class _ObjectDownload(ResponseHandler):
    """What follows on the response of the request for one whole object."""

    def __init__(self, download: Download, entry: Entry) -> None:
        size = entry.size
        held, most = (ASSUMED_BYTES, download.settings.max_request_bytes) if size is None else (size, max(1, size))
        self.download = download
        self.entry = entry
        self.request = FetchRequest(
            download, download.source, entry.key, None, self, held=held, expected=held, max_bytes=most
        )

    def completed(self, request: FetchRequest, error: BaseException | None) -> None:
        self.download.downloaded(self, error)


class _PartDownload(ResponseHandler):
    """What follows on the response of the request for a part of the file of a large object.

    It is received in pieces of reused memory, which are written at once. Fresh memory for whole parts would cost more
    time than writing them.

    Attributes:
        file: the file.
        writes: pieces that workers have not written yet.
        is_received: True if the request has ended.
    """

    def __init__(self, download: Download, entry: Entry, part: Range, file: _PartFile) -> None:
        assert part.length is not None
        self.download = download
        self.file = file
        self.part = part
        self.writes = 0
        self.is_received = False
        self._received = 0
        self._buffer = self._piece = _NO_BYTES
        self.request = FetchRequest(
            download,
            download.source,
            entry.key,
            part,
            self,
            held=part.length,
            expected=part.length,
            if_match=entry.version,
            max_bytes=max(1, part.length),
            fetch=self._fetch_pieces if isinstance(download.source, FetchIntoStore) else None,
        )

    async def _fetch_pieces(self, request: FetchRequest) -> Value | None:
        store = request.store
        assert isinstance(store, FetchIntoStore)
        value = await store.fetch_into(
            request.key, self.part, self._begin_pieces, if_match=request.condition, max_bytes=request.max_bytes
        )
        request.placed_bytes = self._received
        return value

    def _begin_pieces(self, head: ResponseHead) -> _PartDownload | None:
        """A response begins: it, or the previous attempt's, may be incomplete in the end."""
        if head.start != self.part.start or head.version != self.request.if_match:
            return None  # and the request refuses it
        self._received = 0
        self._piece = _NO_BYTES
        return self

    def next_buffer(self, left: int) -> memoryview:
        """Have the piece that is full written, and return memory for the next one."""
        piece = self._piece
        if piece:
            self.download.write_piece(self, self.part.start + self._received, piece, self._buffer)
            self._received += piece.nbytes
        self._buffer = self.download.take_buffer() if left else _NO_BYTES
        self._piece = self._buffer[:left]
        return self._piece

    def completed(self, request: FetchRequest, error: BaseException | None) -> None:
        self._buffer = self._piece = _NO_BYTES
        self.download.part_downloaded(self, error)


class _FileWrite(WorkItem):
    """The write of one object in a worker."""

    __slots__ = ("download", "entry", "fetched", "request")

    def __init__(self, download: Download, part: _ObjectDownload, fetched: FetchedObject) -> None:
        super().__init__(max(part.request.held, MIN_WORK_BYTES))
        self.download = download
        self.request = part.request
        self.entry = part.entry
        self.fetched: FetchedObject | None = fetched

    def run(self) -> None:
        fetched, self.fetched = self.fetched, None
        assert fetched is not None
        if not self.download.stopped:
            write_now(self.download.destination, self.request.key, fetched.data, verify=self.download.verify)

    def run_batch_from(self, batch: Sequence[WorkItem], at: int) -> int:
        download = self.download
        if download.stopped:
            return super().run_batch_from(batch, at)
        writes: list[_FileWrite] = []
        values: list[tuple[str, Buffer]] = []
        for work in islice(batch, at, None):
            if not isinstance(work, _FileWrite) or work.download is not download:
                break
            assert work.fetched is not None
            writes.append(work)
            values.append((work.request.key, work.fetched.data))
            work.fetched = None
        errors = store_now(download.destination, values, verify=download.verify)
        for write, error in zip(writes, errors, strict=True):
            write.error = error
        return len(writes)

    def completed(self) -> None:
        self.download.written(self)


class _PartFile:
    """The file of a large object.

    Attributes:
        entry: the object.
        pending: parts that are neither written nor given up.
        is_failed: True if the object was given up.
    """

    def __init__(self, destination: LocalStore, entry: Entry, parts: int) -> None:
        self.entry = entry
        self.pending = parts
        self.is_failed = False
        self._file: LocalFile | None = None
        self._is_slow = False
        self._destination = destination
        self._lock = threading.Lock()

    def write(self, start: int, data: memoryview) -> None:
        """Write a piece, in a worker; the first one creates the file."""
        with self._lock:
            if self._file is None:
                self._file = self._destination.begin_file(self.entry.key, self.entry.size or 0)
        self._file.write(start, data)

    def write_quickly(self, start: int, data: memoryview) -> bool:
        """Write a piece on the loop, and return whether it is written. If not, a worker must write it.

        The system copies it to its cache of the file, in less time than a worker needs to take it over. A file whose
        writes are slow, such as one of a network file system, is left to workers.
        """
        file = self._file
        if file is None or self._is_slow or self.is_failed:
            return False
        started = perf_counter()
        try:
            file.write(start, data)
        except StoreError:
            return False  # the worker gets the same error
        self._is_slow = perf_counter() - started > MAX_WRITE_SECONDS
        return True

    def end(self) -> None:
        """Store the object, or remove the file if the object was given up, in a worker."""
        if self._file is None:
            return
        if not self.is_failed:
            try:
                self._file.commit()
            except BaseException:
                self._file.abort()
                raise
        else:
            self._file.abort()


class _PieceWrite(WorkItem):
    """The write of a piece of a part in a worker."""

    __slots__ = ("buffer", "data", "download", "part", "start")

    def __init__(
        self, download: Download, part: _PartDownload, start: int, data: memoryview, buffer: memoryview | None
    ) -> None:
        super().__init__(data.nbytes)
        self.download = download
        self.part = part
        self.start = start
        self.data = data
        self.buffer = buffer

    def run(self) -> None:
        if not self.part.file.is_failed:
            self.part.file.write(self.start, self.data)

    def completed(self) -> None:
        self.download.piece_written(self)


class _FileEnd(WorkItem):
    """Stores a large object whose parts are written, or removes its file, in a worker."""

    __slots__ = ("download", "file")

    def __init__(self, download: Download, file: _PartFile) -> None:
        super().__init__(MIN_WORK_BYTES)
        self.download = download
        self.file = file

    def run(self) -> None:
        self.file.end()

    def completed(self) -> None:
        self.download.file_ended(self)
