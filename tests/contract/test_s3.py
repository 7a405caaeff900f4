"""The object store keeps the store contract on an S3 server, with signed and with unsigned requests."""

import itertools
from typing import Any, ClassVar

import pytest
from typing_extensions import Buffer

from aiozarr.errors import StoreError
from aiozarr.model import Version
from aiozarr.stores import Store
from aiozarr.stores.object import ObjectStore
from aiozarr.testing.conformance import StoreConformance
from aiozarr.testing.conformance.base import ODD_KEYS
from local_s3 import LocalS3

_numbers = itertools.count()


class PatientStore(ObjectStore):
    """Stores do not retry, and moto answers 500 now and then where threads of its meet: a plain write is sent again."""

    async def _put(self, key: str, value: Buffer, mode: Any) -> Version | None:
        for _ in range(5):
            try:
                return await super()._put(key, value, mode)
            except StoreError as error:
                if mode != "overwrite" or error.status != 500:
                    raise
        return await super()._put(key, value, mode)


class TestObjectStoreOnS3(StoreConformance):
    # The client library takes no control characters.
    odd_keys: ClassVar[tuple[str, ...]] = tuple(key for key in ODD_KEYS if key.isprintable() or key == "\u2028")
    root = ""

    @pytest.fixture(autouse=True)
    def _serve(self, s3_server: LocalS3) -> None:
        self.server = s3_server

    async def make_store(self) -> Store:
        bucket = f"contract-{next(_numbers)}"
        self.server.create_bucket(bucket)
        store = PatientStore(f"s3://{bucket}{self.root}", **self.server.storage_options)
        assert await store.probe_conditional_writes()
        assert await store.list() == []
        return store


class TestObjectStoreBelowAPrefix(TestObjectStoreOnS3):
    many_keys = 20
    root = "/some where/ü%20"
