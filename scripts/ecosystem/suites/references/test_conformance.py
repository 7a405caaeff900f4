"""Stores over parquet tables, VirtualiZarr's manifests and icechunk's sessions keep the store contract.

These tables have only keys of arrays, so each key of the suite is the key of a chunk of one array.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import fsspec
import icechunk
import numpy as np
import pytest
import zarr
from fsspec.implementations.reference import LazyReferenceMapper
from obspec_utils.registry import ObjectStoreRegistry
from obstore.store import LocalStore as ObstoreLocalStore
from typing_extensions import Buffer
from virtualizarr.manifests import ChunkManifest, ManifestArray, ManifestGroup, ManifestStore
from zarr.core.buffer import cpu

from aiozarr.errors import AiozarrError
from aiozarr.integrations.icechunk import from_session
from aiozarr.integrations.virtualizarr import from_manifest_store
from aiozarr.stores import Entry, Store, Supports, check_key, check_prefix, from_references
from aiozarr.testing.conformance import StoreConformance

CHUNKS = 2000
"""Chunks of the array: more than any test stores."""


class ChunkKeys(Store):
    """Keys of any form, each of which is a chunk of the array `a` in the store that `make(values)` returns."""

    supports = Supports(listable=True, conditional_reads=True, bounded_reads=True)

    def __init__(self, inner: Store, unused: str) -> None:
        self.keys: dict[str, str] = {}
        self.inner = inner
        self.unused = unused

    @property
    def url(self) -> str:
        return "chunks://"

    async def call(self, method: str, key: str, *arguments: Any, **keywords: Any) -> Any:
        """Call a method of the inner store for a key; None if nothing is stored there."""
        check_key(key, store=self.url)
        try:
            found = await getattr(self.inner, method)(self.keys.get(key, self.unused), *arguments, **keywords)
        except AiozarrError as error:
            error.store, error.key = self.url, key
            raise
        return found if key in self.keys or found is None else pytest.fail("a chunk that is not referenced has a value")

    async def fetch(self, key: str, range: Any = None, **keywords: Any) -> Any:
        return await self.call("fetch", key, range, **keywords)

    async def stat(self, key: str) -> Any:
        entry = await self.call("stat", key)
        return None if entry is None else Entry(key, entry.size, entry.version)

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        check_prefix(prefix, store=self.url)
        for key in sorted(self.keys):
            if key.startswith(prefix):
                yield await self.stat(key)
        if self.keys:
            stored = [entry.key async for entry in self.inner.scan("a/") if entry.key.rpartition("/")[2].isdigit()]
            assert sorted(stored) == sorted(self.keys.values())

    async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        check_prefix(prefix, store=self.url)
        keys = [key for key in sorted(self.keys) if key.startswith(prefix)]
        rests = [key[len(prefix) :].partition("/") for key in keys]
        names = [prefix + name for name, mark, _ in rests if not mark]
        return names, sorted({f"{prefix}{name}/" for name, mark, _ in rests if mark})

    async def aclose(self) -> None:
        await self.inner.aclose()


class TestManifests(StoreConformance):
    """Arrays of VirtualiZarr's manifests."""

    store_name = "VirtualiZarr's manifests"
    pickles = False
    chunk = "c/"
    stores_empty = False

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path
        self.count = 0
        self.values: dict[str, bytes] = {}
        (tmp_path / "data").mkdir()

    async def make_store(self) -> Store:
        return ChunkKeys(await self.open_table({}), f"a/{self.chunk}{CHUNKS - 1}")

    async def put(self, store: Store, key: str, data: Buffer) -> None:
        await self.put_all(store, {key: bytes(data)})

    async def put_all(self, store: Store, values: dict[str, bytes]) -> None:
        assert isinstance(store, ChunkKeys)
        for key, data in values.items():
            store.keys.setdefault(key, f"a/{self.chunk}{len(store.keys)}")
            self.values[store.keys[key]] = data
            if not data and not self.stores_empty:
                pytest.skip("chunks of no bytes are refused by VirtualiZarr and icechunk")
        await store.aclose()
        store.inner = await self.open_table({key: self.values[key] for key in store.keys.values()})

    def write_objects(self, values: dict[str, bytes]) -> Iterator[tuple[int, str, int, int]]:
        """Write an object for each value; yield the number of the chunk, path, offset and length."""
        self.count += 1
        for key, data in values.items():
            number = int(key.rpartition("/")[2])
            path = self.folder / "data" / f"{self.count}-{number}.bin"
            path.write_bytes(b"before" + data + b"behind")
            yield number, str(path), 6, len(data)

    async def open_table(self, values: dict[str, bytes]) -> Store:
        paths = np.full(CHUNKS, "", dtype=np.dtypes.StringDType())
        offsets, lengths = np.zeros(CHUNKS, "u8"), np.zeros(CHUNKS, "u8")
        for number, path, offset, length in self.write_objects(values):
            paths[number], offsets[number], lengths[number] = f"file://{path}", offset, length
        made = zarr.create_array({}, shape=(CHUNKS,), chunks=(1,), dtype="u1", compressors=None)
        manifest = ChunkManifest.from_arrays(paths=paths, offsets=offsets, lengths=lengths)
        group = ManifestGroup(
            arrays={"a": ManifestArray(metadata=made.metadata, chunkmanifest=manifest)}, attributes={}
        )
        registry = ObjectStoreRegistry({"file://": ObstoreLocalStore()})
        return from_manifest_store(ManifestStore(group, registry=registry))


