"""Arrays in file systems of fsspec: read by parts, in as few requests as elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.implementations.reference import ReferenceFileSystem

import aiozarr
from aiozarr.errors import StoreError
from aiozarr.stores import MemoryStore, PrefixStore, TraceStore
from aiozarr.stores.fsspec.store import FsspecStore
from tests.support.servers.http_server import FaultServer
from tests.support.servers.moto import LocalS3

VALUES = np.arange(10_000, dtype="i4").reshape(100, 100)


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


async def stored(index_location: str = "end") -> MemoryStore:
    store = MemoryStore()
    shard = {
        "name": "sharding_indexed",
        "configuration": {
            "chunk_shape": [10, 10],
            "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
            "index_location": index_location,
        },
    }
    array = await aiozarr.create_array(store, shape=(100, 100), dtype="i4", chunks=(50, 50), codecs=[shard])
    await array[...].write(VALUES)
    return store


@pytest.mark.parametrize("index_location", ["start", "end"])
async def test_shards_are_read_by_ranges_over_the_web(server: FaultServer, index_location: str) -> None:
    for key in await (source := await stored(index_location)).list():
        data = await source.get(key)
        assert data is not None
        server.put(f"a.zarr/{key}", bytes(data))
    array = await aiozarr.open_array(FsspecStore(f"{server.url}/a.zarr"))
    assert (await array[...] == VALUES).all()
    # A shard as small as this comes whole, unless nothing may be read over.
    array = await aiozarr.open_array(FsspecStore(f"{server.url}/a.zarr/"), settings=aiozarr.Settings(merge_gap_bytes=0))
    with aiozarr.record() as report:
        assert (await array[12, 34:37] == VALUES[12, 34:37]).all()
    assert report.requests == 2
    assert report.bytes_fetched == 400 + 25 * 16 + 4


async def test_arrays_are_written_and_read_through_s3fs(s3_server: LocalS3) -> None:
    s3_server.create_bucket("arrays")
    options = s3_server.storage_options
    source, target = await stored(), FsspecStore("s3fs://arrays/a.zarr", **options)
    for key in await source.list():
        data = await source.get(key)
        assert data is not None
        await target.set(key, data)
    async with await aiozarr.open_array("s3fs://arrays/a.zarr", storage_options=options) as array:
        assert (await array[...] == VALUES).all()
        assert (await array[3:60:7, 5] == VALUES[3:60:7, 5]).all()


@pytest.mark.parametrize("options", [{"chunks": (50, 50)}, {"chunks": (10, 10), "shards": (50, 50)}], ids=str)
@pytest.mark.parametrize("codecs", ["auto", []], ids=str)
async def test_no_range_ends_behind_a_reference(
    options: dict[str, Any], codecs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.where(VALUES % 7, VALUES, 0)
    values[:10] = 0  # some inner chunks are not stored
    source = MemoryStore()
    await aiozarr.create_array(source, data=values, codecs=codecs, **options)
    references: dict[str, Any] = {}
    with (tmp_path / "blob").open("wb") as blob:
        for key in sorted(await source.list()):
            data = bytes(await source.get(key) or b"")
            references[key] = [f"file://{tmp_path}/blob", blob.tell(), len(data)]
            blob.write(data)
    cat_file, ends = ReferenceFileSystem._cat_file, []

    async def recorded(self: Any, path: str, start: int | None = None, end: int | None = None, **others: Any) -> bytes:
        # fsspec before 2026.9 does not clip a range: it returns what follows in the file.
        ends.append((end or 0, references.get(path, ("", 0, 0))[2]))
        data: bytes = await cat_file(self, path, start=start, end=end, **others)
        return data

    monkeypatch.setattr(ReferenceFileSystem, "_cat_file", recorded)
    fs = fsspec.filesystem("reference", fo={"version": 1, "refs": references}, remote_protocol="file")
    array = await aiozarr.open_array(FsspecStore(fs))
    assert (await array[...] == values).all()
    assert (await array[12, 3:80] == values[12, 3:80]).all()
    assert ends
    assert all(end <= size for end, size in ends)


async def test_an_error_names_the_target_of_a_reference() -> None:
    source = await stored()
    metadata = bytes(await source.get("zarr.json") or b"").decode()
    references = {"zarr.json": metadata, "c/0/0": ["http://u:hidden@127.0.0.1:9/x.nc?sig=hidden", 0, 8]}
    fs = fsspec.filesystem("reference", fo={"version": 1, "refs": references}, remote_protocol="http")
    with pytest.raises(StoreError) as raised:
        array = await aiozarr.open_array(FsspecStore(fs), settings=aiozarr.Settings(retries=0))
        await array[0, 0]
    assert "the connection failed; the key is a reference to '127.0.0.1:9/x.nc'" in str(raised.value)
    assert "hidden" not in str(raised.value)


class Table(dict[str, Any]):
    """Refuses keys as fsspec's table of references on disk does, which needs a package that reads parquet."""

    def __getitem__(self, key: str) -> Any:
        if key not in self and "/" in key and "/.z" not in key:
            [int(part) for part in key.rpartition("/")[2].split(".")]
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default


