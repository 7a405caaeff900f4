"""Which format is likely at a path: that of the node, of the nearest node above it, or of another one of its store."""

from __future__ import annotations

import pytest

from aiozarr.hierarchy import format_memory
from aiozarr.hierarchy.format_memory import FormatMemory
from aiozarr.stores import MemoryStore, PrefixStore


def test_the_nearest_place_says_the_format() -> None:
    memory, store = FormatMemory(), MemoryStore()
    assert memory.find(store, "a/b") is None
    memory.record(store, "a", 3)
    memory.record(store, "a/c/d", 2)
    assert [memory.find(store, path) for path in ("a", "a/c", "a/c/d", "a/c/d/e")] == [3, 3, 2, 2]
    assert memory.find(store, "other") == 2  # the last one of the store
    assert memory.find(PrefixStore(store, "a/"), "x") == 3
    assert memory.find(MemoryStore(), "a") is None


def test_the_places_are_bounded_and_the_last_used_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format_memory, "MAX_PLACES", 3)
    memory, store = FormatMemory(), MemoryStore()
    memory.record(store, "a", 2)
    memory.record(store, "b", 3)
    assert memory.find(store, "a") == 2
    memory.record(store, "c", 3)
    assert memory.find(store, "a") == 2
    assert memory.find(store, "b") == 3  # by its store
