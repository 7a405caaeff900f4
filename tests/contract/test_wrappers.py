"""Every wrapper keeps the store contract, around stores of either kind, around each other, and in front of S3."""

import itertools
from pathlib import Path
from typing import ClassVar

import pytest
from typing_extensions import Buffer

from aiozarr.stores import (
    CacheStore,
    LocalStore,
    MemoryStore,
    PrefixStore,
    ReadOnlyStore,
    Store,
    StoreEvent,
    TraceStore,
)
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.testing import LatencyStore
from aiozarr.testing.conformance import StoreConformance
from aiozarr.testing.conformance.base import ODD_KEYS
from tests.support.servers.moto import LocalS3

_numbers = itertools.count()


def ignore(event: StoreEvent) -> None:
    """Watch a store that is being tested for something else."""


class OnMemory(StoreConformance):
    many_keys: ClassVar[int] = 150
    big_bytes: ClassVar[int] = 3 << 20

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def inner(self) -> Store:
        return MemoryStore()

    def wrap(self, store: Store) -> Store:
        raise NotImplementedError

    async def make_store(self) -> Store:
        return self.wrap(self.inner())


class OnLocal(OnMemory):
    def inner(self) -> Store:
        return LocalStore(self.folder / f"store-{next(_numbers)}")


class Prefix:
    def wrap(self, store: Store) -> Store:
        return PrefixStore(store, "some where/ü%20")


class ReadOnly(OnMemory):
    def wrap(self, store: Store) -> Store:
        return ReadOnlyStore(store)

    async def put(self, store: Store, key: str, data: Buffer) -> None:
        assert isinstance(store, ReadOnlyStore)
        await store.store.set(key, data)


class Trace:
    def wrap(self, store: Store) -> Store:
        return TraceStore(store, ignore)


class Latency:
    def wrap(self, store: Store) -> Store:
        return LatencyStore(store, 0.0, bytes_per_second=1e12)


class MemoryCache:
    def wrap(self, store: Store) -> Store:
        return CacheStore(store, 64 << 20)


class SmallCache:
    def wrap(self, store: Store) -> Store:
        return CacheStore(store, 1000)


class DiskCache:
    folder: Path

    def wrap(self, store: Store) -> Store:
        return CacheStore(store, 64 << 20, self.folder / "cache")


class LongCache:
    def wrap(self, store: Store) -> Store:
        return CacheStore(store, 64 << 20, max_age=3600)


class Stack:
    folder: Path

    def wrap(self, store: Store) -> Store:
        below = PrefixStore(TraceStore(store, ignore), "a/b")
        return CacheStore(below, 64 << 20, self.folder / "cache")


class OtherStack:
    def wrap(self, store: Store) -> Store:
        return PrefixStore(TraceStore(CacheStore(LatencyStore(store, 0.0), 64 << 20), ignore), "a/")


# fmt: off
class TestPrefixOnMemory(Prefix, OnMemory): ...
class TestPrefixOnLocal(Prefix, OnLocal): ...
class TestReadOnlyOnMemory(ReadOnly): ...
class TestTraceOnMemory(Trace, OnMemory): ...
class TestLatencyOnMemory(Latency, OnMemory): ...
class TestMemoryCacheOnMemory(MemoryCache, OnMemory): ...
class TestSmallCacheOnMemory(SmallCache, OnMemory): ...
class TestDiskCacheOnMemory(DiskCache, OnMemory): ...
class TestDiskCacheOnLocal(DiskCache, OnLocal): ...
class TestLongCacheOnMemory(LongCache, OnMemory): ...
class TestStackOnMemory(Stack, OnMemory): ...
class TestOtherStackOnLocal(OtherStack, OnLocal): ...
# fmt: on


class OnS3(OnMemory):
    server_name = "moto"
    many_keys: ClassVar[int] = 20
    # The client library takes no control characters.
    odd_keys: ClassVar[tuple[str, ...]] = tuple(key for key in ODD_KEYS if key.isprintable() or key == "\u2028")

    @pytest.fixture(autouse=True)
    def _serve(self, s3_server: LocalS3) -> None:
        self.server, self.server_version = s3_server, s3_server.version

    async def make_store(self) -> Store:
        bucket = f"wrapped-{next(_numbers)}"
        self.server.create_bucket(bucket)
        store = ObjectStore(f"s3://{bucket}/below", **self.server.storage_options)
        await store.probe_conditional_writes()
        return self.wrap(store)


class TestStackOnS3(Stack, OnS3): ...
