from __future__ import annotations

import numpy as np

import aiozarr
from aiozarr.integrations.zarr import AsyncArrayLike
from aiozarr.stores import MemoryStore

VALUES = np.arange(24, dtype="i2").reshape(2, 3, 4)


async def test_it_reads_and_describes_itself_as_zarr_pythons_asynchronous_array() -> None:
    array = await aiozarr.create_array(
        MemoryStore(), "a/b", data=VALUES, fill_value=7, dimension_names=["t", "y", "x"], attributes={"tr": [1, [2]]}
    )
    like = AsyncArrayLike(array)
    assert (like.name, like.shape, like.ndim, like.dtype) == ("/a/b", (2, 3, 4), 3, np.dtype("i2"))
    assert like.metadata.dimension_names == ("t", "y", "x")
    assert like.metadata.fill_value.item() == 7
    np.testing.assert_array_equal(await like.getitem((slice(1, 2), slice(0, 3), 2)), VALUES[1:2, :, 2])
    picked = await like.get_orthogonal_selection(([1, 0], slice(1, 3), slice(0, 2)))
    np.testing.assert_array_equal(picked, VALUES[[1, 0], 1:3, :2])
    like.attrs["tr"][0] += 1
    assert like.attrs == {"tr": [1, [2]]}


async def test_format_2_without_fill_value_has_none() -> None:
    array = await aiozarr.create_array(MemoryStore(), shape=(2, 2), dtype="f4", zarr_format=2, fill_value=None)
    assert AsyncArrayLike(array).metadata.fill_value is None
    assert AsyncArrayLike(array).metadata.dimension_names == ()
