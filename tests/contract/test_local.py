"""The local store keeps the store contract, also where every write is flushed to the device."""

from pathlib import Path

import pytest

from aiozarr.stores import LocalStore
from aiozarr.testing.conformance import StoreConformance


class TestLocalStore(StoreConformance):
    fsync = False

    @pytest.fixture(autouse=True)
    def _root(self, tmp_path: Path) -> None:
        self.root = tmp_path / "not there yet" / "store"

    async def make_store(self) -> LocalStore:
        return LocalStore(self.root, fsync=self.fsync)


class TestDurableLocalStore(TestLocalStore):
    store_name = "LocalStore(fsync=True)"
    fsync = True
    many_keys = 20
