"""What type checkers make of the public names: mypy and pyright check this file, nothing runs it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import aiozarr
import aiozarr.sync
from aiozarr.results import ArrayInfo, CopyReport, Totals
from aiozarr.stores import MemoryStore, Store
from aiozarr.testing import LatencyStore


async def awaited(store: Store, path: Path) -> None:
    assert_type(await aiozarr.open(path), aiozarr.Array | aiozarr.Group)
    assert_type(await aiozarr.open({"driver": "zarr3", "kvstore": "memory://a/"}), aiozarr.driver.TensorView)
    array = await aiozarr.open_array(store, "a", mode="r+", settings=aiozarr.Settings(timeout=3))
    group = await aiozarr.open_group("s3://bucket/store", storage_options={"anon": True})
    assert_type(array, aiozarr.Array)
    assert_type(group, aiozarr.Group)
    assert_type(array.shape, tuple[int, ...])
    assert_type(array.dtype, np.dtype[Any])
    assert_type(array.attrs, Mapping[str, Any])
    assert_type(array[0, ..., ::2], aiozarr.View)
    assert_type(await array[0], NDArray[Any])
    assert_type(array.oindex[[1, 2], :, np.array([True])], aiozarr.View)
    assert_type(array[::2].vindex[[1], np.array([2])].oindex[0], aiozarr.View)
    assert_type(array.blocks[0, 1:], aiozarr.View)
    assert_type(array["a"][["b", "c"]]["d", :3], aiozarr.View)
    assert_type(await array[0].read(out=np.empty(3)), NDArray[Any])
    async for name, node in group.members():
        assert_type(name, str)
        assert_type(node, aiozarr.Array | aiozarr.Group)
    async for region, block in array[...].stream():
        assert_type(region, tuple[slice | NDArray[Any], ...])
        assert_type(block, NDArray[Any])
    async with await aiozarr.open_array(MemoryStore()) as opened:
        assert_type(opened, aiozarr.Array)
    created = await aiozarr.create_array(store, shape=(1,), dtype="int8", chunks=(1,), shards=None, codecs="auto")
    assert_type(created, aiozarr.Array)
    with aiozarr.record() as report:
        assert_type(report.requests, int)
    assert_type(report.origins, dict[str, Totals])
    assert_type(await array.info(), ArrayInfo)
    assert_type(await aiozarr.copy(LatencyStore(store, 0.1), path), CopyReport)


def blocking(store: Store) -> None:
    array = aiozarr.sync.open_array(store, "a", mode="r+")
    assert_type(array, aiozarr.sync.Array)
    assert_type(array[0], NDArray[Any])
    array[0] = 3
    assert_type(array.oindex[[1, 2]], NDArray[Any])
    assert_type(array.view.vindex[[1, 2]], aiozarr.sync.View)
    array.vindex[[1, 2], 3] = [1.5, 2]
    array.blocks[0] = 0
    assert_type(aiozarr.sync.open_group(store), aiozarr.sync.Group)
    assert_type(aiozarr.sync.open({"driver": "zarr3", "kvstore": "memory://a/"}), aiozarr.sync.TensorView)
    for region, block in array.view[...].stream():
        assert_type(region, tuple[slice | NDArray[Any], ...])
        assert_type(block, NDArray[Any])


async def refused(store: Store) -> None:
    # Each of these must stay an error: mypy reports an ignore that is not needed.
    await aiozarr.open_array(store, mode="w")  # type: ignore[arg-type]
    await aiozarr.create_array(store, shapes=3, dtype="int8")  # type: ignore[call-arg]
    _ = aiozarr.open_array(store).shape  # type: ignore[attr-defined]  # not awaited
    aiozarr.Settings(timeouts=3)  # type: ignore[call-arg]
