"""The zip store keeps the store contract: written and read on disk, and read inside another store."""

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from typing_extensions import Buffer

from aiozarr.stores import MemoryStore, Store, ZipStore
from aiozarr.stores.http.store import HTTPStore
from aiozarr.testing.conformance import StoreConformance
from tests.support.servers.http_server import FaultServer


def archive_of(values: dict[str, bytes], compression: int) -> bytes:
    into = BytesIO()
    with zipfile.ZipFile(into, "w", compression) as archive:
        for key, data in values.items():
            archive.writestr(key, data)
    return into.getvalue()


class TestWrittenZipStore(StoreConformance):
    store_name = "ZipStore, written"
    pickles = False  # what is not closed yet is in no archive
    compression = zipfile.ZIP_STORED

    @pytest.fixture(autouse=True)
    def _path(self, tmp_path: Path) -> None:
        self.folder, self.made = tmp_path, 0

    async def make_store(self) -> Store:
        self.made += 1
        return ZipStore(self.folder / f"{self.made}.zip", "w", compression=self.compression)


class TestDeflatedZipStore(TestWrittenZipStore):
    store_name = "ZipStore, written, deflated"
    compression = zipfile.ZIP_DEFLATED
    many_keys = 50


class TestReadZipStore(StoreConformance):
    store_name = "ZipStore, read"
    compression = zipfile.ZIP_STORED

    @pytest.fixture(autouse=True)
    def _values(self, tmp_path: Path) -> None:
        self.values: dict[str, bytes] = {}
        self.path = tmp_path / "data.zip"

    async def make_store(self) -> Store:
        return ZipStore(self.path)

    async def put(self, store: Store, key: str, data: Buffer) -> None:
        await self.put_all(store, {key: bytes(data)})

    async def put_all(self, store: Store, values: dict[str, bytes]) -> None:
        self.values |= values
        await self.bring(store, archive_of(self.values, self.compression))

    async def bring(self, store: Store, data: bytes) -> None:
        other = self.path.with_suffix(".new")
        other.write_bytes(data)
        other.replace(self.path)


class TestReadDeflatedZipStore(TestReadZipStore):
    store_name = "ZipStore, read, deflated"
    compression = zipfile.ZIP_DEFLATED


class TestRemoteZipStore(TestReadZipStore):
    store_name = "ZipStore over a store"

    async def make_store(self) -> Store:
        self.inner = MemoryStore()
        return ZipStore(self.inner, key="some where/data.zip")

    async def bring(self, store: Store, data: bytes) -> None:
        await self.inner.set("some where/data.zip", data)
        await store.aclose()  # the directory is read once


class TestRemoteZipStoreWithoutSuffixes(TestRemoteZipStore):
    store_name = "ZipStore over a store without suffix ranges"

    async def make_store(self) -> Store:
        self.inner = MemoryStore()
        self.inner.supports = replace(self.inner.supports, suffix_reads=False)
        return ZipStore(self.inner, key="some where/data.zip")


class TestRemoteZipStoreOnAWebServer(TestRemoteZipStore):
    store_name = "ZipStore over HTTPStore"
    server_name = "FaultServer"

    @pytest.fixture(autouse=True)
    def _serve(self) -> Iterator[None]:
        with FaultServer() as self.server:
            yield

    async def make_store(self) -> Store:
        return ZipStore(HTTPStore(self.server.url), key="some where/data.zip")

    async def bring(self, store: Store, data: bytes) -> None:
        self.server.put("some where/data.zip", data)
        await store.aclose()


class TestRemoteDeflatedZipStore(TestRemoteZipStore):
    store_name = "ZipStore over a store, deflated"
    compression = zipfile.ZIP_DEFLATED
