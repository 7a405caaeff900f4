"""A bucket that is in another region is found there, for reads, writes, deletes and lists."""

import asyncio
import re
from typing import Any

import pytest

from aiozarr.errors import StoreError
from aiozarr.http1.response_check import Headers
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.stores.s3 import bucket_client as module
from aiozarr.stores.s3.address import S3Endpoint, S3Options
from aiozarr.stores.s3.messages import is_elsewhere, region_in
from aiozarr.stores.s3.region_client import S3RegionClient, fetch_region
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer

LISTING = (
    b"<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>root/a/b</Key><LastModified>2020-01-01T00:00:00Z"
    b"</LastModified><ETag>&quot;1&quot;</ETag><Size>3</Size></Contents></ListBucketResult>"
)
SIGNED = re.compile(r"(?:%2F|/)([a-z0-9-]+)(?:%2F|/)s3(?:%2F|/)aws4_request")


@pytest.mark.parametrize(
    ("headers", "document", "region"),
    [
        ({b"x-amz-bucket-region": b"eu-north-1"}, "", "eu-north-1"),
        ({}, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>", "eu-west-1"),
        ({b"location": b"https://bkt.s3-us-west-2.amazonaws.com/k"}, "", "us-west-2"),
        ({}, "<Error><Endpoint>bkt.s3.ap-southeast-2.amazonaws.com</Endpoint></Error>", "ap-southeast-2"),
        ({}, "<Error><Endpoint>s3.amazonaws.com</Endpoint></Error>", None),
        ({b"x-amz-bucket-region": b"../evil"}, "", None),
        ({}, "", None),
    ],
)
def test_the_region_is_found_in_headers_and_documents(headers: Headers, document: str, region: str | None) -> None:
    assert region_in(headers, document) == region


def test_a_bad_request_for_another_reason_is_no_hint_at_a_region() -> None:
    assert not is_elsewhere(400, "<Error><Code>InvalidArgument</Code></Error>")
    assert is_elsewhere(400, "<Error><Code>AuthorizationHeaderMalformed</Code></Error>")
    assert is_elsewhere(301, "")


def signed_for(request: Request) -> str:
    found = SIGNED.search(request.target + request.headers.get("authorization", ""))
    assert found is not None
    return found[1]


def answer(request: Request, reply: Reply) -> Reply:
    """List, and delete in bulk, as S3 does."""
    if "list-type=2" in request.target:
        return Reply(200, (("Content-Type", "application/xml"),), LISTING)
    if request.method == "POST":
        return Reply(
            200,
            (("Content-Type", "application/xml"),),
            b"<DeleteResult><Deleted><Key>root/a/b</Key></Deleted></DeleteResult>",
        )
    return reply


def malformed(request: Request, reply: Reply) -> Reply:
    """Refuse what is signed for another region than this server's, and name it."""
    if signed_for(request) != "garage":
        return Reply(
            400,
            (),
            b"<Error><Code>AuthorizationHeaderMalformed</Code><Message>wrong</Message><Region>garage</Region></Error>",
        )
    return answer(request, reply)


OPERATIONS: dict[str, Any] = {
    "fetch": lambda store: store.fetch("a/b"),
    "stat": lambda store: store.stat("a/b"),
    "set": lambda store: store.set("new", b"1"),
    "erase": lambda store: store.erase("a/b"),
    "erase_values": lambda store: store.erase_values(["a/b", "x"]),
    "list": lambda store: store.list(),
    "list_dir": lambda store: store.list_dir(""),
}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_server_that_names_its_region_gets_requests_signed_for_it(server: FaultServer, operation: str) -> None:
    server.script = malformed
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, key="k", secret="s") as store:
        await OPERATIONS[operation](store)
        assert [signed_for(request) for request in server.requests] == ["us-east-1", "garage"]
        await OPERATIONS[operation](store)
    assert signed_for(server.requests[-1]) == "garage"
    assert len(server.requests) == 3


