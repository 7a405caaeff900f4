"""Reads and writes of a `TensorView`: what is stored, what is requested, and what is cached."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.driver import Context
from aiozarr.driver.context_resources import CachePool
from tests.support.tensorstore_pairs import PAIRS, pairs

RECORDED: Any = pairs("io_behaviour")


def spec(folder: Path, **members: Any) -> dict[str, Any]:
    return {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{folder}/a/"}, **members}


def stored(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder / "a").as_posix() for path in (folder / "a").rglob("*") if path.is_file())


def chunked(shape: list[int], chunk: list[int], data_type: str = "uint8", **members: Any) -> dict[str, Any]:
    grid = {"name": "regular", "configuration": {"chunk_shape": chunk}}
    return {"shape": shape, "data_type": data_type, "chunk_grid": grid, **members}


def test_the_recorded_behaviour_is_there() -> None:
    assert sorted(path.stem for path in PAIRS.iterdir()) == [
        *("codec_cases", "io_behaviour", "io_behaviour2", "layout_cases", "layout_fuzz", "open_cases", "zarr2_cases"),
    ]


async def test_chunks_across_the_end_are_stored_whole_and_padded_with_the_fill_value(tmp_path: Path) -> None:
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=chunked([5], [4])))
    await view.write(np.arange(1, 6, dtype="uint8"))
    found = {key: list((tmp_path / "a" / key).read_bytes()) for key in stored(tmp_path) if key != "zarr.json"}
    assert found == RECORDED["boundary chunk stored full, padded with"]


@pytest.mark.parametrize("name", ["default", "v2"])
async def test_an_array_without_dimensions_has_one_chunk(name: str, tmp_path: Path) -> None:
    encoding: dict[str, Any] = {"chunk_key_encoding": {"name": name}}
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=chunked([], [], **encoding)))
    await view.write(3)
    assert stored(tmp_path) == RECORDED["rank0 key"][name]
    assert (await view).tolist() == 3


async def test_nan_equals_the_fill_value_nan_of_the_same_bits(tmp_path: Path) -> None:
    metadata = chunked([2], [2], "float32", fill_value="NaN")
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=metadata))
    await view.write(np.full(2, np.nan, "float32"))
    assert stored(tmp_path) == RECORDED["fill"]["NaN fill equal"]


async def test_inner_chunks_equal_to_the_fill_value_are_not_stored_and_empty_shards_are_erased(tmp_path: Path) -> None:
    sharding = {"name": "sharding_indexed", "configuration": {"chunk_shape": [10], "codecs": ["bytes"]}}
    metadata = chunked([50], [50], codecs=[sharding])
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=metadata))
    await view[0:10].write(1)
    data = (tmp_path / "a" / "c" / "0").read_bytes()
    assert len(data) == RECORDED["fill"]["shard 1 nonfill subchunk len"]
    assert np.frombuffer(data[10:-4], "<u8").reshape(5, 2).tolist() == RECORDED["fill"]["shard index"]
    await view.write(0)
    assert stored(tmp_path) == RECORDED["fill"]["shard deleted when all fill"]


@pytest.mark.parametrize("driver", ["file", "memory", "zip"])
@pytest.mark.parametrize("codecs", [[], [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2]}}]])
async def test_partial_writes_of_the_fill_value_erase_chunks_that_hold_nothing_else(
    driver: str, codecs: list[Any], tmp_path: Path
) -> None:
    kvstore: dict[str, Any] = {"driver": driver, "path": f"{tmp_path}/a/"}
    if driver == "zip":
        kvstore = {"driver": "zip", "path": "a/", "base": f"file://{tmp_path}/a.zip"}
    extra: dict[str, Any] = {"codecs": codecs} if codecs else {}
    async with await aiozarr.open(
        {"driver": "zarr3", "kvstore": kvstore, "create": True, "metadata": chunked([8], [4], **extra)}
    ) as view:
        await view.write(np.arange(1, 9))
        await view[0:3].write(0)
        assert (await view).tolist() == [0, 0, 0, 4, 5, 6, 7, 8]
        await view[3].write(0)
        assert [key for key in await view.array.store.list() if key.endswith(("c/0", "c/1"))] in (["c/1"], ["a/c/1"])
        assert (await view).tolist() == [0, 0, 0, 0, 5, 6, 7, 8]


async def test_a_view_costs_the_requests_of_the_array_below(tmp_path: Path) -> None:
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=chunked([40, 40], [10, 10])))
    await view.write((np.arange(1600) % 251).astype("uint8").reshape(40, 40))
    with aiozarr.record() as ours:
        found = await view[5:35:3].transpose()[:, 2:9]
    with aiozarr.record() as theirs:
        expected = await view.array[8:29:3]
    assert found.T.tolist() == expected.tolist()
    assert (ours.requests, ours.bytes_fetched) == (theirs.requests, theirs.bytes_fetched)


async def test_what_a_view_reads_is_found_once_and_again_after_a_resize(tmp_path: Path) -> None:
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=chunked([4], [2]), recheck_cached_metadata=True))
    part = view[1:3]
    await part.write([1, 2])
    below = part._view()
    assert (await part).tolist() == [1, 2]
    assert part._view() is below
    await view.resize([3])
    assert (await part).tolist() == [1, 2]
    assert part._view() is not below


async def test_a_pickled_view_reads_the_same_elements(tmp_path: Path) -> None:
    context = Context({"cache_pool": {"total_bytes_limit": 5000}})
    await (await aiozarr.open(spec(tmp_path, create=True, metadata=chunked([10], [4])))).write(np.arange(10))
    view = (await aiozarr.open(spec(tmp_path, context=context)))[3:9:2].label["x"]
    again = pickle.loads(pickle.dumps(view))
    assert (await again).tolist() == [3, 5, 7]
    assert again.domain == view.domain
    assert again.spec() == view.spec()


async def test_out_is_filled_through_transposed_views(tmp_path: Path) -> None:
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=chunked([4, 6], [2, 3])))
    values = np.arange(24, dtype="uint8").reshape(4, 6)
    await view.T.write(values.T)
    out = np.zeros((6, 4), "uint8")
    assert await view.T.read(out=out) is out
    assert out.tolist() == values.T.tolist()


async def test_a_cache_pool_is_bounded_and_shared_through_a_context(tmp_path: Path) -> None:
    context = Context({"cache_pool": {"total_bytes_limit": 5000}})
    await (await aiozarr.open(spec(tmp_path, create=True, metadata=chunked([1000, 100], [1, 100])))).write(7)
    one = await aiozarr.open(spec(tmp_path, context=context))
    two = await aiozarr.open(spec(tmp_path, context=context))
    pool: CachePool = context.cache_pool("cache_pool", "cache_pool")
    rows = await asyncio.gather(*[(one if row % 2 else two)[row].read() for row in range(1000)])
    assert sum(int(row.sum()) for row in rows) == 7 * 100_000
    assert 0 < pool.nbytes <= 5000


@pytest.mark.parametrize(("bound", "requests"), [(True, 10), (False, 0), ("open", 0), (5, 0), (1e12, 10)])
@pytest.mark.parametrize("codecs", [["bytes"], ["bytes", "gzip"]])
async def test_records_have_the_requests_that_a_cache_pool_sends(
    bound: Any, requests: int, codecs: list[str], tmp_path: Path
) -> None:
    await (await aiozarr.open(spec(tmp_path, create=True, metadata=chunked([100], [10], codecs=codecs)))).write(1)
    pool = {"total_bytes_limit": 100_000}
    view = await aiozarr.open(spec(tmp_path, cache_pool=pool, recheck_cached_data=bound))
    with aiozarr.record() as first:
        await view
    with aiozarr.record() as second:
        assert (await view).sum() == 100
    assert first.requests == 10
    assert (second.requests, second.bytes_fetched) == (requests, 0)


async def test_twenty_reads_of_a_cached_chunk_send_one_conditional_request(tmp_path: Path) -> None:
    await (await aiozarr.open(spec(tmp_path, create=True, metadata=chunked([10], [10])))).write(1)
    view = await aiozarr.open(spec(tmp_path, cache_pool={"total_bytes_limit": 100_000}))
    await view
    with aiozarr.record() as report:
        await asyncio.gather(*[view.read() for _ in range(20)])
    assert report.requests + report.shared == 20
    assert report.requests < 20
    assert report.bytes_fetched == 0


async def test_concurrent_reads_share_the_check_of_the_metadata(tmp_path: Path) -> None:
    await aiozarr.open(spec(tmp_path, create=True, metadata=chunked([10], [10])))
    view = await aiozarr.open(spec(tmp_path, recheck_cached_metadata=True))
    with aiozarr.record() as report:
        await asyncio.gather(*[view.resolve() for _ in range(2)], *[view.read() for _ in range(20)])
    assert report.requests <= 2 + 1 + 20
    await (await aiozarr.open(spec(tmp_path))).resize([4])
    with pytest.raises(aiozarr.SelectionError):
        await view


async def test_concurrent_reads_of_one_chunk_send_one_request(tmp_path: Path) -> None:
    view = await aiozarr.open(spec(tmp_path, create=True, metadata=chunked([10], [10])))
    await view.write(1)
    with aiozarr.record() as report:
        await asyncio.gather(*[view.read() for _ in range(20)])
    assert report.requests + report.shared == 20
    assert report.requests < 20
