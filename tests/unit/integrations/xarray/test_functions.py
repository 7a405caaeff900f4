from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import aiozarr
from aiozarr.integrations.xarray import open_dataset, open_datatree, open_many
from aiozarr.stores import LocalStore
from tests.unit.integrations.xarray.conftest import RoundTripStore, make_dataset, write


async def test_a_data_set_opens_awaited_in_two_round_trips(counted: RoundTripStore) -> None:
    dataset = await open_dataset(counted, drop_variables=["v01"], decode_times=False)
    assert len(counted.rounds) == 2
    assert "v01" not in dataset
    assert dataset["time"].dtype.kind == "i"
    xr.testing.assert_identical(await (await open_dataset(counted)).load_async(), make_dataset())


async def test_a_tree_opens_awaited_in_two_round_trips(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict({"/": make_dataset(1), "/a/b": make_dataset(2)})
    store = RoundTripStore(LocalStore(write(tree, tmp_path / "a.zarr")))
    opened = await open_datatree(store)
    assert len(store.rounds) == 2
    await opened.aiozarr.load_async()
    xr.testing.assert_identical(opened, tree)
    assert set((await open_datatree(store, group="a")).children) == {"b"}


async def parts(tmp_path: Path, count: int = 4) -> list[Path]:
    data = make_dataset(2)
    return [write(data.isel(time=[n]), tmp_path / f"{n}.zarr") for n in range(count)]


async def test_many_open_and_combine_with_one_schedule_for_their_values(tmp_path: Path) -> None:
    paths = await parts(tmp_path)
    options = {
        "data_vars": "minimal",
        "coords": "minimal",
        "compat": "override",
        "join": "outer",
        "combine_attrs": "override",
    }
    combined = await open_many(paths, combine_options=options)
    xr.testing.assert_identical(combined, make_dataset(2))
    nested = await open_many(paths, combine="nested", combine_options={"concat_dim": "time", **options})
    xr.testing.assert_identical(nested, make_dataset(2))


async def test_many_open_as_a_list_in_order_and_lazily(tmp_path: Path) -> None:
    paths = await parts(tmp_path)
    stores = [RoundTripStore(LocalStore(path)) for path in paths]
    datasets = await open_many(stores, combine=None, preprocess=lambda each: each.assign_attrs(n=1))
    assert [each["time"].values[0] for each in datasets] == list(make_dataset()["time"].values)
    assert all(each.attrs["n"] == 1 for each in datasets)
    assert all(len(store.rounds) == 2 for store in stores)
    chunked = await open_many(paths, combine=None, chunks={})
    assert chunked[0]["v00"].chunks is not None


async def test_the_first_missing_one_of_many_is_the_error(tmp_path: Path) -> None:
    paths = await parts(tmp_path, 2)
    with pytest.raises(aiozarr.NodeNotFoundError, match="nothing"):
        await open_many([*paths, tmp_path / "nothing.zarr"])


async def test_wrong_keywords_are_refused(stored: Path) -> None:
    with pytest.raises(ValueError, match="combine must be"):
        await open_many([stored], combine="all")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="combine_options"):
        await open_many([stored], combine=None, combine_options={"join": "outer"})
    with pytest.raises(TypeError, match="engine"):
        await open_dataset(stored, engine="zarr")
    with pytest.raises(ValueError, match=r"write with Dataset\.to_zarr"):
        await open_dataset(stored, mode="w")
    with pytest.raises(TypeError):
        await open_dataset(stored, no_such_keyword=1)


async def test_missing_consolidated_metadata_are_warned_of_as_by_the_engine_and_once_for_many(tmp_path: Path) -> None:
    path = write(make_dataset(1), tmp_path / "a.zarr", consolidated=False)
    for opening in (open_dataset(path), open_datatree(path), open_many([path] * 3, combine=None)):
        with pytest.warns(RuntimeWarning, match="Failed to open Zarr store with consolidated metadata") as caught:
            await opening
        assert [each.filename for each in caught] == [__file__]
    assert "and 2 others" in str(caught[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await open_dataset(path, consolidated=False)
        async with await aiozarr.open_group(path) as group:
            await open_dataset(group)


async def test_settings_and_storage_options_reach_the_store(stored: Path) -> None:
    settings = aiozarr.Settings(max_requests=3)
    dataset = await open_dataset(stored, settings=settings, backend_kwargs={"consolidated": True})
    view = dataset["v00"].aiozarr.plan()
    assert np.isfinite(view.bytes)
    assert dataset.encoding["source"].endswith("a.zarr")
    with pytest.raises(TypeError, match="storage_options"):
        await open_dataset(LocalStore(stored), storage_options={"anon": True})
