"""Local files as sources and targets of copies.

A file that is a request's body is read while it is sent, so that a large file takes no more memory than a small one.
A new file is written piece by piece as a read in parts receives it. Small objects are stored by the calling worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from aiozarr.common.concurrency import wait_uncancelled
from aiozarr.engine.copy.copy_route import Verify, equal_bytes
from aiozarr.engine.engine import Engine
from aiozarr.errors import ChecksumError, StoreError
from aiozarr.memory import empty_bytes
from aiozarr.model import Precondition
from aiozarr.stores import BlockingStore, LocalStore
from aiozarr.stores.local.store import LocalFile
from aiozarr.stores.local.stored_file import StoredFile

if TYPE_CHECKING:
    from typing_extensions import Buffer

FILE_WORK_BYTES = 16 << 10
"""Cost of opening, renaming and closing a file in a worker, expressed in bytes."""


def store_now(
    destination: BlockingStore, values: Sequence[tuple[str, Buffer]], *, verify: Verify
) -> list[Exception | None]:
    """Store objects, together if the store can, and return the error of each."""
    if len(values) > 1 and verify != "checksum":
        # After an error each is stored by itself, and has its own outcome.
        with suppress(Exception):
            destination._set_values_now(values)
            return [None] * len(values)
    errors: list[Exception | None] = []
    for key, data in values:
        try:
            _store_one(destination, key, data, verify=verify)
        except Exception as error:
            errors.append(error)
        else:
            errors.append(None)
    return errors


def _store_one(destination: BlockingStore, key: str, data: Buffer, *, verify: Verify) -> None:
    for _ in range(2):
        destination.set_now(key, data)
        if verify != "checksum":
            return
        stored = destination.fetch_now(key)
        if stored is not None and equal_bytes(stored.data, data):
            return
    raise ChecksumError("the bytes read back differ from those stored", store=destination.url, key=key)


MAX_READ_SECONDS = 0.02
"""Once a piece has taken longer, the loop reads no more of that file. A piece takes 50 µs from the system's cache."""


@asynccontextmanager
async def open_body(engine: Engine, source: LocalStore, key: str) -> AsyncIterator[FileBody | None]:
    """Open the value of `key` as a body, None if nothing is stored, and close it at the end."""
    opened: list[StoredFile | None] = []
    try:
        # A cancellation waits for the worker: the file is then closed, too.
        await engine.run_in_worker(lambda: opened.append(source._open_value(key)), FILE_WORK_BYTES)
        file = opened[0]
        yield None if file is None else FileBody(engine, file, 0, file.size)
    finally:
        for file in opened:
            if file is not None:
                file.close()


class FileBody:
    """The bytes of a file, or of a part of it, as `BodyReader` says. Lives on the I/O thread.

    The loop reads a piece from the system's cache in less time than a worker needs to take it over. A file whose reads
    are slow, such as one of a network file system, is left to workers.

    Args:
        engine: has the workers.
        file: the file, which the caller closes.
        start, nbytes: the part.
    """

    def __init__(self, engine: Engine, file: StoredFile, start: int, nbytes: int) -> None:
        self.file = file
        self._engine = engine
        self._start = start
        self._nbytes = nbytes
        self._is_slow = False

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self._nbytes

    async def read_into(self, start: int, memory: memoryview) -> None:
        """Fill `memory` with the bytes from `start`.

        Raises:
            ChangedError: the file has been changed. That is checked before the last bytes are returned, so that no
                request with bytes of two versions is complete.
            StoreError: the file could not be read.
        """
        at = self._start + start
        if self._is_slow:
            await self._engine.run_in_worker(lambda: self.file.read_into(at, memory), memory.nbytes)
        else:
            started = perf_counter()
            self.file.read_into(at, memory)
            self._is_slow = perf_counter() - started > MAX_READ_SECONDS
        if start + memory.nbytes == self._nbytes:
            self.file.check()

    async def crc32c(self) -> str:
        """Return the CRC32C of the bytes in base64. Reading them for it also fills the system's cache."""
        return await self._engine.run_in_worker(lambda: self.file.crc32c(self._start, self._nbytes), self._nbytes)

    def part(self, start: int, nbytes: int) -> FileBody:
        """Return the part of `nbytes` bytes from `start`."""
        return FileBody(self._engine, self.file, self._start + start, nbytes)


PIECE_BYTES = 256 << 10
"""Bytes of a part that are received, and then written, at once: a piece is still in the processor's cache then."""
MAX_WRITE_SECONDS = 0.02
"""Once a piece has taken longer, the loop writes no more of that file. A piece takes 50 µs on a local disk."""

