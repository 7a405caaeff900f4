"""Stores: bytes under keys, in memory, on disk, over HTTP and in object stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.model import (
        ByteRange,
        Entry,
        IfAbsent,
        IfMatch,
        Precondition,
        Range,
        Suffix,
        Supports,
        Value,
        Version,
        check_key,
        check_prefix,
        resolve_range,
    )
    from aiozarr.stores.blocking import BlockingStore
    from aiozarr.stores.bucket.store import ObjectStore
    from aiozarr.stores.cache_store import CacheStore
    from aiozarr.stores.contract import Store
    from aiozarr.stores.fsspec.store import FsspecStore
    from aiozarr.stores.http.store import HTTPStore
    from aiozarr.stores.local.store import LocalStore
    from aiozarr.stores.memory_store import MemoryStore
    from aiozarr.stores.prefix_store import PrefixStore
    from aiozarr.stores.trace_store import LatencyStore as LatencyStore
    from aiozarr.stores.trace_store import StoreEvent, TraceStore
    from aiozarr.stores.transformer import CachingTransformer, StorageTransformer, register_storage_transformer
    from aiozarr.stores.urls import from_references, from_url, register_store
    from aiozarr.stores.wrapper_store import ReadOnlyStore, WrapperStore
    from aiozarr.stores.zip import ZipStore

else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "aiozarr.model": (
                "ByteRange Entry IfAbsent IfMatch Precondition Range Suffix Supports Value Version check_key "
                "check_prefix resolve_range"
            ),
            ".blocking": "BlockingStore",
            ".bucket.store": "ObjectStore",
            ".contract": "Store",
            ".fsspec.store": "FsspecStore",
            ".http.store": "HTTPStore",
            ".local.store": "LocalStore",
            ".memory_store": "MemoryStore",
            ".transformer": "CachingTransformer StorageTransformer register_storage_transformer",
            ".urls": "from_references from_url register_store",
            ".cache_store": "CacheStore",
            ".trace_store": "LatencyStore StoreEvent TraceStore",
            ".prefix_store": "PrefixStore",
            ".wrapper_store": "ReadOnlyStore WrapperStore",
            ".zip": "ZipStore",
        },
    )

__all__ = [
    "BlockingStore",
    "ByteRange",
    "CacheStore",
    "CachingTransformer",
    "Entry",
    "FsspecStore",
    "HTTPStore",
    "IfAbsent",
    "IfMatch",
    "LocalStore",
    "MemoryStore",
    "ObjectStore",
    "Precondition",
    "PrefixStore",
    "Range",
    "ReadOnlyStore",
    "StorageTransformer",
    "Store",
    "StoreEvent",
    "Suffix",
    "Supports",
    "TraceStore",
    "Value",
    "Version",
    "WrapperStore",
    "ZipStore",
    "check_key",
    "check_prefix",
    "from_references",
    "from_url",
    "register_storage_transformer",
    "register_store",
    "resolve_range",
]
