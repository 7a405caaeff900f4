"""Listings of containers: what is asked for, as whom, and what is made of the answers."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from aiozarr.errors import LimitError, StoreError, ThrottledError
from aiozarr.model import Entry, Version
from aiozarr.stores import ObjectStore
from aiozarr.stores.azure.bucket_client import AzureBucketClient
from aiozarr.stores.bucket.listing import MAX_PAGE_BYTES
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer

parse_page = AzureBucketClient.parse_page

KEY = base64.b64encode(b"s-hidden").decode()


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server whose answers a test scripts."""
    with FaultServer() as running:
        yield running


def at(server: FaultServer, **options: Any) -> ObjectStore:
    return ObjectStore("az://data/root", endpoint_url=f"{server.url}/acct", **(options or {"account_key": KEY}))


def blob(name: str, size: object = 1, more: str = "") -> str:
    return (
        f"<Blob><Name>{name}</Name><Properties><Content-Length>{size}</Content-Length><Etag>0x8D</Etag></Properties>"
        f"{more}</Blob>"
    )


def page_of(blobs: str, marker: str = "") -> bytes:
    return (
        f"<?xml version='1.0' encoding='utf-8'?><EnumerationResults><Blobs>{blobs}</Blobs>"
        f"<NextMarker>{marker}</NextMarker></EnumerationResults>"
    ).encode()


def query(request: Request) -> dict[str, list[str]]:
    return parse_qs(urlsplit(request.target).query)


async def test_a_listing_goes_on_for_as_many_pages_as_there_are(server: FaultServer) -> None:
    pages = {None: ("one", "a"), "a": ("two", "b/+="), "b/+=": ("three", "")}

    def paged(request: Request, reply: Reply) -> Reply:
        name, marker = pages[query(request).get("marker", [None])[0]]
        prefixes = "".join(f"<BlobPrefix><Name>root/{each}/</Name></BlobPrefix>" for each in (name, "every"))
        return Reply(200, (), page_of(prefixes if "delimiter" in query(request) else blob(f"root/{name}"), marker))

    server.script = paged
    async with at(server) as store:
        assert await store.list() == ["one", "two", "three"]
        assert await store.list_dir("") == ([], ["every/", "one/", "three/", "two/"])
    assert len(server.requests) == 6
    for request in server.requests:
        asked = query(request)
        assert (asked["comp"], asked["restype"], asked["prefix"]) == (["list"], ["container"], ["root/"])
        assert (asked["sr"], asked["sp"]) == (["c"], ["l"])
        assert request.target.startswith("/acct/data?")


@pytest.mark.parametrize(
    ("options", "shown"),
    [({"sas_token": "?sv=1&sig=s%2B"}, "&sv=1&sig=s%2B"), ({"token": "t"}, ""), ({"anon": True}, "")],
)
async def test_a_listing_is_authorised_as_reads_are(server: FaultServer, options: dict[str, Any], shown: str) -> None:
    server.script = lambda request, reply: Reply(200, (), page_of(blob("root/a")))
    async with at(server, **options) as store:
        assert await store.list() == ["a"]
    (request,) = server.requests
    assert request.target.endswith(f"&prefix=root%2F{shown}")
    assert request.headers.get("authorization") == ("Bearer t" if "token" in options else None)
    assert request.headers["x-ms-version"] == "2023-11-03"


async def test_names_that_are_no_keys_are_left_out(server: FaultServer) -> None:
    names = ["root/a//b", "root/./a", "root/a/../b", "root/", "other/a", "roo", "root/a/b", "root/d/"]
    prefixes = "".join(f"<BlobPrefix><Name>{name}</Name></BlobPrefix>" for name in ("root/p/", "root//", "other/", "x"))
    server.script = lambda request, reply: Reply(200, (), page_of("".join(map(blob, names)) + prefixes))
    async with at(server) as store:
        assert await store.list() == ["a/b"]
        assert await store.list_dir("") == (["a/b"], ["p/"])


