"""What a finished read leaves in memory."""

from __future__ import annotations

import asyncio
import gc
import mmap
import sys
import weakref
from pathlib import Path

import pytest

from aiozarr.engine.partial_chunk import read_ranges
from aiozarr.errors import CodecError
from aiozarr.model import Value, Version
from aiozarr.testing.virtual_time import run_virtual
from tests.support.engine_samples import SETTINGS, layout_of, sample


@pytest.mark.parametrize(
    ("fate", "chunks", "inner"),
    [
        ("done", (4, 4), None),
        ("done", (4, 4), (2, 2)),
        ("done", (16, 16), (2, 2)),
        ("cancelled", (4, 4), None),
        ("cancelled", (4, 4), (2, 2)),
        ("cancelled", (16, 16), (2, 2)),
        ("failed", (4, 4), None),
    ],
)
def test_a_read_that_is_over_holds_neither_array_nor_bytes_without_the_garbage_collector(
    fate: str, chunks: tuple[int, int], inner: tuple[int, int] | None
) -> None:
    async def scenario() -> None:
        array, store, reader = await sample((16, 16), chunks, inner=inner, latency=1.0)
        if fate == "failed":
            store.memory.set_now("a/c/1/1", b"short")
        read = array.read(...)
        out = weakref.ref(read.out)
        task = asyncio.ensure_future(reader.read([read], settings=SETTINGS))
        del read
        await asyncio.sleep(0.5)
        if fate == "cancelled":
            task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() == (fate == "cancelled")
        if fate == "failed":
            assert isinstance(task.exception(), CodecError)
        del task
        await asyncio.sleep(0)
        assert out() is None

    gc.collect()
    gc.disable()
    try:
        run_virtual(scenario())
    finally:
        gc.enable()


@pytest.mark.skipif(sys.platform != "linux", reason="asks the system how much memory is there")
def test_of_a_chunk_that_is_read_in_part_only_what_was_fetched_takes_memory() -> None:
    row = 1 << 20
    pipeline = layout_of((64, row // 4), (64, row // 4)).largest.pipeline
    ranges = tuple((number * row, 4) for number in range(0, 64, 2))
    before = _resident()
    memory = read_ranges(pipeline, ranges, lambda part: Value(b"1234", Version("1"), 64 * row))
    assert memory is not None
    assert memory.nbytes == 64 * row
    assert _resident() - before < 64 * row // 8


def _resident() -> int:
    """Bytes of memory that this process has from the system."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
