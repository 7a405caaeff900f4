"""Programs as users of zarr-python, h5py, xarray and TensorStore write them from memory on their first day."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import xarray
import zarr

import aiozarr
from aiozarr import sync
from aiozarr.stores import MemoryStore

GRID = np.arange(60, dtype="i4").reshape(3, 4, 5)


# --- the first script ------------------------------------------------------------------------------------------------


def test_the_package_says_its_version() -> None:
    assert aiozarr.__version__.count(".") >= 2


def test_values_are_stored_and_read_back(tmp_path: Path) -> None:
    array = sync.create_array(tmp_path / "a.zarr", data=GRID, chunks=(1, 4, 5))
    assert array.dtype == "int32"
    assert (array.shape, len(array), array.nchunks, array.itemsize) == ((3, 4, 5), 3, 3, 4)
    np.testing.assert_array_equal(sync.open_array(tmp_path / "a.zarr")[:], GRID)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a.zarr", mode="r")[:], GRID)


def test_an_asynchronous_script_reads_a_window(tmp_path: Path) -> None:
    async def main() -> Any:
        async with aiozarr.create_array(tmp_path / "a", shape=(100, 100), dtype="f4", chunks=(10, 10)) as array:
            await array[:10, :20].write(1.5)
        async with aiozarr.open_array(tmp_path / "a") as array:
            return await array[5:15, 0]

    assert asyncio.run(main()).tolist() == [1.5] * 5 + [0.0] * 5
    assert asyncio.run(aiozarr.open_array(tmp_path / "a")).shape == (100, 100)


async def test_many_windows_are_read_at_once() -> None:
    array = await aiozarr.create_array(MemoryStore(), data=GRID)
    async with asyncio.TaskGroup() as tasks:
        reads = [tasks.create_task(array[i].read()) for i in range(3)]
    assert [int(read.result().sum()) for read in reads] == GRID.sum((1, 2)).tolist()
    first, second = await asyncio.gather(array[0], array[1])
    np.testing.assert_array_equal(await aiozarr.read_many([array[0], array[1]]), [first, second])


def test_a_list_a_mask_and_an_ellipsis_select_as_in_numpy() -> None:
    array = sync.create_array(MemoryStore(), data=GRID)
    mask = GRID % 7 == 0
    for selection in ([0, 2], mask, (..., [1, 3]), ([0, 2], 1), (slice(None), mask[0, :, 0]), (None, [0, 1]), -1):
        np.testing.assert_array_equal(array[selection], GRID[selection])
    np.testing.assert_array_equal(array.oindex[[0, 2], :, [1, 3]], GRID[[0, 2]][:, :, [1, 3]])
    np.testing.assert_array_equal(array.vindex[[0, 2], :, [1, 3]], GRID[[0, 2], :, [1, 3]])


def test_each_stored_object_is_visited() -> None:
    array = sync.create_array(MemoryStore(), shape=(5, 5), dtype="i4", chunks=(2, 3))
    assert (array.blocks.shape, len(list(array.blocks))) == ((3, 2), 6)
    for number, region in enumerate(array.blocks):
        array[region] = number
    assert array[:, 0].tolist() == [0, 0, 2, 2, 4]
    assert array.blocks[1, 1].tolist() == [[3, 3], [3, 3]]


def test_an_array_grows_along_its_first_axis() -> None:
    array = sync.create_array(MemoryStore(), shape=(0, 3), dtype="f8", chunks=(2, 3))
    for step in range(3):
        array.append(np.full((1, 3), step))
    assert array[:, 0].tolist() == [0, 1, 2]
    array.resize((1, 3))
    assert array.shape == (1, 3)


def test_a_reader_sees_what_another_handle_has_appended() -> None:
    store = MemoryStore()
    writer = sync.create_array(store, data=[1, 2])
    reader = sync.open_array(store)
    writer.append([3])
    assert (reader.shape, reader.refresh(), reader.shape, reader.refresh()) == ((2,), True, (3,), False)
    assert reader[:].tolist() == [1, 2, 3]


def test_attributes_are_set_and_read() -> None:
    array = sync.create_array(MemoryStore(), data=[1], attributes={"units": "m", "list": [1]})
    array.update_attributes({"scale": np.float32(0.5)})
    assert array.attrs == {"units": "m", "list": [1], "scale": 0.5}
    attributes: Any = array.attrs
    changed = attributes.copy()
    changed["list"].append(2)
    array.replace_attributes(changed)
    assert array.attrs["list"] == [1, 2]
    assert json.loads(json.dumps(array.attrs)) == copy.deepcopy(array.attrs) == pickle.loads(pickle.dumps(array.attrs))


# --- groups ----------------------------------------------------------------------------------------------------------


def test_a_group_is_used_as_a_dict(tmp_path: Path) -> None:
    group: Any = sync.open_group(tmp_path, mode="a")
    group.create_array("temperature", data=GRID)
    group.create_group("forecast").create_array("wind", data=[1.0])
    assert issubclass(sync.Group, Mapping)
    assert (sorted(group), len(group), "wind" in group["forecast"]) == (["forecast", "temperature"], 2, True)
    assert group["forecast/wind"][:] == group["forecast/wind/"][:] == group["/forecast/wind"][:] == [1.0]
    assert group.get("rain") is None
    assert {name: type(node) for name, node in group.items()} == {"forecast": sync.Group, "temperature": sync.Array}
    del group["forecast"]
    assert group.keys() == ["temperature"]


def test_a_missing_child_is_a_key_error() -> None:
    group = sync.create_group(MemoryStore())
    with pytest.raises(KeyError):
        group["x"]
    with pytest.raises(FileNotFoundError):
        group["x"]
    with pytest.raises(KeyError):
        del group["x"]


def test_nodes_are_required_and_found_again(tmp_path: Path) -> None:
    for _ in range(2):
        group = sync.require_group(tmp_path / "g")
        array = sync.require_array(tmp_path / "g" / "a", shape=(4,), dtype="f4")
        same = sync.open_array(tmp_path / "g" / "a", mode="a", shape=(4,), dtype="f4")
    assert (group.keys(), array.metadata) == (["a"], same.metadata)


def test_an_implicit_group_becomes_explicit_and_keeps_its_nodes(tmp_path: Path) -> None:
    sync.create_array(tmp_path / "x" / "y", data=[1, 2])
    group: Any = sync.create_group(tmp_path / "x", attributes={"a": 1})
    assert (group["y"][:].tolist(), group.attrs) == ([1, 2], {"a": 1})


def test_nodes_are_created_beside_other_files(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("data")
    sync.create_array(tmp_path, data=[1])
    assert (tmp_path / "README.md").read_text() == "data"


# --- codecs, chunks, types -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "codecs",
    [
        "zstd",
        ["zstd"],
        {"name": "zstd", "level": 9},
        [{"name": "zstd", "level": 9}],
        [{"name": "zstd", "configuration": {"level": 9, "checksum": False}}],
        numcodecs.Zstd(9),
        [numcodecs.Delta("<i4"), numcodecs.Zstd(9)],
        [numcodecs.Blosc("lz4")],
        [{"name": "bytes", "endian": "big"}, "gzip", "crc32c"],
        [],
    ],
    ids=str,
)
@pytest.mark.parametrize("shards", [None, (4, 8)])
def test_codecs_are_given_in_short(tmp_path: Path, codecs: Any, shards: Any) -> None:
    values = np.arange(64, dtype="i4").reshape(8, 8)
    sync.create_array(tmp_path, data=values, chunks=(4, 4), shards=shards, codecs=codecs)
    np.testing.assert_array_equal(sync.open_array(tmp_path)[:], values)


@pytest.mark.parametrize(
    ("chunks", "shards", "expected"),
    [
        (np.array([4, 4]), (8, 8), ((4, 4), (8, 8))),
        (np.array([4, 4]), np.array([8, 4]), ((4, 4), (8, 4))),
        ((4, 4), -1, ((4, 4), (8, 8))),
        ((4, -1), (-1, 8), ((4, 8), (8, 8))),
        (4, {"shape": (8, 8), "index_location": "start"}, ((4, 4), (8, 8))),
        ("auto", (8, 8), ((8, 8), (8, 8))),
        ((np.int64(4), 4), None, ((4, 4), None)),
    ],
)
def test_chunks_and_shards_take_what_numpy_gives(chunks: Any, shards: Any, expected: Any) -> None:
    array = sync.create_array(MemoryStore(), shape=(8, 8), dtype="i4", chunks=chunks, shards=shards)
    assert (array.chunks, array.shards) == expected
    location = array.metadata.codecs[0].configuration.get("index_location")
    assert location == (None if shards is None else "start" if isinstance(shards, dict) else "end")


@pytest.mark.filterwarnings("ignore:The data type:FutureWarning")
@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")
@pytest.mark.parametrize("dtype", ["V8", "M8", "m8", "M8[2147483647us]", "m8[10s]", "S3", "U3", "?", "f2", "c16"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_types_are_exchanged_with_zarr_python(tmp_path: Path, dtype: str, zarr_format: int) -> None:
    values = np.frombuffer(bytes(range(96)), "u1").view()[: 2 * np.dtype(dtype).itemsize].copy()
    values = (values % 2).view(dtype) if dtype in ("?", "U3") else values.view(dtype)
    if dtype == "U3":
        values = np.array(["a", "é"], dtype)
    options: Any = {"shape": (2,), "dtype": np.dtype(dtype), "zarr_format": zarr_format}
    sync.create_array(tmp_path / "ours", **options)[:] = values
    zarr.create_array(tmp_path / "theirs", **options)[:] = values
    for read in (zarr.open_array(tmp_path / "ours", mode="r")[:], sync.open_array(tmp_path / "theirs")[:]):
        assert np.asarray(read).tobytes() == values.tobytes()


def test_an_element_of_an_object_array_may_be_an_array() -> None:
    array = sync.create_array(
        MemoryStore(), shape=2, dtype=object, zarr_format=2, filters=[numcodecs.VLenArray("i4")], compressor=None
    )
    array[0] = np.array([1, 3, 5])
    array[1] = [2]
    assert [each.tolist() for each in array[:]] == [[1, 3, 5], [2]]


# --- casts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("u1", np.arange(4)),
        ("u1", np.int64(3)),
        ("i4", 1.0),
        ("i4", [1.0, 2.0]),
        ("i1", np.array([127, -128], "i8")),
        ("f4", np.array([1.0, 2.5])),
        ("?", np.array([0, 1])),
        ("f8", np.array([1 + 0j])),
        ("i4", np.array([1, 2], object)),
        ("M8[s]", np.array(["2020-01-01"], "M8[D]")),
    ],
)
def test_a_cast_that_keeps_every_value_is_made(dtype: str, values: Any) -> None:
    array = sync.create_array(MemoryStore(), shape=np.shape(values), dtype=dtype)
    array[...] = values
    np.testing.assert_array_equal(array[...], values)


def test_other_casts_are_made_where_they_are_asked_for() -> None:
    view = sync.create_array(MemoryStore(), shape=2, dtype="u1").view[:]
    view.write(np.array([256.5, 3]), casting="unsafe")
    assert view.read().tolist() == np.array([256.5, 3]).astype("u1").tolist()
    view.write(np.array([300, 3], "u4"), casting="same_kind")
    assert view.read().tolist() == [44, 3]


# --- beside other libraries ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part:UserWarning")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_unnamed_data_array_of_xarray_survives_consolidation(tmp_path: Path, zarr_format: Any) -> None:
    xarray.DataArray(np.arange(3.0), dims="x").to_zarr(tmp_path, zarr_format=zarr_format)
    name = "__xarray_dataarray_variable__"
    group: Any = sync.open_group(tmp_path, use_consolidated=False)
    assert (list(group), len(group), group[name][:].tolist()) == ([name], 1, [0, 1, 2])
    sync.consolidate_metadata(tmp_path)
    assert list(sync.open_group(tmp_path)) == [name]
    assert xarray.open_dataarray(tmp_path, engine="zarr").values.tolist() == [0, 1, 2]


@pytest.mark.parametrize("shape", [[0], [0, 3], [3, 0]])
def test_empty_arrays_with_chunk_lengths_of_zero_are_opened(tmp_path: Path, shape: list[int]) -> None:
    document = {"zarr_format": 2, "shape": shape, "chunks": shape, "dtype": "<i4", "order": "C", "fill_value": 0}
    (tmp_path / ".zarray").write_text(json.dumps({**document, "compressor": None, "filters": None}))
    array = sync.open_array(tmp_path, mode="r+")
    assert (array[...].shape, array.nchunks) == (tuple(shape), 0)
    array.append(np.ones([2, *shape[1:]]))
    assert zarr.open_array(tmp_path, mode="r").shape == (shape[0] + 2, *shape[1:])


@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")
def test_times_without_a_unit_keep_their_scale(tmp_path: Path) -> None:
    array = zarr.create_array(tmp_path, shape=(1,), dtype="m8")
    array[:] = np.array([5]).view("m8")
    document = json.loads((tmp_path / "zarr.json").read_text())
    document["data_type"]["configuration"]["scale_factor"] = 10
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    opened = sync.open_array(tmp_path, mode="r+")
    assert opened[:].view("i8").tolist() == [5]
    opened.update_attributes({"a": 1})
    assert json.loads((tmp_path / "zarr.json").read_text())["data_type"] == document["data_type"]


def test_a_lone_surrogate_in_an_attribute_does_not_hide_the_node(tmp_path: Path) -> None:
    array = sync.create_array(tmp_path, data=[1])
    text = (tmp_path / "zarr.json").read_text()
    (tmp_path / "zarr.json").write_text(text.replace('"attributes": {}', '"attributes": {"a": "\\udc80"}'))
    array = sync.open_array(tmp_path, mode="r+")
    array.update_attributes({"b": 1})
    assert (sync.open_array(tmp_path).attrs, array[:].tolist()) == ({"a": "\udc80", "b": 1}, [1])


def test_memory_of_the_other_byte_order_is_filled() -> None:
    out = np.zeros((3, 4, 5), ">i4")
    assert sync.create_array(MemoryStore(), data=GRID).view[:].read(out=out) is out
    np.testing.assert_array_equal(out, GRID)


def test_a_tree_is_opened_without_its_outdated_consolidated_metadata(tmp_path: Path) -> None:
    sync.create_group(tmp_path)
    sync.consolidate_metadata(tmp_path)
    zarr.create_array(tmp_path / "new", shape=(1,), dtype="i4")
    group = sync.open_group(tmp_path, mode="r+", use_consolidated=False)
    assert (list(sync.open_group(tmp_path)), list(group)) == ([], ["new"])


def test_a_handle_of_a_grown_array_keeps_what_was_appended() -> None:
    store = MemoryStore()
    sync.create_array(store, data=[1, 2], chunks=4)
    old = sync.open_array(store, mode="r+")
    sync.open_array(store, mode="r+").append([3, 4])
    old[:] = [7, 8]  # All of the chunk that the old shape shows.
    assert sync.open_array(store)[:].tolist() == [7, 8, 3, 4]


# --- printing --------------------------------------------------------------------------------------------------------


def test_a_pipe_gets_no_progress_bar(capfd: pytest.CaptureFixture[str]) -> None:
    sync.create_array(MemoryStore(), data=[1]).view[:].read(progress=True)
    assert capfd.readouterr() == ("", "")


async def test_two_operations_show_their_bars_in_one_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the stream for a terminal
    array = await aiozarr.create_array(MemoryStore(), data=GRID)
    reads = await asyncio.gather(array[0].read(progress=True), array[1].read(progress=True))
    np.testing.assert_array_equal(reads, GRID[:2])


def test_names_of_the_package_alone_are_completed() -> None:
    for module in (aiozarr, sync, aiozarr.stores):
        assert not [name for name in dir(module) if name.startswith("_") and not name.startswith("__")]
    assert "wait" not in dir(sync)
