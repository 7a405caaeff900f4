"""The xarray engine reads random data sets as the stock engine does."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.integrations.xarray import AiozarrBackendEntrypoint
from tests.support.peer_cases import examples

DIMS = ("time", "y", "x")
DTYPES = ("i1", "u2", ">i4", "f4", ">f8", "bool", "c8", "S3", "U2", "M8[ns]", "m8[s]", str)


@st.composite
def variables(draw: st.DrawFn, sizes: dict[str, int]) -> xr.Variable:
    dims = tuple(draw(st.permutations(DIMS))[: draw(st.integers(0, 3))])
    shape = tuple(sizes[dim] for dim in dims)
    seed = draw(st.integers(0, 99))
    values: Any = np.random.default_rng(seed).integers(0, 50, shape)
    dtype = draw(st.sampled_from(DTYPES))
    values = np.asarray(values).astype(dtype)
    encoding: dict[str, Any] = {}
    if dtype in ("f4", ">f8") and draw(st.booleans()):
        encoding = {"scale_factor": 0.5, "add_offset": 3.0, "_FillValue": -1, "dtype": "i2"}
    if shape and all(shape) and draw(st.booleans()):
        encoding["chunks"] = tuple(draw(st.integers(1, length)) for length in shape)
    return xr.Variable(dims, values, {"units": "m"} if dtype == "f4" else {}, encoding)


@st.composite
def datasets(draw: st.DrawFn) -> xr.Dataset:
    sizes = {dim: draw(st.integers(0, 5)) for dim in DIMS}
    names = draw(st.lists(st.sampled_from(["a", "b.c", "ü", "area"]), unique=True, max_size=4))
    coords = {dim: (dim, np.arange(sizes[dim]) * 1.5) for dim in DIMS if draw(st.booleans())}
    if draw(st.booleans()):
        coords["time"] = ("time", np.datetime64("2001-01-01", "ns") + np.arange(sizes["time"]) * np.timedelta64(1, "h"))
    return xr.Dataset({name: draw(variables(sizes)) for name in names}, coords, {"title": "ü"})


@examples(10)
@given(datasets(), st.sampled_from([2, 3]), st.booleans(), st.data())
def test_values_types_and_attributes_are_those_of_the_stock_engine(
    dataset: xr.Dataset, zarr_format: int, consolidated: bool, data: st.DataObject
) -> None:
    folder = Path(mkdtemp())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset.to_zarr(folder, mode="w", zarr_format=zarr_format, consolidated=consolidated)
            stock = xr.open_dataset(folder, engine="zarr")
            own = xr.open_dataset(folder, engine=AiozarrBackendEntrypoint)
            indexers = {
                dim: data.draw(st.lists(st.integers(-size, size - 1), max_size=4) if size else st.just([]))
                for dim, size in dataset.sizes.items()
            }
            xr.testing.assert_identical(own.isel(indexers).load(), stock.isel(indexers).load())
            xr.testing.assert_identical(own.aiozarr.load(), stock.load())
            for name in stock.variables:
                # The stock engine shortens the type of a single text to its value.
                assert own[name].dtype == stock[name].dtype or own[name].ndim == 0
    finally:
        shutil.rmtree(folder)