_NO_BYTES = memoryview(b"")


@asynccontextmanager
async def new_file(
    engine: Engine, destination: LocalStore, key: str, size: int, buffers: list[memoryview]
) -> AsyncIterator[FileTarget]:
    """Create the future value of `key`, of `size` bytes; remove it at the end unless it was committed."""
    created: list[FileTarget] = []

    def create() -> None:
        created.append(FileTarget(engine, destination._begin_file(key, size), buffers))

    try:
        # A cancellation waits for the worker: the file is then removed, too.
        await engine.run_in_worker(create, FILE_WORK_BYTES)
        yield created[0]
    finally:
        for target in created:
            await target.abort_unless_committed()


class FileTarget:
    """The file that a `MultipartRead` fills. Lives on the I/O thread.

    The loop writes a piece to the system's cache in less time than a worker needs to take it over. A file whose writes
    are slow, such as one of a network file system, is left to workers.

    Args:
        engine: has the workers.
        file: the file.
        buffers: memory for pieces, which the files of one copy share. Fresh memory for whole parts would cost more
            time than writing them.
    """

    def __init__(self, engine: Engine, file: LocalFile, buffers: list[memoryview]) -> None:
        self._engine = engine
        self._file = file
        self._buffers = buffers
        self._is_slow = False
        self._is_committed = False
        self._error: StoreError | None = None
        self._writes: set[asyncio.Task[None]] = set()

    def begin(self, nbytes: int) -> None:
        """Do nothing: the file has its size."""

    def place(self, start: int, stop: int) -> FilePieces:
        """Return the receiver of a response. Raise the error of a piece that could not be written."""
        if self._error is not None:
            raise self._error
        return FilePieces(self, start)

    async def put(self, start: int, data: memoryview) -> None:
        """Write bytes that were not received in pieces, in a worker."""
        await self._engine.run_in_worker(partial(self._file.write, start, data), data.nbytes)

    async def settle(self) -> None:
        """Wait for the workers, which write behind responses: also behind those that have failed."""
        await wait_uncancelled(*self._writes)

    def take(self) -> Buffer:
        """Return nothing: the bytes are in the file."""
        return b""

    async def commit(self, precondition: Precondition | None) -> None:
        """Store the value.

        Raises:
            PreconditionFailedError: `precondition` does not hold.
            StoreError: it could not be written or stored.
        """

        def commit() -> None:
            self._file.commit(precondition)
            self._is_committed = True

        await self.settle()
        if self._error is not None:
            raise self._error
        await self._engine.run_in_worker(commit, FILE_WORK_BYTES)

    async def abort_unless_committed(self) -> None:
        """Remove the file, unless it has got its name."""
        try:
            await self.settle()
        finally:
            if not self._is_committed:
                await self._engine.run_in_worker(self._file.abort, FILE_WORK_BYTES)

    def take_buffer(self) -> memoryview:
        """Return memory for a piece."""
        return self._buffers.pop() if self._buffers else empty_bytes(PIECE_BYTES)

    def write(self, start: int, piece: memoryview, buffer: memoryview) -> None:
        """Write a piece, or have a worker write it. `buffer` is reused afterwards."""
        if self._is_slow:
            task = asyncio.get_running_loop().create_task(self._write_in_worker(start, piece, buffer))
            self._writes.add(task)
            task.add_done_callback(self._writes.discard)
            return
        started = perf_counter()
        try:
            self._file.write(start, piece)
        except StoreError as error:
            self._error = error
        self._is_slow = perf_counter() - started > MAX_WRITE_SECONDS
        self._buffers.append(buffer)

    async def _write_in_worker(self, start: int, piece: memoryview, buffer: memoryview) -> None:
        try:
            await self.put(start, piece)
        except StoreError as error:
            self._error = error
        self._buffers.append(buffer)


class FilePieces:
    """Receives one response in pieces of reused memory."""

    def __init__(self, target: FileTarget, start: int) -> None:
        self._target = target
        self._at = start
        self._buffer = self._piece = _NO_BYTES

    def next_buffer(self, left: int) -> memoryview:
        """Have the piece that is full written, and return memory for the next one."""
        if self._piece:
            self._target.write(self._at, self._piece, self._buffer)
            self._at += self._piece.nbytes
        self._buffer = self._target.take_buffer() if left else _NO_BYTES
        self._piece = self._buffer[:left]
        return self._piece
