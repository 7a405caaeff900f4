"""The store in file systems of fsspec keeps the store contract: blocking, asynchronous, nested, and read only ones."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import fsspec
import pytest
from file_systems import AsyncFiles, Tree
from fsspec.implementations.dirfs import DirFileSystem
from typing_extensions import Buffer

from aiozarr.stores import Store
from aiozarr.stores.fsspec.store import FsspecStore
from aiozarr.testing.conformance import StoreConformance
from aiozarr.testing.conformance.base import ODD_KEYS
from aiozarr.testing.http_server import FaultServer
from local_s3 import LocalS3

_numbers = itertools.count()


def new_name() -> str:
    return f"contract-{next(_numbers)}"


class TestMemoryFileSystem(StoreConformance):
    async def make_store(self) -> Store:
        return FsspecStore(f"memory://{new_name()}/some where")


class TestDirectoryFileSystem(StoreConformance):
    many_keys = 20

    async def make_store(self) -> Store:
        inner = fsspec.filesystem("memory")
        return FsspecStore(DirFileSystem(path=f"/{new_name()}", fs=inner), path="below/it")


class TestLocalFileSystem(StoreConformance):
    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path / "not there yet" / "store"

    async def make_store(self) -> Store:
        return FsspecStore(f"file://{self.root}")


class TestBlockingFileSystem(StoreConformance):
    many_keys = 200

    async def make_store(self) -> Store:
        return FsspecStore(Tree(space=new_name()), path="top")


class TestAsynchronousFileSystem(StoreConformance):
    many_keys = 200

    async def make_store(self) -> Store:
        return FsspecStore(AsyncFiles(space=new_name()), path="top")


class TestFileSystemMadeForAnotherLoop(TestAsynchronousFileSystem):
    many_keys = 20

    async def make_store(self) -> Store:
        return FsspecStore(AsyncFiles(space=new_name(), asynchronous=True), path="top")


class TestCacheInFrontOfAFileSystem(StoreConformance):
    async def make_store(self) -> Store:
        self.name = new_name()
        return FsspecStore(f"simplecache::memory://{self.name}", simplecache={"skip_instance_cache": True})

    async def put(self, store: Store, key: str, data: Buffer) -> None:
        fsspec.filesystem("memory").pipe_file(f"/{self.name}/{key}", bytes(data))


class TestS3FileSystem(StoreConformance):
    # The server takes no control characters.
    odd_keys: ClassVar[tuple[str, ...]] = tuple(key for key in ODD_KEYS if key.isprintable() or key == "\u2028")

    @pytest.fixture(autouse=True)
    def _serve(self, s3_server: LocalS3) -> None:
        self.server = s3_server

    async def make_store(self) -> Store:
        bucket = new_name()
        self.server.create_bucket(bucket)
        return FsspecStore(f"s3://{bucket}/some where", **self.server.storage_options)


class TestHTTPFileSystem(StoreConformance):
    @pytest.fixture(autouse=True)
    def _serve(self) -> Iterator[None]:
        with FaultServer() as self.server:
            yield

    async def make_store(self) -> Store:
        return FsspecStore(f"{self.server.url}/some%20where")

    async def put(self, store: Store, key: str, data: Buffer) -> None:
        self.server.put(f"some where/{key}", bytes(data))
