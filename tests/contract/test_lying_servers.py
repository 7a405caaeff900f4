"""Servers that break the rules of S3: aiozarr notices, and neither takes wrong bytes nor relies on what does not hold.

The suite of the contract is not for them: it states what holds where a server is right.
"""

from __future__ import annotations

import contextlib
import itertools
from typing import Any, ClassVar

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import ChangedError, StoreError, UnsafeWriteWarning, UnsupportedOperationError
from aiozarr.model import ByteRange, IfAbsent, IfMatch, Range, Suffix
from aiozarr.stores import ObjectStore
from aiozarr.testing.conformance.base import ODD_KEYS
from aiozarr.testing.conformance.reading import DATA, RANGES
from tests.support.servers import S3Server

pytestmark = pytest.mark.servers

# What chunks and the inner chunks of shards are read by: every server answers these right.
INSIDE = (None, Range(0), Range(10, 20), Range(10), Range(99), Range(99, 1), Range(0, 100))

_numbers = itertools.count()


class LyingServer:
    """What holds on each of them; a subclass says which server it is."""

    server_name: ClassVar[str]
    server_version = ""
    server: S3Server

    def open(self, path: str = "") -> ObjectStore:
        """Return a store in a new bucket."""
        bucket = f"lying-{next(_numbers)}"
        self.server.create_bucket(bucket)
        return ObjectStore(f"s3://{bucket}{path}", **self.server.storage_options)

    async def test_the_probe_finds_that_conditions_of_writes_do_not_hold_and_leaves_no_object(self) -> None:
        async with self.open() as store:
            before = store.supports
            assert await store.probe_conditional_writes() is False
            assert (before.conditional_writes, store.supports.conditional_writes) == (None, False)
            assert await store.list() == []

    async def test_conditional_writes_are_refused_after_the_probe(self) -> None:
        async with self.open() as store:
            version = await store.set("a", b"1")
            assert version is not None
            await store.probe_conditional_writes()
            for precondition in (IfAbsent(), IfMatch(version)):
                with pytest.raises(UnsupportedOperationError):
                    await store.set("a", b"2", precondition=precondition)
            assert await store.get("a") == b"1"

    async def test_writing_parts_of_chunks_warns_that_other_processes_are_not_guarded_against(self) -> None:
        async with self.open() as store:
            array = await aiozarr.create_array(store, shape=8, dtype="i4", chunks=4)
            with pytest.warns(UnsafeWriteWarning):
                await array[1:6].write(np.arange(1, 6))
            assert (await array[...]).tolist() == [0, 1, 2, 3, 4, 5, 0, 0]

    @pytest.mark.parametrize(("range", "expected"), RANGES, ids=[str(part) for part, _ in RANGES])
    async def test_a_range_gives_its_own_bytes_or_an_error(self, range: ByteRange | None, expected: bytes) -> None:
        async with self.open() as store:
            await store.set("a", DATA)
            found = await _fetched(store, range)
            assert found == expected or (isinstance(found, StoreError) and range not in INSIDE)

    @pytest.mark.parametrize("range", [None, Range(0), Range(0, 5), Range(3, 5), Suffix(0), Suffix(3)], ids=str)
    async def test_no_range_of_an_empty_value_gives_bytes(self, range: ByteRange | None) -> None:
        async with self.open() as store:
            await store.set("a", b"")
            found = await _fetched(store, range)
            assert found == b"" or (isinstance(found, StoreError) and range is not None)

    async def test_a_replaced_value_is_noticed_although_the_server_ignores_if_match(self) -> None:
        async with self.open() as store:
            version = await store.set("a", b"first")
            assert version is not None
            value = await store.fetch("a", Range(1, 2), if_match=version)
            assert value is not None
            await store.set("a", b"other")
            for part in (None, Range(1, 2)):
                with pytest.raises(ChangedError):
                    await store.fetch("a", part, if_match=version)

    @pytest.mark.parametrize("index_location", ["start", "end"])
    async def test_a_sharded_array_is_read_right_or_not_at_all(self, index_location: str) -> None:
        """The index at the end of a shard is found by a suffix range."""
        values = np.arange(64 * 64, dtype="i4").reshape(64, 64)
        async with self.open("/a.zarr") as store:
            array = await aiozarr.create_array(store, **_sharded(index_location))
            await array[...].write(values)
            try:
                part = await array[10:20, 30:40]
            except StoreError:
                assert index_location == "end"
            else:
                assert np.array_equal(part, values[10:20, 30:40])

    @pytest.mark.parametrize("key", [key for key in ODD_KEYS if key.isprintable()], ids=ascii)
    async def test_an_odd_key_is_kept_as_it_is_or_refused(self, key: str) -> None:
        async with self.open() as store:
            with contextlib.suppress(StoreError):
                await store.set(key, b"value")
                assert await store.get(key) == b"value"
                assert await store.list() == [key]
                return
            assert set(await store.list()) <= {key}


class TestRclone(LyingServer):
    server_name = "rclone serve s3"

    @pytest.fixture(autouse=True)
    def _serve(self, rclone_server: S3Server) -> None:
        self.server, self.server_version = rclone_server, rclone_server.version


class TestS3rver(LyingServer):
    server_name = "s3rver"

    @pytest.fixture(autouse=True)
    def _serve(self, s3rver_server: S3Server) -> None:
        self.server, self.server_version = s3rver_server, s3rver_server.version


async def _fetched(store: ObjectStore, range: ByteRange | None) -> bytes | StoreError:
    """Return the bytes of the key `a`, or the error with which they were refused."""
    try:
        value = await store.fetch("a", range)
    except StoreError as error:
        return error
    assert value is not None
    return bytes(memoryview(value.data))


def _sharded(index_location: str) -> dict[str, Any]:
    bytes_codec: dict[str, Any] = {"name": "bytes", "configuration": {"endian": "little"}}
    configuration = {
        "chunk_shape": [8, 8],
        "codecs": [bytes_codec],
        "index_codecs": [bytes_codec, {"name": "crc32c"}],
        "index_location": index_location,
    }
    codecs = [{"name": "sharding_indexed", "configuration": configuration}]
    return {"shape": (64, 64), "dtype": "i4", "chunks": (32, 32), "codecs": codecs}