async def test_a_table_of_references_is_opened_without_its_format() -> None:
    source = MemoryStore()
    await aiozarr.create_array(source, "t2m", data=VALUES, chunks=(50, 50), zarr_format=2)
    values = {key: bytes(await source.get(key) or b"") for key in await source.list()}
    fs = fsspec.filesystem("reference", fo={"version": 1, "refs": {}}, skip_instance_cache=True)
    fs.references = Table({key: value for key, value in values.items() if key != "t2m/0.1"})
    store = FsspecStore(fs)
    array = await aiozarr.open_array(store, "t2m")
    assert (await array[:, :50] == VALUES[:, :50]).all()
    assert (await array[:50, 50:] == 0).all()
    assert await store.stat("t2m/zarr.json") is None
    fs.references["t2m/.zattrs"] = ["file:///nothing", 1]  # damaged: not two members
    with pytest.raises(StoreError, match="ValueError"):
        await store.get("t2m/.zattrs")


class SlowMemory(MemoryFileSystem):
    """Gives other writers time between reading and writing."""

    protocol = "slowmemory"
    store: ClassVar[dict[str, object]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: object) -> bytes:
        data: bytes = super().cat_file(path, start, end, **options)
        time.sleep(0.02)
        return data


@pytest.mark.filterwarnings("ignore::aiozarr.UnsafeWriteWarning")
async def test_partial_writes_of_one_process_are_serialised_for_all_roots() -> None:
    files = SlowMemory()
    above, there = FsspecStore(files, path="/g"), FsspecStore(files, path="/g/a")
    await aiozarr.create_array(there, shape=(4,), chunks=(4,), dtype="i4")
    roots = [(above, "a"), (there, ""), (PrefixStore(above, "a"), ""), (TraceStore(there, print), "")]
    arrays = [await aiozarr.open_array(store, path, mode="r+") for store, path in roots]
    await asyncio.gather(*(array[i].write(i + 1) for i, array in enumerate(arrays)))
    assert (await arrays[0][...]).tolist() == [1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore::aiozarr.UnsafeWriteWarning")
async def test_appends_of_one_process_are_serialised_for_all_roots() -> None:
    files = SlowMemory()
    above, there = FsspecStore(files, path="/h"), FsspecStore(files, path="/h/a")
    await aiozarr.create_array(there, shape=(0,), chunks=(1,), dtype="i4")
    arrays = [await aiozarr.open_array(above, "a", mode="r+"), await aiozarr.open_array(there, mode="r+")]
    await asyncio.gather(*(array.append(np.array([i], "i4")) for i, array in enumerate(arrays)))
    assert sorted((await (await aiozarr.open_array(there))[...]).tolist()) == [0, 1]
