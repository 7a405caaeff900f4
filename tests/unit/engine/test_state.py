"""The shared state of one I/O thread: a queue for each origin, one for blocking stores, and warnings once per store."""

from __future__ import annotations

import warnings

import pytest

from aiozarr.engine.state import EngineState, NotedStores
from aiozarr.engine.worker_pool import InlinePool
from aiozarr.errors import UnsafeWriteWarning
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore


async def test_stores_of_one_origin_share_a_queue_and_blocking_stores_have_their_own() -> None:
    state = EngineState(InlinePool())
    store = FakeStore()
    assert state.queue_for(store) is state.queue_for(store)
    assert state.queue_for(store) is not state.queue_for(FakeStore())
    assert state.queue_for(MemoryStore()) is state.queue_for(MemoryStore())
    assert state.queue_for(MemoryStore()).is_blocking
    assert not state.queue_for(store).is_blocking


async def test_a_store_without_versions_is_remembered_and_others_are_believed() -> None:
    state = EngineState(InlinePool())
    store, other = FakeStore(), FakeStore()
    assert state.has_versions(store)
    state.stores_without_versions.add(store.identity)
    assert not state.has_versions(store)
    assert state.has_versions(other)


async def test_unsafe_writes_are_warned_of_once_for_each_store() -> None:
    state = EngineState(InlinePool())
    store, other = FakeStore(), FakeStore()
    for each in (store, other):
        with pytest.warns(UnsafeWriteWarning, match="updates are lost"):
            state.warn_unsafe(each)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state.warn_unsafe(store)
        state.warn_unsafe(other)


def test_notes_of_stores_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.engine.state.MAX_NOTED_STORES", 3)
    noted = NotedStores()
    for number in range(5):
        noted.add(number)
        assert number in noted
        assert len(noted) <= 3


def test_threads_that_look_for_shard_indexes_make_no_table() -> None:
    state = EngineState(InlinePool())
    assert not state.has_read_arrays
    assert state.chunk_caches is state.chunk_caches
    assert state.has_read_arrays
    assert state.is_idle
    assert state.indexes_if_made is None
    assert state.indexes is state.indexes_if_made
