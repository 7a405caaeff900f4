"""Stores around a store, one behaviour each: any of them goes around any other."""

from aiozarr.stores.wrappers.base import WrapperStore
from aiozarr.stores.wrappers.cache import CacheStore
from aiozarr.stores.wrappers.latency import LatencyStore
from aiozarr.stores.wrappers.prefix import PrefixStore
from aiozarr.stores.wrappers.read_only import ReadOnlyStore
from aiozarr.stores.wrappers.trace import StoreEvent, TraceStore

__all__ = ["CacheStore", "LatencyStore", "PrefixStore", "ReadOnlyStore", "StoreEvent", "TraceStore", "WrapperStore"]
