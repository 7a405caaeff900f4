"""A body in memory that is sent in pieces, so that the transport holds little of it at a time."""

from __future__ import annotations

from aiozarr.stores.object.body_checksum import crc32c_of


class MemoryBody:
    """A `BodyReader` of flat bytes.

    Attributes:
        data: the bytes, which do not change.
    """

    def __init__(self, data: memoryview) -> None:
        self.data = data

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self.data.nbytes

    async def read_into(self, start: int, memory: memoryview) -> None:
        """Fill `memory` with the bytes from `start`."""
        memory[:] = self.data[start : start + memory.nbytes]

    async def crc32c(self) -> str:
        """Return the CRC32C in base64."""
        return (await crc32c_of(self.data)).decode()

    def part(self, start: int, nbytes: int) -> MemoryBody:
        """Return the part of `nbytes` bytes from `start`, of the same memory."""
        return MemoryBody(self.data[start : start + nbytes])
