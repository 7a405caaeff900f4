"""Chunks that a caller lists are read and written with no regard to shape, grid and keys of the array."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from aiozarr.engine import Engine, ListedChunk, ListedChunks, Read, Write
from aiozarr.errors import LimitError, SelectionError
from aiozarr.settings import Settings
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import SETTINGS, Sample, engine, layout_of, sample


def boxes(shape: tuple[int, int], size: int, *, prefix: str = "a/c/") -> list[ListedChunk]:
    """All chunks of an array, each as the caller of an array of that shape lists it."""
    listed = []
    for row in range(-(-shape[0] // size)):
        for column in range(-(-shape[1] // size)):
            ends = min(shape[0], (row + 1) * size), min(shape[1], (column + 1) * size)
            outside = slice(row * size, ends[0]), slice(column * size, ends[1])
            inside = slice(0, ends[0] - row * size, 1), slice(0, ends[1] - column * size, 1)
            listed.append(ListedChunk(f"{prefix}{row}/{column}", (size, size), inside, outside, True))
    return listed


async def read(
    reader: Engine, store: Any, chunks: ListedChunks, shape: tuple[int, ...]
) -> tuple[NDArray[Any], set[str]]:
    out = np.full(shape, -1, np.int32)
    wanted = Read.of_listed(store, chunks, out)
    await reader.read([wanted], settings=SETTINGS)
    return out, wanted.missing or set()


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_listed_chunks_are_read_and_missing_ones_are_told(inner: tuple[int, int] | None) -> None:
    array, store, reader = await sample((8, 8), (4, 4), inner=inner)
    await store.erase("a/c/1/0")
    out, missing = await read(reader, store, ListedChunks(array.layout, boxes((8, 8), 4)), (8, 8))
    expected = array.values.copy()
    expected[4:, :4] = 0
    assert np.array_equal(out, expected)
    assert missing == {"a/c/1/0"}


@in_virtual_time
async def test_an_array_that_has_grown_since_is_read_where_it_has_grown() -> None:
    array, store, reader = await sample((8, 8), (4, 4))
    await store.set("a/c/2/0", np.full((4, 4), 5, np.int32))
    listed = [ListedChunk("a/c/2/0", (4, 4), (slice(0, 4), slice(0, 4)), (slice(0, 4), slice(0, 4)), True)]
    out, missing = await read(reader, store, ListedChunks(array.layout, listed), (4, 4))
    assert (out == 5).all()
    assert missing == set()


@pytest.mark.parametrize("store", [MemoryStore(), FakeStore()])
async def test_chunks_of_other_shapes_have_the_same_codecs(store: Any) -> None:
    layout = layout_of((8, 8), (4, 4))
    listed = [
        ListedChunk("x", (2, 3), (slice(0, 2), slice(0, 3)), (slice(0, 2), slice(0, 3)), True),
        ListedChunk("y", (4, 1), (slice(0, 2), slice(0, 1)), (slice(0, 2), slice(3, 4)), False),
    ]
    writer, values = engine(), np.arange(8, dtype=np.int32).reshape(2, 4)
    chunks = ListedChunks(layout, listed)
    await writer.write(Write.of_listed(store, chunks, values, stores_empty=True), settings=SETTINGS)
    assert [memoryview(await store.get(key)).nbytes for key in ("x", "y")] == [24, 16]
    out, missing = await read(writer, store, ListedChunks(layout, listed), (2, 4))
    assert np.array_equal(out, values)
    assert not missing


@in_virtual_time
async def test_chunks_that_are_overwritten_are_not_read() -> None:
    array, store, writer = await sample((7, 8), (4, 4))
    chunks = ListedChunks(array.layout, boxes((7, 8), 4))
    await writer.write(Write.of_listed(store, chunks, -array.values, stores_empty=False), settings=SETTINGS)
    # The chunks across the edge of the first dimension may hold values of a larger shape.
    calls = sorted((call.key, call.operation) for call in store.calls)
    edge = [(f"a/c/1/{n}", operation) for n in (0, 1) for operation in ("fetch", "set")]
    assert calls == [("a/c/0/0", "set"), ("a/c/0/1", "set"), *edge]
    out, _ = await read(writer, store, chunks, (7, 8))
    assert np.array_equal(out, -array.values)


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_a_part_of_a_chunk_is_changed_on_condition_that_nobody_else_did(inner: tuple[int, int] | None) -> None:
    array, store, writer = await sample((8, 8), (4, 4), inner=inner)
    listed = [ListedChunk("a/c/0/1", (4, 4), (slice(1, 3), 2), (slice(0, 2),), False)]
    write = Write.of_listed(store, ListedChunks(array.layout, listed), np.array([-1, -2]), stores_empty=False)
    await writer.write(write, settings=SETTINGS)
    assert [call.operation for call in store.calls] == ["fetch", "set"]
    expected = array.values.copy()
    expected[1:3, 6] = -1, -2
    out, _ = await read(writer, store, ListedChunks(array.layout, boxes((8, 8), 4)), (8, 8))
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("kind", [MemoryStore, FakeStore])
@pytest.mark.parametrize("stores_empty", [True, False])
async def test_chunks_of_fill_values_are_stored_or_erased_as_asked(
    inner: tuple[int, int] | None, kind: Any, stores_empty: bool
) -> None:
    store, writer = kind(), engine()
    array = Sample(layout_of((4, 4), (4, 4), inner=inner), store)
    half = [ListedChunk("a", (4, 4), (slice(0, 2), slice(0, 4)), (slice(0, 2), slice(0, 4)), False)]
    rest = [ListedChunk("a", (4, 4), (slice(2, 4), slice(0, 4)), (slice(0, 2), slice(0, 4)), False)]
    whole = boxes((4, 4), 4, prefix="b")
    for listed, value in ((half, 1), (rest, 0), (half, 0), (whole, 0)):
        values = np.full((), value, np.int32)
        chunks = ListedChunks(array.layout, listed)
        await writer.write(Write.of_listed(store, chunks, values, stores_empty=stores_empty), settings=SETTINGS)
        if value:
            assert await store.exists("a")
    assert await store.exists("a") == stores_empty
    assert await store.exists("b0/0") == stores_empty


@in_virtual_time
async def test_one_value_is_written_to_all_positions() -> None:
    array, store, writer = await sample((8, 8), (4, 4))
    chunks = ListedChunks(array.layout, boxes((8, 8), 4))
    await writer.write(Write.of_listed(store, chunks, np.array(7), stores_empty=False), settings=SETTINGS)
    out, _ = await read(writer, store, chunks, (8, 8))
    assert (out == 7).all()


@pytest.mark.parametrize("kind", [MemoryStore, FakeStore])
async def test_concurrent_reads_of_different_chunks_share_nothing(kind: Any) -> None:
    array = Sample(layout_of((8, 8), (4, 4)), kind())
    reader = engine()
    await reader.write(array.write(array.values), settings=SETTINGS)
    lists = [ListedChunks(array.layout, [chunk]) for chunk in boxes((8, 8), 4)]
    outs = [np.zeros((8, 8), np.int32) for _ in lists]
    reads = [Read.of_listed(array.store, chunks, out) for chunks, out in zip(lists, outs, strict=True)]
    await asyncio.gather(*(reader.read([each], settings=SETTINGS) for each in [*reads, *reads]))
    assert np.array_equal(sum(outs), array.values)


async def test_an_array_without_dimensions_has_one_chunk() -> None:
    store, writer = MemoryStore(), engine()
    chunks = ListedChunks(layout_of((), ()), [ListedChunk("a/c", (), (), (), True)])
    assert await read(writer, store, chunks, ()) == (0, {"a/c"})
    await writer.write(Write.of_listed(store, chunks, np.array(7), stores_empty=False), settings=SETTINGS)
    assert await read(writer, store, chunks, ()) == (7, set())


async def test_a_chunk_larger_than_settings_allow_is_refused() -> None:
    listed = [ListedChunk("x", (64, 64), (slice(0, 1), 0), (slice(0, 1),), False)]
    wanted = Read.of_listed(MemoryStore(), ListedChunks(layout_of((8, 8), (4, 4)), listed), np.zeros(1, np.int32))
    with pytest.raises(LimitError, match="a chunk decodes to 16384 bytes"):
        await engine().read([wanted], settings=Settings(max_chunk_bytes=1000))


def test_other_indices_are_an_error_that_names_the_chunk() -> None:
    listed = [ListedChunk("x", (4, 4), (slice(0, 1), ...), (slice(0, 1),), False)]
    with pytest.raises(SelectionError, match="the chunk 'x'"):
        ListedChunks(layout_of((8, 8), (4, 4)), listed)


async def test_nothing_is_warned_of_where_the_store_cannot_guard_partial_writes(recwarn: Any) -> None:
    array, store, writer = await sample((8, 8), (4, 4), latency=0)
    listed = [ListedChunk("a/c/0/1", (4, 4), (slice(1, 3), 2), (slice(0, 2),), False)]
    write = Write.of_listed(store, ListedChunks(array.layout, listed), np.array([-1, -2]), stores_empty=False)
    store.supports = replace(store.supports, conditional_writes=False)
    await writer.write(write, settings=SETTINGS)
    assert not recwarn.list


@pytest.mark.parametrize("kind", [MemoryStore, FakeStore])
@pytest.mark.parametrize("inner", [None, (2, 2)])
async def test_readers_that_share_a_chunk_are_each_told_that_it_is_missing(
    kind: Any, inner: tuple[int, int] | None
) -> None:
    layout, store, reader = layout_of((4, 4), (4, 4), inner=inner), kind(), engine()
    lists = [ListedChunks(layout, boxes((4, 4), 4)) for _ in range(3)]
    reads = [Read.of_listed(store, chunks, np.ones((4, 4), np.int32)) for chunks in lists]
    await asyncio.gather(*(reader.read([each], settings=SETTINGS) for each in reads))
    assert [each.missing for each in reads] == [{"a/c/0/0"}] * 3
    assert not any(each.out.any() for each in reads)
