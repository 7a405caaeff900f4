"""What a finished read leaves in memory."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest
from arrays import SETTINGS, sample

from aiozarr.errors import CodecError
from aiozarr.testing.virtual_time import run_virtual


@pytest.mark.parametrize(
    ("fate", "inner"),
    [("done", None), ("done", (2, 2)), ("cancelled", None), ("cancelled", (2, 2)), ("failed", None)],
)
def test_a_read_that_is_over_holds_neither_array_nor_bytes_without_the_garbage_collector(
    fate: str, inner: tuple[int, int] | None
) -> None:
    async def scenario() -> None:
        array, store, reader = await sample((16, 16), (4, 4), inner=inner, latency=1.0)
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
