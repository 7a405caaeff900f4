"""dask with worker processes: arrays of `aiozarr.sync` read and written by them, and xarray's engine."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
import xarray as xr
from distributed import Client, LocalCluster

import aiozarr.sync

VALUES = np.arange(96 * 80.0).reshape(96, 80)


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with LocalCluster(n_workers=3, threads_per_worker=2, dashboard_address=None) as cluster, Client(cluster) as each:
        yield each


def test_workers_read_shards(client: Client, tmp_path: Path) -> None:
    source = aiozarr.sync.create_array(tmp_path / "a", data=VALUES, chunks=(4, 4), shards=(32, 20))
    array = da.from_array(source, chunks=source.shards)
    assert array.numblocks == (3, 4)
    assert float(array.sum().compute()) == VALUES.sum()
    np.testing.assert_array_equal(array[5:40:3, ::-7].compute(), VALUES[5:40:3, ::-7])


@pytest.mark.parametrize("chunks", [(32, 20), (16, 20), (5, 7)])
@pytest.mark.parametrize("shards", [(32, 20), None])
def test_workers_write_shards_that_they_share_without_losing_values(
    client: Client, tmp_path: Path, chunks: tuple[int, int], shards: tuple[int, int] | None
) -> None:
    target = aiozarr.sync.create_array(tmp_path / "b", shape=VALUES.shape, dtype="f8", chunks=(4, 4), shards=shards)
    da.store(da.from_array(VALUES, chunks=chunks) * 2, target, lock=False)
    np.testing.assert_array_equal(target[...], VALUES * 2)


def test_a_coroutine_reads_on_the_loop_of_a_worker(client: Client, tmp_path: Path) -> None:
    aiozarr.sync.create_array(tmp_path / "c", data=VALUES, chunks=(32, 20))

    async def read(path: str, row: int) -> Any:
        array = await aiozarr.open_array(path)
        return await array[row]

    rows = client.gather(client.map(read, [str(tmp_path / "c")] * 8, range(8)))
    np.testing.assert_array_equal(rows, VALUES[:8])


def test_data_sets_of_the_engine_are_computed_by_workers(client: Client, tmp_path: Path) -> None:
    data = xr.Dataset({"v": (("y", "x"), VALUES)}, {"y": np.arange(96), "x": np.arange(80)})
    data["v"].encoding = {"chunks": (4, 4), "shards": (32, 20)}
    data.to_zarr(tmp_path / "d", zarr_format=3)
    opened = xr.open_dataset(tmp_path / "d", engine="aiozarr", chunks={})
    assert opened["v"].chunks == ((32,) * 3, (20,) * 4)
    xr.testing.assert_allclose(opened.mean().compute(), data.mean())
    # Lazy variables, which are no dask arrays, travel too.
    lazy = xr.open_dataset(tmp_path / "d", engine="aiozarr")
    xr.testing.assert_identical(client.submit(operator.methodcaller("load"), lazy).result(), data)
