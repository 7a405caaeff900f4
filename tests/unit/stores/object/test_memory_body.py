"""Bodies of several pieces of memory are read as their concatenation."""

from __future__ import annotations

import pytest

from aiozarr.stores.object.body_checksum import crc32c_of
from aiozarr.stores.object.memory_body import MAX_CONTIGUOUS_BYTES, MemoryBody, body_of

DATA = bytes(range(100))
PIECES = [memoryview(DATA)[:7], memoryview(b""), memoryview(DATA)[7:60], memoryview(DATA)[60:]]


@pytest.mark.parametrize(("start", "stop"), [(0, 100), (0, 7), (3, 65), (7, 8), (60, 100), (99, 100), (50, 50)])
async def test_any_range_of_the_body_is_that_of_the_concatenation(start: int, stop: int) -> None:
    body = MemoryBody(*PIECES)
    assert body.nbytes == 100
    memory = bytearray(stop - start)
    await body.read_into(start, memoryview(memory))
    assert memory == DATA[start:stop]
    part = body.part(start, stop - start)
    assert part.nbytes == stop - start
    assert await part.crc32c() == (await crc32c_of(DATA[start:stop])).decode()


def test_small_bodies_are_contiguous_and_large_ones_are_never_joined() -> None:
    only = memoryview(DATA)
    assert body_of(only) is only
    assert body_of(*PIECES) == DATA
    large = memoryview(bytes(MAX_CONTIGUOUS_BYTES + 1))
    assert isinstance(body_of(large), MemoryBody)
