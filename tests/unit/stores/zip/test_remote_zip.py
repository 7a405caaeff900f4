"""Archives in other stores: the requests of each read, and that two archives are never mixed."""

from __future__ import annotations

import asyncio
import struct
import zlib
from dataclasses import replace
from typing import Any

import pytest

from aiozarr.errors import ChangedError, LimitError, StoreError, UnsupportedOperationError
from aiozarr.model import ByteRange, Entry, Range, Suffix, Value, Version
from aiozarr.stores import MemoryStore, ZipStore
from aiozarr.stores.http.store import HTTPStore
from aiozarr.stores.zip import remote_zip
from aiozarr.testing.fakes import FakeStore
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer
from tests.support.zip_archives import DATA, RecordingStore, archive_of, deflated_archive, read, streamed_archive


async def test_the_directory_is_fetched_once_and_then_one_range_per_value() -> None:
    inner = RecordingStore()
    data = archive_of({f"c/{i}": bytes([i]) * 100_000 for i in range(8)})
    await inner.set("x.zip", data)
    store = ZipStore(inner, key="x.zip")
    values = await asyncio.gather(*(read(store, f"c/{i}") for i in range(8)))
    assert values == [bytes([i]) * 100_000 for i in range(8)]
    assert len(inner.fetched) == 1 + 8
    assert isinstance(inner.fetched[0], Suffix)
    assert sum(each.length or 0 for each in inner.fetched[1:] if isinstance(each, Range)) < 8 * 100_000 + 8 * 200
    inner.fetched.clear()
    assert await read(store, "c/3", Range(50_000, 10)) == bytes([3]) * 10
    assert sum(each.length or 0 for each in inner.fetched if isinstance(each, Range)) == 10


async def test_an_archive_that_comes_later_is_found() -> None:
    inner = MemoryStore()
    store = ZipStore(inner, key="x.zip")
    assert await store.fetch("a") is None
    assert await store.list() == []
    await inner.set("x.zip", archive_of({"a": b"1"}))
    assert await read(store, "a") == b"1"


async def test_a_part_of_a_stored_member_costs_that_part() -> None:
    inner = RecordingStore()
    await inner.set("x.zip", archive_of({"shard": DATA, "other": DATA}))
    store = ZipStore(inner, key="x.zip")
    assert await store.exists("shard")
    inner.fetched.clear()
    assert await read(store, "shard", Range(500, 4)) == DATA[500:504]
    assert await read(store, "other", Suffix(4)) == DATA[-4:]
    assert inner.fetched == [Range(535, 4), Range(2 * 35 + 2 * len(DATA) - 4, 4)]


async def test_where_a_member_may_begin_elsewhere_its_header_is_fetched_beside_the_first_part() -> None:
    inner = RecordingStore()
    await inner.set("x.zip", streamed_archive({"shard": DATA}))
    store = ZipStore(inner, key="x.zip")
    assert await store.exists("shard")
    inner.fetched.clear()
    assert await read(store, "shard", Range(500, 4)) == DATA[500:504]
    assert inner.fetched == [Range(0, 35), Range(535, 4)]
    assert await read(store, "shard", Range(600, 4)) == DATA[600:604]
    assert inner.fetched[2:] == [Range(635, 4)]


async def test_a_directory_that_is_larger_than_the_first_fetch_costs_one_more() -> None:
    inner = RecordingStore()
    await inner.set("x.zip", archive_of({f"a/long/way/to/{i}": b"" for i in range(2000)}))
    assert len(await ZipStore(inner, key="x.zip").list()) == 2000
    assert len(inner.fetched) == 2


class WithoutSuffixes(RecordingStore):
    """Cannot read from the end."""

    def __init__(self) -> None:
        super().__init__()
        self.supports = replace(self.supports, suffix_reads=False)
        self.looked = 0

    async def stat(self, key: str) -> Entry | None:
        self.looked += 1
        entry = self.fetch_now(key)
        return None if entry is None else Entry(key, entry.size, entry.version)

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        assert not isinstance(range, Suffix)
        return await super().fetch(key, range, if_match=if_match)


async def test_where_nothing_is_read_from_the_end_the_size_is_asked_for_first() -> None:
    inner = WithoutSuffixes()
    store = ZipStore(inner, key="x.zip")
    assert await store.list() == []
    data = archive_of({"a": DATA, "b": DATA})
    await inner.set("x.zip", data)
    await store.aclose()
    inner.looked = 0
    inner.fetched.clear()
    assert await read(store, "a", Suffix(4)) == DATA[-4:]
    assert await read(store, "b") == DATA
    assert (inner.looked, inner.fetched[0], len(inner.fetched)) == (1, Range(0), 3)


async def test_without_range_requests_the_archive_is_fetched_whole_and_cached() -> None:
    values = {f"c/{i}": bytes([i]) * 2000 for i in range(50)}
    with FaultServer({"x.zip": archive_of(values)}) as server:
        server.script = lambda request, reply: (
            reply if request.method == "HEAD" else spoil.whole(server.get(request.key) or b"")(reply)
        )
        async with HTTPStore(server.url) as web:
            for expected in (["GET", "HEAD", "GET"], ["HEAD", "GET"]):  # the second time it is known
                store = ZipStore(web, key="x.zip")
                assert {key: await read(store, key) for key in await store.list()} == values
                assert await read(store, "c/7", Range(10, 5)) == bytes([7]) * 5
                assert [request.method for request in server.requests] == expected
                server.requests.clear()
        async with HTTPStore(server.url) as web:
            # The end of a small archive is all of it, and does not tell yet what the server does.
            server.put("x.zip", archive_of({"a": DATA, "b": DATA, "c": DATA}))
            store = ZipStore(web, key="x.zip")
            assert [await read(store, key) for key in "abcabc"] == [DATA] * 6
            assert [request.method for request in server.requests] == ["GET", "GET", "HEAD", "GET"]


