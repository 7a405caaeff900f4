"""Listings of buckets in which other tools have left things that are no values."""

import asyncio
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest

from aiozarr.errors import LimitError, StoreError, ThrottledError
from aiozarr.model import Entry, Version
from aiozarr.stores.bucket.listing import MAX_PAGE_BYTES
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.stores.s3 import bucket_client as module
from aiozarr.stores.s3 import credentials as credentials_module
from aiozarr.stores.s3.address import NOTHING_CONFIGURED
from aiozarr.stores.s3.messages import parse_page
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer
from tests.support.servers.moto import LocalS3


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


def at(server: FaultServer, **options: str) -> ObjectStore:
    return ObjectStore("s3://bkt/root", endpoint_url=server.url, key="k", secret="s", region="us-east-1", **options)


def fill(server: LocalS3, bucket: str, names: list[str], data: bytes) -> None:
    """Put objects as another tool does, which knows no rules for keys."""

    def put(name: str) -> None:
        request = urllib.request.Request(f"{server.endpoint_url}/{bucket}/{name}", data=data, method="PUT")
        with urllib.request.urlopen(request, timeout=30):
            pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, names))


async def test_a_listing_that_is_left_early_leaves_no_generator_to_the_garbage_collector(server: FaultServer) -> None:
    server.script = lists(listing("root/a", "root/b"))  # type: ignore[assignment]
    async with at(server) as store:
        entries = store.scan()
        assert (await anext(entries)).key == "a"
        await entries.aclose()  # type: ignore[attr-defined]
        for _ in range(5):
            # The loop closes abandoned generators in tasks of its own.
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_markers_of_directories_are_no_keys_and_cost_nothing(server: FaultServer) -> None:
    server.script = lists(listing("root/", "root/a/", "root/a/b", "root/empty", "root/later/"))  # type: ignore[assignment]
    async with at(server) as store:
        assert await store.list() == ["a/b", "empty"]
        assert await store.list_dir("") == (["a/b", "empty"], [])
    assert len(server.requests) == 2


@pytest.mark.parametrize("key", ["root/a//b", "root/./a", "root/a/../b", "root//", "other/a", "roo", "root/%FF"])
async def test_an_object_whose_key_is_none_is_left_out_and_not_removed(server: FaultServer, key: str) -> None:
    page = listing("root/a/b", key).replace(b"<Contents>", b"<EncodingType>url</EncodingType><Contents>", 1)
    server.script = lists(page)  # type: ignore[assignment]
    async with at(server) as store:
        assert await store.list() == ["a/b"]
        assert await store.list_dir("") == (["a/b"], [])
        server.script = lambda request, reply: (
            Reply(200, (), page) if request.method == "GET" else Reply(200, (), b"<DeleteResult></DeleteResult>")
        )
        await store.erase_prefix("")
    (deleted,) = [request.body for request in server.requests if request.method == "POST"]
    assert deleted.count(b"<Key>") == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_listing_follows_no_redirect_and_no_token_goes_elsewhere(server: FaultServer, status: int) -> None:
    with FaultServer(script=lists(listing("root/foreign"))) as other:  # type: ignore[arg-type]
        server.script = lambda request, reply: Reply(status, (("Location", f"{other.url}{request.target}"),))
        async with at(server, token="t-hidden") as store:
            for call in (store.list, lambda: store.list_dir(""), lambda: store.erase_prefix("")):
                with pytest.raises(StoreError) as caught:
                    await call()
                assert caught.value.status == status
                assert "hidden" not in str(caught.value)
        assert other.requests == []


async def test_throttling_of_a_listing_has_the_requested_pause_and_the_server(server: FaultServer) -> None:
    server.script = lambda request, reply: Reply(
        503, (("Retry-After", "7"), ("x-amz-request-id", "r-1")), b"<Error><Code>SlowDown</Code></Error>"
    )
    async with at(server) as store:
        for call in (store.list, lambda: store.list_dir("")):
            with pytest.raises(ThrottledError) as caught:
                await call()
            assert (caught.value.retry_after, caught.value.status, caught.value.request_id) == (7.0, 503, "r-1")
            assert caught.value.retryable


async def test_a_bucket_that_is_missing_is_no_empty_one(server: FaultServer) -> None:
    server.script = lambda request, reply: Reply(404, (), b"<Error><Code>NoSuchBucket</Code></Error>")
    async with at(server) as store:
        with pytest.raises(StoreError, match="the bucket does not exist"):
            await store.list()


@pytest.mark.parametrize("length", [1, 2, 7])
@pytest.mark.parametrize("what", ["tokens", "keys"])
async def test_a_listing_that_goes_in_a_circle_ends(server: FaultServer, length: int, what: str) -> None:
    def circle(request: Request, reply: Reply) -> Reply:
        number = len(server.requests)
        keys, token = ([f"root/{number % length}"], number) if what == "keys" else ([], number % length)
        more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
        return Reply(200, (), listing(*keys).replace(b"<IsTruncated>false</IsTruncated>", more.encode()))

    server.script = circle
    async with at(server) as store:
        with pytest.raises(StoreError, match="the pages of the server's listing form a loop"):
            await store.list()
    assert len(server.requests) <= 4 * length + 1


