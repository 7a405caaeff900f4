"""Objects above the size limit of a request: which requests bring them, and what happens when one of those fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aiozarr.engine import Engine, plan_bounds
from aiozarr.errors import CodecError, PermissionDeniedError, ThrottledError
from aiozarr.model import Range, Suffix, Supports, Value
from aiozarr.schedule.events import Report, RequestEvent
from aiozarr.settings import Settings
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import Call, Corrupt
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import RAW, SETTINGS, Sample, sample

MIB = 1 << 20
LIMIT = replace(SETTINGS, max_request_bytes=MIB)
ZSTD = [*RAW, {"name": "zstd", "configuration": {"level": 1, "checksum": False}}]


async def big(mib: float = 3.5, chunks: int = 1, **options: Any) -> tuple[Sample, FakeStore, Engine]:
    """An array of `chunks` chunks of `mib` MiB each."""
    length = int(mib * MIB / 4)
    return await sample((chunks * length,), (length,), **options)


def quiet(store: FakeStore, reader: Engine) -> bool:
    return store.in_flight == 0 and reader.idle() and len(asyncio.all_tasks()) == 1


@in_virtual_time
async def test_a_chunk_above_the_limit_comes_in_the_fewest_parts_within_it_of_about_equal_length() -> None:
    array, store, reader = await big()
    read, report = array.read(...), Report()
    await reader.read([read], settings=LIMIT, report=report)
    assert np.array_equal(read.out, array.values)
    part = 7 * MIB // 8
    assert store.log() == [("a/c/0", Range(number * part, part)) for number in range(4)]
    assert store.rounds == 2  # the first one tells the version
    assert (report.requests, report.bytes_fetched, report.bytes_wanted) == (4, 4 * part, 4 * part)
    assert quiet(store, reader)


@pytest.mark.parametrize(("mib", "requests"), [(1.0, 1), (1.25, 2), (2.0, 2), (3.0, 3)])
@in_virtual_time
async def test_a_probed_plan_counts_the_parts(mib: float, requests: int) -> None:
    array, store, reader = await big(mib, 3)
    bounds = plan_bounds(array.layout, array.read(...).maps, split_limit=MIB)
    plan = await reader.probe(array.read(...), settings=LIMIT)
    store.reset()
    await reader.read([array.read(...)], settings=LIMIT)
    assert store.count == plan.requests == bounds.requests == 3 * requests
    assert store.nbytes == plan.bytes
    assert bounds.min_requests == 3


@in_virtual_time
async def test_a_chunk_of_unknown_size_is_one_request_where_it_compresses_below_the_limit() -> None:
    array, store, reader = await big(3.5, codecs=ZSTD)
    array.values[:] = 7
    await reader.write(array.write(array.values), settings=SETTINGS)
    store.reset()
    plan = await reader.probe(array.read(...), settings=LIMIT)
    store.reset()
    read = array.read(...)
    await reader.read([read], settings=LIMIT)
    assert np.array_equal(read.out, array.values)
    assert store.log() == [("a/c/0", Range(0, MIB))]
    assert plan.requests == 1
    assert plan.bytes == store.nbytes < MIB
    assert quiet(store, reader)


@in_virtual_time
async def test_a_chunk_of_unknown_size_that_is_larger_is_the_limit_and_then_the_rest_side_by_side() -> None:
    array, store, reader = await big(3.5, codecs=ZSTD)
    array.values[:] = np.random.default_rng(1).integers(0, 1 << 31, array.values.shape)
    await reader.write(array.write(array.values), settings=SETTINGS)
    store.reset()
    plan = await reader.probe(array.read(...), settings=LIMIT)
    store.reset()
    read = array.read(...)
    await reader.read([read], settings=LIMIT)
    assert np.array_equal(read.out, array.values)
    assert store.log()[0] == ("a/c/0", Range(0, MIB))
    assert store.count == plan.requests == 4
    assert store.nbytes == plan.bytes
    assert store.rounds == 2


@in_virtual_time
async def test_a_large_inner_chunk_comes_in_parts_at_once_as_its_version_is_known() -> None:
    array, store, reader = await big(6, inner=(3 * MIB // 4,))
    plan = await reader.probe(array.read(...), settings=LIMIT)
    reader.state.indexes.cache.drop((store.identity, "a/c/0", array.layout.decoding_id))
    store.reset()
    read = array.read(...)
    await reader.read([read], settings=LIMIT)
    assert np.array_equal(read.out, array.values)
    log = store.log()
    assert isinstance(log[0][1], Suffix)
    assert sorted(part.start for _, part in log[1:] if isinstance(part, Range)) == [n * MIB for n in range(6)]
    assert store.rounds == 2
    assert plan.requests == 6  # the index was kept
    assert quiet(store, reader)


@in_virtual_time
async def test_a_chunk_that_is_not_stored_is_one_request() -> None:
    array, store, reader = await big(3.5, 2, fill_value=9)
    store.memory.erase_now("a/c/1")
    plan = await reader.probe(array.read(...), settings=LIMIT)
    store.reset()
    read = array.read(...)
    await reader.read([read], settings=LIMIT)
    assert np.array_equal(read.out[: len(read.out) // 2], array.values[: len(read.out) // 2])
    assert (read.out[len(read.out) // 2 :] == 9).all()
    assert store.count == plan.requests == 5
    assert quiet(store, reader)


@in_virtual_time
async def test_only_the_part_that_fails_is_repeated() -> None:
    for number in range(1, 5):
        array, store, reader = await big()
        store.faults = lambda call, number=number: ThrottledError("slow") if call.number == number else None
        read, report = array.read(...), Report()
        await reader.read([read], settings=LIMIT, report=report)
        assert np.array_equal(read.out, array.values)
        assert (store.count, report.requests, report.retries) == (5, 5, 1)
        assert quiet(store, reader)


@in_virtual_time
async def test_the_error_of_one_part_ends_the_others_and_is_raised_alone() -> None:
    for number in range(1, 5):
        array, store, reader = await big()
        store.faults = lambda call, number=number: PermissionDeniedError("no") if call.number == number else None
        with pytest.raises(PermissionDeniedError):
            await reader.read([array.read(...)], settings=replace(LIMIT, max_requests=2))
        assert quiet(store, reader)
        assert reader.idle()


@pytest.mark.parametrize("versions", [True, False])
@in_virtual_time
async def test_an_object_replaced_between_its_parts_is_read_again_and_never_mixed(versions: bool) -> None:
    array, store, reader = await big()
    store._versions = versions
    other = np.zeros(array.values.shape if versions else len(array.values) + 1, "int32")

    def replace_it(call: Call) -> None:
        if call.number == 2:
            store.memory.set_now("a/c/0", other.tobytes() if versions else array.values.tobytes() + b"1234")

    store.faults = replace_it
    read = array.read(...)
    if versions:
        await reader.read([read], settings=LIMIT)
        assert not read.out.any()
    else:  # the size alone gives it away, and the new one does not decode
        with pytest.raises(Exception, match="bytes"):
            await reader.read([read], settings=LIMIT)
    assert quiet(store, reader)


@in_virtual_time
async def test_an_object_that_changes_without_end_is_read_by_one_request_at_last() -> None:
    array, store, reader = await big()
    data = array.values.tobytes()
    store.faults = lambda call: store.memory.set_now("a/c/0", data) and None
    read = array.read(...)
    await reader.read([read], settings=LIMIT)
    assert np.array_equal(read.out, array.values)
    assert store.count <= 4 * 4 + 1
    assert quiet(store, reader)


@pytest.mark.parametrize(("requests", "rounds"), [(1, 8), (2, 4), (64, 2)])
@in_virtual_time
async def test_a_read_cancelled_at_any_moment_leaves_no_part_in_flight(requests: int, rounds: int) -> None:
    for step in range(4 * rounds):
        array, store, reader = await big(3.5, 2, latency=0.04)
        settings = replace(LIMIT, max_requests=requests)
        task = asyncio.create_task(reader.read([array.read(...)], settings=settings))
        await asyncio.sleep(0.01 * step + 0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert quiet(store, reader)
        assert reader.idle()
        read = array.read(...)
        await reader.read([read], settings=settings)
        assert np.array_equal(read.out, array.values)


@in_virtual_time
async def test_a_cancelled_reader_leaves_the_parts_to_the_other() -> None:
    for step in range(8):
        array, store, reader = await big(latency=0.04)
        first = asyncio.create_task(reader.read([array.read(...)], settings=replace(LIMIT, max_requests=2)))
        await asyncio.sleep(0.001)
        stays = array.read(...)
        second = asyncio.create_task(reader.read([stays], settings=LIMIT))
        await asyncio.sleep(0.015 * step + 0.001)
        if not first.done():
            first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert np.array_equal(stays.out, array.values)
        assert store.count == 4
        assert quiet(store, reader)


@in_virtual_time
async def test_chunks_larger_than_the_budget_of_bytes_do_not_wait_for_each_other() -> None:
    array, store, reader = await big(3.5, 4)
    read = array.read(...)
    await asyncio.wait_for(
        reader.read([read], settings=replace(LIMIT, max_requests=3, max_bytes_in_flight=2 * MIB)), 60
    )
    assert np.array_equal(read.out, array.values)
    assert store.count == 16
    assert quiet(store, reader)


@in_virtual_time
async def test_each_part_is_an_event_of_its_own() -> None:
    events: list[RequestEvent] = []
    array, store, reader = await big()
    await reader.read([array.read(...)], settings=replace(LIMIT, on_event=events.append))
    assert sorted((each.range.start, each.bytes_fetched) for each in events if isinstance(each.range, Range)) == [
        (number * 7 * MIB // 8, 7 * MIB // 8) for number in range(4)
    ]
    assert store.count == len(events)


@in_virtual_time
async def test_a_store_without_ranges_is_asked_for_the_whole() -> None:
    array, store, reader = await big()
    store.supports = replace(store.supports, partial_reads=False)
    plan = await reader.probe(array.read(...), settings=LIMIT)
    store.reset()
    await reader.read([array.read(...)], settings=LIMIT)
    assert store.log() == [("a/c/0", None)]
    assert plan.requests == 1


@in_virtual_time
async def test_small_limits_split_nothing_into_less_than_a_mebibyte() -> None:
    array, store, reader = await big(0.5)
    await reader.read([array.read(...)], settings=Settings(max_request_bytes=1))
    assert store.count == 1


@pytest.mark.parametrize("supports", [None, Supports(conditional_reads=False)], ids=["says nothing", "says that"])
@in_virtual_time
async def test_without_versions_an_object_comes_whole_and_two_states_of_it_are_never_mixed(
    supports: Supports | None,
) -> None:
    array, store, reader = await big()
    store._versions = False
    if supports is not None:
        store.supports = supports
    other = np.zeros_like(array.values)

    def replace_it(call: Call) -> None:
        if call.number == 2:
            store.memory.set_now("a/c/0", other.tobytes())

    store.faults = replace_it
    read = array.read(...)
    await reader.read([read], settings=LIMIT)
    # Where answers turn out to tell no version, all of it is asked for after the first part.
    asked = [] if supports else [("a/c/0", Range(0, 7 * MIB // 8))]
    assert store.log() == [*asked, ("a/c/0", None)]
    assert np.array_equal(read.out, array.values if supports else other)
    store.reset()
    store.faults = None
    plan = await reader.probe(array.read(...), settings=LIMIT)
    store.reset()
    await reader.read([array.read(...)], settings=LIMIT)
    assert store.log() == [("a/c/0", None)]
    assert (plan.requests, plan.bytes) == (1, store.nbytes)
    assert quiet(store, reader)


@in_virtual_time
async def test_a_range_of_a_shard_without_a_version_is_one_request() -> None:
    array, store, reader = await big(6, inner=(3 * MIB // 4,))
    store._versions = False
    plan = await reader.probe(array.read(...), settings=LIMIT)
    store.reset()
    await reader.read([array.read(...)], settings=LIMIT)
    assert [part for _, part in store.log()] == [Suffix(36), Range(0, 3 * MIB), Range(3 * MIB, 3 * MIB)]
    assert plan.requests == 3
    assert quiet(store, reader)


@pytest.mark.parametrize("known", [True, False])
@in_virtual_time
async def test_an_object_much_larger_than_a_chunk_can_be_is_refused_after_its_first_part(known: bool) -> None:
    array, store, reader = await big(codecs=RAW if known else ZSTD)
    claimed = 1 << 60  # no memory is taken for it

    def change(value: Value) -> Value:
        return replace(value, size=claimed)

    store.faults = lambda call: Corrupt(change)
    with pytest.raises(CodecError, match=str(claimed)) as raised:
        await reader.read([array.read(...)], settings=LIMIT)
    assert (raised.value.key, store.count) == ("a/c/0", 1)
    assert quiet(store, reader)