async def test_many_requests_at_once_move_together(server: FaultServer) -> None:
    server.script = malformed
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, key="k", secret="s") as store:
        values = await asyncio.gather(*(store.fetch("a/b") for _ in range(20)))
        assert all(value is not None for value in values)
        assert len(store._client._old_clients) == 1  # type: ignore[attr-defined]


async def test_a_server_that_never_is_content_is_asked_twice(server: FaultServer) -> None:
    numbers = iter(range(100))
    server.script = lambda request, reply: Reply(
        400, (), b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>r-%d</Region></Error>" % next(numbers)
    )
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, key="k", secret="s") as store:
        for name in ("fetch", "set", "list"):
            sent = len(server.requests)
            with pytest.raises(StoreError):
                await OPERATIONS[name](store)
            assert len(server.requests) == sent + 2


@pytest.mark.parametrize("status", [301, 307])
@pytest.mark.parametrize("operation", ["fetch", "set", "erase_values", "list", "list_dir"])
async def test_a_redirect_leads_to_the_buckets_own_region(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, operation: str, status: int
) -> None:
    asked: list[str] = []

    def find_endpoint(bucket: str, options: Any, environ: Any, region: str | None, configured: Any) -> S3Endpoint:
        """As on AWS, where each region has a server; here it is a path."""
        region = region or "us-east-1"
        return S3Endpoint(bucket, f"{server.url}/{region}/{bucket}", region, True, False)

    async def fetch_region(client: S3RegionClient) -> str | None:
        asked.append(client.endpoint.bucket)
        return "eu-west-1"

    def script(request: Request, reply: Reply) -> Reply:
        if request.target.startswith("/us-east-1/"):
            headers = () if operation != "fetch" else (("x-amz-bucket-region", "eu-west-1"),)
            return Reply(status, headers, b"<Error><Code>PermanentRedirect</Code></Error>")
        assert signed_for(request) == "eu-west-1"
        return answer(request, reply)

    server.put("eu-west-1/bkt/root/a/b", b"abc")
    server.script = script
    monkeypatch.setattr(module, "find_endpoint", find_endpoint)
    monkeypatch.setattr(module, "fetch_region", fetch_region)
    async with ObjectStore("s3://bkt/root", region="us-east-1", key="k", secret="s") as store:
        await OPERATIONS[operation](store)
        assert [request.target.split("/")[1] for request in server.requests] == ["us-east-1", "eu-west-1"]
        # Where the redirect does not name the region, the server is asked.
        assert asked == ([] if operation == "fetch" else ["bkt"])


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_server_that_sends_to_a_region_in_a_header_gets_requests_signed_for_it(
    server: FaultServer, operation: str
) -> None:
    def script(request: Request, reply: Reply) -> Reply:
        if "Signature" not in request.target and "authorization" not in request.headers:
            assert (request.method, request.target) == ("HEAD", "/bkt")
            return Reply(301, (("x-amz-bucket-region", "eu-west-1"),))
        if signed_for(request) != "eu-west-1":
            body = b"" if request.method == "HEAD" else b"<Error><Code>PermanentRedirect</Code></Error>"
            return Reply(301, (("x-amz-bucket-region", "eu-west-1"),), body)
        return answer(request, reply)

    server.script = script
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, region="us-east-1", key="k", secret="s") as store:
        await OPERATIONS[operation](store)
        sent = len(server.requests)
        await OPERATIONS[operation](store)
    assert len(server.requests) == sent + 1


async def test_a_region_is_asked_for_by_an_unsigned_head_of_the_bucket(server: FaultServer) -> None:
    endpoint = S3Endpoint("bkt", f"{server.url}/bkt", "us-east-1", True, False)
    client = S3RegionClient(endpoint, S3Options(key="k", secret="s"))
    server.script = lambda request, reply: Reply(403, (("x-amz-bucket-region", "sa-east-1"),))
    assert await fetch_region(client) == "sa-east-1"
    (request,) = server.requests
    assert (request.method, request.target) == ("HEAD", "/bkt")
    await client.sender.aclose()
    assert server.open_connections == 0 or not any("Signature" in r.target for r in server.requests)
