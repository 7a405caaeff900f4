"""Stored objects that are longer than their codecs can make them are refused before they are received or unpacked."""

from __future__ import annotations

import asyncio
import json
import resource
import zipfile
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.codecs.codec_pipeline import DIAGNOSED_BYTES
from aiozarr.http1.response_check import MAX_CUT_BYTES
from aiozarr.stores import LocalStore, MemoryStore, ObjectStore, Store, WrapperStore, ZipStore
from aiozarr.stores.http.store import HTTPStore
from tests.support.remote_arrays import QUICK, RAW, document
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

PROMISED = 4 << 30

RECEIVED = 32 << 20
"""Of a body that is refused, the kernel's buffers may have so many bytes, and memory may grow by twice as many."""


@pytest.fixture
def sent() -> Iterator[list[int]]:
    """The bytes that servers have sent without end. They and the memory of the process must be few."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pieces: list[int] = []
    yield pieces
    assert sum(pieces) < RECEIVED
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) << 10 < 2 * RECEIVED


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """An empty server."""
    with FaultServer() as running:
        yield running


class Plain(WrapperStore):
    """A store whose requests take a task."""


def http(server: FaultServer) -> Store:
    return HTTPStore(f"{server.url}/bucket")


def s3(server: FaultServer) -> Store:
    return ObjectStore("s3://bucket", endpoint_url=server.url, region="us-east-1", anon=True)


@pytest.fixture(params=[http, s3], ids=["http", "s3"])
async def remote(request: pytest.FixtureRequest, server: FaultServer) -> AsyncIterator[Store]:
    """A store on the server."""
    async with request.param(server) as store:
        yield store


@pytest.fixture(params=[False, True], ids=["without a task", "with a task"])
async def store(request: pytest.FixtureRequest, remote: Store) -> Store:
    """The same, with requests that need a task and without."""
    return Plain(remote) if request.param else remote


@pytest.fixture(params=["length", "chunked"])
def flooding(request: pytest.FixtureRequest, sent: list[int]) -> spoil.Spoil:
    """Answers without end."""
    return spoil.promising(PROMISED, sent) if request.param == "length" else spoil.endless(sent)


async def fill(server: FaultServer, described: dict[str, Any], *, prefix: str = "bucket/") -> None:
    """Store an array with the values 1, 2, 3, ..."""
    memory = await stored(described)
    for key in await memory.list():
        data = await memory.get(key)
        assert data is not None
        server.put(prefix + key, bytes(data))


async def stored(described: dict[str, Any]) -> MemoryStore:
    memory = MemoryStore()
    await memory.set("zarr.json", json.dumps(described).encode())
    array = await aiozarr.open_array(memory, mode="r+")
    await array[...].write(np.arange(1, array.size + 1).reshape(array.shape))
    return memory


def begin_flood(server: FaultServer, flooding: spoil.Spoil) -> int:
    """Answer all requests from now on without end; return how many there were."""
    server.script = spoil.always(flooding)
    return len(server.requests)


# --- chunks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codecs", [RAW, [*RAW, "zstd"], [*RAW, "gzip", "crc32c"]], ids=["raw", "zstd", "gzip, crc"])
async def test_a_chunk_is_refused_when_its_bound_is_passed(
    server: FaultServer, store: Store, flooding: spoil.Spoil, codecs: list[Any]
) -> None:
    codecs = [codec if isinstance(codec, dict) else CODECS[codec] for codec in codecs]
    await fill(server, document([40], [20], codecs=codecs))
    array = await aiozarr.open_array(store, settings=QUICK)
    await array[20:]
    begun = begin_flood(server, flooding)
    with pytest.raises(aiozarr.LimitError) as caught:
        await array[:20]
    assert (caught.value.store, caught.value.key, caught.value.range) == (store.url, "c/0", None)
    assert len(server.requests) - begun == 1
    server.script = None
    assert (await array[:20]).tolist() == list(range(1, 21))


CODECS = {
    "zstd": {"name": "zstd", "configuration": {"level": 1, "checksum": False}},
    "gzip": {"name": "gzip", "configuration": {"level": 1}},
    "crc32c": {"name": "crc32c"},
}


async def test_a_chunk_that_is_a_little_too_long_is_left_to_its_codecs(server: FaultServer, store: Store) -> None:
    await fill(server, document([40], [20], codecs=RAW))
    array = await aiozarr.open_array(store, settings=QUICK)
    server.put("bucket/c/0", bytes(81))
    with pytest.raises(aiozarr.CodecError, match="81 bytes"):
        await array[:20]
    server.put("bucket/c/0", bytes(80 + DIAGNOSED_BYTES + 1))
    with pytest.raises(aiozarr.LimitError):
        await array[:20]


@pytest.mark.parametrize("way", [spoil.endless, partial(spoil.promising, PROMISED)], ids=["chunked", "length"])
async def test_a_chunk_that_is_fetched_in_parts_is_refused(
    server: FaultServer, store: Store, way: Callable[[list[int]], spoil.Spoil]
) -> None:
    pieces: list[int] = []
    await fill(server, document([2 << 20], [1 << 20], codecs=RAW))
    array = await aiozarr.open_array(store, settings=aiozarr.Settings(max_request_bytes=1 << 20, retries=0))
    await array[1 << 20 :]
    begin_flood(server, way(pieces))
    with pytest.raises((aiozarr.LimitError, aiozarr.StoreError)) as caught:
        await array[: 1 << 20]
    assert caught.value.key == "c/0"
    # Of a server without ranges, as much is received as to cut one from the object.
    assert sum(pieces) < MAX_CUT_BYTES + RECEIVED


async def test_the_chunk_that_a_write_changes_is_refused(server: FaultServer, sent: list[int]) -> None:
    await fill(server, document([40], [20], codecs=RAW))
    async with s3(server) as store:
        array = await aiozarr.open_array(store, mode="r+", settings=QUICK)
        await array[30].write(0)  # The first write reads the document, too.
        begin_flood(server, lambda reply: spoil.promising(PROMISED, sent)(reply) if reply.status == 200 else reply)
        with pytest.raises(aiozarr.LimitError) as caught:
            await array[3:5].write(0)
    assert (caught.value.store, caught.value.key) == (store.url, "c/0")
    assert "PUT" not in [request.method for request in server.requests if request.key == "bucket/c/0"]


async def test_a_refused_request_is_counted_once(server: FaultServer, sent: list[int]) -> None:
    await fill(server, document([40], [20], codecs=RAW))
    async with http(server) as store:
        array = await aiozarr.open_array(store, settings=QUICK)
        begin_flood(server, spoil.promising(PROMISED, sent))
        with aiozarr.record() as report, pytest.raises(aiozarr.LimitError):
            await array[:20]
    assert (report.requests, report.retries, report.bytes_fetched) == (1, 0, 0)


# --- indexes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("location", ["start", "end"])
async def test_the_index_of_a_shard_is_refused(
    server: FaultServer, store: Store, sent: list[int], location: str
) -> None:
    described = document([8], [4], inner=[2])
    described["codecs"][0]["configuration"]["index_location"] = location
    await fill(server, described)
    array = await aiozarr.open_array(store, settings=QUICK)
    await array[4:]
    begun = begin_flood(server, spoil.promising(PROMISED, sent))
    with pytest.raises((aiozarr.LimitError, aiozarr.StoreError)) as caught:
        await array[:4]
    assert (caught.value.store, caught.value.key) == (store.url, "c/0")
    assert caught.value.range is not None
    assert len(server.requests) - begun == 1


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("probe", [False, True], ids=["read", "plan"])
async def test_a_store_that_sends_more_than_an_index_is_told_its_bound(location: str, probe: bool) -> None:
    bounds: list[Any] = []

    class Noting(WrapperStore):
        async def fetch(
            self, key: str, range: Any = None, *, if_match: Any = None, max_bytes: int | None = None
        ) -> Any:
            bounds.append((key, type(range).__name__, max_bytes))
            bound: dict[str, Any] = {} if max_bytes is None else {"max_bytes": max_bytes}
            return await super().fetch(key, range, if_match=if_match, **bound)

    described = document([8], [4], inner=[2])
    described["codecs"][0]["configuration"]["index_location"] = location
    array = await aiozarr.open_array(Noting(await stored(described)), settings=QUICK)
    bounds.clear()
    await (array[:4].probe() if probe else array[:4])
    assert bounds[0] == ("c/0", "Range" if location == "start" else "Suffix", 2 * 16 + 4)


# --- metadata ------------------------------------------------------------------------------------------------------


async def test_a_document_is_refused_when_its_limit_is_passed(
    server: FaultServer, store: Store, flooding: spoil.Spoil
) -> None:
    settings = replace(QUICK, max_metadata_bytes=1000)
    await fill(server, document([8], [4], codecs=RAW))
    begin_flood(server, flooding)
    with pytest.raises(aiozarr.LimitError) as caught:
        await aiozarr.open_array(store, zarr_format=3, settings=settings)
    error = caught.value
    assert (error.limit, error.allowed) == ("max_metadata_bytes", 1000)
    assert (error.store, error.key, error.range) == (store.url, "zarr.json", None)
    assert [request.headers.get("range") for request in server.requests] == [None]


class Unbounded(WrapperStore):
    """A store that was written before `max_bytes`."""

    async def fetch(self, key: str, range: Any = None, *, if_match: Any = None) -> Any:
        return await super().fetch(key, range, if_match=if_match)


async def test_without_bounded_reads_one_byte_more_shows_that_a_document_is_too_large() -> None:
    memory = await stored(document([40], [20], codecs=RAW))
    store = Unbounded(memory)
    assert not store.supports.bounded_reads
    array = await aiozarr.open_array(store)
    assert (await array[:3]).tolist() == [1, 2, 3]
    await memory.set("c/0", bytes(1 << 20))
    with pytest.raises(aiozarr.CodecError):
        await array[:20]
    with pytest.raises(aiozarr.LimitError) as caught:
        await aiozarr.open_array(store, zarr_format=3, settings=aiozarr.Settings(max_metadata_bytes=10))
    size = len(memoryview(await memory.get("zarr.json") or b""))
    error = caught.value
    assert (error.limit, error.value, error.allowed) == ("max_metadata_bytes", size, 10)
    assert (error.store, error.key, error.range) == (store.url, "zarr.json", None)


async def test_an_error_of_a_document_names_no_range_that_nobody_asked_for() -> None:
    class Failing(Unbounded):
        async def fetch(self, key: str, range: Any = None, *, if_match: Any = None) -> Any:
            raise aiozarr.StoreError("broken", store=self.url, key=key, range=range)

    with pytest.raises(aiozarr.StoreError, match="broken") as caught:
        await aiozarr.open_array(Failing(MemoryStore()), zarr_format=3)
    assert caught.value.range is None


# --- stores on this machine ----------------------------------------------------------------------------------------


async def in_memory(folder: Path, described: dict[str, Any]) -> Store:
    memory = await stored(described)
    await memory.set("c/0", bytes(RECEIVED))
    return memory


async def on_disk(folder: Path, described: dict[str, Any]) -> Store:
    store = await copied(described, LocalStore(folder / "data.zarr"))
    with (folder / "data.zarr" / "c" / "0").open("r+b") as file:
        file.truncate(PROMISED)
    return store


async def in_a_zip(folder: Path, described: dict[str, Any]) -> Store:
    memory = await stored(described)
    size = 1 << 20
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = compressor.compress(bytes(size)) + compressor.flush(zlib.Z_FULL_FLUSH)
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        for key in await memory.list():
            if key != "c/0":
                archive.writestr(key, bytes(await memory.get(key) or b""))
        # Compressed here, because 1 GiB takes seconds: the directory says that it is deflated.
        member = zipfile.ZipInfo("c/0")
        archive.writestr(member, zeros * 1024 + b"\3\0")
        member.compress_type, member.file_size = zipfile.ZIP_DEFLATED, 1024 * size
    return ZipStore(folder / "data.zip", "r")


async def copied(described: dict[str, Any], store: Store) -> Store:
    memory = await stored(described)
    for key in await memory.list():
        await store.set(key, await memory.get(key) or b"")
    return store


Make = Callable[[Path, dict[str, Any]], Awaitable[Store]]


@pytest.mark.parametrize("make", [in_memory, on_disk, in_a_zip])
@pytest.mark.parametrize("codecs", [RAW, [*RAW, CODECS["zstd"]]], ids=["raw", "zstd"])
async def test_a_value_on_this_machine_is_neither_read_nor_unpacked(
    tmp_path: Path, make: Make, codecs: list[Any]
) -> None:
    store = await make(tmp_path, document([40], [20], codecs=codecs))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for opened in (store, Plain(store)):
        array = await aiozarr.open_array(opened)
        for read in (lambda: array[:20], lambda: array[3:5], lambda: array[...]):  # noqa: B023  # called at once
            with pytest.raises(aiozarr.LimitError) as caught:
                await read()
            assert (caught.value.store, caught.value.key, caught.value.range) == (opened.url, "c/0", None)
            with aiozarr.record(), pytest.raises(aiozarr.LimitError):
                await read()
        assert (await array[20:]).tolist() == list(range(21, 41))
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) << 10 < 2 * RECEIVED


@pytest.mark.parametrize("make", [in_memory, on_disk])
async def test_the_value_that_a_write_changes_is_not_read(tmp_path: Path, make: Make) -> None:
    store = await make(tmp_path, document([40], [20], codecs=RAW))
    array = await aiozarr.open_array(store, mode="r+")
    with pytest.raises(aiozarr.LimitError) as caught:
        await array[3:5].write(0)
    assert (caught.value.store, caught.value.key) == (store.url, "c/0")
    await array[:20].write(7)  # all of it: nothing has to be read
    assert (await array[:20]).tolist() == [7] * 20


# --- readers with other limits -------------------------------------------------------------------------------------


async def test_a_reader_with_a_larger_limit_is_not_refused(server: FaultServer) -> None:
    memory = MemoryStore()
    array = await aiozarr.create_array(memory, shape=4, chunks=4, dtype="string", codecs=["vlen-utf8"])
    values = np.array(["x" * 100_000, "a", "b", "c"], object)
    await array[...].write(values)
    for key in await memory.list():
        server.put(f"bucket/{key}", bytes(await memory.get(key) or b""))
    async with http(server) as store:
        small = await aiozarr.open_array(store, settings=replace(QUICK, max_chunk_bytes=1000))
        large = await aiozarr.open_array(store, settings=QUICK)
        server.latency = 0.05
        refused, read = await asyncio.gather(small[...], large[...], return_exceptions=True)
        assert isinstance(refused, aiozarr.LimitError)
        assert refused.key == "c/0"
        assert not isinstance(read, BaseException)
        assert read.tolist() == values.tolist()
        # In one operation too.
        both = [large[...], small[...]]
        with pytest.raises(aiozarr.LimitError):
            await aiozarr.read_many(both)
        first, second = await aiozarr.read_many([large[...], large[1:]])
        assert (first[1], second[0]) == ("a", "a")
