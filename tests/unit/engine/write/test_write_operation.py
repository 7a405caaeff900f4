"""What writes ask of their store, and what they leave in it; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import Buffer

from aiozarr.common.progress import Progress
from aiozarr.engine import encoder
from aiozarr.engine.encoder import encode_chunk
from aiozarr.errors import StoreError
from aiozarr.model import Precondition, Version
from aiozarr.schedule.events import Event, Report
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import SETTINGS, Sample, engine, layout_of, read_all, sample


@pytest.mark.parametrize("inner", [None, (2, 2)])
@in_virtual_time
async def test_whole_chunks_are_written_without_reading_and_overlap(inner: tuple[int, int] | None) -> None:
    array, store, writer = await sample((16, 16), (4, 4), inner=inner, latency=1.0)
    await writer.write(array.write(-array.values), settings=SETTINGS)
    assert {call.operation for call in store.calls} == {"set"}
    assert (store.count, store.rounds) == (16, 1)
    assert np.array_equal(await read_all(writer, array), -array.values)


@in_virtual_time
async def test_chunks_across_the_edge_are_stored_in_full_and_keep_what_lies_outside() -> None:
    array, store, writer = await sample((5, 5), (4, 4), fill_value=-7)
    data = store.memory.fetch_now("a/c/1/1").data  # type: ignore[union-attr]  # it is stored
    block = np.frombuffer(data, "<i4").reshape(4, 4)
    assert block[0, 0] == 25
    assert set(block.ravel()[1:].tolist()) == {-7}
    block = block.copy()
    block[3, 3] = 9  # of a larger shape
    store.memory.set_now("a/c/1/1", block.tobytes())
    store.reset()
    await writer.write(array.write(1, slice(4, 5), slice(4, 5)), settings=SETTINGS)
    assert [call.operation for call in store.calls] == ["fetch", "set"]
    block[0, 0] = 1
    assert bytes(store.memory.fetch_now("a/c/1/1").data) == block.tobytes()  # type: ignore[union-attr]


@in_virtual_time
async def test_a_damaged_chunk_across_the_edge_is_replaced_if_all_of_it_inside_the_array_is() -> None:
    array, store, writer = await sample((5, 5), (4, 4))
    store.memory.set_now("a/c/1/1", b"damaged")
    await writer.write(array.write(1, slice(4, 5), slice(4, 5)), settings=SETTINGS)
    assert (await read_all(writer, array))[4, 4] == 1


@in_virtual_time
async def test_values_are_cast_and_broadcast_as_numpy_assigns() -> None:
    array, _, writer = await sample((4, 4), (3, 3))
    await writer.write(array.write(np.array([1.0, 2.0, 3.0, 4.0], ">f8")), settings=SETTINGS)
    assert np.array_equal(await read_all(writer, array), np.broadcast_to([1, 2, 3, 4], (4, 4)))


@in_virtual_time
async def test_the_first_error_stops_a_write_and_nothing_stays_under_way() -> None:
    array, store, writer = await sample((100, 1), (1, 1), latency=1.0)
    store.faults = lambda call: StoreError("disk full", key=call.key) if call.key == "a/c/5/0" else None
    with pytest.raises(StoreError, match="disk full"):
        await writer.write(array.write(0), settings=SETTINGS)
    assert store.in_flight == 0
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("inner", [None, (2, 2)])
@pytest.mark.parametrize("moment", [0.0, 0.5, 1.5, 2.5])
@in_virtual_time
async def test_a_cancelled_write_leaves_every_chunk_old_or_new(inner: tuple[int, int] | None, moment: float) -> None:
    array, store, writer = await sample((32, 32), (4, 4), inner=inner, latency=1.0)
    task = asyncio.ensure_future(
        writer.write(array.write(-array.values[1:31], slice(1, 31)), settings=replace(SETTINGS, max_requests=16))
    )
    await asyncio.sleep(moment)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.in_flight == 0
    assert len(asyncio.all_tasks()) == 1
    assert writer.idle()
    store.latency = 0
    now = await read_all(writer, array)
    assert np.array_equal(np.abs(now), array.values)
    for row in range(8):
        for column in range(8):
            block = now[4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
            changed = block[max(0, 1 - 4 * row) : 31 - 4 * row] < 0
            assert changed.all() or not changed.any()


@in_virtual_time
async def test_progress_reaches_the_total() -> None:
    array, _, writer = await sample((8, 8), (3, 3))
    steps: list[Progress] = []
    await writer.write(array.write(array.values), settings=SETTINGS, progress=steps.append)
    assert steps[-1] == Progress(9, 9, 256, 256)
    reads: list[Progress] = []
    await writer.read([array.read(...)], settings=SETTINGS, progress=reads.append)
    assert reads[-1] == Progress(9, 9, 256, 256)


@given(data=st.data())
@in_virtual_time
async def test_any_sequence_of_writes_leaves_what_numpy_leaves(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=0, max_size=3)))
    per_shard = tuple(data.draw(st.integers(1, 3)) for _ in shape)
    inner = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    sharded = data.draw(st.booleans())
    chunks = tuple(a * b for a, b in zip(inner, per_shard, strict=True))
    layout = layout_of(shape, chunks, inner=inner if sharded else None, fill_value=data.draw(st.sampled_from([0, 5])))

    array = Sample(layout, FakeStore(latency=0.01))
    expected = np.full(shape, layout.spec.fill_value)
    worker = engine()
    for number in range(data.draw(st.integers(1, 4))):
        selection = tuple(data.draw(st.one_of(st.integers(-length, length - 1), st.slices(length))) for length in shape)
        target = expected[selection]
        values = np.asarray(data.draw(st.sampled_from([0, 5, 10 + number])))
        if data.draw(st.booleans()):
            values = np.arange(target.size, dtype="i4").reshape(target.shape)
        await worker.write(array.write(values, *selection), settings=SETTINGS)
        expected[selection] = values
        read = array.read(*selection)
        await worker.read([read], settings=SETTINGS)
        assert np.array_equal(read.out, expected[selection])
    assert np.array_equal(await read_all(worker, array), expected)


@in_virtual_time
async def test_a_cancelled_write_whose_next_request_waits_for_room_ends() -> None:
    array, store, writer = await sample((64, 64), (4, 4), latency=1.0)
    tight = replace(SETTINGS, max_bytes_in_flight=200)
    task = asyncio.ensure_future(writer.write(array.write(-array.values), settings=tight))
    await asyncio.sleep(1.5)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert store.in_flight == 0
    assert writer.idle()


class Together(MemoryStore):
    """A memory store that notes which values are stored together, and refuses some keys."""

    def __init__(self, refused: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.together: list[list[str]] = []
        self.refused = refused

    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        if key in self.refused:
            raise StoreError("disk full", key=key)
        return super().set_now(key, value, precondition=precondition)

    def _set_values_now(self, values: Sequence[tuple[str, Buffer]]) -> None:
        self.together.append([key for key, _ in values])
        super()._set_values_now(values)


class OneByOne(Together):
    """Overrides `set_now` alone, which must then see every value."""

    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        self.together.append([key])
        return super().set_now(key, value, precondition=precondition)


KEYS = [f"a/c/{row}/0" for row in range(8)]


@in_virtual_time
async def test_whole_small_chunks_are_stored_together_and_others_by_themselves() -> None:
    store, worker = Together(), engine()
    array = Sample(layout_of((8, 2), (1, 2), fill_value=0), store)
    values = array.values + 1
    await worker.write(array.write(values), settings=SETTINGS)
    assert store.together == [KEYS]
    assert np.array_equal(await read_all(worker, array), values)
    store.together.clear()
    await worker.write(array.write(-values[:, 1:], slice(None), slice(1, 2)), settings=SETTINGS)
    assert store.together == []  # parts of chunks
    values[:, 1] *= -1
    assert np.array_equal(await read_all(worker, array), values)


@in_virtual_time
async def test_chunks_of_the_fill_value_in_a_batch_are_erased_and_looked_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, worker = Together(), engine()
    array = Sample(layout_of((8, 2), (1, 2), fill_value=0), store)
    values = array.values + 1
    await worker.write(array.write(values), settings=SETTINGS)
    store.together.clear()
    values[4:6] = 0
    encoded: list[object] = []

    def counted(*arguments: Any, **options: Any) -> Buffer | None:
        encoded.append(arguments)
        return encode_chunk(*arguments, **options)

    monkeypatch.setattr(encoder, "encode_chunk", counted)
    await worker.write(array.write(values), settings=SETTINGS)
    assert len(encoded) == len(KEYS)
    assert store.together == [KEYS[:4] + KEYS[6:]]
    assert [key for key in KEYS if store.fetch_now(key) is None] == KEYS[4:6]
    assert np.array_equal(await read_all(worker, array), values)


@in_virtual_time
async def test_a_chunk_that_cannot_be_stored_with_others_fails_with_its_own_key() -> None:
    store, worker = Together((KEYS[5],)), engine()
    array = Sample(layout_of((8, 2), (1, 2), fill_value=0), store)
    with pytest.raises(StoreError, match="disk full") as caught:
        await worker.write(array.write(array.values + 1), settings=SETTINGS)
    assert caught.value.key == KEYS[5]
    assert store.together == [KEYS]  # and each of them by itself
    stored = [key for key in KEYS if store.fetch_now(key) is not None]
    assert stored == [key for key in KEYS if key != KEYS[5]]


@in_virtual_time
async def test_a_store_that_overrides_single_writes_alone_sees_every_value() -> None:
    store, worker = OneByOne(), engine()
    array = Sample(layout_of((8, 2), (1, 2), fill_value=0), store)
    await worker.write(array.write(array.values + 1), settings=SETTINGS)
    assert store.together == [[key] for key in KEYS]


@in_virtual_time
async def test_an_observer_hears_of_each_chunk() -> None:
    store, worker = Together(), engine()
    array = Sample(layout_of((8, 2), (1, 2), fill_value=0), store)
    report = Report()
    events: list[Event] = []
    settings = replace(SETTINGS, on_event=events.append)
    await worker.write(array.write(array.values + 1), settings=settings, report=report)
    assert (report.requests, report.bytes_written, report.bytes_fetched) == (8, 64, 0)
    assert [(event.key, event.bytes_written, event.bytes_fetched) for event in events] == [(key, 8, 0) for key in KEYS]
