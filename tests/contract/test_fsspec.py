"""The store in file systems of fsspec keeps the store contract: blocking, asynchronous, nested, and read only ones."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import fsspec
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from gcsfs.core import GCSFileSystem
from typing_extensions import Buffer

from aiozarr.stores import Store
from aiozarr.stores.fsspec.store import FsspecStore
from aiozarr.testing.conformance import StoreConformance
from aiozarr.testing.conformance.base import ODD_KEYS
from tests.support.fsspec_file_systems import AsyncFiles, Tree
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.http_server import FaultServer
from tests.support.servers.moto import LocalS3

_numbers = itertools.count()


@pytest.fixture(scope="class", autouse=True)
def _forget_values() -> Iterator[None]:
    """fsspec keeps the values of its memory file systems for the rest of the process."""
    yield
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def new_name() -> str:
    return f"contract-{next(_numbers)}"


class TestMemoryFileSystem(StoreConformance):
    store_name = "FsspecStore, memory"

    async def make_store(self) -> Store:
        return FsspecStore(f"memory://{new_name()}/some where")


class TestDirectoryFileSystem(StoreConformance):
    store_name = "FsspecStore, dir over memory"
    many_keys = 20

    async def make_store(self) -> Store:
        inner = fsspec.filesystem("memory")
        return FsspecStore(DirFileSystem(path=f"/{new_name()}", fs=inner), path="below/it")


class TestLocalFileSystem(StoreConformance):
    store_name = "FsspecStore, file"

    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path / "not there yet" / "store"

    async def make_store(self) -> Store:
        return FsspecStore(f"file://{self.root}")


class TestBlockingFileSystem(StoreConformance):
    store_name = "FsspecStore, a blocking file system"
    many_keys = 200

    async def make_store(self) -> Store:
        return FsspecStore(Tree(space=new_name()), path="top")


class TestAsynchronousFileSystem(StoreConformance):
    store_name = "FsspecStore, an asynchronous file system"
    many_keys = 200

    async def make_store(self) -> Store:
        return FsspecStore(AsyncFiles(space=new_name()), path="top")


class TestFileSystemMadeForAnotherLoop(TestAsynchronousFileSystem):
    store_name = "FsspecStore, made for another loop"
    many_keys = 20

    async def make_store(self) -> Store:
        return FsspecStore(AsyncFiles(space=new_name(), asynchronous=True), path="top")


class TestS3FileSystem(StoreConformance):
    store_name = "FsspecStore, s3fs"
    server_name = "moto"
    many_keys = 20
    # The server takes no control characters.
    odd_keys: ClassVar[tuple[str, ...]] = tuple(key for key in ODD_KEYS if key.isprintable() or key == "\u2028")

    @pytest.fixture(autouse=True)
    def _serve(self, s3_server: LocalS3) -> None:
        self.server, self.server_version = s3_server, s3_server.version

    async def make_store(self) -> Store:
        bucket = new_name()
        self.server.create_bucket(bucket)
        return FsspecStore(f"s3://{bucket}/some where", **self.server.storage_options)


class TestGoogleFileSystem(StoreConformance):
    store_name = "FsspecStore, gcsfs"
    server_name = "GcsServer"
    # Google refuses names with line ends.
    odd_keys: ClassVar[tuple[str, ...]] = tuple(key for key in ODD_KEYS if "\n" not in key)
    many_keys = 100
    big_bytes = 1 << 19  # of larger bodies, gcsfs has aiohttp warn

    @pytest.fixture(autouse=True)
    def _serve(self) -> Iterator[None]:
        with GcsServer() as self.server:
            yield

    async def make_store(self) -> Store:
        bucket = new_name()
        self.server.create_bucket(bucket)
        # By its class: the one that gcsfs puts in its place asks Google itself about every bucket.
        return FsspecStore(GCSFileSystem(token="anon", endpoint_url=self.server.url), path=f"{bucket}/some where")


class TestHTTPFileSystem(StoreConformance):
    store_name = "FsspecStore, http"
    server_name = "FaultServer"

    @pytest.fixture(autouse=True)
    def _serve(self) -> Iterator[None]:
        with FaultServer() as self.server:
            yield

    async def make_store(self) -> Store:
        return FsspecStore(f"{self.server.url}/some%20where")

    async def put(self, store: Store, key: str, data: Buffer) -> None:
        self.server.put(f"some where/{key}", bytes(data))
