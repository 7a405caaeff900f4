"""Runs of chunks that a worker reads from a blocking store in one hop; in virtual time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from typing_extensions import Buffer

import aiozarr
from aiozarr.engine import Engine, blocking_read
from aiozarr.engine.decoder import BatchOutput, ChunkDecoder
from aiozarr.errors import ChecksumError, CodecError, MissingChunkError, PermissionDeniedError, ThrottledError
from aiozarr.model import ByteRange, Value, Version
from aiozarr.schedule.events import Event, Report
from aiozarr.stores import MemoryStore
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import RAW, SETTINGS, Sample, engine, layout_of

ZSTD = [*RAW, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}]


class Counting(MemoryStore):
    """A memory store that notes how values are read."""

    def __init__(self) -> None:
        super().__init__()
        self.alone: list[str] = []
        self.into: list[str] = []
        self.trouble: dict[str, Exception] = {}

    def _read_now(self, key: str) -> Buffer | None:
        self.alone.append(key)
        return super()._read_now(key)

    def _read_values_now(self, keys: Iterable[str], memory: memoryview, sizes: list[int | None]) -> None:
        at = 0
        for key in keys:
            self.into.append(key)
            if key in self.trouble:
                raise self.trouble.pop(key)
            value = super()._read_now(key)
            view = memoryview(value or b"")
            if len(view) > len(memory) - at:
                return
            memory[at : at + len(view)] = view
            at += len(view)
            sizes.append(None if value is None else len(view))


class Faulty(MemoryStore):
    """A memory store that refuses one key."""

    refused = "a/c/5/0"

    def fetch_now(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        if key == self.refused:
            raise PermissionDeniedError("no", key=key)
        return super().fetch_now(key, range, if_match=if_match)


async def stored(store: MemoryStore, **layout: object) -> tuple[Sample, Engine]:
    array = Sample(layout_of((8, 2), (1, 2), **layout), store)  # type: ignore[arg-type]  # the caller's own keywords
    worker = engine()
    await worker.write(array.write(array.values), settings=SETTINGS)
    return array, worker


@in_virtual_time
async def test_every_chunk_counts_as_one_request_and_is_told_to_the_observer() -> None:
    array, worker = await stored(MemoryStore())
    events: list[Event] = []
    report = Report()
    read = array.read(...)
    await worker.read([read], settings=replace(SETTINGS, on_event=events.append), report=report)
    assert np.array_equal(read.out, array.values)
    assert (report.requests, report.bytes_fetched, report.chunks, report.retries) == (8, 64, 8, 0)
    assert [event.key for event in events] == [f"a/c/{row}/0" for row in range(8)]


@in_virtual_time
async def test_a_refused_chunk_ends_the_read_and_the_observer_learns_of_it() -> None:
    array, worker = await stored(Faulty())
    events: list[Event] = []
    with pytest.raises(PermissionDeniedError):
        await worker.read([array.read(...)], settings=replace(SETTINGS, on_event=events.append))
    (failed,) = [event for event in events if event.error is not None]
    assert failed.key == Faulty.refused


@in_virtual_time
async def test_missing_chunks_fill_or_raise_and_damaged_ones_are_read_twice() -> None:
    store = MemoryStore()
    array, worker = await stored(store, fill_value=9, codecs=[*RAW, {"name": "crc32c"}])
    store.erase_now("a/c/3/0")
    read = array.read(...)
    await worker.read([read], settings=SETTINGS)
    assert read.out[3].tolist() == [9, 9]
    with pytest.raises(MissingChunkError) as missing:
        await worker.read([array.read(...)], settings=replace(SETTINGS, missing_chunks="raise"))
    assert missing.value.key == "a/c/3/0"
    store.set_now("a/c/6/0", b"x" * 12)
    report = Report()
    with pytest.raises(ChecksumError) as damaged:
        await worker.read([array.read(6)], settings=SETTINGS, report=report)
    assert (damaged.value.store, damaged.value.key, report.requests) == (store.url, "a/c/6/0", 2)
    store.set_now("a/c/6/0", b"short")
    with pytest.raises(CodecError, match="a/c/6/0"):
        await worker.read([array.read(6)], settings=SETTINGS)


async def packed(shape: tuple[int, int] = (8, 8), chunks: tuple[int, int] = (4, 2)) -> tuple[Sample, Engine, Counting]:
    """An array whose chunks are decoded together; its values are written, and none of that is counted."""
    store = Counting()
    array = Sample(layout_of(shape, chunks, codecs=ZSTD, fill_value=9), store)
    worker = engine()
    await worker.write(array.write(array.values), settings=SETTINGS)
    return array, worker, store


KEYS = [f"a/c/{row}/{column}" for row in range(2) for column in range(4)]


@in_virtual_time
async def test_small_chunks_are_read_and_decoded_together() -> None:
    array, worker, store = await packed()
    read = array.read(...)
    await worker.read([read], settings=SETTINGS)
    assert np.array_equal(read.out, array.values)
    assert (store.into, store.alone) == (KEYS, [])


@pytest.mark.parametrize("missing", [{0}, {3}, {7}, {1}, {0, 1, 2}, {2, 4, 6}, set(range(8))])
@in_virtual_time
async def test_missing_ones_among_them_read_as_the_fill_value_and_no_key_is_asked_for_twice(missing: set[int]) -> None:
    array, worker, store = await packed()
    expected = array.values.copy()
    for number in missing:
        row, column = divmod(number, 4)
        expected[row * 4 :, column * 2 :][:4, :2] = 9
        store.erase_now(KEYS[number])
    read = array.read(...)
    await worker.read([read], settings=SETTINGS)
    assert np.array_equal(read.out, expected)
    assert sorted(store.into + store.alone) == KEYS
    with pytest.raises(MissingChunkError) as refused:
        await worker.read([array.read(...)], settings=replace(SETTINGS, missing_chunks="raise"))
    assert refused.value.key == KEYS[min(missing)]


@in_virtual_time
async def test_the_places_of_a_batch_are_found_twice_however_many_of_it_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    array, worker, store = await packed((256, 8), (4, 8))
    for row in range(1, 64, 2):
        store.erase_now(f"a/c/{row}/0")
    planned: list[int] = []
    plan_batch = ChunkDecoder.plan_batch

    def counted(*arguments: Any) -> BatchOutput | None:
        planned.append(len(arguments[2]))
        return plan_batch(*arguments)

    monkeypatch.setattr(ChunkDecoder, "plan_batch", counted)
    read = array.read(...)
    await worker.read([read], settings=SETTINGS)
    assert np.array_equal(read.out[:4], array.values[:4])
    assert (read.out[4:8] == 9).all()
    assert planned == [64, 32]


@in_virtual_time
async def test_a_batch_with_a_damaged_chunk_is_decoded_one_by_one_and_the_chunk_named() -> None:
    array, worker, store = await packed()
    store.set_now(KEYS[5], b"damaged")
    with pytest.raises(CodecError) as damaged:
        await worker.read([array.read(...)], settings=SETTINGS)
    assert (damaged.value.store, damaged.value.key) == (store.url, KEYS[5])
    assert (store.into, store.alone) == (KEYS, [])


@in_virtual_time
async def test_a_refusal_among_them_is_repeated() -> None:
    array, worker, store = await packed()
    store.trouble[KEYS[3]] = ThrottledError("busy", key=KEYS[3])
    read = array.read(...)
    await worker.read([read], settings=replace(SETTINGS, retries=1))
    assert np.array_equal(read.out, array.values)
    assert store.into == [*KEYS[:4], *KEYS]


@in_virtual_time
async def test_values_that_there_is_no_room_for_are_read_direct_in_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    array, worker, store = await packed()
    sizes = [entry.size async for entry in store.scan("a/c/")]
    room = 2 * max(size for size in sizes if size is not None)
    monkeypatch.setattr(blocking_read, "encoded_buffer", lambda: memoryview(bytearray(room)))
    read = array.read(...)
    await worker.read([read], settings=SETTINGS)
    assert np.array_equal(read.out, array.values)
    assert set(store.into) == set(KEYS)


class Gated(MemoryStore):
    """A memory store whose reads of chunks wait for a gate, and are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.reads: list[str] = []

    def _read_now(self, key: str, *, max_bytes: int | None = None) -> Buffer | None:
        self.reads.append(key)
        assert self.gate.wait(30)
        return super()._read_now(key, max_bytes=max_bytes)


