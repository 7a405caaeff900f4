from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from aiozarr.integrations.xarray import AiozarrBackendEntrypoint as Engine
from aiozarr.integrations.xarray.functions import load_all, pending_variables
from tests.unit.integrations.xarray.conftest import RoundTripStore, make_dataset, write


def test_all_variables_load_in_one_round_trip_with_a_report(counted: RoundTripStore) -> None:
    dataset = xr.open_dataset(counted, engine=Engine)
    before = len(counted.rounds)
    assert dataset.aiozarr.report is None
    assert dataset.aiozarr.load() is dataset
    assert len(counted.rounds) == before + 1
    assert dataset.aiozarr.report.requests == len(counted.rounds[-1]) == 4
    xr.testing.assert_identical(dataset, make_dataset())
    assert all(variable._in_memory for variable in dataset.variables.values())


async def test_awaited_loading_is_the_same(counted: RoundTripStore) -> None:
    dataset = await asyncio.to_thread(xr.open_dataset, counted, engine=Engine)
    await dataset.isel(time=slice(1, 3)).aiozarr.load_async()
    assert await dataset.aiozarr.load_async() is dataset
    # The coordinate without the selected dimension is one variable of both data sets.
    assert dataset.aiozarr.report.chunks == 3
    xr.testing.assert_identical(dataset, make_dataset())


def test_a_plan_has_the_requests_of_each_variable_and_makes_none(counted: RoundTripStore) -> None:
    dataset = xr.open_dataset(counted, engine=Engine)
    requests = len(counted.keys)
    plan = dataset.isel(time=0).aiozarr.plan()
    assert set(plan.variables) == {"v00", "v01", "v02", "area"}
    assert plan.requests == 4
    assert plan.bytes == sum(each.bytes for each in plan.variables.values())
    assert "4 variables" in str(plan)
    assert len(counted.keys) == requests
    dataset.aiozarr.load()
    assert not dataset.aiozarr.plan().variables


def test_trees_and_arrays_have_the_accessor_too(tmp_path: Path) -> None:
    nodes = {"/": make_dataset(1), "/a": make_dataset(2), "/a/b": make_dataset(3)}
    path = write(xr.DataTree.from_dict(nodes), tmp_path / "a.zarr")
    tree = xr.open_datatree(path, engine=Engine)
    assert "/a/b/v02" in tree.aiozarr.plan().variables
    assert tree.aiozarr.load() is tree
    assert not pending_variables(tree)
    xr.testing.assert_identical(tree["a/b"].to_dataset(), make_dataset(3))
    array = xr.open_dataset(path, engine=Engine)["v00"]
    array.aiozarr.load()
    assert array.variable._in_memory
    assert "DataArray" in repr(array.aiozarr)


async def test_several_data_sets_load_in_one_round_trip(counted: RoundTripStore) -> None:
    datasets = [await asyncio.to_thread(xr.open_dataset, counted, engine=Engine) for _ in range(2)]
    before = len(counted.rounds)
    await load_all(datasets)
    assert len(counted.rounds) == before + 1


def test_variables_in_memory_and_chunked_ones_are_loaded_as_xarray_does(stored: Path) -> None:
    dataset = xr.open_dataset(stored, engine=Engine, chunks={})
    dataset["extra"] = ("x", np.arange(5))
    assert not dataset.aiozarr.plan().variables
    dataset.aiozarr.load()
    assert dataset["v00"].chunks is None


def test_an_error_leaves_the_variables_lazy(stored: Path) -> None:
    dataset = xr.open_dataset(stored, engine=Engine)
    (stored / "v01" / "c" / "0" / "0" / "0").write_bytes(b"broken")
    with pytest.raises(Exception, match="v01"):
        dataset.aiozarr.load()
    assert not dataset["v01"].variable._in_memory
    assert dataset.drop_vars("v01").aiozarr.load()["v00"].variable._in_memory
