"""The bodies of requests that store values: contiguous if they are small, otherwise sent piece by piece."""

from __future__ import annotations

from aiozarr.http1.request import BodyReader
from aiozarr.stores.object.body_checksum import crc32c_of

MAX_CONTIGUOUS_BYTES = 1 << 20
"""TLS encrypts on the loop: a larger body at once would delay its other requests."""


def body_of(*parts: memoryview) -> memoryview | BodyReader:
    """Return a body that is the concatenation of `parts` (flat bytes), which do not change until it was sent."""
    if sum(part.nbytes for part in parts) > MAX_CONTIGUOUS_BYTES:
        return MemoryBody(*parts)
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


class MemoryBody:
    """A `BodyReader` of bytes in memory, which are never joined."""

    def __init__(self, *parts: memoryview) -> None:
        self._parts = parts
        self.nbytes = sum(part.nbytes for part in parts)

    async def read_into(self, start: int, memory: memoryview) -> None:
        for view in self._views(start, memory.nbytes):
            memory[: view.nbytes] = view
            memory = memory[view.nbytes :]

    async def crc32c(self) -> str:
        whole = self._parts[0] if len(self._parts) == 1 else memoryview(b"".join(self._parts))
        return (await crc32c_of(whole)).decode("ascii")

    def part(self, start: int, nbytes: int) -> MemoryBody:
        return MemoryBody(*self._views(start, nbytes))

    def _views(self, start: int, nbytes: int) -> list[memoryview]:
        views, stop = [], start + nbytes
        for part in self._parts:
            view = part[max(start, 0) : max(stop, 0)]
            if view.nbytes:
                views.append(view)
            start, stop = start - part.nbytes, stop - part.nbytes
        return views
