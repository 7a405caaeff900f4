"""Stores: bytes under keys, in memory, on disk, over HTTP and in object stores."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
)
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store, byte_view
from aiozarr.stores.local.store import LocalStore
from aiozarr.stores.memory_store import MemoryStore
from aiozarr.stores.transformer import StorageTransformer, register_storage_transformer
from aiozarr.stores.urls import from_url, register_store

if TYPE_CHECKING:
    from aiozarr.stores.caching_transformer import CachingTransformer
    from aiozarr.stores.fsspec.store import FsspecStore
    from aiozarr.stores.http.store import HTTPStore
    from aiozarr.stores.object.store import ObjectStore
    from aiozarr.stores.wrappers import (
        CacheStore,
        LatencyStore,
        PrefixStore,
        ReadOnlyStore,
        StoreEvent,
        TraceStore,
        WrapperStore,
    )
    from aiozarr.stores.zip import ZipStore

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
    "LatencyStore",
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
    "byte_view",
    "check_key",
    "check_prefix",
    "from_url",
    "register_storage_transformer",
    "register_store",
]


def __getattr__(name: str) -> Any:
    # Not every program uses these, and object stores bring libraries that take longer to import than all of aiozarr.
    homes = {
        "CacheStore": "wrappers",
        "CachingTransformer": "caching_transformer",
        "FsspecStore": "fsspec.store",
        "HTTPStore": "http.store",
        "LatencyStore": "wrappers",
        "ObjectStore": "object.store",
        "PrefixStore": "wrappers",
        "ReadOnlyStore": "wrappers",
        "StoreEvent": "wrappers",
        "TraceStore": "wrappers",
        "WrapperStore": "wrappers",
        "ZipStore": "zip",
    }
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"aiozarr.stores.{homes[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
