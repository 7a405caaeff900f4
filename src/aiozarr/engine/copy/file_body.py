"""A file as the body of requests: read while it is sent, so that a large file takes no more memory than a small one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter

from aiozarr.engine.copy.worker_writes import FILE_WORK_BYTES
from aiozarr.engine.engine import Engine
from aiozarr.stores import LocalStore
from aiozarr.stores.local.stored_file import StoredFile

MAX_READ_SECONDS = 0.02
"""Once a piece has taken longer, the loop reads no more of that file. A piece takes 50 µs from the system's cache."""


@asynccontextmanager
async def open_body(engine: Engine, source: LocalStore, key: str) -> AsyncIterator[FileBody | None]:
    """Open the value of `key` as a body, None if nothing is stored, and close it at the end."""
    opened: list[StoredFile | None] = []
    try:
        # A cancellation waits for the worker: the file is then closed, too.
        await engine.run_in_worker(lambda: opened.append(source.open_value(key)), FILE_WORK_BYTES)
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
