"""The object store keeps the store contract on an S3 server, with signed and with unsigned requests."""

import itertools
from typing import ClassVar

import pytest

from aiozarr.stores import Store
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.testing.conformance import StoreConformance
from aiozarr.testing.conformance.base import ODD_KEYS
from tests.support.servers.moto import LocalS3

_numbers = itertools.count()


class TestObjectStoreOnS3(StoreConformance):
    store_name = "ObjectStore, s3://"
    server_name = "moto"
    # The client library takes no control characters.
    odd_keys: ClassVar[tuple[str, ...]] = tuple(key for key in ODD_KEYS if key.isprintable() or key == "\u2028")
    root = ""

    @pytest.fixture(autouse=True)
    def _serve(self, s3_server: LocalS3) -> None:
        self.server, self.server_version = s3_server, s3_server.version

    async def make_store(self) -> Store:
        bucket = f"contract-{next(_numbers)}"
        self.server.create_bucket(bucket)
        store = ObjectStore(f"s3://{bucket}{self.root}", **self.server.storage_options)
        assert await store.probe_conditional_writes()
        assert await store.list() == []
        return store


class TestObjectStoreBelowAPrefix(TestObjectStoreOnS3):
    store_name = "ObjectStore, s3://, below a prefix"
    many_keys = 20
    root = "/some where/ü%20"