class TestParquet(TestManifests):
    """Record files of parquet."""

    store_name = "Parquet references"
    chunk = ""
    stores_empty = True

    async def open_table(self, values: dict[str, bytes]) -> Store:
        objects = list(self.write_objects(values))
        root = f"{self.folder}/{self.count}.parquet"
        table = LazyReferenceMapper.create(root, fs=fsspec.filesystem("file"), record_size=100)
        document = {"zarr_format": 2, "shape": [CHUNKS], "chunks": [1], "dtype": "|u1", "order": "C"}
        document |= {"compressor": None, "filters": None, "fill_value": 0}
        table[".zgroup"] = json.dumps({"zarr_format": 2}).encode()
        table["a/.zarray"] = json.dumps(document).encode()
        for number, path, offset, length in objects:
            table[f"a/{number}"] = [f"file://{path}", offset, length]
        table.flush()
        return from_references(root, resolve={f"{self.folder}/data/": {}})


class TestVirtualChunks(TestManifests):
    """Chunks of an icechunk repository that are ranges of other objects."""

    store_name = "icechunk's virtual chunks"

    def repository(self) -> tuple[Any, Any]:
        """Return a new repository, and a session with an empty array."""
        prefix = f"file://{self.folder}/data/"
        config = icechunk.RepositoryConfig.default()
        container = icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(f"{self.folder}/data"))
        config.set_virtual_chunk_container(container)
        made = icechunk.Repository.create(
            icechunk.in_memory_storage(), config, authorize_virtual_chunk_access={prefix: None}
        )
        session = made.writable_session("main")
        zarr.create_array(session.store, name="a", shape=(CHUNKS,), chunks=(1,), dtype="u1", compressors=None)
        return made, session

    async def open_table(self, values: dict[str, bytes]) -> Store:
        made, session = self.repository()
        specs = [
            icechunk.VirtualChunkSpec([number], f"file://{path}", offset, length)
            for number, path, offset, length in self.write_objects(values)
        ]
        session.store.set_virtual_refs("a", specs)
        session.commit("references")
        return from_session(made.readonly_session("main"))


class TestNativeChunks(TestVirtualChunks):
    """Chunks of an icechunk repository that are its own objects."""

    store_name = "icechunk's own chunks"

    async def open_table(self, values: dict[str, bytes]) -> Store:
        made, session = self.repository()
        for key, data in values.items():
            await session.store.set(key, cpu.Buffer.from_bytes(data))
        session.commit("chunks")
        return from_session(made.readonly_session("main"))