async def begun(store: Gated) -> None:
    """Wait until the first read has come to the store, and all others to the engine behind it."""
    while not store.reads:
        await asyncio.sleep(0.001)
    await store.exists("zarr.json")
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("codecs", [["bytes"], ["bytes", "zstd"]])
async def test_concurrent_reads_of_one_chunk_are_one_read_of_the_store(codecs: list[str]) -> None:
    store = Gated()
    array = await aiozarr.create_array(store, data=np.arange(1, 11), chunks=(5,), codecs=codecs)
    reads = [asyncio.ensure_future(array[: 3 + number % 3].read()) for number in range(20)]
    first = [asyncio.ensure_future(array[5:].read()) for _ in range(2)]
    await begun(store)
    store.gate.set()
    found = await asyncio.gather(*reads)
    assert [each.tolist() for each in found[:3]] == [[1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]]
    assert all(a is b or not np.shares_memory(a, b) for a in found for b in found)
    assert (await first[0]).tolist() == [6, 7, 8, 9, 10]
    assert store.reads.count("c/1") == 1


async def test_a_cancelled_read_leaves_its_chunk_to_those_that_have_joined_it() -> None:
    store = Gated()
    array = await aiozarr.create_array(store, data=np.arange(1, 6), chunks=(5,), codecs=["bytes", "zstd"])
    leader = asyncio.ensure_future(array[...].read())
    await begun(store)
    others = [asyncio.ensure_future(array[...].read()) for _ in range(5)]
    await asyncio.sleep(0.01)
    leader.cancel()
    await asyncio.sleep(0.01)
    store.gate.set()
    assert [each.tolist() for each in await asyncio.gather(*others)] == [[1, 2, 3, 4, 5]] * 5
    with pytest.raises(asyncio.CancelledError):
        await leader
    assert len(store.reads) <= 2


