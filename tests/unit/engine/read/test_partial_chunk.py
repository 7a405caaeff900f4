"""Parts of uncompressed chunks: what is asked for, that it is right, and what happens where it does not fit."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiozarr.engine import Engine, Read, plan_bounds
from aiozarr.engine.plan import MergeLimitBounds
from aiozarr.errors import CodecError, MissingChunkError
from aiozarr.grid.advanced import select_orthogonal, select_pointwise
from aiozarr.grid.transform import IndexTransform
from aiozarr.model import Range, Value
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores import LocalStore, MemoryStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Call
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import RAW, SETTINGS, Sample, engine, layout_of, sample

ROW = 4 * 4096
"""Bytes of a row of the chunks here."""

BIG = [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes", "configuration": {"endian": "big"}}]


def quiet(store: FakeStore, reader: Engine) -> bool:
    """Nothing is under way, and no bytes stay counted."""
    return store.in_flight == 0 and reader.idle()


async def rows(**more: Any) -> tuple[Sample, FakeStore, Engine]:
    """Two chunks of 16 rows of 16 KiB."""
    return await sample((32, 4096), (16, 4096), **more)


@in_virtual_time
async def test_rows_of_a_chunk_are_ranges_of_it() -> None:
    array, store, reader = await rows()
    read = array.read(slice(14, 18), slice(100, None))
    report = Report()
    await reader.read([read], settings=SETTINGS, report=report)
    assert np.array_equal(read.out, array.values[14:18, 100:])
    assert store.log() == [
        ("a/c/0/0", Range(14 * ROW + 400, ROW - 400)),
        ("a/c/0/0", Range(15 * ROW + 400, ROW - 400)),
        ("a/c/1/0", Range(400, ROW - 400)),
        ("a/c/1/0", Range(ROW + 400, ROW - 400)),
    ]
    assert store.rounds == 1
    assert (report.requests, report.bytes_fetched, report.bytes_wanted, report.chunks) == (
        4,
        *[store.nbytes] * 2,
        2,
    )
    assert quiet(store, reader)


@in_virtual_time
async def test_ranges_are_merged_as_the_gap_says() -> None:
    array, store, reader = await rows()
    read = array.read(slice(2, 6), slice(100, None))
    await reader.read([read], settings=replace(SETTINGS, merge_gap_bytes=400))
    assert np.array_equal(read.out, array.values[2:6, 100:])
    assert store.log() == [("a/c/0/0", Range(2 * ROW + 400, 4 * ROW - 400))]


@in_virtual_time
async def test_a_chunk_that_is_not_stored_reads_as_the_fill_value_or_raises() -> None:
    array, store, reader = await rows(fill_value=7)
    store.memory.erase_now("a/c/1/0")
    read = array.read(slice(15, None, 8))
    await reader.read([read], settings=SETTINGS)
    assert np.array_equal(read.out[0], array.values[15])
    assert (read.out[1:] == 7).all()
    assert store.count == 1 + 2
    with pytest.raises(MissingChunkError, match="a/c/1/0"):
        await reader.read([array.read(slice(15, None, 8))], settings=replace(SETTINGS, missing_chunks="raise"))
    assert quiet(store, reader)


@pytest.mark.parametrize("stored", [100, 3 * ROW, 16 * ROW + 4])
@in_virtual_time
async def test_a_chunk_of_another_length_is_the_error_that_reading_it_whole_gives(stored: int) -> None:
    array, store, reader = await rows()
    store.memory.set_now("a/c/0/0", bytes(stored))
    with pytest.raises(CodecError, match=f"chunk has {stored} bytes, expected {16 * ROW}") as raised:
        await reader.read([array.read(slice(1, 9, 4))], settings=SETTINGS)
    assert (raised.value.store, raised.value.key) == (store.url, "a/c/0/0")
    assert store.log()[-1] == ("a/c/0/0", None)
    assert store.count == 3
    assert quiet(store, reader)


@in_virtual_time
async def test_a_chunk_stored_without_padding_is_read_whole() -> None:
    array, store, reader = await sample((20, 4096), (16, 4096))
    store.memory.set_now("a/c/1/0", array.values[16:].tobytes())
    read = array.read(17)
    await reader.read([read], settings=SETTINGS)
    assert np.array_equal(read.out, array.values[17])
    assert store.log() == [("a/c/1/0", Range(ROW, ROW)), ("a/c/1/0", None)]


@pytest.mark.parametrize("how", ["replaced", "removed"])
@in_virtual_time
async def test_a_chunk_that_changes_between_two_ranges_is_read_whole(how: str) -> None:
    array, store, reader = await rows()

    def change(call: Call) -> None:
        if call.number == 2 and how == "replaced":
            store.memory.set_now("a/c/0/0", (-array.values[:16]).tobytes())
        elif call.number == 2:
            store.memory.erase_now("a/c/0/0")

    store.faults = change
    # The second request is sent when the first has been answered.
    settings = replace(SETTINGS, max_requests=1)
    read = array.read(slice(0, 16, 8))
    await reader.read([read], settings=settings)
    assert np.array_equal(read.out, -array.values[:16:8] if how == "replaced" else np.zeros((2, 4096)))
    assert [asked for _, asked in store.log()] == [Range(0, ROW), Range(8 * ROW, ROW), None]
    assert quiet(store, reader)


@in_virtual_time
async def test_without_versions_a_chunk_is_one_range_or_comes_whole() -> None:
    array, store, reader = await rows()
    store.supports = replace(store.supports, conditional_reads=False)
    for selection, asked in ((slice(3, 4), Range(3 * ROW, ROW)), (slice(0, 16, 8), None)):
        store.reset()
        read = array.read(selection)
        await reader.read([read], settings=SETTINGS)
        assert np.array_equal(read.out, array.values[selection])
        assert store.log() == [("a/c/0/0", asked)]


@in_virtual_time
async def test_a_store_whose_answers_tell_no_versions_is_asked_for_whole_chunks_from_then_on() -> None:
    array, store, reader = await rows()

    class Silent(FakeStore):
        async def fetch(self, key: str, range: Any = None, *, if_match: Any = None) -> Value | None:
            value = await super().fetch(key, range)
            return None if value is None else replace(value, version=None)

    silent = Silent()
    silent.memory = store.memory
    array.store = silent
    for count in (3, 1):
        silent.reset()
        read = array.read(slice(0, 16, 8))
        await reader.read([read], settings=SETTINGS)
        assert np.array_equal(read.out, array.values[:16:8])
        assert silent.count == count


@in_virtual_time
async def test_readers_of_the_same_rows_share_requests_and_a_whole_chunk_on_its_way_serves_all() -> None:
    array, store, reader = await rows()
    reads = [array.read(3), array.read(3, slice(None, None, -1)), array.read(5)]
    await asyncio.gather(*(reader.read([read], settings=SETTINGS) for read in reads))
    for read, expected in zip(reads, (array.values[3], array.values[3, ::-1], array.values[5]), strict=True):
        assert np.array_equal(read.out, expected)
    assert store.log() == [("a/c/0/0", Range(3 * ROW, ROW)), ("a/c/0/0", Range(5 * ROW, ROW))]
    store.reset()
    reads = [array.read(slice(0, 16)), array.read(3)]
    await asyncio.gather(*(reader.read([read], settings=SETTINGS) for read in reads))
    assert np.array_equal(reads[1].out, array.values[3])
    assert store.log() == [("a/c/0/0", None)]


@in_virtual_time
async def test_a_cancelled_reader_leaves_its_shared_ranges_to_the_other_and_cancels_its_own() -> None:
    array, store, reader = await rows(latency=1.0)
    first = asyncio.ensure_future(reader.read([array.read(slice(0, 16, 8))], settings=SETTINGS))
    other = array.read(0)
    second = asyncio.ensure_future(reader.read([other], settings=SETTINGS))
    await asyncio.sleep(0.5)
    assert store.in_flight == 2
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert store.in_flight == 1
    await second
    assert np.array_equal(other.out, array.values[0])
    assert store.count == 2
    assert quiet(store, reader)


@in_virtual_time
async def test_inner_chunks_that_are_not_compressed_are_read_in_part_too() -> None:
    array, store, reader = await sample((64, 4096), (64, 4096), inner=(16, 4096))
    read = array.read(slice(30, 34))
    await reader.read([read], settings=SETTINGS)
    assert np.array_equal(read.out, array.values[30:34])
    # Two rows of each of two inner chunks, which lie beside each other.
    assert [asked for _, asked in store.log()[1:]] == [Range(30 * ROW, 4 * ROW)]
    store.reset()
    read = array.read(slice(None, None, 8))
    plan = await reader.probe(read, settings=SETTINGS)
    store.reset()
    await reader.read([read], settings=SETTINGS)
    assert np.array_equal(read.out, array.values[::8])
    assert (store.count, store.nbytes) == (8, 8 * ROW) == (plan.requests, plan.bytes)
    assert quiet(store, reader)


@in_virtual_time
async def test_a_shard_that_is_replaced_between_runs_of_an_inner_chunk_is_read_anew() -> None:
    array, store, reader = await sample((64, 4096), (64, 4096), inner=(16, 4096))
    newer = Sample(array.layout, FakeStore())
    await engine().write(newer.write(-array.values), settings=SETTINGS)
    shard = newer.store.memory.fetch_now("a/c/0/0").data  # type: ignore[attr-defined]  # a fake

    def change(call: Call) -> None:
        if call.number == 3:
            store.memory.set_now("a/c/0/0", shard)

    store.faults = change
    read = array.read(slice(None, 16, 8))
    await reader.read([read], settings=replace(SETTINGS, max_requests=1))
    assert np.array_equal(read.out, -array.values[:16:8])
    assert store.count == 2 * 3
    assert quiet(store, reader)


@pytest.mark.parametrize("inner", [None, (16, 4096)], ids=["chunks", "shards"])
@in_virtual_time
async def test_blocks_of_a_stream_are_parts_too(inner: tuple[int, int] | None) -> None:
    array, store, reader = await sample((64, 4096), (32, 4096), inner=inner)
    read = array.read(slice(0, 64, 8), slice(None, None, -1))
    stream = reader.stream(read, settings=SETTINGS)
    while (block := await stream.next()) is not None:
        read.out[block[0]] = block[1]
    await stream.aclose()
    assert np.array_equal(read.out, array.values[::8, ::-1])
    assert store.nbytes <= 8 * ROW + 2 * 100
    assert quiet(store, reader)


@pytest.mark.parametrize("kind", ["memory", "local"])
@in_virtual_time
async def test_files_are_read_in_part_where_that_is_less_than_half(kind: str, tmp_path: Any) -> None:
    store = MemoryStore() if kind == "memory" else LocalStore(tmp_path)
    array = Sample(layout_of((32, 4096), (16, 4096), fill_value=7), store)
    reader = engine()
    await reader.write(array.write(array.values), settings=Settings())
    for selection, requests, nbytes in (
        ((slice(2, 4), slice(10, 20)), 2, 2 * 40),
        ((slice(0, 32, 8),), 4, 4 * ROW),
        ((slice(0, 12),), 1, 16 * ROW),
    ):
        read, report = array.read(*selection), Report()
        plan = await reader.probe(read, settings=Settings(merge_gap_bytes=0))
        await reader.read([read], settings=Settings(merge_gap_bytes=0), report=report)
        assert np.array_equal(read.out, array.values[selection])
        assert (report.requests, report.bytes_fetched) == (plan.requests, plan.bytes) == (requests, nbytes)
    store.erase_now("a/c/1/0")
    read = array.read(slice(15, None, 8))
    await reader.read([read], settings=Settings(merge_gap_bytes=0))
    assert np.array_equal(read.out[0], array.values[15])
    assert (read.out[1:] == 7).all()
    store.set_now("a/c/1/0", b"short")
    with pytest.raises(CodecError, match="chunk has 5 bytes") as raised:
        await reader.read([array.read(17)], settings=Settings(merge_gap_bytes=0))
    assert raised.value.key == "a/c/1/0"


# --- whatever is selected --------------------------------------------------------------------------------------------

SHAPE = (20, 70, 41)
CHUNKS = (8, 32, 41)
SHARDS = (16, 64, 41)
LAYOUTS: dict[str, dict[str, Any]] = {
    "raw": {"codecs": RAW},
    "big-endian in Fortran's order": {"codecs": [{**BIG[0], "configuration": {"order": [2, 1, 0]}}, BIG[1]]},
    "raw shards": {"inner": CHUNKS, "codecs": RAW},
    "small shards": {"inner": (4, 8, 41), "codecs": BIG[1:]},
    "zstd shards": {
        "inner": CHUNKS,
        "codecs": [*RAW, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}],
    },
}


@st.composite
def transforms(draw: st.DrawFn) -> IndexTransform:
    identity = IndexTransform.identity(SHAPE)
    kind = draw(st.sampled_from(["basic", "oindex", "vindex"]))
    if kind == "vindex":
        size = draw(st.integers(1, 5))
        lists = [draw(st.lists(st.integers(0, n - 1), min_size=size, max_size=size)) for n in SHAPE]
        return select_pointwise(identity, tuple(np.array(each) for each in lists))
    picks: list[Any] = []
    for n in SHAPE:
        options: list[Any] = [st.integers(0, n - 1), st.slices(n), st.just(slice(None)), st.just(slice(None, None, -1))]
        if kind == "oindex":
            options.append(st.lists(st.integers(0, n - 1), min_size=1, max_size=3).map(np.array))
        picks.append(draw(st.one_of(*options)))
    return identity.select(tuple(picks)) if kind == "basic" else select_orthogonal(identity, tuple(picks))


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(sorted(LAYOUTS)), transforms(), st.sampled_from([0, 700, 200_000]), st.booleans(), st.booleans())
@in_virtual_time
async def test_whatever_is_selected_is_right_and_costs_what_the_plans_say(
    name: str, transform: IndexTransform, gap: int, kept: bool, network: bool
) -> None:
    layout = LAYOUTS[name]
    chunks = SHARDS if "inner" in layout else CHUNKS
    chosen = replace(SETTINGS, merge_gap_bytes=gap, max_over_read=2.0, index_cache_bytes=1 << 20 if kept else 0)

    store: Any = FakeStore(latency=0) if network else MemoryStore()
    array = Sample(layout_of(SHAPE, chunks, dtype="float64", **layout), store)
    reader = engine()
    await reader.write(array.write(array.values), settings=SETTINGS)
    (store.memory if network else store).erase_now("a/c/1/0/0")
    expected = array.values.copy()
    expected[chunks[0] : 2 * chunks[0], : chunks[1]] = 0
    whole = np.full(transform.core_shape, -1.0)
    read = Read(array.layout, store, "a/", transform.maps, whole)
    bounds = plan_bounds(array.layout, read.maps, merge_bounds=MergeLimitBounds.of(store, chosen))
    plan = await reader.probe(read, settings=chosen)
    report = Report()
    if network:
        store.reset()
    await reader.read([read], settings=chosen, report=report)
    # The same selection of an array in memory, in one chunk.
    memory = Sample(layout_of(SHAPE, SHAPE, dtype="float64"), MemoryStore())
    await reader.write(memory.write(expected), settings=SETTINGS)
    reference = np.full(transform.core_shape, -2.0)
    there = Read(memory.layout, memory.store, "a/", transform.maps, reference)
    await reader.read([there], settings=replace(chosen, chunk_cache_bytes=1 << 24))
    assert np.array_equal(whole, reference)
    assert (plan.requests, plan.bytes, plan.bytes_wanted) == (
        report.requests,
        report.bytes_fetched,
        report.bytes_wanted,
    )
    assert bounds.min_requests <= report.requests <= bounds.requests
    assert report.bytes_fetched <= bounds.bytes
    if network:
        assert (store.count, store.nbytes) == (report.requests, report.bytes_fetched)
        assert quiet(store, reader)
