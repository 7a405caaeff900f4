"""Arrays: their properties, and the operations that change their shape."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aiozarr
from aiozarr.stores import MemoryStore, Store

DATA = np.arange(7 * 10, dtype="i4").reshape(7, 10)


async def stored(store: Store, data: np.ndarray[Any, Any] = DATA, **options: Any) -> aiozarr.Array:
    array = await aiozarr.create_array(store, "a", shape=data.shape, dtype=data.dtype, **{"chunks": 3, **options})
    await array[...].write(data)
    return array


async def chunk_keys(store: Store) -> list[str]:
    return sorted(key.removeprefix("a/") for key in await store.list_prefix("a/") if not key.endswith("zarr.json"))


async def test_a_bigger_shape_keeps_the_values_and_adds_the_fill_value(store: Store) -> None:
    array = await stored(store)
    await array.resize((9, 11))
    for found in (array, await aiozarr.open_array(store, "a")):
        assert found.shape == (9, 11)
        values = await found[...]
        assert np.array_equal(values[:7, :10], DATA)
        assert (values[7:] == 0).all()
        assert (values[:, 10:] == 0).all()


async def test_a_smaller_shape_erases_the_chunks_that_are_outside(store: Store) -> None:
    array = await stored(store)
    await array.resize((4, 3))
    assert await chunk_keys(store) == ["c/0/0", "c/1/0"]
    assert np.array_equal(await array[...], DATA[:4, :3])


async def test_chunks_outside_remain_on_request(store: Store) -> None:
    array = await stored(store)
    await array.resize((4, 3), delete_chunks=False)
    assert len(await chunk_keys(store)) == 12
    with pytest.warns(aiozarr.StaleDataWarning, match="visible again"):
        await array.resize((7, 10))
    assert np.array_equal(await array[...], DATA)


async def test_values_of_chunks_across_the_edge_reappear_as_documented(store: Store) -> None:
    array = await stored(store)
    await array.resize((4, 10))
    with pytest.warns(aiozarr.StaleDataWarning, match="visible again"):
        await array.resize((7, 10))
    values = await array[...]
    assert np.array_equal(values[:6], DATA[:6])
    assert (values[6:] == 0).all()


async def test_shards_outside_are_erased_whole(store: Store) -> None:
    array = await stored(store, shards=6)
    assert await chunk_keys(store) == ["c/0/0", "c/0/1", "c/1/0", "c/1/1"]
    await array.resize((6, 7))
    assert await chunk_keys(store) == ["c/0/0", "c/0/1"]
    assert np.array_equal(await array[...], DATA[:6, :7])


@pytest.mark.parametrize("encoding", ["default", "v2", ("v2", "/")])
async def test_many_chunks_outside_are_found_by_a_listing(
    store: Store, encoding: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiozarr.hierarchy.resize.MIN_LISTED_CHUNKS", 3)
    array = await stored(store, chunk_key_encoding=encoding)
    await store.set("a/c/notes.txt", b"not a chunk") if encoding == "default" else None
    before = len(await chunk_keys(store))
    await array.resize((4, 3))
    assert before - len(await chunk_keys(store)) == 10
    assert np.array_equal(await array[...], DATA[:4, :3])


async def test_a_huge_sparse_array_shrinks_by_its_stored_chunks(remote: Any) -> None:
    array = await aiozarr.create_array(remote, "a", shape=(1 << 40, 10), dtype="i4", chunks=(1, 10))
    await array[1 << 35].write(1)
    await array[5].write(2)
    remote.calls.clear()
    await array.resize((10, 10))
    assert [key for operation, key in remote.calls if operation == "erase"] == [f"a/c/{1 << 35}/0"]
    assert (await array[5]).tolist() == [2] * 10


@pytest.mark.parametrize("shape", [(7,), (7, 10, 1), (7, -1), (7, 1 << 63)])
async def test_a_shape_that_the_array_cannot_have_is_a_value_error(memory: MemoryStore, shape: Any) -> None:
    array = await stored(memory)
    with pytest.raises(ValueError, match=r"shape|length"):
        await array.resize(shape)
    assert (await aiozarr.open_array(memory, "a")).shape == (7, 10)


@pytest.mark.parametrize("shape", [(7.0, 10), (True, 10), "ab"])
async def test_a_shape_that_is_not_of_integers_is_a_type_error(memory: MemoryStore, shape: Any) -> None:
    array = await stored(memory)
    with pytest.raises(TypeError):
        await array.resize(shape)


async def test_arrays_shrink_to_nothing_and_grow_again(store: Store) -> None:
    array = await stored(store)
    await array.resize((0, 10))
    assert await chunk_keys(store) == []
    await array.resize((2, 10))
    assert (await array[...] == 0).all()


async def test_resize_keeps_concurrent_changes(memory: MemoryStore) -> None:
    array = await stored(memory)
    other = await aiozarr.open_array(memory, "a", mode="r+")
    await other.update_attributes({"a": 1})
    await array.resize((8, 10))
    assert array.attrs == {"a": 1}
    await other.resize((9, 10))
    assert other.shape == (9, 10)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=4))
def test_appends_are_concatenations(appends: list[tuple[int, int]]) -> None:
    async def check() -> None:
        expected = np.arange(6, dtype="i4").reshape(2, 3)
        array = await stored(MemoryStore(), expected, chunks=2)
        for axis, length in appends:
            shape = list(expected.shape)
            shape[axis] = length
            added = np.arange(int(np.prod(shape)), dtype="i2").reshape(shape) + 100
            expected = np.concatenate([expected, added.astype("i4")], axis)
            assert await array.append(added, axis) == expected.shape
        assert np.array_equal(await array[...], expected)

    asyncio.run(check())


async def test_append_takes_negative_axes_and_python_lists(memory: MemoryStore) -> None:
    array = await stored(memory, np.array([[1, 2]], "u1"))
    assert await array.append([[3]], axis=-1) == (1, 3)
    assert (await array[...]).tolist() == [[1, 2, 3]]


async def test_concurrent_appends_of_several_handles_do_not_overlap(store: Store) -> None:
    array = await stored(store, np.zeros(2, "i4"))
    handles = [array, array, *[await aiozarr.open_array(store, "a", mode="r+") for _ in range(3)]]
    await asyncio.gather(*[handle.append(np.full(3, n + 1)) for n, handle in enumerate(handles)])
    values = await (await aiozarr.open_array(store, "a"))[...]
    assert values.shape == (17,)
    parts = [set(values[at : at + 3].tolist()) for at in range(2, 17, 3)]
    assert sorted(part.pop() for part in parts) == [1, 2, 3, 4, 5]
    assert not any(parts)


@pytest.mark.parametrize(
    ("values", "axis"), [(np.zeros((2, 9), "i4"), 0), (np.zeros(10, "i4"), 0), (np.zeros((2, 10), "i4"), 2), (3, 0)]
)
async def test_values_that_do_not_fit_are_refused_and_the_array_is_not_grown(
    memory: MemoryStore, values: Any, axis: int
) -> None:
    array = await stored(memory)
    with pytest.raises(ValueError, match=r"append|axis"):
        await array.append(values, axis)
    assert array.shape == (await aiozarr.open_array(memory, "a")).shape == (7, 10)


async def test_an_array_without_dimensions_cannot_be_appended_to(memory: MemoryStore) -> None:
    array = await stored(memory, np.array(3))
    with pytest.raises(ValueError, match="axis"):
        await array.append(4)


async def test_converting_an_array_advises_to_await_it(memory: MemoryStore) -> None:
    array = await stored(memory)
    with pytest.raises(TypeError, match="await"):
        np.asarray(array)
    with pytest.raises(TypeError, match="iterating needs values"):
        list(array)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        3 in array  # noqa: B015
    assert array


async def test_the_repr_of_an_array_has_its_url_and_shapes(memory: MemoryStore) -> None:
    plain = await stored(memory)
    assert repr(plain) == f"<aiozarr.Array {memory.url}/a int32 (7, 10) chunks (3, 3)>"
    sharded = await aiozarr.create_array(memory, "s", shape=12, dtype=">f8", chunks=3, shards=6)
    assert repr(sharded) == f"<aiozarr.Array {memory.url}/s float64 (12,) chunks (3,) shards (6,)>"


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", ">i2", "<f2", ">c16", "V3"])
@pytest.mark.parametrize("options", [{}, {"shards": 4}, {"order": "F"}, {"codecs": ["bytes", "gzip", "crc32c"]}])
async def test_every_type_round_trips_with_its_bits(store: Store, dtype: str, options: dict[str, Any]) -> None:
    raw = np.random.default_rng(1).integers(0, 2, (5, 6, np.dtype(dtype).itemsize), "u1")
    data = np.ascontiguousarray(raw).view(dtype)[..., 0]
    array = await aiozarr.create_array(
        store, shape=(5, 6), dtype="r24" if dtype == "V3" else dtype, chunks=2, **options
    )
    await array[...].write(data)
    found = await (await aiozarr.open_array(store))[...]
    assert found.dtype == np.dtype(dtype).newbyteorder("=")
    assert found.tolist() == data.tolist()


async def test_concurrent_first_writes_read_the_document_once_and_those_of_a_new_array_do_not() -> None:
    store = MemoryStore()
    await aiozarr.create_array(store, shape=8, dtype="i4", chunks=1)
    opened = await aiozarr.open_array(store, mode="r+")
    with aiozarr.record() as report:
        await asyncio.gather(*[opened[i].write(i) for i in range(8)])
    first = report.requests
    with aiozarr.record() as report:
        await asyncio.gather(*[opened[i].write(i) for i in range(8)])
    assert first - report.requests == 1
    created = await aiozarr.create_array(MemoryStore(), shape=8, dtype="i4", chunks=1)
    with aiozarr.record() as report:
        await created[:].write(1)
    assert report.requests == 8
