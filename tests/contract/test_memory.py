"""The memory store keeps the store contract."""

from aiozarr.stores import MemoryStore
from aiozarr.testing.conformance import StoreConformance


class TestMemoryStore(StoreConformance):
    async def make_store(self) -> MemoryStore:
        return MemoryStore()
