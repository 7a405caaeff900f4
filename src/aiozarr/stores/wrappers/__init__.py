"""Stores that wrap another store, one behaviour each. They can be nested in any order."""

from aiozarr.stores.wrappers.cache_store import CacheStore
from aiozarr.stores.wrappers.latency_store import LatencyStore
from aiozarr.stores.wrappers.prefix_store import PrefixStore
from aiozarr.stores.wrappers.read_only_store import ReadOnlyStore
from aiozarr.stores.wrappers.trace_store import StoreEvent, TraceStore
from aiozarr.stores.wrappers.wrapper_store import WrapperStore

__all__ = ["CacheStore", "LatencyStore", "PrefixStore", "ReadOnlyStore", "StoreEvent", "TraceStore", "WrapperStore"]
