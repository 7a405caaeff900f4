"""Objects with obspec's methods keep the store contract: obstore's stores, asked by their methods."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import ClassVar

import pytest
from obstore.store import LocalStore as ObstoreLocal
from obstore.store import MemoryStore as ObstoreMemory
from obstore.store import S3Store

from aiozarr.stores import Store
from aiozarr.stores.obspec_store import from_obspec
from aiozarr.testing.conformance import StoreConformance
from aiozarr.testing.conformance.base import ODD_KEYS
from tests.support.servers.moto import LocalS3

_numbers = itertools.count()


def obstore_s3(server: LocalS3) -> S3Store:
    bucket = f"obspec-{next(_numbers)}-{os.getpid()}"
    server.create_bucket(bucket)
    return S3Store(
        bucket,
        prefix="some/where",
        endpoint=server.endpoint_url,
        access_key_id="local",
        secret_access_key="local-secret",
        region="us-east-1",
        client_options={"allow_http": True},
    )


STORABLE = tuple(key for key in ODD_KEYS if key.isprintable() or "\u2028" in key)


async def probed(store: Store) -> Store:
    assert await store.probe_conditional_writes()
    return store


class TestObstoreMemory(StoreConformance):
    store_name = "ObspecStore, obstore's MemoryStore"
    odd_keys: ClassVar[tuple[str, ...]] = STORABLE
    many_keys: ClassVar[int] = 150
    big_bytes: ClassVar[int] = 3 << 20
    pickles: ClassVar[bool] = False

    async def make_store(self) -> Store:
        return await probed(from_obspec(ObstoreMemory()))


class TestObstoreLocal(StoreConformance):
    store_name = "ObspecStore, obstore's LocalStore"
    odd_keys: ClassVar[tuple[str, ...]] = STORABLE
    many_keys: ClassVar[int] = 150
    big_bytes: ClassVar[int] = 3 << 20

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    async def make_store(self) -> Store:
        return from_obspec(ObstoreLocal(self.folder / f"store-{next(_numbers)}", mkdir=True), native=False)


class TestObstoreS3(StoreConformance):
    store_name = "ObspecStore, obstore's S3Store"
    server_name = "moto"
    odd_keys: ClassVar[tuple[str, ...]] = STORABLE
    many_keys: ClassVar[int] = 150
    big_bytes: ClassVar[int] = 3 << 20

    @pytest.fixture(autouse=True)
    def _server(self, s3_server: LocalS3) -> None:
        self.server, self.server_version = s3_server, s3_server.version

    async def make_store(self) -> Store:
        return await probed(from_obspec(obstore_s3(self.server), native=False))