async def test_an_archive_that_is_too_large_for_a_server_without_ranges_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_zip, "MAX_WHOLE_ARCHIVE_BYTES", 1000)
    with FaultServer({"x.zip": archive_of({"a": DATA * 9})}) as server:
        server.script = lambda request, reply: (
            reply if request.method == "HEAD" else spoil.whole(server.get(request.key) or b"")(reply)
        )
        async with HTTPStore(server.url) as web:
            with pytest.raises(
                UnsupportedOperationError, match="bytes, but the server does not support ranges; without them, archives"
            ) as caught:
                await ZipStore(web, key="x.zip").get("a")
    assert "x.zip" in str(caught.value)


class WithoutVersions(RecordingStore):
    """Tells no versions."""

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        value = await super().fetch(key, range)
        return None if value is None else replace(value, version=None)


@pytest.mark.parametrize("kind", [RecordingStore, WithoutVersions])
@pytest.mark.parametrize("part", [None, Range(5, 10)], ids=["whole", "part"])
async def test_an_archive_that_is_replaced_between_two_requests_is_never_mixed_with_the_new_one(
    kind: type[RecordingStore], part: ByteRange | None
) -> None:
    inner = kind()
    await inner.set("x.zip", archive_of({"a": b"1" * 100, "b": b"old"}))
    store = ZipStore(inner, key="x.zip")
    old = await store.fetch("a")
    assert old is not None
    await inner.set("x.zip", archive_of({"first": b"", "a": b"2" * 101, "b": b"new"}))
    with pytest.raises(ChangedError):
        await store.fetch("a", part, if_match=old.version)
    assert await read(store, "a", part) == b"2" * (101 if part is None else 10)
    assert await store.list() == ["a", "b", "first"]


async def test_an_archive_that_is_replaced_again_and_again_is_a_changed_error() -> None:
    class Restless(MemoryStore):
        async def fetch(self, key: str, range: Any = None, *, if_match: Version | None = None) -> Value | None:
            value = await super().fetch(key, range)
            await self.set("x.zip", archive_of({"a": DATA}))
            return value

    inner = Restless()
    await inner.set("x.zip", archive_of({"a": DATA}))
    with pytest.raises(ChangedError):
        await ZipStore(inner, key="x.zip").fetch("a")


class Halting(RecordingStore):
    """Has no header to give, and takes its time for the data."""

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        if range == Range(0, 35):
            raise StoreError("no header today")
        if isinstance(range, Range):
            await asyncio.Event().wait()
        return await super().fetch(key, range, if_match=if_match)


async def test_a_failed_header_cancels_the_request_for_the_data() -> None:
    inner = Halting()
    await inner.set("x.zip", streamed_archive({"shard": DATA}))
    store = ZipStore(inner, key="x.zip")
    with pytest.raises(StoreError, match="no header"):
        await store.fetch("shard", Range(500, 4))
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_header_shorter_than_expected_is_read() -> None:
    data = archive_of({"shard": DATA})
    directory = data.index(b"PK\1\2")
    field = struct.pack("<2H8s", 0x9999, 8, b"")  # in the directory only, and as long as what lies behind the data
    end = data.index(b"PK\5\6")
    entry = data[directory : directory + 30] + struct.pack("<H", len(field)) + data[directory + 32 : end] + field
    tail = data[end : end + 12] + struct.pack("<2L", len(entry), directory + len(field)) + data[end + 20 :]
    inner = MemoryStore()
    await inner.set("x.zip", data[:directory] + bytes(len(field)) + entry + tail)
    store = ZipStore(inner, key="x.zip")
    assert await read(store, "shard", Range(500, 4)) == DATA[500:504]
    assert await read(store, "shard") == DATA


async def test_a_bounded_read_fetches_no_more_packed_bytes_than_its_bound_can_need() -> None:
    """Empty deflate blocks make any number of packed bytes out of few unpacked ones."""
    data = bytes(range(256)) * 100
    packer = zlib.compressobj(wbits=-15)
    padding = bytes([0, 0, 0, 255, 255]) * 400_000  # empty blocks, which unpack to nothing
    packed = padding + packer.compress(data) + packer.flush()
    inner = FakeStore({"x.zip": deflated_archive(packed, len(data), zlib.crc32(data))}, latency=0)
    store = ZipStore(inner, key="x.zip")
    assert await read(store, "a") == data
    before = inner.nbytes
    for part, max_bytes in ((None, len(data)), (Range(0, 80), 80)):
        with pytest.raises(LimitError) as caught:
            await store.fetch("a", part, max_bytes=max_bytes)
        assert caught.value.key == "a"
    assert inner.nbytes - before < 400_000 < len(packed)
    with pytest.raises(LimitError):
        await store.fetch("a", max_bytes=len(data) - 1)
