"""Parts of hierarchies, copied: chunks inside as they are stored, those at the edges encoded again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import SelectionError, UnsupportedOperationError
from aiozarr.stores import LocalStore, MemoryStore, Store
from aiozarr.testing.fakes import FakeStore

VALUES = np.arange(50 * 20, dtype="i4").reshape(50, 20)


async def weather(store: Store, zarr_format: int = 3, **keywords: Any) -> Store:
    """A group with coordinates, two fields and consolidated metadata."""
    await aiozarr.create_group(store, attributes={"title": "weather"}, zarr_format=zarr_format)

    async def make(name: str, data: Any, dims: tuple[str, ...], chunks: Any, **more: Any) -> None:
        names: dict[str, Any] = {"dimension_names": dims}
        if zarr_format == 2:
            names = {"attributes": {"_ARRAY_DIMENSIONS": list(dims), **more.pop("attributes", {})}}
        await aiozarr.create_array(store, name, data=data, chunks=chunks, zarr_format=zarr_format, **names, **more)

    units = {"attributes": {"units": "hours since 2020-01-01"}}
    await make("time", np.arange(50) * 6, ("time",), (10,), **units)
    await make("lat", np.linspace(95, -95, 20), ("lat",), (20,))
    await make("t2m", VALUES, ("time", "lat"), (10, 5), **keywords)
    await make("scale", np.float64(3.0), (), ())
    await aiozarr.consolidate_metadata(store)
    return store


async def stored(store: Store) -> dict[str, bytes]:
    return {key: bytes(value) for key in await store.list() if (value := await store.get(key)) is not None}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("select", "rows", "columns"),
    [
        ({"time": slice(10, 30)}, slice(10, 30), slice(None)),
        ({"time": slice(10, 33), "lat": slice(5, 20)}, slice(10, 33), slice(5, 20)),
        ({"time": slice(7, 33), "lat": slice(3, 4)}, slice(7, 33), slice(3, 4)),
        ({"time": -1}, slice(49, 50), slice(None)),
        ({"lat": slice(60.0, -30.0)}, slice(None), slice(4, 13)),
        ({"time": slice("2020-01-04", "2020-01-05")}, slice(12, 20), slice(None)),
        ({"time": slice(None)}, slice(None), slice(None)),
    ],
)
async def test_the_copy_has_the_selected_values(
    tmp_path: Path, zarr_format: int, select: dict[str, Any], rows: slice, columns: slice
) -> None:
    source = await weather(MemoryStore(), zarr_format)
    await aiozarr.copy(source, tmp_path / "part", select=select)
    group = await aiozarr.open_group(tmp_path / "part")
    assert group.attrs["title"] == "weather"
    for name, expected in (
        ("t2m", VALUES[rows, columns]),
        ("time", (np.arange(50) * 6)[rows]),
        ("lat", np.linspace(95, -95, 20)[columns]),
    ):
        # By the consolidated metadata, and by the array's own document.
        for array in (await group.open(name), await aiozarr.open_array(tmp_path / "part" / name)):
            assert array.shape == expected.shape
            assert np.array_equal(await array[...], expected)
    assert await (await group.open("scale"))[...] == 3.0


async def test_chunks_inside_are_copied_as_they_are_and_only_those_are_fetched() -> None:
    memory = await stored(await weather(MemoryStore()))
    source, target = FakeStore(memory), MemoryStore()
    report = await aiozarr.copy(source, target, select={"time": slice(10, 30), "lat": slice(5, 15)})
    result = await stored(target)
    assert {key: data for key, data in result.items() if key.startswith("t2m/c/")} == {
        f"t2m/c/{row}/{column}": memory[f"t2m/c/{row + 1}/{column + 1}"] for row in (0, 1) for column in (0, 1)
    }
    fetched = [call.key for call in source.calls if call.key.startswith("t2m/c/") and call.operation == "fetch"]
    assert sorted(fetched) == ["t2m/c/1/1", "t2m/c/1/2", "t2m/c/2/1", "t2m/c/2/2"]
    # The one chunk of the latitudes begins outside.
    assert report.rewritten == 1
    assert report.missing_chunks == 0


async def test_only_the_chunks_at_a_cut_end_are_encoded_again() -> None:
    source, target = await weather(MemoryStore()), MemoryStore()
    report = await aiozarr.copy(source, target, select={"time": slice(10, 35)})
    # 4 of the field, 1 of the times.
    assert report.rewritten == 5
    before, after = await stored(source), await stored(target)
    assert after["t2m/c/1/3"] == before["t2m/c/2/3"]
    # No element outside remains in a chunk.
    array = await aiozarr.open_array(target, "t2m", mode="r+")
    await array.resize((30, 20))
    assert not (await array[25:]).any()


async def test_the_end_of_the_array_is_no_cut() -> None:
    source, target = await weather(MemoryStore()), MemoryStore()
    values = np.arange(47)
    await aiozarr.create_array(source, "odd", data=values, chunks=(10,), dimension_names=("time47",))
    await aiozarr.consolidate_metadata(source)
    report = await aiozarr.copy(source, target, select={"time47": slice(40, None)})
    assert report.rewritten == 0
    assert np.array_equal(await (await aiozarr.open_array(target, "odd"))[...], values[40:])


@pytest.mark.parametrize("rows", [slice(20, 40), slice(3, 44)])
async def test_shards_are_cut_like_chunks(rows: slice) -> None:
    source, target = await weather(MemoryStore(), shards=(20, 10)), MemoryStore()
    report = await aiozarr.copy(source, target, select={"time": rows})
    assert (report.rewritten > 0) == (rows.start % 20 > 0)
    array = await aiozarr.open_array(target, "t2m")
    assert array.shards == (20, 10)
    assert np.array_equal(await array[...], VALUES[rows])


async def test_missing_chunks_stay_missing() -> None:
    source, target = await weather(MemoryStore()), MemoryStore()
    await source.erase_prefix("t2m/c/1/")
    await source.erase_prefix("t2m/c/2/")
    report = await aiozarr.copy(source, target, select={"time": slice(10, 25)})
    # Four are not stored, and the four at the edge have nothing but fill values.
    assert report.missing_chunks == 8
    assert not [key for key in await target.list() if key.startswith("t2m/c/")]
    assert not (await (await aiozarr.open_array(target, "t2m"))[...]).any()


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_coordinates_of_an_array_copied_by_its_own_address_lie_in_the_group_above(
    tmp_path: Path, zarr_format: int
) -> None:
    await weather(LocalStore(tmp_path / "w.zarr"), zarr_format)
    await aiozarr.copy(tmp_path / "w.zarr/t2m", tmp_path / "part", select={"lat": slice(60.0, -30.0)})
    assert np.array_equal(await (await aiozarr.open_array(tmp_path / "part"))[...], VALUES[:, 4:13])


async def test_a_selection_has_the_arrays_of_groups_without_documents(tmp_path: Path) -> None:
    source: Any = MemoryStore()
    await aiozarr.create_group(source)
    for path in ("x", "below/the/x"):
        await aiozarr.create_array(source, path, data=range(6), chunks=(2,), dimension_names=("time",))
    for key in ("below/zarr.json", "below/the/zarr.json"):
        await source.erase(key)
    await aiozarr.copy(source, tmp_path / "part", select={"time": slice(1, 4)})
    assert (await (await aiozarr.open_array(tmp_path / "part/below/the/x"))[...]).tolist() == [1, 2, 3]


async def test_a_node_and_a_selection_go_together(tmp_path: Path) -> None:
    source = await weather(LocalStore(tmp_path / "store"))
    for target, keywords in ((MemoryStore(), {"path": "t2m"}), (MemoryStore(), {})):
        location: Any = source if keywords else f"{tmp_path}/store/t2m"
        await aiozarr.copy(location, target, select={"time": slice(40, 50)}, **keywords)
        assert np.array_equal(await (await aiozarr.open_array(target))[...], VALUES[40:])


async def test_a_hierarchy_without_consolidated_metadata_is_walked(tmp_path: Path) -> None:
    source = LocalStore(tmp_path / "store")
    await aiozarr.create_group(source)
    await aiozarr.create_array(source, "a/b/x", data=np.arange(30), chunks=(10,), dimension_names=("x",))
    await aiozarr.copy(source, tmp_path / "part", select={"x": slice(10, 20)})
    array = await aiozarr.open_array(tmp_path / "part", "a/b/x")
    assert (await array[...]).tolist() == list(range(10, 20))


async def test_big_endian_and_unicode_names(tmp_path: Path) -> None:
    source = MemoryStore()
    await aiozarr.create_array(
        source,
        "größe",
        data=np.arange(9, dtype=">i2"),
        chunks=(4,),
        zarr_format=2,
        attributes={"_ARRAY_DIMENSIONS": ["ä"]},
    )
    await aiozarr.copy(source, tmp_path / "x", path="größe", select={"ä": slice(3, 7)})
    array = await aiozarr.open_array(tmp_path / "x")
    assert (await array[...]).tolist() == [3, 4, 5, 6]
    assert json.loads((tmp_path / "x" / ".zarray").read_bytes())["dtype"] == ">i2"


async def test_an_interrupted_part_is_resumed(tmp_path: Path) -> None:
    source, target = await weather(MemoryStore()), tmp_path / "part"
    count = 0

    def stop(_: Any) -> None:
        nonlocal count
        count += 1
        if count == 4:
            raise RuntimeError("stop")

    select = {"time": slice(10, 50)}
    with pytest.raises(RuntimeError):
        await aiozarr.copy(source, target, select=select, progress=stop, settings=aiozarr.Settings(max_requests=1))
    assert not (target / "zarr.json").exists()
    with pytest.raises(aiozarr.CopyError, match="another part"):
        await aiozarr.copy(source, target, resume=True)
    await aiozarr.copy(source, target, select=select, resume=True)
    assert np.array_equal(await (await aiozarr.open_array(target, "t2m"))[...], VALUES[10:])
    assert not list(target.glob(".aiozarr*"))


async def test_what_cannot_be_selected_is_an_error() -> None:
    source = await weather(MemoryStore())
    for select, message in (
        ({"level": 3}, "the dimensions are 'lat', 'time'"),
        ({"time": 50}, "outside of dimension 'time'"),
        ({"lat": slice(200.0, 300.0)}, "nothing of dimension 'lat'"),
        ({"time": slice(60, 70)}, "nothing of dimension 'time', which has the length 50"),
    ):
        target = MemoryStore()
        with pytest.raises(SelectionError, match=message):
            await aiozarr.copy(source, target, select=select)
        assert await target.list() == []
    with pytest.raises(SelectionError, match="'time' and '0' select from the same dimension"):
        await aiozarr.copy(source, MemoryStore(), path="t2m", select={"time": 1, "0": 2})
    await source.erase_prefix("lat/")
    await aiozarr.consolidate_metadata(source)
    with pytest.raises(SelectionError, match="no array of this name"):
        await aiozarr.copy(source, MemoryStore(), select={"lat": slice(1.0, 2.0)})


async def test_chunks_of_different_lengths_are_refused() -> None:
    source = MemoryStore()
    await aiozarr.create_array(source, data=np.arange(10), chunks=[[3, 7]], dimension_names=("x",))
    with pytest.raises(UnsupportedOperationError, match="different lengths"):
        await aiozarr.copy(source, MemoryStore(), select={"x": slice(0, 3)})


async def test_a_failing_chunk_is_named_and_tried_as_often_as_settings_allow() -> None:
    memory = await stored(await weather(MemoryStore()))
    error = aiozarr.ThrottledError("slow down")

    def faults(call: Any) -> Any:
        return error if call.key == "t2m/c/1/0" else None

    source = FakeStore(memory, faults=faults)
    settings = aiozarr.Settings(retries=2)
    with pytest.raises(aiozarr.CopyError, match="t2m/c/0/0"):
        await aiozarr.copy(source, MemoryStore(), select={"time": slice(10, 50)}, settings=settings)
    assert [call.key for call in source.calls].count("t2m/c/1/0") == 3
