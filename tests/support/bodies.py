"""Bodies of requests for tests of uploads."""

from __future__ import annotations

from base64 import b64encode

import google_crc32c


class BytesBody:
    """A body of known bytes: a `BodyReader`."""

    def __init__(self, nbytes: int, data: bytes | None = None) -> None:
        self.data = (bytes(range(256)) * (nbytes // 256 + 1))[:nbytes] if data is None else data

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return len(self.data)

    async def read_into(self, start: int, memory: memoryview) -> None:
        """Fill `memory` with the bytes from `start`."""
        memory[:] = self.data[start : start + len(memory)]

    async def crc32c(self) -> str:
        """Return the CRC32C of the bytes in base64."""
        return b64encode(google_crc32c.value(self.data).to_bytes(4, "big")).decode()

    def part(self, start: int, nbytes: int) -> BytesBody:
        """Return a part."""
        return BytesBody(nbytes, self.data[start : start + nbytes])
