"""The sizes of shards are cached for stores that refuse suffix ranges."""

from __future__ import annotations

from dataclasses import replace

from aiozarr.engine.caches import SizeCache
from aiozarr.model import Version
from aiozarr.testing.fakes import FakeStore


def test_the_sizes_of_the_most_recent_shards_are_cached() -> None:
    store, sizes = FakeStore(), SizeCache(2)
    sizes.record(store, "a", 1, Version('"1"'))
    assert sizes.get(store, "a") is None  # it has suffix ranges
    store.supports = replace(store.supports, suffix_reads=False)
    for number, key in enumerate("abac"):
        sizes.record(store, key, number, Version('"1"'))
    assert [sizes.get(store, key) is not None for key in "abc"] == [True, False, True]
    sizes.record(store, "a", 1, Version('W/"1"'))
    assert sizes.get(store, "a") is None
    sizes.drop(store, "c")
    assert sizes.get(store, "c") is None
    sizes.drop(store, "c")
