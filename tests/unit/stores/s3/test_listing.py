"""Listings of buckets in which other tools have left things that are no values."""

import asyncio
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest

from aiozarr.errors import StoreError
from aiozarr.stores.object.store import ObjectStore
from aiozarr.testing.http_replies import Reply, Request
from aiozarr.testing.http_server import FaultServer
from local_s3 import LocalS3


def listing(*keys: str) -> bytes:
    contents = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified><ETag>&quot;1&quot;</ETag>"
        f"<Size>0</Size></Contents>"
        for key in keys
    )
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>".encode()


def lists(body: bytes) -> object:
    def script(request: Request, reply: Reply) -> Reply:
        if "list-type=2" in request.target:
            return Reply(200, (("Content-Type", "application/xml"),), body)
        return reply

    return script


def at(server: FaultServer) -> ObjectStore:
    return ObjectStore("s3://bkt/root", endpoint_url=server.url, key="k", secret="s", region="us-east-1")


def fill(server: LocalS3, bucket: str, names: list[str], data: bytes) -> None:
    """Put objects as another tool does, which knows no rules for keys."""

    def put(name: str) -> None:
        request = urllib.request.Request(f"{server.endpoint_url}/{bucket}/{name}", data=data, method="PUT")
        with urllib.request.urlopen(request, timeout=30):
            pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, names))


async def test_markers_of_directories_are_no_keys(server: FaultServer) -> None:
    server.put("bkt/root/empty", b"")
    server.script = lists(listing("root/", "root/a/", "root/a/b", "root/empty", "root/later/"))  # type: ignore[assignment]
    async with at(server) as store:
        assert await store.list() == ["a/b", "empty"]
        assert await store.list_dir("") == (["a/b", "empty"], [])
    looked = [request.key for request in server.requests if request.method == "HEAD"]
    assert set(looked) == {"bkt/root/a", "bkt/root/empty", "bkt/root/a/b", "bkt/root/later"}


@pytest.mark.parametrize("key", ["root/a//b", "root/./a", "root/a/../b"])
async def test_an_object_whose_key_is_none_is_named(server: FaultServer, key: str) -> None:
    server.script = lists(listing("root/a/b", key))  # type: ignore[assignment]
    async with at(server) as store:
        for call in (store.list, lambda: store.list_dir(""), lambda: store.erase_prefix("")):
            with pytest.raises(StoreError) as caught:
                await call()
            assert key in str(caught.value)
            assert type(caught.value) is StoreError


async def test_a_listing_goes_on_for_as_many_pages_as_there_are(server: FaultServer) -> None:
    pages = {None: ("one", "a"), "a": ("two", "b/+="), "b/+=": ("three", None)}
    asked: list[str | None] = []

    def paged(request: Request, reply: Reply) -> Reply:
        query = parse_qs(urlsplit(request.target).query)
        token = query.get("continuation-token", [None])[0]
        asked.append(token)
        name, more = pages[token]
        body = listing(f"root/{name}")
        if "delimiter" in query:
            body = f"<ListBucketResult><CommonPrefixes><Prefix>root/{name}/</Prefix></CommonPrefixes>".encode()
            body += b"<IsTruncated>false</IsTruncated></ListBucketResult>"
        if more is not None:
            told = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{more}</NextContinuationToken>"
            body = body.replace(b"<IsTruncated>false</IsTruncated>", told.encode())
        return Reply(200, (("Content-Type", "application/xml"),), body)

    server.script = lambda request, reply: paged(request, reply) if "list-type=2" in request.target else reply
    for name in ("one", "two", "three"):
        server.put(f"bkt/root/{name}", b"")
    async with at(server) as store:
        assert await store.list() == ["one", "two", "three"]
        assert asked == [None, "a", "b/+="]
        keys, prefixes = await store.list_dir("")
    assert (keys, sorted(prefixes)) == ([], ["one/", "three/", "two/"])


async def test_a_marker_that_another_tool_has_made_is_neither_listed_nor_in_the_way(s3_server: LocalS3) -> None:
    s3_server.create_bucket("tools")
    await asyncio.to_thread(fill, s3_server, "tools", ["g/", "g/a/", "g/a/zarr.json"], b"")
    async with ObjectStore("s3://tools", **s3_server.storage_options) as store:
        assert await store.list() == ["g/a/zarr.json"]
        assert await store.list_dir("") == ([], ["g/"])
        assert await store.list_dir("g/") == ([], ["g/a/"])
        assert await store.list_dir("g/a/") == (["g/a/zarr.json"], [])
        assert not await store.exists("g/a")
