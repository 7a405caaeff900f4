"""dask over arrays of `aiozarr.sync`, with threads; `make test-ecosystem` has the tests with worker processes."""

from __future__ import annotations

from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest

import aiozarr
from aiozarr.stores import MemoryStore

VALUES = np.arange(96 * 80.0).reshape(96, 80)


def test_chunks_are_aligned_to_the_shards(tmp_path: Path) -> None:
    source = aiozarr.sync.create_array(tmp_path, data=VALUES, chunks=(4, 4), shards=(32, 20))
    with dask.config.set({"array.chunk-size": "20kiB"}):
        array = da.from_array(source)
    assert all(length % shard == 0 for lengths, shard in zip(array.chunks, (32, 20), strict=True) for length in lengths)
    with aiozarr.record() as report:
        values = da.from_array(source, chunks=source.shards).compute(scheduler="sync")
    np.testing.assert_array_equal(values, VALUES)
    # Each task reads one whole shard: one request, without its index.
    assert report.requests == 12


@pytest.mark.parametrize("chunks", [(32, 20), (5, 7)])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_threads_that_share_stored_objects_lose_no_values(chunks: tuple[int, int], zarr_format: int) -> None:
    shards = (32, 20) if zarr_format == 3 else None
    target = aiozarr.sync.create_array(
        MemoryStore(), shape=VALUES.shape, dtype="f8", chunks=(4, 4), shards=shards, zarr_format=zarr_format
    )
    da.store(da.from_array(VALUES, chunks=chunks) + 1, target, lock=False, scheduler="threads", num_workers=8)
    np.testing.assert_array_equal(target[...], VALUES + 1)


def test_whole_shards_are_written_without_reading() -> None:
    target = aiozarr.sync.create_array(MemoryStore(), shape=VALUES.shape, dtype="f8", chunks=(4, 4), shards=(32, 20))
    with aiozarr.record() as report:
        da.store(da.from_array(VALUES, chunks=(64, 40)), target, lock=False, scheduler="sync")
    assert report.bytes_fetched == 0
    assert report.requests == 12


def test_empty_arrays_and_zero_dimensions_are_stored() -> None:
    for values in (np.zeros((0, 3)), np.array(5.0)):
        target = aiozarr.sync.create_array(MemoryStore(), shape=values.shape, dtype="f8")
        da.store(da.from_array(values), target, lock=False, scheduler="sync")
        np.testing.assert_array_equal(da.from_array(target).compute(scheduler="sync"), values)
