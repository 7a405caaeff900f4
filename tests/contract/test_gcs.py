"""The object store keeps the store contract on Google Cloud Storage's fake, also below a prefix and with tokens."""

from collections.abc import Iterator
from typing import ClassVar

import pytest

from aiozarr.stores import Store
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.testing.conformance import StoreConformance
from aiozarr.testing.conformance.base import ODD_KEYS
from tests.support.servers.gcs_server import GcsServer


class TestObjectStoreOnGcs(StoreConformance):
    store_name = "ObjectStore, gs://"
    server_name = "GcsServer"
    # Google refuses names with line ends.
    odd_keys: ClassVar[tuple[str, ...]] = tuple(key for key in ODD_KEYS if "\n" not in key)
    root = ""
    token: ClassVar[str | None] = None
    made = 0

    @pytest.fixture(autouse=True)
    def _serve(self) -> Iterator[None]:
        with GcsServer() as self.server:
            yield

    async def make_store(self) -> Store:
        self.made += 1
        self.server.create_bucket(f"bucket-{self.made}")
        if self.token is not None:
            self.server.tokens = {self.token}
        options = {**self.server.storage_options, "token": self.token}
        store = ObjectStore(f"gs://bucket-{self.made}{self.root}", **options)
        assert await store.probe_conditional_writes()
        assert await store.list() == []
        return store


class TestObjectStoreOnGcsBelowAPrefix(TestObjectStoreOnGcs):
    store_name = "ObjectStore, gs://, below a prefix"
    many_keys = 20
    root = "/some where/ü%20"


class TestObjectStoreOnGcsWithAToken(TestObjectStoreOnGcs):
    store_name = "ObjectStore, gs://, with a token"
    many_keys = 20
    token = "ya29.a-token"
