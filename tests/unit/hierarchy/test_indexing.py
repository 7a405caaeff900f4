"""Index arrays, masks, blocks and fields, read, written, planned and streamed."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import MemoryStore

DATA = np.arange(7 * 10, dtype="i4").reshape(7, 10)
RECORD = np.dtype([("a", "i4"), ("b", "f8"), ("inner", [("x", "i2"), ("y", "u1")])])


async def stored(data: np.ndarray[Any, Any] = DATA, **options: Any) -> aiozarr.Array:
    options = {"chunks": 3, **options}
    array = await aiozarr.create_array(MemoryStore(), "a", shape=data.shape, dtype=data.dtype, **options)
    await array[...].write(data)
    return array


def records() -> np.ndarray[Any, Any]:
    values = np.zeros((7, 5), RECORD)
    values["a"] = np.arange(35).reshape(7, 5)
    values["b"] = values["a"] / 2
    values["inner"]["x"] = -values["a"]
    values["inner"]["y"] = 9
    return values


@pytest.mark.parametrize("shards", [None, 6])
async def test_selections_of_every_kind_compose(shards: int | None) -> None:
    array = await stored(shards=shards)
    assert np.array_equal(await array[::2].oindex[[1, 3], :][..., -1], DATA[::2][[1, 3]][..., -1])
    assert np.array_equal(await array.vindex[[6, 0, 6], [9, 1, 2]][::2], DATA[[6, 0, 6], [9, 1, 2]][::2])
    mask = DATA % 3 == 0
    assert np.array_equal(await array.vindex[mask], DATA[mask])
    assert np.array_equal(await array.vindex[mask].vindex[[5, 5, -1]], DATA[mask][[5, 5, -1]])
    assert np.array_equal(await array.oindex[mask[:, 0], [8, -8]], DATA[mask[:, 0]][:, [8, -8]])
    assert np.array_equal(await array.oindex[[4, 1], 2:5].vindex[[0, 1], [2, 0]], DATA[[4, 1], 2:5][[0, 1], [2, 0]])


async def test_the_axes_of_points_come_first() -> None:
    data = np.arange(4 * 5 * 6).reshape(4, 5, 6)
    array = await stored(data)
    rows, columns = np.array([[0, 3], [2, 2]]), np.array([5, 1])
    found = await array.vindex[rows, :, columns]
    assert found.shape == (2, 2, 5)
    assert np.array_equal(found, np.moveaxis(data[rows, :, columns], 0, 0))
    assert np.array_equal(await array.vindex[:, [4, 0]], data[:, [4, 0]].transpose(1, 0, 2))


@pytest.mark.parametrize("selection", [(3, 4), (np.int8(3), np.array(4))])
async def test_integers_alone_select_a_scalar(selection: Any) -> None:
    array = await stored()
    found: Any
    for found in (await array.vindex[selection], await array.oindex[selection]):
        assert type(found) is np.int32
        assert found == 34
    assert (await array.vindex[(*selection, ...)]).shape == ()
    assert (await array.vindex[[3], [4]]).shape == (1,)


@pytest.mark.parametrize(
    "selection",
    [
        [1, 5],
        [],
        ([1, 5],),
        (slice(None), [9, 0, 9]),
        ([1, 1], slice(2, 5)),
        (..., [3]),
        (2, [1, 5]),
        ([1, 5], -1),
        (None, [1, 5]),
        np.array([[0, 6], [3, 3]]),
        ([[0, 6], [3, 3]], slice(2, 4)),
        np.arange(7) % 2 == 0,
        (slice(1, 3), np.arange(10) > 7),
        np.arange(70).reshape(7, 10) % 3 == 0,
        [True, False] * 3 + [True],
        range(3),
    ],
)
async def test_one_list_or_mask_in_plain_brackets_selects_as_numpy(selection: Any) -> None:
    array = await stored()
    whole = np.asarray(await array[...])
    expected = whole[list(selection) if isinstance(selection, range) else selection]
    assert array[selection].shape == expected.shape
    assert np.array_equal(await array[selection], expected)


@pytest.mark.parametrize(
    ("selection", "advice"),
    [
        (([1, 2], [3, 4]), "take at most one list or mask.*`oindex`.*`vindex`"),
        ((slice(None), [[1, 2], [3, 4]]), "must come first.*`vindex`"),
    ],
)
async def test_several_lists_in_plain_brackets_are_an_error_with_advice(selection: Any, advice: str) -> None:
    array = await stored()
    with pytest.raises(aiozarr.SelectionError, match=advice):
        array[selection]


async def test_a_list_apart_from_an_integer_is_ambiguous_in_plain_brackets() -> None:
    array = await aiozarr.create_array(MemoryStore(), data=np.arange(24).reshape(2, 3, 4))
    with pytest.raises(aiozarr.SelectionError, match=r"separated by a slice.*`oindex`.*`vindex`"):
        array[0, :, [1, 2]]
    assert (await array[0, [1, 2]]).tolist() == [[4, 5, 6, 7], [8, 9, 10, 11]]


def test_assigning_to_a_list_writes_there() -> None:
    array = aiozarr.sync.create_array(MemoryStore(), data=np.zeros(6, "i4"), chunks=2)
    array[[1, 5]] = [7, 8]
    array[array[...] == 0] = 1
    assert array[...].tolist() == [1, 7, 1, 1, 1, 8]


async def test_an_invalid_index_is_an_error_with_axis_index_and_url() -> None:
    array = await stored()
    with pytest.raises(aiozarr.SelectionError, match="index 10 is out of range for axis 1 of size 10") as caught:
        array.vindex[[0, 1], [3, 10]]
    assert array.url in caught.value.__notes__[0]
    with pytest.raises(TypeError, match="not iterable"):
        list(array.oindex)  # type: ignore[call-overload]


async def test_empty_selections_do_no_io() -> None:
    array = await stored()
    with aiozarr.record() as report:
        assert (await array.oindex[[], [1]]).shape == (0, 1)
        assert (await array.vindex[np.zeros((7, 10), bool)]).shape == (0,)
        await array.oindex[:, []].write(3)
        assert [block async for block in array.vindex[[], []].stream()] == []
    assert report.requests == 0


async def test_out_of_any_strides_is_filled_by_points_of_several_axes() -> None:
    array = await stored()
    rows = np.array([[0, 6, 3], [3, 1, 1]])
    for out in (np.zeros((2, 3, 10), "i4"), np.zeros((10, 4, 3), "i4").T[:, ::-2].transpose(1, 0, 2)):
        assert await array.vindex[rows].read(out=out) is out
        assert np.array_equal(out, DATA[rows])


async def test_a_thousand_points_of_a_billion_chunks_fetch_their_own_chunks_only() -> None:
    array = await aiozarr.create_array(MemoryStore(), shape=(10**6, 10**6), dtype="i4", chunks=(1000, 1))
    rows, columns = np.random.default_rng(1).integers(0, 10**6, (2, 1000))
    chunks = len(set(zip((rows // 1000).tolist(), columns.tolist(), strict=True)))
    view = array.vindex[rows, columns]
    with aiozarr.record() as report:
        await view.write(np.arange(1000))
    assert report.chunks == chunks
    assert view.plan().chunks == view.plan().requests == chunks
    assert (await view.probe()).requests == chunks
    with aiozarr.record() as report:
        found = await view
    assert report.requests == chunks
    assert np.array_equal(found, np.arange(1000))


async def test_chunks_of_index_arrays_count_against_the_limit() -> None:
    settings = aiozarr.Settings(max_chunks=2)
    array = await aiozarr.create_array(MemoryStore(), shape=100, dtype="i4", chunks=1, settings=settings)
    assert (await array.vindex[[5, 7, 5, 7]]).size == 4
    with pytest.raises(aiozarr.LimitError, match="touches 3 chunks"):
        await array.oindex[[5, 7, 9]]


async def test_a_pickled_view_reads_the_same() -> None:
    array = await aiozarr.create_array("memory://test-indexing-pickle", shape=7, dtype="i4", overwrite=True)
    await array[...].write(np.arange(7))
    view = array.vindex[[[6, 1], [2, 2]]][:, 1]
    assert np.array_equal(await pickle.loads(pickle.dumps(view)), [1, 2])


async def test_read_many_takes_views_of_every_kind() -> None:
    array = await stored()
    views = [array.oindex[[5, 1]], array[2:4], array.vindex[[[0, 1]], [[2, 3]]]]
    expected = [DATA[[5, 1]], DATA[2:4], DATA[[[0, 1]], [[2, 3]]]]
    for found, wanted in zip(await aiozarr.read_many(views), expected, strict=True):
        assert np.array_equal(found, wanted)


async def test_strings_are_selected_as_numbers_are() -> None:
    data = np.array(["a", "bc", "", "d" * 100, "e"], object)
    array = await aiozarr.create_array(MemoryStore(), shape=5, dtype="string", chunks=2)
    await array[...].write(data)
    await array.vindex[[4, 0]].write(np.array(["x", "y"], object))
    assert list(await array.oindex[[4, 1, 0, 3]]) == ["x", "bc", "y", "d" * 100]


@pytest.mark.parametrize("shards", [None, 6])
async def test_of_repeated_elements_the_last_value_stays(shards: int | None) -> None:
    array, expected = await stored(shards=shards), DATA.copy()
    await array.oindex[[1, 1], [2, 9, 2]].write([[1, 2, 3], [4, 5, 6]])
    expected[1, [2, 9]] = [6, 5]
    await array.vindex[[3, 3, 0], 7].write([10, 11, 12])
    expected[[3, 0], 7] = [11, 12]
    assert np.array_equal(await array[...], expected)


async def test_values_broadcast_over_points() -> None:
    array, expected = await stored(), DATA.copy()
    mask = DATA % 4 == 1
    await array.vindex[mask].write(-1)
    expected[mask] = -1
    rows = np.array([[0, 6], [2, 4]])
    await array.vindex[rows].write(np.arange(10))
    expected[rows] = np.arange(10)
    assert np.array_equal(await array[...], expected)


async def test_a_chunk_that_index_arrays_cover_is_not_read_first() -> None:
    array = await stored()
    with aiozarr.record() as report:
        await array.oindex[[2, 0, 1], [5, 4, 3]].write(np.arange(9).reshape(3, 3))
    assert report.bytes_fetched == 0
    assert report.requests == 1
    assert np.array_equal(await array[:3, 3:6], [[5, 4, 3], [8, 7, 6], [2, 1, 0]])


@pytest.mark.parametrize("shards", [None, 6])
async def test_fields_are_read_as_numpy_has_them(shards: int | None) -> None:
    data = records()
    array = await stored(data, shards=shards)
    for names in ("a", "inner", ["b", "a"]):
        view = array[names]
        assert view.dtype == data[names].dtype
        assert view.nbytes == data[names].nbytes
        assert np.array_equal(await view, data[names])
    assert np.array_equal(await array["a", :3], data["a"][:3])
    assert np.array_equal(await array["b", "a", 2], data[["b", "a"]][2])
    assert np.array_equal(await array[::-2]["inner"]["x"][1], data[::-2]["inner"]["x"][1])
    assert np.array_equal(await array.oindex["a", [6, 2]], data["a"][[6, 2]])
    assert np.array_equal(await array["b"].vindex[[6, 2], [0, 4]], data["b"][[6, 2], [0, 4]])
    assert np.array_equal(await array.blocks["a", 1], data["a"][3:6] if shards is None else data["a"][6:])
    scalar: Any = await array[1, 2]["a"]
    assert type(scalar) is np.int32


@pytest.mark.parametrize("shards", [None, 6])
async def test_writing_a_field_leaves_the_others(shards: int | None) -> None:
    data = records()
    array = await stored(data, shards=shards)
    await array["a"].write(-1)
    data["a"] = -1
    await array["inner"]["y"].vindex[[0, 6, 0], [1, 1, 1]].write([1, 2, 3])
    data["inner"]["y"][[0, 6], 1] = [3, 2]
    await array["b", 2:4].write([[0.5], [1.5]])
    data["b"][2:4] = [[0.5], [1.5]]
    assert np.array_equal(await array[...], data)


async def test_the_axes_of_sub_arrays_come_last_and_are_selected_lazily() -> None:
    dtype = np.dtype([("a", "i4"), ("position", "f4", (2,))])
    data = np.zeros((7, 5), dtype)
    data["position"] = np.arange(70).reshape(7, 5, 2)
    array = await aiozarr.create_array(MemoryStore(), shape=(7, 5), dtype=dtype, chunks=3, zarr_format=2)
    assert (await array["position", 2, ..., 1]).tolist() == [0] * 5
    await array[...].write(data)
    view = array["position"]
    assert view.shape == (7, 5, 2)
    assert np.array_equal(await view[2:, 1, ::-1], data["position"][2:, 1, ::-1])
    assert np.array_equal(await view.vindex[[5, 0], [1, 2], [0, 1]], data["position"][[5, 0], [1, 2], [0, 1]])
    await array["position", ..., 1].write(-1)
    data["position"][..., 1] = -1
    assert np.array_equal(await array[...], data)


async def test_a_field_of_a_missing_chunk_has_the_field_of_the_fill_value() -> None:
    array = await aiozarr.create_array(MemoryStore(), shape=4, dtype=RECORD, chunks=2)
    await array["a", 1].write(5)
    assert (await array["a"]).tolist() == [0, 5, 0, 0]
    assert (await array["inner"]["y"]).tolist() == [0] * 4


@pytest.mark.parametrize("shards", [None, 6])
@pytest.mark.parametrize(
    "make",
    [
        lambda array: array.oindex[[6, 0, 6], [9, 1, 2]],
        lambda array: array.vindex[[6, 0, 6], [9, 1, 2]][:, None],
        lambda array: array.vindex[[[6, 0], [3, 3]]][..., 2:, None],
        lambda array: array.vindex[:, [[6, 0], [3, 3]]].vindex[:, [1, 0]],
        lambda array: array.oindex[:, np.arange(10) % 2 == 0],
        lambda array: array[2:].oindex[0, [1, 5]],
    ],
)
async def test_the_blocks_of_a_stream_make_up_the_view(make: Any, shards: int | None) -> None:
    array = await stored(shards=shards)
    view = make(array)
    expected = await view
    found = np.full(view.shape, -1, "i4")
    async for region, block in view.stream(1):
        assert len(region) == found.ndim
        assert found[region].shape == block.shape
        assert (found[region] == -1).all()
        found[region] = block
    assert np.array_equal(found, expected)


async def test_a_stream_of_a_field_has_its_type() -> None:
    data = records()
    array = await stored(data)
    found = np.zeros((7, 5), "i2")
    async for region, block in array["inner"]["x"].stream():
        assert block.dtype == np.int16
        found[region] = block
    assert np.array_equal(found, data["inner"]["x"])


def test_the_blocking_array_reads_and_writes_them_all() -> None:
    array = aiozarr.sync.create_array(MemoryStore(), shape=(7, 10), dtype="i4", chunks=3)
    array[...] = DATA
    expected = DATA.copy()
    array.oindex[[6, 1], ::3] = [[1], [2]]
    expected[[6, 1], ::3] = [[1], [2]]
    array.vindex[[0, 6], [0, 9]] = 77
    expected[[0, 6], [0, 9]] = 77
    array.blocks[1, 1] = -5
    expected[3:6, 3:6] = -5
    assert np.array_equal(array[...], expected)
    assert np.array_equal(array.oindex[[6, 1]], expected[[6, 1]])
    assert array.vindex[6, 9] == 77
    assert np.array_equal(array.blocks[-1], expected[6:])
    view = array.view[1:].oindex[[5, 0]].vindex[[0, 1], [9, 0]]
    assert isinstance(view, aiozarr.sync.View)
    assert view.read().tolist() == expected[1:][[5, 0], [9, 0]].tolist()
    fields = aiozarr.sync.create_array(MemoryStore(), shape=4, dtype=RECORD)
    fields["a"] = [1, 2, 3, 4]
    assert fields["a", ::-1].tolist() == [4, 3, 2, 1]


async def test_views_of_one_chunk_share_one_fetch() -> None:
    data = records()
    array = await stored(data, chunks=(7, 5))
    with aiozarr.record() as report:
        found = await asyncio.gather(array["a"], array.vindex[[6, 0], [1, 1]], array[2])
    assert np.array_equal(found[0], data["a"])
    assert np.array_equal(found[1], data[[6, 0], [1, 1]])
    assert np.array_equal(found[2], data[2])
    assert report.requests == 3 - report.shared