async def test_a_cancelled_read_of_many_small_chunks_reads_no_further_ones() -> None:
    store = Gated()
    array = await aiozarr.create_array(store, data=np.arange(500), chunks=(1,), codecs=["bytes", "zstd"])
    read = asyncio.ensure_future(array[...].read())
    await begun(store)
    read.cancel()
    await asyncio.sleep(0.05)
    store.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await read
    assert len([key for key in store.reads if key.startswith("c/")]) < 50


async def test_a_read_that_is_cancelled_before_it_begins_leaves_its_chunk_to_others() -> None:
    store = Gated()
    settings = replace(SETTINGS, decode_threads=1)
    names = [f"a{number}" for number in range(12)]
    arrays = [
        await aiozarr.create_array(store, name, data=np.arange(1, 6), chunks=(5,), codecs=["bytes"], settings=settings)
        for name in names
    ]
    # More than the workers begin, so the last ones wait.
    reads = [asyncio.ensure_future(array[...].read()) for array in arrays]
    await begun(store)
    joined = [asyncio.ensure_future(array[1:3].read()) for array in arrays]
    await asyncio.sleep(0.01)
    for each in reads:
        each.cancel()
    await asyncio.sleep(0.01)
    store.gate.set()
    assert [each.tolist() for each in await asyncio.gather(*joined)] == [[2, 3]] * 12
    await asyncio.gather(*reads, return_exceptions=True)


async def test_each_of_those_that_share_a_read_decides_what_a_missing_chunk_is() -> None:
    store = Gated()
    await aiozarr.create_array(store, shape=(5,), dtype="int32", chunks=(5,), fill_value=7)
    strict = await aiozarr.open_array(store, settings=replace(SETTINGS, missing_chunks="raise"))
    lenient = await aiozarr.open_array(store, settings=SETTINGS)
    reads = [asyncio.ensure_future((strict if number % 2 else lenient)[...].read()) for number in range(6)]
    await begun(store)
    store.gate.set()
    found = await asyncio.gather(*reads, return_exceptions=True)
    assert [isinstance(each, MissingChunkError) for each in found] == [False, True] * 3
    assert found[0].tolist() == [7] * 5


async def test_a_read_that_begins_after_a_write_does_not_join_an_older_one() -> None:
    store = Gated()
    array = await aiozarr.create_array(store, data=np.arange(1, 6), chunks=(5,), codecs=["bytes"])
    old = asyncio.ensure_future(array[...].read())
    await begun(store)
    await array[...].write(9)
    new = asyncio.ensure_future(array[...].read())
    await aiozarr.open_array(store)
    store.gate.set()
    assert (await new).tolist() == [9] * 5
    await old
