"""Arrays whose chunks or shards differ in length: read, written, planned and bounded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import InvalidMetadataError, LimitError
from aiozarr.settings import Settings
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore

DATA = np.arange(1, 71, dtype="i4").reshape(10, 7)
PLAIN: dict[str, Any] = {"chunks": [[2, 3, 5], [4, 3]]}
SHARDED: dict[str, Any] = {"chunks": (2, 2), "shards": [[2, 4, 4], [4, 4]]}
divisions = pytest.mark.parametrize("division", [PLAIN, SHARDED], ids=["plain", "sharded"])


async def stored(division: dict[str, Any], store: Any = None, **more: Any) -> aiozarr.Array:
    given = store if store is not None else MemoryStore()
    array = await aiozarr.create_array(given, shape=DATA.shape, dtype="i4", **division, **more)
    await array[...].write(DATA)
    return array


@divisions
@pytest.mark.parametrize("kind", [MemoryStore, FakeStore])
async def test_written_values_are_read_back(division: dict[str, Any], kind: Any) -> None:
    array = await stored(division, kind())
    expected = DATA.copy()
    assert np.array_equal(await array[...], expected)
    await array[1:9:3, ::-2].write(-5)
    expected[1:9:3, ::-2] = -5
    again = await aiozarr.open_array(array.store)
    assert np.array_equal(await again[...], expected)
    assert np.array_equal(await again[7:1:-1, 3], expected[7:1:-1, 3])
    async for region, block in again[2:].stream():
        assert np.array_equal(block, expected[2:][region])


async def test_the_chunk_lengths_have_the_form_of_dask() -> None:
    assert (await stored(PLAIN)).chunks == ((2, 3, 5), (4, 3))
    sharded = await stored(SHARDED)
    assert (sharded.chunks, sharded.shards) == ((2, 2), ((2, 4, 4), (4, 3)))
    assert "of differing lengths" in repr(sharded)


async def test_a_plan_counts_the_chunks_that_are_touched() -> None:
    array = await stored(PLAIN, codecs=["bytes"])
    plan = array[1:3].plan()
    assert (plan.chunks, plan.requests) == (4, 4)
    probed = await array[1:3].probe()
    assert probed.bytes == 4 * (2 * 4 + 2 * 3 + 3 * 4 + 3 * 3)
    assert plan.bytes >= probed.bytes
    sharded = (await stored(SHARDED))[1:3].plan()
    assert (sharded.chunks, sharded.inner_chunks) == (4, 8)


async def open_document(chunk_grid: dict[str, Any], shape: list[int], **more: Any) -> aiozarr.Array:
    store = MemoryStore()
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "uint8",
        "chunk_grid": {"name": "rectilinear", "configuration": {"kind": "inline", **chunk_grid}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
        **more,
    }
    await store.set("zarr.json", json.dumps(document).encode())
    return await aiozarr.open_array(store, mode="r+")


async def test_more_chunks_than_could_be_listed_cost_nothing_until_they_are_asked_for() -> None:
    array = await open_document({"chunk_shapes": [[3, [1, 10**18], [5, 10**30]]]}, [2**63 - 1])
    assert "differing lengths" in repr(array)
    assert (await array[2**62 : 2**62 + 3]).tolist() == [0, 0, 0]
    await array[2:5].write([1, 2, 3])
    assert (await array[:6]).tolist() == [0, 0, 1, 2, 3, 0]
    with pytest.raises(LimitError):
        await array[...]
    with pytest.raises(LimitError):
        _ = array.chunks


async def test_a_huge_chunk_is_refused_only_by_reads_that_touch_it() -> None:
    array = await open_document({"chunk_shapes": [[4, 2**50, 4]]}, [2**50 + 8])
    await array[:4].write([1, 2, 3, 4])
    assert (await array[2:4]).tolist() == [3, 4]
    with pytest.raises(LimitError) as caught:
        await array[3:5]
    assert caught.value.limit == "max_chunk_bytes"
    with pytest.raises(LimitError):
        await array[-5:].write(1)


async def test_inner_chunks_divide_every_shard() -> None:
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    sharding = {"chunk_shape": [2], "codecs": [{"name": "bytes"}], "index_codecs": [little]}
    with pytest.raises(InvalidMetadataError, match="a shard of 3"):
        await open_document(
            {"chunk_shapes": [[4, 3, 4]]}, [11], codecs=[{"name": "sharding_indexed", "configuration": sharding}]
        )


async def test_a_chunk_whose_shape_the_codecs_refuse_is_an_error_of_its_own() -> None:
    # The transposed shard is no shard that is read by ranges: its chunks are checked when they are met.
    sharding = {
        "chunk_shape": [2, 2],
        "codecs": [{"name": "bytes"}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }
    codecs = [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        {"name": "sharding_indexed", "configuration": sharding},
    ]
    array = await open_document({"chunk_shapes": [[4, 3], [4]]}, [7, 4], codecs=codecs)
    await array[:4].write(5)
    assert (await array[:4] == 5).all()
    with pytest.raises(InvalidMetadataError):
        await array[...]
    with pytest.raises(InvalidMetadataError):
        await array[4:].write(5)


async def test_chunks_that_equal_the_default_are_stored_where_the_metadata_leave_it_open() -> None:
    for division in ({"chunks": (4, 4)}, {"chunks": (2, 2), "shards": (4, 4)}):
        array = await aiozarr.create_array(MemoryStore(), shape=(8, 8), dtype="i4", **division)
        open_ended = array._with_metadata(replace(array._metadata, has_fill_value=False))
        assert (await open_ended[...] == 0).all()
        await open_ended[:4].write(0)
        assert sorted([key for key in await array.store.list() if key.startswith("c/")]) == ["c/0/0", "c/0/1"]
        await open_ended[5, 5].write(0)
        assert [key for key in await array.store.list() if key.startswith("c/1")] == ["c/1/1"]
        assert (await array[...] == 0).all()


async def test_arrays_of_one_kind_share_their_codecs_and_nothing_that_a_caller_may_change() -> None:
    store = MemoryStore()
    for name in ("a", "b"):
        await aiozarr.create_array(store, name, shape=(4, 4), chunks=(2, 2), dtype="i4", attributes={"name": name})
    await aiozarr.create_array(store, "other", shape=(4, 4), chunks=(2, 4), dtype="i4")
    one, same, other = [await aiozarr.open_array(store, name) for name in ("a", "b", "other")]
    assert one._layout.largest is same._layout.largest
    assert one._layout.largest is not other._layout.largest
    assert (one._layout.node, same._layout.node) == (one.url, same.url)
    shown = one.metadata.codecs[-1].configuration
    assert isinstance(shown, dict)
    shown["level"] = -1
    assert same.metadata.codecs[-1].configuration["level"] == 3
    assert (await aiozarr.open_array(store, "a")).metadata.codecs[-1].configuration["level"] == 3


async def test_an_error_of_an_array_names_it_each_time() -> None:
    store = MemoryStore()
    for name in ("a", "b"):
        array = await aiozarr.create_array(store, name, shape=4, chunks=2, dtype="i4")
        document = bytes(store.fetch_now(f"{name}/zarr.json").data)  # type: ignore[union-attr]
        store.set_now(f"{name}/zarr.json", document.replace(b'"level": 3', b'"level": true'))
        with pytest.raises(aiozarr.InvalidMetadataError) as caught:
            await aiozarr.open_array(store, name, settings=Settings(strict=True))
        assert caught.value.node == array.url
