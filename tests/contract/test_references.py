"""The store of virtual references keeps the store contract: over a JSON document, with ranges and inlined values."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from typing_extensions import Buffer

from aiozarr.stores import MemoryStore, Store, from_references
from aiozarr.testing.conformance import StoreConformance


class TestReferences(StoreConformance):
    store_name = "References"
    document_name = "refs.json"

    @pytest.fixture(autouse=True)
    def _objects(self) -> None:
        self.objects = MemoryStore()
        self.references: dict[str, Any] = {}
        self.count = 0

    async def make_store(self) -> Store:
        await self.write()
        return from_references("memory://refs-conformance/refs.json", resolve={"memory://objects/": self.objects})

    async def write(self) -> None:
        document = {"version": 1, "templates": {"o": "memory://objects"}, "refs": self.references}
        await MemoryStore.named("refs-conformance").set("refs.json", json.dumps(document).encode())

    async def put(self, store: Store, key: str, data: Buffer) -> None:
        await self.put_all(store, {key: bytes(data)})

    async def put_all(self, store: Store, values: dict[str, bytes]) -> None:
        for key, data in values.items():
            self.references[key] = await self.reference(data)
        await self.write()
        await store.aclose()  # the table is read anew

    async def reference(self, data: bytes) -> Any:
        self.count += 1
        await self.objects.set(f"{self.count}.bin", b"before" + data + b"behind")
        return ["{{o}}/" + f"{self.count}.bin", 6, len(data)]


class TestReferencesToWholeObjects(TestReferences):
    store_name = "References to whole objects"

    async def reference(self, data: bytes) -> Any:
        self.count += 1
        await self.objects.set(f"{self.count}.bin", data)
        return ["{{o}}/" + f"{self.count}.bin"]


class TestInlinedReferences(TestReferences):
    store_name = "Inlined references"

    async def reference(self, data: bytes) -> Any:
        return f"base64:{b64encode(data).decode()}"
