from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import aiozarr
from aiozarr.integrations.xarray.group_contents import OpenOptions, dims_of, fetch_groups
from aiozarr.stores import LocalStore, MemoryStore
from tests.unit.integrations.xarray.conftest import RoundTripStore, make_dataset, write


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_20_variables_open_in_one_round_trip_of_documents_and_one_of_coordinates(
    tmp_path: Path, zarr_format: int
) -> None:
    store = RoundTripStore(LocalStore(write(make_dataset(20), tmp_path / "a.zarr", zarr_format=zarr_format)))
    opened = await fetch_groups(store, OpenOptions(), deep=False)
    documents, coordinates = store.rounds
    assert len(opened.groups[0].arrays) == 25
    assert len(documents) == 7
    known = RoundTripStore(store.store)
    await fetch_groups(known, OpenOptions(zarr_format=zarr_format), deep=False)
    assert len(known.rounds[0]) == (1 if zarr_format == 3 else 4)
    assert {key.split("/")[0] for key in coordinates} == {"time", "y", "x", "label"}
    assert len(coordinates) == 4


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_a_tree_of_13_groups_opens_in_two_round_trips(tmp_path: Path, zarr_format: int) -> None:
    nodes = {"/": xr.Dataset(attrs={"a": 1})}
    nodes |= {f"/g{n}": make_dataset(1) for n in range(4)}
    nodes |= {f"/g{n}/h{m}": make_dataset(2) for n in range(4) for m in range(2)}
    path = write(xr.DataTree.from_dict(nodes), tmp_path / "a.zarr", zarr_format=zarr_format)
    store = RoundTripStore(LocalStore(path))
    opened = await fetch_groups(store, OpenOptions(), deep=True)
    assert len(opened.groups) == 13
    # Children repeat the coordinates of their parents unless they inherit them: the root has none here.
    coordinates = sum(len(each.values) for each in opened.groups)
    assert len(store.rounds) == 2
    assert len(store.rounds[1]) == coordinates


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_metadata_that_are_not_consolidated_take_a_listing_and_another_round_of_documents(
    tmp_path: Path, zarr_format: int
) -> None:
    path = write(make_dataset(2), tmp_path / "a.zarr", zarr_format=zarr_format, consolidated=False)
    store = RoundTripStore(LocalStore(path))
    await fetch_groups(store, OpenOptions(), deep=False)
    assert len(store.rounds) == 4
    # Without consolidated metadata for certain, the group is listed while its document is read.
    early = RoundTripStore(LocalStore(path))
    opened = await fetch_groups(early, OpenOptions(consolidated=False), deep=False)
    assert len(early.rounds) == 3
    assert len(opened.groups[0].arrays) == 7
    assert early.keys.count("") == store.keys.count("") == 1
    if zarr_format == 3:
        assert len([key for key in early.keys if key.endswith("zarr.json")]) == 8
    with pytest.raises(aiozarr.NodeNotFoundError):
        await fetch_groups(early, OpenOptions(consolidated=False, group="nothing"), deep=False)


async def test_a_group_is_found_by_the_metadata_consolidated_at_the_root(tmp_path: Path) -> None:
    tree = xr.DataTree.from_dict({"/a/b": make_dataset()})
    store = RoundTripStore(LocalStore(write(tree, tmp_path / "a.zarr", zarr_format=3)))
    opened = await fetch_groups(store, OpenOptions(group="/a/b"), deep=False)
    assert len(store.rounds) == 2
    assert "v00" in opened.groups[0].arrays


async def test_coordinates_beyond_the_byte_limit_stay_lazy_but_for_the_ends_of_times(counted: RoundTripStore) -> None:
    opened = await fetch_groups(counted, OpenOptions(max_coordinate_bytes=23), deep=False)
    contents = opened.groups[0]
    assert not contents.values
    assert set(contents.corners) == {"time"}
    assert set(contents.corners["time"]) == {(0,), (3,)}


async def test_a_coordinate_that_cannot_be_read_does_not_hide_the_others(stored: Path) -> None:
    (stored / "x" / "c" / "0").write_bytes(b"broken")
    opened = await fetch_groups(stored, OpenOptions(), deep=False)
    assert not opened.groups[0].values


async def test_dropped_variables_may_be_unreadable(tmp_path: Path) -> None:
    path = write(make_dataset(), tmp_path / "a.zarr", zarr_format=3, consolidated=False)
    (path / "v01" / "zarr.json").write_text("{}")
    with pytest.raises(aiozarr.InvalidMetadataError):
        await fetch_groups(path, OpenOptions(), deep=False)
    opened = await fetch_groups(path, OpenOptions(drop_variables="v01"), deep=False)
    assert "v01" not in opened.groups[0].arrays


async def test_consolidated_metadata_can_be_required_and_ignored(tmp_path: Path) -> None:
    path = write(make_dataset(), tmp_path / "a.zarr", zarr_format=3, consolidated=False)
    with pytest.raises(aiozarr.InvalidMetadataError, match="no consolidated metadata"):
        await fetch_groups(path, OpenOptions(consolidated=True), deep=False)
    opened = await fetch_groups(path, OpenOptions(consolidated=False), deep=False)
    assert len(opened.groups[0].arrays) == 8


async def test_an_array_or_nothing_in_place_of_the_group_is_an_error(stored: Path) -> None:
    with pytest.raises(aiozarr.NodeTypeError):
        await fetch_groups(stored, OpenOptions(group="v00"), deep=False)
    with pytest.raises(aiozarr.NodeNotFoundError):
        await fetch_groups(stored, OpenOptions(group="nothing"), deep=False)
    with pytest.raises(FileNotFoundError):
        await fetch_groups(stored / "nothing", OpenOptions(), deep=False)


async def test_a_group_of_the_caller_stays_open_and_keeps_its_consolidated_metadata(counted: RoundTripStore) -> None:
    group = await aiozarr.open_group(counted)
    before = len(counted.rounds)
    opened = await fetch_groups(group, OpenOptions(), deep=False)
    assert len(counted.rounds) == before + 1
    assert not opened.root._options.owns_store


async def test_opened_groups_pickle_with_the_values_that_were_read(stored: Path) -> None:
    opened = await fetch_groups(stored, OpenOptions(), deep=False)
    copy = pickle.loads(pickle.dumps(opened))
    assert copy.__dask_tokenize__() == opened.__dask_tokenize__()
    np.testing.assert_array_equal(copy.groups[0].values["x"], np.arange(5))


async def test_dimensions_of_nczarr_are_those_of_its_references() -> None:
    store = MemoryStore()
    attributes = {"_nczarr_array": {"dimension_references": ["/time", "/group/x"]}}
    array = await aiozarr.create_array(store, shape=(2, 3), dtype="i4", zarr_format=2, attributes=attributes)
    assert dims_of(array) == ("time", "x")
    plain = await aiozarr.create_array(MemoryStore(), shape=(2, 3), dtype="i4")
    assert dims_of(plain) == ()
