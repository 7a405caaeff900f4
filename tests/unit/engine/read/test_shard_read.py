"""Reads of shards: the index first, then the inner chunks in merged ranges, of one version."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from aiozarr.engine import shard_read
from aiozarr.errors import (
    ChangedError,
)
from aiozarr.model import Range, Suffix
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.engine_samples import SETTINGS, sample


@in_virtual_time
async def test_a_plane_through_a_shard_is_one_index_request_and_one_request_for_a_run_of_neighbours() -> None:
    array, store, reader = await sample((32, 32, 8), (32, 32, 8), inner=(2, 2, 2))
    assert array.layout.shard is not None
    assert array.layout.shard.count == 1024
    # Inner chunks in C order: the first plane along axis 0 is 64 neighbours in the object.
    read = array.read(0)
    await reader.read([read], settings=SETTINGS)
    assert np.array_equal(read.out, array.values[0])
    index_nbytes = 16 * 1024 + 4
    assert store.log() == [("a/c/0/0/0", Suffix(index_nbytes)), ("a/c/0/0/0", Range(0, 64 * 32))]


@in_virtual_time
async def test_scattered_inner_chunks_are_fetched_apart_or_together_as_the_gap_says() -> None:
    array, store, reader = await sample((8, 64), (8, 64), inner=(1, 2))
    apart = array.read(slice(None), 0)
    await reader.read([apart], settings=SETTINGS)
    assert np.array_equal(apart.out, array.values[:, 0])
    assert store.count == 1 + 8
    store.reset()
    together = array.read(slice(None), slice(0, 64, 4))
    await reader.read([together], settings=replace(SETTINGS, merge_gap_bytes=8, max_over_read=2.0))
    assert np.array_equal(together.out, array.values[:, ::4])
    # The index is at hand now, and every second inner chunk of 8 bytes is wanted.
    assert store.count == 1


@in_virtual_time
async def test_index_and_data_rounds_of_several_shards_overlap() -> None:
    array, store, reader = await sample((64, 4), (8, 4), inner=(1, 4))
    read = array.read(slice(0, 64, 2))
    await reader.read([read], settings=SETTINGS)
    assert np.array_equal(read.out, array.values[::2])
    assert store.count == 8 + 32
    assert store.rounds == 2


@in_virtual_time
async def test_two_concurrent_readers_of_one_shard_share_index_and_inner_chunks() -> None:
    array, store, reader = await sample((8, 8), (8, 8), inner=(4, 4))
    reads = [array.read(...), array.read(slice(0, 8, 3)), array.read(0, 0)]
    # A limit below the size of the shard: its index comes first.
    settings = replace(SETTINGS, max_request_bytes=256)
    await asyncio.gather(*(reader.read([read], settings=settings) for read in reads))
    assert np.array_equal(reads[0].out, array.values)
    assert np.array_equal(reads[1].out, array.values[::3])
    assert reads[2].out == array.values[0, 0]
    assert store.count == 2


def quiet(store: FakeStore) -> bool:
    return store.in_flight == 0 and len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("conditional", [True, False])
@in_virtual_time
async def test_a_shard_that_is_replaced_mid_read_is_read_again_and_never_mixed(conditional: bool) -> None:
    array, store, reader = await sample((16, 16), (16, 16), inner=(2, 2))
    # With conditions the store refuses; without, the answers' versions tell.
    store.supports = replace(store.supports, conditional_reads=conditional)
    old = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
    newer, writer, rewriter = await sample((16, 16), (16, 16), inner=(2, 2), latency=0)
    await rewriter.write(newer.write(-newer.values), settings=SETTINGS)
    new = bytes(writer.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored

    def replace_it(call: object) -> None:
        if store.count == 3:
            store.memory.set_now("a/c/0/0", new)

    store.faults = replace_it
    read = array.read(slice(None), slice(0, 16, 4))
    await reader.read([read], settings=SETTINGS)
    assert old != new
    assert np.array_equal(read.out, -array.values[:, ::4])


@in_virtual_time
async def test_a_large_shard_that_keeps_changing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_read, "MAX_WHOLE_BYTES", 100)
    array, store, reader = await sample((16, 16), (16, 16), inner=(2, 2))
    data = bytes(store.memory.fetch_now("a/c/0/0").data)  # type: ignore[union-attr]  # it is stored
    store.faults = lambda call: store.memory.set_now("a/c/0/0", data) and None
    with pytest.raises(ChangedError) as raised:
        await reader.read([array.read(slice(None), slice(0, 16, 4))], settings=SETTINGS)
    assert raised.value.key == "a/c/0/0"
    assert quiet(store)


@in_virtual_time
async def test_a_store_without_suffix_ranges_is_asked_for_the_size_first() -> None:
    array, store, reader = await sample((4, 4), (4, 4), inner=(2, 2))
    store.supports = replace(store.supports, suffix_reads=False)
    read = array.read(...)
    await reader.read([read], settings=SETTINGS)
    assert np.array_equal(read.out, array.values)
    assert all(isinstance(each, Range) for _, each in store.log())