async def test_folders_are_left_out_and_empty_blobs_cost_nothing(server: FaultServer) -> None:
    marked = "<Metadata><Hdi_isfolder>true</Hdi_isfolder></Metadata>"
    other = "<Metadata><hdi_isfolder>false</hdi_isfolder><x>true</x></Metadata>"
    typed = (
        "<Blob><Name>root/t</Name><Properties><ResourceType>directory</ResourceType><Content-Length>0</Content-Length>"
    )
    inside = (
        blob("root/f", 0, marked)
        + blob("root/e", 0, other)
        + f"{typed}<Content-Length>0</Content-Length></Properties></Blob>"
    )
    server.script = lambda request, reply: Reply(200, (), page_of(inside))
    async with at(server) as store:
        assert [entry async for entry in store.scan()] == [Entry("e", 0, Version('"0x8D"'))]
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_listing_follows_no_redirect_and_no_signature_goes_elsewhere(server: FaultServer, status: int) -> None:
    with FaultServer() as other:
        server.script = lambda request, reply: Reply(status, (("Location", f"{other.url}{request.target}"),))
        for options in ({"account_key": KEY}, {"token": "t-hidden"}, {"sas_token": "sig=hidden"}):
            async with at(server, **options) as store:
                for call in (store.list, lambda: store.list_dir("")):  # it is called at once
                    with pytest.raises(StoreError) as caught:
                        await call()
                    assert caught.value.status == status
                    assert "hidden" not in str(caught.value)
        assert other.requests == []


async def test_throttling_of_a_listing_has_the_requested_pause_and_the_server(server: FaultServer) -> None:
    server.script = lambda request, reply: Reply(
        503, (("Retry-After", "7"), ("x-ms-request-id", "r-1")), b"<Error><Code>ServerBusy</Code></Error>"
    )
    async with at(server) as store:
        with pytest.raises(ThrottledError) as caught:
            await store.list()
    assert (caught.value.retry_after, caught.value.status, caught.value.request_id) == (7.0, 503, "r-1")


async def test_a_container_that_is_missing_is_no_empty_one(server: FaultServer) -> None:
    server.script = lambda request, reply: Reply(404, (("x-ms-error-code", "ContainerNotFound"),))
    async with at(server) as store:
        with pytest.raises(StoreError, match="the container does not exist"):
            await store.list()


@pytest.mark.parametrize("length", [1, 2, 7])
async def test_a_listing_that_goes_in_a_circle_ends(server: FaultServer, length: int) -> None:
    server.script = lambda request, reply: Reply(200, (), page_of("", str(len(server.requests) % length)))
    async with at(server) as store:
        with pytest.raises(StoreError, match="the pages of the server's listing form a loop"):
            await store.list()
    assert len(server.requests) <= 4 * length + 1


async def test_a_page_has_a_limit(server: FaultServer) -> None:
    server.script = lambda request, reply: Reply(200, (), b"", length=MAX_PAGE_BYTES + 1)
    async with at(server) as store:
        with pytest.raises(LimitError):
            await store.list()


def test_names_that_xml_cannot_hold_are_decoded_where_they_are_said_to_be_encoded() -> None:
    inside = (
        '<Blob><Name Encoded="true">a%EF%BF%BE+b%20</Name><Properties><Content-Length>1</Content-Length></Properties>'
        '</Blob><Blob><Name Encoded="true">%FF</Name></Blob><Blob><Name>c%20</Name><Properties><Content-Length>2'
        "</Content-Length></Properties></Blob>"
    )
    page = parse_page(page_of(inside, " t "), "")
    assert page.entries == [Entry("a\ufffe+b ", 1, None), Entry("c%20", 2, None)]
    assert page.token == " t "


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"<html>",
        b"<?xml version='1.0'?><html><body/></html>",
        b"<ListBucketResult/>",
        b"<!DOCTYPE x [<!ENTITY a 'b'>]>" + page_of(""),
        page_of("")[:-5],
        page_of("<Blob/>"),
        page_of("<Blob><Name>a</Name></Blob>"),
        page_of("<BlobPrefix/>"),
        page_of(blob("a", "")),
        page_of(blob("a", "junk")),
        page_of(blob("a", -5)),
        page_of(blob("a", "9" * 30)),
        page_of(blob("a&b;")),
    ],
)
def test_a_page_that_is_none_is_an_error_of_the_store(body: bytes) -> None:
    with pytest.raises(StoreError):
        parse_page(body, "")


def test_a_page_without_blobs_is_empty() -> None:
    assert parse_page(b"<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>", "").entries == []
