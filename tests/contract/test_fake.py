"""The fake store of the tests keeps the store contract."""

from typing import ClassVar

from aiozarr.stores import Store
from aiozarr.testing.conformance import StoreConformance
from aiozarr.testing.fakes import FakeStore


class TestFakeStore(StoreConformance):
    pickles: ClassVar[bool] = False

    async def make_store(self) -> Store:
        return FakeStore(latency=0, page_size=100)


class TestFakeStoreWithoutVersions(TestFakeStore):
    store_name: ClassVar[str] = "FakeStore without versions"

    async def make_store(self) -> Store:
        return FakeStore(latency=0, versions=False)
