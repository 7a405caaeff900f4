from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import aiozarr
from aiozarr.integrations.xarray import AiozarrBackendEntrypoint as Engine
from aiozarr.integrations.xarray.backend import source_of
from aiozarr.stores import LocalStore
from tests.unit.integrations.xarray.conftest import RoundTripStore, make_dataset, write

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("chunks", [None, {}])
def test_a_data_set_is_that_of_the_stock_engine(
    tmp_path: Path, zarr_format: int, chunks: dict[str, int] | None
) -> None:
    path = write(make_dataset(), tmp_path / "a.zarr", zarr_format=zarr_format)
    with (
        xr.open_dataset(path, engine=Engine, chunks=chunks) as own,
        xr.open_dataset(path, engine="zarr", chunks=chunks) as stock,
    ):
        xr.testing.assert_identical(own, stock)
        for name in stock.variables:
            assert own[name].dtype == stock[name].dtype
            assert own[name].encoding.keys() == stock[name].encoding.keys()
            assert own[name].chunks == stock[name].chunks
            for key in ("compressors", "filters", "chunks", "preferred_chunks"):
                assert own[name].encoding.get(key) == stock[name].encoding.get(key), (name, key)


def test_a_tree_is_that_of_the_stock_engine(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict({"/": make_dataset(1), "/a": make_dataset(2), "/b/c": xr.Dataset(attrs={"n": 1})})
    path = write(tree, tmp_path / "a.zarr")
    for group in (None, "b", "/a"):
        with (
            xr.open_datatree(path, engine=Engine, group=group) as own,
            xr.open_datatree(path, engine="zarr", group=group) as stock,
        ):
            xr.testing.assert_identical(own, stock)
    own_groups, stock_groups = xr.open_groups(path, engine=Engine), xr.open_groups(path, engine="zarr")
    assert own_groups.keys() == stock_groups.keys()


def test_opening_makes_no_request_beyond_coordinates_and_a_representation_none(counted: RoundTripStore) -> None:
    dataset = xr.open_dataset(counted, engine=Engine)
    assert len(counted.rounds) == 2
    requests = len(counted.keys)
    repr(dataset)
    dataset._repr_html_()
    dataset["v00"].isel(time=0)
    assert len(counted.keys) == requests


def test_indexing_is_lazy_and_reads_only_the_chunks_selected(tmp_path: Path) -> None:
    data = make_dataset()
    data["v01"].encoding = {"chunks": (1, 3, 5)}
    store = RoundTripStore(LocalStore(write(data, tmp_path / "a.zarr")))
    dataset = xr.open_dataset(store, engine=Engine)
    before = len(store.keys)
    np.testing.assert_array_equal(dataset["v01"].isel(time=2, x=[4, 1]).values, data["v01"].values[2][:, [4, 1]])
    assert [key for key in store.keys[before:] if key.startswith("v01")] == ["v01/c/2/0/0"]
    points = {"y": xr.DataArray([0, 2], dims="p"), "x": xr.DataArray([1, 1], dims="p")}
    xr.testing.assert_identical(dataset["v01"].isel(points).load(), data["v01"].isel(points))


def test_the_engine_is_chosen_for_objects_of_aiozarr_alone(stored: Path) -> None:
    engine = Engine()
    store = LocalStore(stored)
    assert engine.guess_can_open(store)
    assert engine.guess_can_open(aiozarr.sync.open_group(store))
    assert not any(engine.guess_can_open(each) for each in (stored, str(stored), "s3://b/a.zarr", b"", 3))
    xr.testing.assert_identical(xr.open_dataset(aiozarr.sync.open_group(store), engine=Engine), make_dataset())


def test_shards_are_the_preferred_chunks(tmp_path: Path) -> None:
    data = make_dataset(1)
    data["v00"].encoding = {"chunks": (1, 3, 5), "shards": (2, 3, 5)}
    dataset = xr.open_dataset(write(data, tmp_path / "a.zarr", zarr_format=3), engine=Engine, chunks={})
    assert dataset["v00"].encoding["preferred_chunks"] == {"time": 2, "y": 3, "x": 5}
    assert dataset["v00"].chunks == ((2, 2), (3,), (5,))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_encoding_stores_the_data_set_again_in_the_same_way(tmp_path: Path, zarr_format: int) -> None:
    data = make_dataset(2)
    data["v01"].encoding = {"chunks": (2, 3, 5)}
    if zarr_format == 3:
        data["v01"].encoding |= {"shards": (4, 3, 5)}
    first = write(data, tmp_path / "a.zarr", zarr_format=zarr_format)
    own = write(xr.open_dataset(first, engine=Engine), tmp_path / "own.zarr", zarr_format=zarr_format)
    stock = write(xr.open_dataset(first, engine="zarr"), tmp_path / "stock.zarr", zarr_format=zarr_format)
    name = "zarr.json" if zarr_format == 3 else ".zarray"
    for variable in data.variables:
        assert (own / variable / name).read_text() == (stock / variable / name).read_text()
    assert (own / "v01" / name).read_text() == (first / "v01" / name).read_text()


def test_texts_of_format_2_are_stored_again(tmp_path: Path) -> None:
    data = xr.Dataset({"v": ("x", np.array(["a", "", "ü"], dtype=object))})
    first = xr.open_dataset(write(data, tmp_path / "a.zarr", zarr_format=2), engine=Engine)
    second = xr.open_dataset(write(first, tmp_path / "b.zarr", zarr_format=2), engine=Engine)
    xr.testing.assert_equal(second, data)


@pytest.mark.parametrize(("masks", "masked"), [(None, False), (True, True), (False, False)])
def test_the_fill_value_masks_where_that_is_asked_for(tmp_path: Path, masks: bool | None, masked: bool) -> None:
    group = aiozarr.sync.create_group(tmp_path / "a.zarr")
    group.create_array("v", data=np.array([1, 7, 3]), fill_value=7, dimension_names=["x"])
    path = tmp_path / "a.zarr"
    options: dict[str, Any] = {"consolidated": False, "use_zarr_fill_value_as_mask": masks}
    dataset = xr.open_dataset(path, engine=Engine, **options)
    assert bool(np.isnan(dataset["v"].values[1])) is masked
    tree = xr.open_datatree(path, engine=Engine, **options)
    assert bool(np.isnan(tree["v"].values[1])) is masked


def test_data_sets_pickle_lazily(stored: Path) -> None:
    copy = pickle.loads(pickle.dumps(xr.open_dataset(stored, engine=Engine)))
    assert not copy["v00"]._in_memory
    xr.testing.assert_identical(copy, make_dataset())


def test_arrays_without_names_of_dimensions_are_an_error_that_names_the_remedy(tmp_path: Path) -> None:
    aiozarr.sync.create_group(tmp_path / "a.zarr").create_array("v", data=np.arange(3))
    with pytest.raises(KeyError, match="drop_variables='v'"):
        xr.open_dataset(tmp_path / "a.zarr", engine=Engine, consolidated=False)
    with pytest.warns(RuntimeWarning, match="Failed to open Zarr store with consolidated metadata") as caught:
        assert not xr.open_dataset(tmp_path / "a.zarr", engine=Engine, drop_variables="v").variables
    assert caught[0].filename == __file__


def test_stores_of_zarr_python_and_dictionaries_of_its_buffers_are_sources(stored: Path) -> None:
    expected = make_dataset()
    buffers: dict[str, Any] = {}
    write(expected, zarr.storage.MemoryStore(buffers))
    for source in (zarr.storage.LocalStore(stored), zarr.storage.MemoryStore(buffers), buffers):
        xr.testing.assert_identical(xr.open_dataset(source, engine=Engine), expected)
    with pytest.raises(TypeError, match="with engine='zarr'"):
        source_of(zarr.storage.LoggingStore(zarr.storage.LocalStore(stored)))


def test_other_modes_and_targets_are_refused(stored: Path) -> None:
    with pytest.raises(ValueError, match=r"write with Dataset\.to_zarr"):
        xr.open_dataset(stored, engine=Engine, mode="w")
    with pytest.raises(TypeError, match="not int"):
        source_of(3)


def test_closing_a_data_set_closes_the_store_that_opening_made(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []
    monkeypatch.setattr(LocalStore, "aclose", lambda self: _append(closed))
    xr.open_dataset(stored, engine=Engine).close()
    assert closed == [1]
    xr.open_dataset(LocalStore(stored), engine=Engine).close()
    assert closed == [1]


async def _append(values: list[int]) -> None:
    values.append(1)


def test_the_keywords_are_all_of_the_stock_engine(stored: Path) -> None:
    from xarray.backends.zarr import ZarrBackendEntrypoint

    stock = ZarrBackendEntrypoint.open_dataset.__kwdefaults__
    assert stock.keys() <= set(Engine.open_dataset_parameters)
    with pytest.raises(TypeError, match="unknown option 'groups' of the engine; did you mean 'group'"):
        xr.open_dataset(stored, engine=Engine, groups="a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        xr.open_dataset(stored, engine=Engine, decode_cf=False, consolidated=True, group="/", zarr_format=3).close()


def test_a_filter_opens_the_groups_that_it_matches_and_those_above(tmp_path: Path) -> None:
    names = ("/", "/a", "/a/day", "/a/month", "/b/day", "/b/day/hour")
    tree = xr.DataTree.from_dict({name: xr.Dataset(coords={f"x{n}": [1.0]}) for n, name in enumerate(names)})
    store = RoundTripStore(LocalStore(write(tree, tmp_path / "a.zarr")))
    opened = xr.open_datatree(store, engine=Engine, group_filter="*/day")
    assert opened.groups == ("/", "/a", "/b", "/a/day", "/b/day")
    assert sorted(store.rounds[-1]) == ["a/day/x2/c/0", "a/x1/c/0", "b/day/x4/c/0", "x0/c/0"]
    assert xr.open_datatree(store, engine=Engine, group="b", group_filter="day").groups == ("/", "/day")


@pytest.mark.parametrize("mask_and_scale", [False, {"v": False}])
def test_a_fill_value_of_format_2_is_an_attribute_where_nothing_is_masked(tmp_path: Path, mask_and_scale: Any) -> None:
    data = xr.Dataset({"v": ("x", [1, 7])}, {"x": [0, 1]})
    data["v"].encoding["_FillValue"] = 7
    path = write(data, tmp_path / "a.zarr", zarr_format=2)
    opened = xr.open_dataset(path, engine=Engine, mask_and_scale=mask_and_scale, use_zarr_fill_value_as_mask=False)
    assert opened["v"].attrs == {"_FillValue": 7}
    assert opened["v"].dtype.kind == "i"
