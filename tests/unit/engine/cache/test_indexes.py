"""The cache of shard indexes: bounded in bytes, of the last caller's limit, least recently used first."""

from __future__ import annotations

import numpy as np

from aiozarr.codecs import ShardIndex
from aiozarr.engine.cache.indexes import IndexCache, IndexEntry
from aiozarr.model import Version

VERSION = Version('"1"')


def entry(chunks: int = 4, version: Version | None = VERSION) -> IndexEntry:
    """An index of `chunks` inner chunks, which takes 16 bytes for each."""
    return IndexEntry(ShardIndex(np.zeros(chunks, "u8"), np.zeros(chunks, "u8")), version)


def cached(cache: IndexCache, tokens: str) -> str:
    return "".join([token for token in tokens if cache.get(token) is not None])


def test_the_least_recently_used_indexes_make_room() -> None:
    cache = IndexCache(0)
    for token in "abc":
        cache.put(token, entry(), max_bytes=3 * 64)
    assert cache.get("a") is not None
    cache.put("d", entry(), max_bytes=3 * 64)
    assert cached(cache, "abcd") == "acd"


def test_the_limit_of_the_last_caller_holds() -> None:
    cache = IndexCache(0)
    for token in "abc":
        cache.put(token, entry(), max_bytes=1 << 20)
    cache.put("d", entry(), max_bytes=2 * 64)
    assert cached(cache, "abcd") == "cd"


def test_an_index_without_a_version_or_above_the_limit_is_not_cached() -> None:
    cache = IndexCache(0)
    cache.put("kept", entry(), max_bytes=128)
    cache.put("unversioned", entry(version=None), max_bytes=128)
    cache.put("missing", IndexEntry(None, None), max_bytes=128)
    cache.put("large", entry(chunks=9), max_bytes=128)
    assert cache.get("kept") is not None
    assert all(cache.get(token) is None for token in ("unversioned", "missing", "large"))


def test_a_replaced_or_dropped_index_frees_its_bytes() -> None:
    cache = IndexCache(0)
    for _ in range(10):
        cache.put("a", entry(), max_bytes=128)
    cache.put("b", entry(), max_bytes=128)
    cache.drop("a")
    cache.drop("unknown")
    cache.put("c", entry(), max_bytes=128)
    assert cached(cache, "abc") == "bc"
