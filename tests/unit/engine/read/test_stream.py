"""Blocks as they land: complete, bounded, and with an end; in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from aiozarr.engine import BlockStream
from aiozarr.errors import PermissionDeniedError
from aiozarr.stores import MemoryStore
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import SETTINGS, Sample, engine, layout_of, sample


async def gathered(stream: BlockStream, array: Sample, *, pause: float = 0.0) -> np.ndarray:
    """Put the blocks together, as slowly as `pause` says."""
    out = np.full(array.values.shape, -1, array.values.dtype)
    while (landed := await stream.next()) is not None:
        region, block = landed
        out[region] = block
        await asyncio.sleep(pause)
    await stream.aclose()
    return out


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("prefetch", [None, 0, 1, 3, 100])
@pytest.mark.parametrize("pause", [0.0, 0.5, 5.0])
@in_virtual_time
async def test_a_stream_gives_every_block_once_and_ends(
    inner: tuple[int, int] | None, prefetch: int | None, pause: float
) -> None:
    array, store, reader = await sample((8, 8), (4, 4), inner=inner, latency=1.0)
    stream = reader.stream(array.read(...), settings=SETTINGS, prefetch=prefetch)
    assert np.array_equal(await gathered(stream, array, pause=pause), array.values)
    assert store.in_flight == 0
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_blocks_larger_than_the_bytes_in_flight_are_streamed_one_by_one(inner: tuple[int, int] | None) -> None:
    array, store, reader = await sample((8, 8), (4, 4), inner=inner)
    stream = reader.stream(array.read(...), settings=replace(SETTINGS, max_bytes_in_flight=10))
    assert np.array_equal(await gathered(stream, array), array.values)
    assert store.max_in_flight == 1


@in_virtual_time
async def test_no_more_blocks_are_fetched_than_may_be_ahead() -> None:
    array, store, reader = await sample((100, 1), (1, 1))
    stream = reader.stream(array.read(...), settings=SETTINGS, prefetch=3)
    assert await stream.next() is not None
    await asyncio.sleep(10)
    assert store.count == 5
    await stream.aclose()
    assert len(asyncio.all_tasks()) == 1


@in_virtual_time
async def test_a_blocking_store_is_streamed_too() -> None:
    array = Sample(layout_of((9, 9), (4, 4)), MemoryStore())
    worker = engine()
    await worker.write(array.write(array.values), settings=SETTINGS)
    for prefetch in (None, 0, 2):
        stream = worker.stream(array.read(...), settings=SETTINGS, prefetch=prefetch)
        assert np.array_equal(await gathered(stream, array), array.values)


@in_virtual_time
async def test_an_error_is_raised_in_place_of_the_next_block_and_nothing_stays_under_way() -> None:
    array, store, reader = await sample((8, 1), (1, 1))
    store.faults = lambda call: PermissionDeniedError("no", key=call.key) if call.key == "a/c/5/0" else None
    stream = reader.stream(array.read(...), settings=SETTINGS, prefetch=1)
    with pytest.raises(PermissionDeniedError):
        await gathered(stream, array)
    await stream.aclose()
    assert store.in_flight == 0
    assert len(asyncio.all_tasks()) == 1


@in_virtual_time
async def test_a_stream_of_nothing_ends_at_once() -> None:
    array, store, reader = await sample((8, 8), (4, 4))
    stream = reader.stream(array.read(slice(0, 0)), settings=SETTINGS)
    assert await stream.next() is None
    assert store.count == 0