async def test_credentials_that_end_are_found_anew_once(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter(("old", "new", "never"))
    monkeypatch.setattr(module, "find_source", lambda *_: "profile")
    monkeypatch.setattr(module, "read_configured", lambda _: NOTHING_CONFIGURED)
    monkeypatch.setattr(credentials_module, "find_credentials", lambda *_: Fixed(next(found)))

    def script(request: Request, reply: Reply) -> Reply:
        if "old%2F" in request.target:
            return Reply(400, (), b"<Error><Code>ExpiredToken</Code></Error>")
        return Reply(200, (), listing("root/a"))

    server.script = script
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, region="us-east-1") as store:
        assert await store.list() == ["a"]
        assert await store.list() == ["a"]
    assert len(server.requests) == 3


class Fixed:
    """Credentials of botocore that never end."""

    def __init__(self, key: str) -> None:
        self.access_key, self.secret_key, self.token = key, "s", "t"

    def get_frozen_credentials(self) -> "Fixed":
        return self


# --- pages -----------------------------------------------------------------------------------------------------------


def page_of(inside: str, namespace: str = "") -> bytes:
    return f"<?xml version='1.0' encoding='UTF-8'?><ListBucketResult{namespace}>{inside}</ListBucketResult>".encode()


OBJECT = "<Contents><Key>{}</Key><Size>{}</Size></Contents>"


@pytest.mark.parametrize("namespace", ["", " xmlns='http://s3.amazonaws.com/doc/2006-03-01/'", " xmlns='urn:other'"])
def test_a_page_is_read_whatever_its_namespace(namespace: str) -> None:
    inside = (
        "<EncodingType>url</EncodingType><Contents><Key>p/a+b%2B%C3%BC</Key><Size> 5 </Size><ETag>1</ETag></Contents>"
        + OBJECT.format("p/c", 0)
        + "<CommonPrefixes><Prefix>p/d+/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>p//</Prefix></CommonPrefixes>"
        + "<IsTruncated>true</IsTruncated><NextContinuationToken>t&amp;/+</NextContinuationToken>"
    )
    page = parse_page(page_of(inside, namespace), "p/")
    assert page.entries == [Entry("p/a b+\u00fc", 5, Version('"1"')), Entry("p/c", 0, None)]
    assert page.prefixes == ["p/d /"]
    assert page.token == "t&/+"


def test_names_are_decoded_only_where_the_server_says_that_they_are_encoded() -> None:
    inside = OBJECT.format("a+b%2B", 1) + "<IsTruncated>false</IsTruncated>"
    assert [entry.key for entry in parse_page(page_of(inside), "").entries] == ["a+b%2B"]
    inside += "<EncodingType>url</EncodingType>"
    assert [entry.key for entry in parse_page(page_of(inside), "").entries] == ["a b+"]


def test_a_token_of_the_last_page_leads_nowhere() -> None:
    inside = "<IsTruncated>false</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
    assert parse_page(page_of(inside), "").token == ""


@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b"<!doctype html><p>", b"\xff\xfe<", page_of("<a>")[:-9]])
async def test_a_listing_that_is_none_is_an_error(server: FaultServer, body: bytes) -> None:
    server.script = lists(body)  # type: ignore[assignment]
    async with at(server) as store:
        for call in (store.list, lambda: store.list_dir("")):
            with pytest.raises(StoreError, match=r"listing|HTML page"):
                await call()


@pytest.mark.parametrize(
    "body",
    [
        b"<html xmlns='http://www.w3.org/1999/xhtml'><body>Please log in</body></html>",
        b"<?xml version='1.0'?><html><body/></html>",
        b"<LocationConstraint/>",
        b"<Error><Code>InternalError</Code></Error>",
        b"<!DOCTYPE x [<!ENTITY a 'b'>]>" + page_of(""),
        b"<?xml version='1.0'?><!DOCTYPE ListBucketResult SYSTEM 'http://x/'><ListBucketResult/>",
        "<!DOCTYPE x><ListBucketResult/>".encode("utf-16"),
        "<?xml version='1.0' encoding='cp037'?><ListBucketResult/>".encode("cp037"),
        page_of("&a;"),
        page_of("<a/>" * (1 << 20)),
        page_of(OBJECT.format("a", "")),
        page_of(OBJECT.format("a", "junk")),
        page_of(OBJECT.format("a", "-5")),
        page_of(OBJECT.format("a", "1.5")),
        page_of(OBJECT.format("a", "\u0661")),
        page_of(OBJECT.format("a", "9" * 30)),
        page_of("<Contents><Key>a</Key></Contents>"),
        page_of("<Contents><Size>1</Size></Contents>"),
        page_of("<CommonPrefixes/>"),
        page_of("<IsTruncated>perhaps</IsTruncated>"),
        page_of("<IsTruncated>true</IsTruncated>"),
    ],
)
def test_a_page_that_is_none_is_an_error_of_the_store(body: bytes) -> None:
    with pytest.raises(StoreError):
        parse_page(body, "")


async def test_a_page_has_a_limit(server: FaultServer) -> None:
    server.script = lambda request, reply: Reply(200, (), b"", length=MAX_PAGE_BYTES + 1)
    async with at(server) as store:
        with pytest.raises(LimitError):
            await store.list()


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
