"""Parts of arrays and trees that a conversion selects by the names of dimensions."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import SelectionError
from aiozarr.stores import LocalStore, MemoryStore, PrefixStore
from aiozarr.testing.fakes import FakeStore
from tests.unit.transfer.test_node_tree import VALUES, stored, weather

TIMES = np.arange(50) * 6
LATITUDES = np.linspace(95, -95, 20)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    ("select", "rows", "columns"),
    [
        ({"time": slice(10, 30)}, slice(10, 30), slice(None)),
        ({"time": "10:33", "lat": slice(5, 20)}, slice(10, 33), slice(5, 20)),
        ({"time": np.int64(-1)}, slice(49, 50), slice(None)),
        ({"lat": "60..-30"}, slice(None), slice(4, 13)),
        ({"lat": "95.0"}, slice(None), slice(0, 1)),
        ({"lat": slice(60.0, -30.0)}, slice(None), slice(4, 13)),
        ({"lat": slice(np.float32(60), -30)}, slice(None), slice(4, 13)),
        ({"lat": 95.0, "time": slice("2020-01-04", date(2020, 1, 5))}, slice(12, 20), slice(0, 1)),
        (
            {"time": slice(np.datetime64("2020-01-04"), datetime.fromisoformat("2020-01-05T23:00"))},
            slice(12, 20),
            slice(None),
        ),
        ({"time": "2020-01-04..2020-01-05", "lat": "3:"}, slice(12, 20), slice(3, 20)),
        ({"time": slice(None)}, slice(None), slice(None)),
        ({}, slice(None), slice(None)),
    ],
)
async def test_every_array_of_a_group_that_has_the_dimension_is_cut(
    tmp_path: Path, zarr_format: int, select: Any, rows: slice, columns: slice
) -> None:
    source = await weather(MemoryStore(), zarr_format)
    await aiozarr.convert(source, tmp_path / "part", select=select)
    group = await aiozarr.open_group(tmp_path / "part")
    assert group.attrs["title"] == "weather"
    for name, expected in (("t2m", VALUES[rows, columns]), ("time", TIMES[rows]), ("lat", LATITUDES[columns])):
        # By the consolidated metadata, and by the array's own document.
        for array in (await group.open(name), await aiozarr.open_array(tmp_path / "part" / name)):
            assert np.array_equal(await array[...], expected)
    assert await (await group.open("scale"))[...] == 3.0


async def test_a_single_array_is_cut_by_the_coordinates_above_it_and_by_numbers(tmp_path: Path) -> None:
    await weather(LocalStore(tmp_path / "w.zarr"))
    for number, select in enumerate(({"lat": "60..-30"}, {"1": "60..-30"}, {"1": slice(4, 13)})):
        await aiozarr.convert(tmp_path / "w.zarr/t2m", tmp_path / f"{number}", select=select)
        assert np.array_equal(await (await aiozarr.open_array(tmp_path / f"{number}"))[...], VALUES[:, 4:13])


async def test_coordinates_are_read_once_for_all_arrays_and_only_if_they_are_compared() -> None:
    source = await weather(MemoryStore())
    for name in ("u", "v", "below/w"):
        await aiozarr.create_array(source, name, data=np.arange(20), chunks=(5,), dimension_names=("lat",))
    for select, chunks in (({"lat": "60..-30"}, 1), ({"lat": slice(0, 3)}, 0)):
        counted = FakeStore(await stored(source))
        await aiozarr.plan_conversion(counted, MemoryStore(), select=select)
        assert [call.key for call in counted.calls if "/c/" in call.key] == ["lat/c/0"] * chunks


async def test_the_nearest_coordinates_of_the_same_length_count(tmp_path: Path) -> None:
    source = MemoryStore()
    await aiozarr.create_group(source)
    for path, length in (("", 4), ("coarse/", 2)):
        for name, data in (("x", np.linspace(0, 30, length)), ("a", np.arange(length))):
            await aiozarr.create_array(source, path + name, data=data, dimension_names=("x",))
    await aiozarr.convert(source, tmp_path / "part", select={"x": "5..30"})
    group = await aiozarr.open_group(tmp_path / "part")
    assert (await (await group.open("a"))[...]).tolist() == [1, 2, 3]
    assert (await (await group.open("coarse/a"))[...]).tolist() == [1]


async def test_a_dimension_that_an_array_has_twice_is_cut_twice(tmp_path: Path) -> None:
    source = await aiozarr.create_array(MemoryStore(), data=np.eye(5), dimension_names=("x", "x"))
    await aiozarr.convert(source.store, tmp_path / "part", select={"x": slice(1, 3)})
    assert np.array_equal(await (await aiozarr.open_array(tmp_path / "part"))[...], np.eye(2))


async def test_an_interrupted_selection_continues_with_the_same_selection_only(tmp_path: Path) -> None:
    source = await weather(MemoryStore())
    target = tmp_path / "part"
    await source.set("t2m/c/4/3", b"damaged")
    with pytest.raises(aiozarr.CodecError):
        await aiozarr.convert(source, target, select={"time": slice(10, 50)})
    with pytest.raises(aiozarr.CopyError, match="other"):
        await aiozarr.convert(source, target, select={"time": slice(11, 50)}, resume=True)


@pytest.mark.parametrize(
    ("select", "error", "message"),
    [
        ({"level": 3}, SelectionError, "no array of .* has a dimension 'level'; its dimensions are lat, time"),
        ({"tme": 3}, SelectionError, "no array of .* has a dimension 'tme'; did you mean 'time'"),
        ({"time": 60}, SelectionError, r"index 60 is outside dimension 'time', which has length 50\n"),
        ({"lat": slice(60, 45)}, SelectionError, r"the indexes 60:45 .*; did you mean the coordinates 60..45\?"),
        ({"lat": 45}, SelectionError, r"index 45 is outside .* length 20; did you mean the coordinates 45..45\?"),
        ({"lat": "200..300"}, SelectionError, "200..300 selects nothing from dimension 'lat'"),
        ({"scale": "1..2"}, SelectionError, "has a dimension 'scale'"),
        ({"time": [1, 2]}, TypeError, "is list; expected integers, which are indexes, or numbers, times and text"),
        ({"time": None}, TypeError, "is NoneType"),
        ({"time": True}, TypeError, "is bool"),
        ({"time": slice(None, [3])}, TypeError, "is list"),
        ({"lat": slice(60.0, 45.0, 2)}, ValueError, "has the step 2"),
        ({3: slice(1)}, TypeError, "select has the key 3"),
        ("time=0:24", TypeError, "select must be a mapping of dimension names, such as .*, not str"),
        ({"time": slice(0, 10, 2)}, ValueError, "select has the step 2 for dimension 'time'"),
        ({"time": "::2"}, ValueError, "has the step 2"),
        ({"lat": "60.5:45"}, ValueError, r"select\['lat'\]: '60.5:45' has a colon"),
        ({"lat": ""}, ValueError, "the selection is empty"),
    ],
)
async def test_other_selections_are_refused_before_anything_is_written(
    select: Any, error: type[Exception], message: str
) -> None:
    source, target = await weather(MemoryStore()), MemoryStore()
    with pytest.raises(error, match=message):
        await aiozarr.convert(source, target, select=select)
    assert await target.list() == []


async def test_region_and_select_exclude_each_other() -> None:
    with pytest.raises(TypeError, match="region and select are both given"):
        await aiozarr.convert(MemoryStore(), MemoryStore(), region=np.s_[:3], select={"x": 3})


async def test_a_dimension_without_coordinates_is_selected_by_index_only() -> None:
    source = await weather(MemoryStore())
    await source.erase_prefix("lat/")
    await aiozarr.consolidate_metadata(source)
    with pytest.raises(
        SelectionError, match=r"'lat' of .*t2m cannot be selected by coordinate, because no array"
    ) as it:
        await aiozarr.convert(source, MemoryStore(), select={"lat": "1..2"})
    assert it.value.__notes__ == ["selecting from the array 't2m'"]
    with pytest.raises(SelectionError, match="'time' and '0' select from the same dimension"):
        await aiozarr.convert(PrefixStore(source, "t2m"), MemoryStore(), select={"time": 1, "0": 2})
