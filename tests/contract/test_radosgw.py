"""S3 stores keep the store contract on Ceph's gateway, and find out which of its conditions hold."""

from __future__ import annotations

import asyncio
import itertools
from typing import ClassVar

import pytest

from aiozarr.errors import PermissionDeniedError, PreconditionFailedError, UnauthenticatedError
from aiozarr.model import IfAbsent, IfMatch
from aiozarr.stores import FsspecStore, ObjectStore, Store
from aiozarr.testing.conformance import StoreConformance
from aiozarr.testing.conformance.base import ODD_KEYS
from tests.support.servers import S3Server

pytestmark = pytest.mark.servers

_numbers = itertools.count()


def new_bucket(server: S3Server) -> str:
    """Make a bucket, and return its URL."""
    name = f"contract-{next(_numbers)}"
    server.create_bucket(name)
    return f"s3://{name}"


class TestObjectStoreOnRadosgw(StoreConformance):
    store_name = "ObjectStore, s3://"
    server_name = "radosgw"
    # The client library takes no control characters.
    odd_keys: ClassVar[tuple[str, ...]] = tuple(key for key in ODD_KEYS if key.isprintable() or key == "\u2028")

    @pytest.fixture(autouse=True)
    def _serve(self, radosgw_server: S3Server) -> None:
        self.server, self.server_version = radosgw_server, radosgw_server.version

    async def make_store(self) -> Store:
        store = ObjectStore(new_bucket(self.server), **self.server.storage_options)
        await store.probe_conditional_writes()
        return store


class TestS3FileSystemOnRadosgw(TestObjectStoreOnRadosgw):
    store_name = "FsspecStore, s3fs"

    async def make_store(self) -> Store:
        return FsspecStore(f"{new_bucket(self.server)}/some where", **self.server.storage_options)


class TestWhatRadosgwHeeds:
    server_name = "radosgw"
    server_version = ""

    @pytest.fixture(autouse=True)
    def _serve(self, radosgw_server: S3Server) -> None:
        self.server, self.server_version = radosgw_server, radosgw_server.version

    async def test_a_server_that_refuses_the_right_version_too_is_found_by_the_probe(self) -> None:
        """It compares the ETag without its quotes: whoever took its 412 for a lost race would try for ever."""
        async with ObjectStore(new_bucket(self.server), **self.server.storage_options) as store:
            version = await store.set("a", b"1")
            assert version is not None
            with pytest.raises(PreconditionFailedError):
                await store.set("a", b"2", precondition=IfMatch(version))
            assert await store.probe_conditional_writes() is False
            assert await store.list() == ["a"]

    async def test_of_racing_creators_one_wins_where_only_creation_is_conditional(self) -> None:
        async with ObjectStore(new_bucket(self.server), **self.server.storage_options) as store:
            racing = [store.set("a", b"%d" % number, precondition=IfAbsent()) for number in range(16)]
            ended = await asyncio.gather(*racing, return_exceptions=True)
            assert [isinstance(one, PreconditionFailedError) for one in ended].count(False) == 1

    async def test_a_wrong_secret_is_refused_by_reads_and_writes(self) -> None:
        options = {**self.server.storage_options, "secret": "wrong"}
        async with ObjectStore(new_bucket(self.server), **options) as store:
            for operation in (store.get("a"), store.set("a", b"1"), store.list(), store.erase("a")):
                with pytest.raises((PermissionDeniedError, UnauthenticatedError)):
                    await operation
