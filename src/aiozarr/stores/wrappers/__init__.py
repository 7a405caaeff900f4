"""Stores that wrap another store, one behaviour each. They can be nested in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.stores.wrappers.cache_store import CacheStore
    from aiozarr.stores.wrappers.latency_store import LatencyStore
    from aiozarr.stores.wrappers.prefix_store import PrefixStore
    from aiozarr.stores.wrappers.trace_store import StoreEvent, TraceStore
    from aiozarr.stores.wrappers.wrapper_store import ReadOnlyStore, WrapperStore
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".cache_store": "CacheStore",
            ".latency_store": "LatencyStore",
            ".prefix_store": "PrefixStore",
            ".trace_store": "StoreEvent TraceStore",
            ".wrapper_store": "ReadOnlyStore WrapperStore",
        },
    )

__all__ = ["CacheStore", "LatencyStore", "PrefixStore", "ReadOnlyStore", "StoreEvent", "TraceStore", "WrapperStore"]
