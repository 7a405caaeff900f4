"""Many readers of the same chunks at once: each is fetched and decoded once, and what one does hurts no other."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.codecs import CodecPipeline
from aiozarr.engine import Engine, in_flight
from aiozarr.engine.in_flight import ChunkDelivery, DecodeChunks
from aiozarr.errors import MissingChunkError, PermissionDeniedError, ThrottledError
from aiozarr.model import Range
from aiozarr.schedule.events import Event, Report
from aiozarr.settings import Settings
from aiozarr.stores import LocalStore, MemoryStore, WrapperStore
from aiozarr.stores.contract import Store
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import (
    RAW,
    SETTINGS,
    Sample,
    engine,
    layout_of,
    pass_turns,
    read_window,
    sample,
)
from tests.support.worker_pools import HeldPool

CACHED = replace(SETTINGS, chunk_cache_bytes=1 << 24)
CHECKED = [*RAW, {"name": "crc32c"}]


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> list[CodecPipeline]:
    """Every decoding of a chunk."""
    seen: list[CodecPipeline] = []
    decoded = ChunkDelivery.decoded

    def counted(self: ChunkDelivery, work: DecodeChunks) -> None:
        seen.extend([work.chunk_set.pipeline] * len(work.numbers))
        decoded(self, work)

    monkeypatch.setattr(ChunkDelivery, "decoded", counted)
    return seen


def windows(side: int, count: int) -> list[tuple[slice, slice]]:
    """`count` windows of an array of `side` x `side`, most of which overlap others."""
    found = []
    for number in range(count):
        top, left = number * 7 % (side - 8), number * 13 % (side - 8)
        found.append((slice(top, top + 8), slice(left, left + 8)))
    return found


@pytest.mark.parametrize(
    ("make", "settings"),
    [(FakeStore, SETTINGS), (FakeStore, CACHED), (MemoryStore, CACHED)],
    ids=["network", "network-cached", "memory-cached"],
)
@pytest.mark.parametrize("inner", [None, (4, 4)], ids=["plain", "sharded"])
@in_virtual_time
async def test_a_thousand_overlapping_windows_fetch_and_decode_each_chunk_once(
    make: type[Store], settings: Settings, inner: tuple[int, int] | None, decodes: list[CodecPipeline]
) -> None:
    array = Sample(layout_of((64, 64), (16, 16), inner=inner, codecs=CHECKED), make())
    reader = engine()
    await reader.write(array.write(array.values), settings=SETTINGS)
    decodes.clear()
    reports = [Report() for _ in range(1000)]
    if isinstance(array.store, FakeStore):
        array.store.reset()
    await asyncio.gather(
        *(
            read_window(reader, array, *each, settings=settings, report=report)
            for each, report in zip(windows(64, 1000), reports, strict=True)
        )
    )
    size = 16 if inner is None else 4
    touched = np.zeros((64, 64), bool)
    for each in windows(64, 1000):
        touched[each] = True
    chunks = int(touched.reshape(64 // size, size, 64 // size, size).any((1, 3)).sum())
    assert len(decodes) == chunks
    requests = sum(report.requests for report in reports)
    # A shard is one request for its index, and few for its inner chunks, which lie side by side.
    assert requests == 16 if inner is None else 16 * 2 <= requests <= 16 * 3
    if isinstance(array.store, FakeStore):
        assert array.store.count == requests
        if inner is None:
            assert sorted(array.store.log()) == sorted((f"a/c/{i}/{j}", None) for i in range(4) for j in range(4))
    # Each chunk has at most one reader whose own request has brought it.
    others = sum(report.shared + report.cached for report in reports)
    assert 0 <= sum(report.chunks for report in reports) - others <= chunks
    assert reader.idle()


@pytest.mark.parametrize("settings", [SETTINGS, CACHED], ids=["kept-nowhere", "cached"])
@pytest.mark.parametrize("inner", [None, (2, 2)], ids=["plain", "sharded"])
@in_virtual_time
async def test_chunks_that_are_more_than_the_requests_at_a_time_are_fetched_once_too(
    settings: Settings, inner: tuple[int, int] | None, decodes: list[CodecPipeline]
) -> None:
    array, store, reader = await sample((64, 64), (4, 4), inner=inner, codecs=CHECKED, latency=1.0)
    decodes.clear()
    store.reset()
    few = replace(settings, max_requests=8, max_request_bytes=256)
    await asyncio.gather(*(read_window(reader, array, *each, settings=few) for each in windows(64, 400)))
    touched = np.zeros((64, 64), bool)
    for each in windows(64, 400):
        touched[each] = True
    objects, chunks = (
        int(touched.reshape(64 // n, n, 64 // n, n).any((1, 3)).sum()) for n in (4, 4 if inner is None else 2)
    )
    assert len(decodes) == chunks
    assert store.count == len(set(store.log()))
    if inner is None:
        assert store.count == objects > 200


@in_virtual_time
async def test_a_cancelled_reader_counts_only_received_chunks_as_shared() -> None:
    array, _, reader = await sample((8, 1), (1, 1), latency=1.0)
    report = Report()
    few = replace(SETTINGS, max_requests=4)
    other = asyncio.ensure_future(read_window(reader, array, slice(0, 8), settings=few))
    given_up = asyncio.ensure_future(read_window(reader, array, slice(0, 8), settings=few, report=report))
    await asyncio.sleep(1.5)
    given_up.cancel()
    await asyncio.wait([given_up])
    await other
    assert (report.chunks, report.shared, report.requests) == (4, 4, 0)


@in_virtual_time
async def test_a_reader_of_the_last_chunks_of_another_read_does_not_wait_for_all_of_it() -> None:
    array, store, reader = await sample((640, 1), (1, 1), latency=1.0)
    few = replace(SETTINGS, max_requests=16)
    loop = asyncio.get_running_loop()
    long = [
        asyncio.ensure_future(read_window(reader, array, slice(64 * n, 64 * n + 64), settings=few)) for n in range(2)
    ]
    await pass_turns(5)
    begun = loop.time()
    await read_window(reader, array, 127, settings=few)
    # Both are served in turn: what is last for one of them is in the eighth round at the latest.
    assert loop.time() - begun <= 8
    await asyncio.gather(*long)
    assert store.count == 128


@pytest.mark.parametrize("make", [FakeStore, MemoryStore])
@in_virtual_time
async def test_64_callers_of_64_neighbours_in_a_shard_are_one_request_for_its_index_and_one_for_them(
    make: type[Store],
) -> None:
    array = Sample(layout_of((256, 4), (256, 4), inner=(1, 4)), make())
    reader = engine()
    await reader.write(array.write(array.values), settings=SETTINGS)
    for expected in (2, 1):  # the second time the index is at hand
        report = Report()
        await asyncio.gather(*(read_window(reader, array, row, report=report) for row in range(64)))
        assert report.requests == expected
        assert report.shared == 63
    if isinstance(array.store, FakeStore):
        assert array.store.log()[-1] == ("a/c/0/0", Range(0, 64 * 16))


@in_virtual_time
async def test_the_reads_of_one_call_share_requests_likewise() -> None:
    array, store, reader = await sample((256, 4), (256, 4), inner=(1, 4))
    reads = [array.read(row) for row in range(64)]
    await reader.read(reads, settings=SETTINGS)
    assert all(np.array_equal(read.out, array.values[row]) for row, read in enumerate(reads))
    assert store.count == 2


@in_virtual_time
async def test_the_limits_of_merging_are_those_of_each_reader() -> None:
    array, store, reader = await sample((256, 4), (256, 4), inner=(1, 4))
    await read_window(reader, array, 255)
    store.reset()
    small = replace(SETTINGS, max_request_bytes=32)
    await asyncio.gather(
        *(read_window(reader, array, row) for row in range(8)),
        *(read_window(reader, array, row, settings=small) for row in range(100, 108)),
    )
    assert sorted(part.length for _, part in store.log() if isinstance(part, Range)) == [32, 32, 32, 32, 128]


@pytest.mark.parametrize("settings", [SETTINGS, CACHED], ids=["kept-nowhere", "cached"])
@in_virtual_time
async def test_a_reader_that_joins_while_a_chunk_waits_for_a_worker_causes_no_request_and_no_decoding(
    settings: Settings, decodes: list[CodecPipeline]
) -> None:
    array, store, _ = await sample((4, 4), (4, 4), codecs=CHECKED)
    pool = HeldPool()
    reader = Engine(asyncio.get_running_loop(), pool)
    decodes.clear()
    first = asyncio.ensure_future(read_window(reader, array, 0, settings=settings))
    while not pool.held:
        await asyncio.sleep(0.001)
    others = [asyncio.ensure_future(read_window(reader, array, row, settings=settings)) for row in (1, 2)]
    await asyncio.sleep(0.001)
    gone = asyncio.ensure_future(read_window(reader, array, 3, settings=settings))
    await asyncio.sleep(0.001)
    gone.cancel()
    await asyncio.sleep(0.001)
    pool.go_on()
    await asyncio.gather(first, *others)
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert (store.count, len(decodes)) == (1, 1)
    assert reader.idle()


@pytest.mark.parametrize("settings", [SETTINGS, CACHED], ids=["kept-nowhere", "cached"])
@pytest.mark.parametrize("selection", [(...,), (0,)], ids=["whole", "row"])
async def test_a_reader_that_joins_while_a_worker_decodes_causes_no_request(
    settings: Settings, selection: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    array, store, _ = await sample((4, 4), (4, 4), codecs=CHECKED, latency=0)
    reader = Engine(asyncio.get_running_loop())
    begun, go_on = threading.Event(), threading.Event()
    for name in ("decode_chunk", "decode_to_new"):
        decode = getattr(in_flight, name)

        def slow(*args: Any, decode: Any = decode) -> Any:
            begun.set()
            assert go_on.wait(30)
            return decode(*args)

        monkeypatch.setattr(in_flight, name, slow)
    first = asyncio.ensure_future(read_window(reader, array, *selection, settings=settings))
    await asyncio.to_thread(begun.wait, 30)
    second = asyncio.ensure_future(read_window(reader, array, 1, settings=settings))
    third = asyncio.ensure_future(read_window(reader, array, ..., settings=settings))
    (chunk,) = reader.state.in_flight.values()
    while len(chunk.joined.get(0, ())) < 2:
        await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(first, second, third)
    assert store.count == 1
    assert reader.idle()
    await reader.close()


@pytest.mark.parametrize("make", [FakeStore, MemoryStore])
@in_virtual_time
async def test_each_reader_of_one_request_decides_whether_a_chunk_may_be_missing(make: type[Store]) -> None:
    array = Sample(layout_of((4,), (4,), fill_value=5), make())
    reader = engine()
    events: list[Event] = []
    settings = [CACHED, replace(CACHED, missing_chunks="raise"), replace(CACHED, on_event=events.append), CACHED]
    reads = [array.read(...) for _ in settings]
    results = await asyncio.gather(
        *(reader.read([read], settings=each) for read, each in zip(reads, settings, strict=True)),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [type(None), MissingChunkError, type(None), type(None)]
    assert [read.out.tolist() for read in reads] == [[5] * 4, [-1] * 4, [5] * 4, [5] * 4]
    if isinstance(array.store, FakeStore):
        assert array.store.count == 1
    assert events == []  # who joins a request is not told of it


@pytest.mark.parametrize("inner", [None, (2, 4)], ids=["plain", "sharded"])
@in_virtual_time
async def test_readers_with_other_retries_have_requests_of_their_own(inner: tuple[int, int] | None) -> None:
    array, store, reader = await sample((8, 4), (8, 4), inner=inner)
    store.faults = lambda call: ThrottledError("slow down") if call.number <= 2 else None
    impatient = replace(SETTINGS, retries=0)
    results = await asyncio.gather(
        read_window(reader, array, 0, settings=impatient), read_window(reader, array, 1), return_exceptions=True
    )
    assert isinstance(results[0], ThrottledError)
    assert results[0].attempts == 1
    assert np.array_equal(results[1], array.values[1])


@in_virtual_time
async def test_readers_with_other_missing_statuses_have_requests_of_their_own() -> None:
    array, store, reader = await sample((4,), (4,), fill_value=3)
    store.faults = lambda call: PermissionDeniedError("no", status=403)
    lenient = replace(SETTINGS, missing_status=(404, 403))
    reads = [array.read(...), array.read(...)]
    results = await asyncio.gather(
        reader.read([reads[0]], settings=lenient),
        reader.read([reads[1]], settings=SETTINGS),
        return_exceptions=True,
    )
    assert reads[0].out.tolist() == [3] * 4
    assert isinstance(results[1], PermissionDeniedError)


@in_virtual_time
async def test_an_observer_that_raises_does_not_disturb_the_read() -> None:
    array, store, reader = await sample((4, 4), (4, 4))

    def refuse(_: Event) -> None:
        raise RuntimeError("no")

    await asyncio.gather(
        read_window(reader, array, 0, settings=replace(SETTINGS, on_event=refuse)), read_window(reader, array, 1)
    )
    assert store.count == 1


@in_virtual_time
async def test_a_timeout_of_one_reader_does_not_cancel_the_request_of_the_others() -> None:
    for first in (0.5, 2.0):
        array, store, reader = await sample((4, 4), (4, 4), latency=1.0)

        async def limited(seconds: float, array: Sample = array, reader: Engine = reader) -> Any:
            async with asyncio.timeout(seconds):
                return await read_window(reader, array, 0)

        results = await asyncio.gather(limited(first), limited(2.5 - first), return_exceptions=True)
        assert sorted(type(each).__name__ for each in results) == ["TimeoutError", "ndarray"]
        assert store.count == 1


@in_virtual_time
async def test_readers_of_cached_and_of_new_chunks_are_served_in_turn() -> None:
    array, store, reader = await sample((3000, 1), (1, 1), latency=0)
    await read_window(reader, array, slice(0, 2000), settings=CACHED)
    store.latency = 1.0
    store.reset()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await asyncio.gather(
        read_window(reader, array, slice(0, 2000), settings=CACHED), read_window(reader, array, 2999, settings=CACHED)
    )
    assert loop.time() - begun == 1.0
    assert store.count == 1


@in_virtual_time
async def test_a_read_of_many_shards_with_cached_indexes_begins_a_few_at_a_time() -> None:
    array, store, reader = await sample((2400, 4), (4, 4), inner=(1, 4), latency=0)
    await read_window(reader, array, slice(0, 2400, 4))
    store.reset()
    store.latency = 1.0
    settings = replace(SETTINGS, max_requests=4)
    task = asyncio.ensure_future(read_window(reader, array, slice(0, 2400, 4), settings=settings))
    await asyncio.sleep(0.5)
    assert store.count == 4
    assert len(reader.state.in_flight) <= 2 * 128
    await task
    assert store.count == 600


@pytest.mark.parametrize("shards", [None, (8, 8)], ids=["plain", "sharded"])
@pytest.mark.parametrize("kind", ["memory", "network", "local"])
@pytest.mark.parametrize("nbytes", [0, 1 << 20], ids=["kept-nowhere", "cached"])
async def test_a_read_after_a_write_of_this_process_returns_the_written_values(
    shards: tuple[int, int] | None, kind: str, nbytes: int, tmp_path: Path
) -> None:
    stores = {"memory": MemoryStore(), "network": WrapperStore(MemoryStore()), "local": LocalStore(tmp_path)}
    array = await aiozarr.create_array(
        stores[kind],
        "a",
        shape=(16, 16),
        dtype="int32",
        chunks=(4, 4),
        shards=shards,
        settings=Settings(chunk_cache_bytes=nbytes),
    )
    least, most = np.zeros((2, 16, 16), np.int32)
    writing = True

    async def write(top: int, left: int) -> None:
        for value in range(1, 11):
            part = (slice(top, top + 8 - value % 3), slice(left + value % 2, left + 8))
            most[part] = value
            await array[part].write(value)
            least[part] = value

    async def read(number: int) -> int:
        count = 0
        while writing:
            count += 1
            corner = (number * 3 + count * 5) % 11, (number * 7 + count * 3) % 11
            part = tuple([slice(first, first + 1 + count % 6) for first in corner])
            before = least[part].copy()
            reading = asyncio.ensure_future(array[part].read())
            if count % 5 == 0:
                await asyncio.sleep(0)
                reading.cancel()
            (values,) = await asyncio.gather(reading, return_exceptions=True)
            if isinstance(values, np.ndarray):
                assert (before <= values).all()
                assert (values <= most[part]).all()
            else:
                assert isinstance(values, asyncio.CancelledError)
        return count

    readers = [asyncio.ensure_future(read(number)) for number in range(8)]
    await asyncio.gather(*(write(top, left) for top in (0, 8) for left in (0, 8)))
    writing = False
    assert min(await asyncio.gather(*readers)) > 0
