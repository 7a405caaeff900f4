"""The object store on Azure, before a server that plays Azure's part as far as the lane sees it, and misbehaves."""

from __future__ import annotations

import asyncio
import base64
import gc
import gzip
import os
import pickle
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from proxy import proxy

import aiozarr
from aiozarr.errors import (
    ChangedError,
    ForkedProcessError,
    InvalidKeyError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    ThrottledError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.model import ByteRange, Entry, IfAbsent, IfMatch, Range, Suffix, Version
from aiozarr.stores import ObjectStore
from aiozarr.stores.azure import signature
from aiozarr.testing.http_replies import Reply, Request, html
from aiozarr.testing.http_server import FaultServer

DATA = bytes(range(256)) * 100
KEY = base64.b64encode(b"s-hidden").decode()
PLACE = "acct/data/root/"


def refusal(status: int, code: str, words: str = "Words", **headers: str) -> Reply:
    body = f"<Error><Code>{code}</Code><Message>{words}\nRequestId:1\nTime:2</Message></Error>".encode()
    return Reply(status, (), body).with_headers(x_ms_error_code=code, x_ms_request_id="r-1", **headers)


def azure(request: Request, reply: Reply) -> Reply:
    """Turn what any server would say into what Azure says."""
    if request.headers.get("range", "").startswith("bytes=-"):
        return refusal(400, "InvalidHeaderValue")
    if reply.status == 404:
        return refusal(404, "BlobNotFound")
    if reply.status == 412 and request.headers.get("if-none-match") == "*":
        return refusal(409, "BlobAlreadyExists")
    if reply.status == 412:
        return refusal(412, "ConditionNotMet")
    if reply.status == 416:
        return refusal(416, "InvalidRange", Content_Range=dict(reply.headers)["Content-Range"])
    return reply.with_headers(x_ms_request_id="r-1")


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server that has one blob in a container of an account."""
    with FaultServer({PLACE + "a/b": DATA}, script=azure) as running:
        yield running


def at(server: FaultServer, url: str = "az://data/root", **options: Any) -> ObjectStore:
    """Return a store of the server's container."""
    if not {"anon", "sas_token", "token", "credential"} & options.keys():
        options["account_key"] = KEY
    return ObjectStore(url, endpoint_url=f"{server.url}/acct", **options)


def query(request: Request) -> dict[str, list[str]]:
    return parse_qs(urlsplit(request.target).query)


# --- who is asked, and as whom -----------------------------------------------------------------------------------


async def test_with_an_account_key_one_signature_serves_all_reads_of_a_container(server: FaultServer) -> None:
    server.put(PLACE + "ü%20 +", b"odd")
    async with at(server) as store:
        value = await store.fetch("a/b")
        assert value is not None
        part = await store.fetch("a/b", Range(5, 10), if_match=value.version)
        assert part is not None
        assert (bytes(part.data), part.size, part.version) == (DATA[5:15], len(DATA), value.version)
        assert bytes(await store.get("ü%20 +") or b"") == b"odd"
    first, second, third = server.requests
    assert query(first)["sp"] == ["r"]
    assert query(first)["sr"] == ["c"]
    assert query(first) == query(second) == query(third)
    assert first.headers["x-ms-version"] == "2023-11-03"
    assert (second.headers["range"], second.headers["if-match"]) == ("bytes=5-14", value.version and value.version.etag)
    assert third.target.partition("?")[0] == "/acct/data/root/%C3%BC%2520%20%2B"


async def test_connections_are_opened_ahead(server: FaultServer) -> None:
    async with at(server) as store:
        store.prepare(3)
        while server.open_connections < 3:
            await asyncio.sleep(0.01)
        assert len(await asyncio.gather(*(store.fetch("a/b") for _ in range(3)))) == 3
    assert server.connections == 3


async def test_a_given_signature_is_the_query_of_every_read(server: FaultServer) -> None:
    async with at(server, sas_token="?sv=2021&sp=r&sig=s%2Bhidden") as store:
        assert bytes(await store.get("a/b") or b"") == DATA
        assert await store.stat("a/b") is not None
        assert "hidden" not in repr(store) + store.url + str(store.origin) + str(store.identity)
    assert {request.target.partition("?")[2] for request in server.requests} == {"sv=2021&sp=r&sig=s%2Bhidden"}


async def test_without_credentials_nothing_is_added_but_the_version_of_the_protocol(server: FaultServer) -> None:
    async with at(server, anon=True) as store:
        assert await store.get("a/b") is not None
    (request,) = server.requests
    assert request.target == "/acct/data/root/a/b"
    assert request.headers["x-ms-version"] == "2023-11-03"
    assert "authorization" not in request.headers


async def test_a_bearer_token_is_a_header_and_not_part_of_the_url(server: FaultServer) -> None:
    async with at(server, token="t-hidden") as store:
        assert await store.get("a/b") is not None
        await store.erase("a/b")
    for request in server.requests:
        assert request.headers["authorization"] == "Bearer t-hidden"
        assert "hidden" not in request.target


async def test_a_refused_token_of_a_credential_is_asked_for_anew_once(server: FaultServer) -> None:
    class Gets:
        count = 0

        def get_token(self, scope: str) -> Any:
            self.count += 1
            return type("Token", (), {"token": f"t{self.count}", "expires_on": time.time() + 3600})()

    server.script = lambda request, reply: (
        azure(request, reply)
        if request.headers["authorization"] == "Bearer t2"
        else refusal(401, "InvalidAuthenticationInfo")
    )
    gets = Gets()
    async with at(server, credential=gets) as store:
        assert bytes(await store.get("a/b") or b"") == DATA
        assert gets.count == 2
        server.script = lambda request, reply: refusal(401, "InvalidAuthenticationInfo")
        with pytest.raises(UnauthenticatedError):
            await store.get("a/b")
    assert len(server.requests) == 4


async def test_what_is_forbidden_costs_no_new_token(server: FaultServer) -> None:
    class Gets:
        count = 0

        def get_token(self, scope: str) -> Any:
            self.count += 1
            return type("Token", (), {"token": f"t{self.count}", "expires_on": time.time() + 3600})()

    server.script = lambda request, reply: refusal(403, "AuthorizationPermissionMismatch")
    gets = Gets()
    async with at(server, credential=gets) as store:
        for _ in range(3):
            with pytest.raises(PermissionDeniedError):
                await store.get("a/b")
    assert (gets.count, len(server.requests)) == (1, 3)


async def test_a_page_for_people_says_of_no_delete_that_it_was_done(server: FaultServer) -> None:
    server.script = lambda request, reply: html(200)(reply)
    async with at(server) as store:
        with pytest.raises(StoreError, match="a page for people"):
            await store.erase("a/b")


async def test_a_signature_that_has_run_out_is_renewed_once(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signature, "NEW_SECONDS", 0)
    server.script = lambda request, reply: (
        refusal(403, "AuthenticationFailed", "s-hidden was signed") if request.number in (1, 3, 4) else reply
    )
    async with at(server) as store:
        assert bytes(await store.get("a/b") or b"") == DATA
        assert len(server.requests) == 2
        with pytest.raises(UnauthenticatedError) as raised:
            await store.get("a/b")
    assert len(server.requests) == 4
    assert "hidden" not in str(raised.value)
    assert "AuthenticationFailed" in str(raised.value)


async def test_a_signature_that_never_was_good_is_not_sent_twice(server: FaultServer) -> None:
    server.script = lambda request, reply: refusal(403, "AuthenticationFailed")
    async with at(server) as store:
        with pytest.raises(UnauthenticatedError):
            await store.get("a/b")
    assert len(server.requests) == 1


async def test_a_service_principal_reads_with_the_token_that_the_client_library_got(server: FaultServer) -> None:
    def script(request: Request, reply: Reply) -> Reply:
        if request.key == "tenant/oauth2/v2.0/token":
            assert b"p-hidden" in request.body
            return Reply(200, (), b'{"access_token": "t-hidden", "expires_in": 3600}')
        if request.headers.get("authorization") != "Bearer t-hidden":
            return refusal(401, "NoAuthenticationInformation")
        return azure(request, reply)

    server.script = script
    principal = {"tenant_id": "tenant", "client_id": "id", "client_secret": "p-hidden", "authority_host": server.url}
    store = ObjectStore("az://data/root", endpoint_url=f"{server.url}/acct", **principal)
    value = await store.fetch("a/b", Range(5, 10))
    assert value is not None
    assert (bytes(value.data), value.size) == (DATA[5:15], len(DATA))
    assert await store.stat("a/b") == Entry("a/b", len(DATA), value.version)
    end = await store.fetch("a/b", Suffix(7), if_match=value.version)
    assert end is not None
    assert bytes(end.data) == DATA[-7:]
    assert await store.get("missing") is None
    assert await store.fetch("a/b", Range(len(DATA) + 1)) is not None
    with pytest.raises(ChangedError):
        await store.fetch("a/b", if_match=Version('"other"'))
    assert await store.set("new", b"1", precondition=IfAbsent()) is not None
    assert "hidden" not in repr(store) + str(store.identity)
    assert sum(request.method == "POST" for request in server.requests) == 1
    await store.aclose()


@pytest.mark.parametrize("given", [{"token": "t"}, {"sas_token": "sig=x"}, {"use_azure_cli": True}])
def test_credentials_that_anyone_can_use_who_sees_them_do_not_go_unnoticed_over_http(given: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="without TLS"):
        ObjectStore("az://data", account_name="acct", endpoint_url="http://store.example", **given)


def test_credentials_that_were_found_do_not_go_unnoticed_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    with pytest.warns(UserWarning, match="without TLS"):
        ObjectStore("az://data", account_name="acct", endpoint_url="http://store.example")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ObjectStore("az://data", account_name="acct", endpoint_url="http://127.0.0.1:1")
        ObjectStore("az://data", account_name="acct", account_key=KEY, endpoint_url="http://store.example")


async def test_all_requests_go_through_the_proxy_of_the_environment(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy() as between:
        monkeypatch.setenv("http_proxy", between.url)
        async with at(server) as store:
            value = await store.fetch("a/b", Suffix(3))
            assert value is not None
            assert bytes(value.data) == DATA[-3:]
            await store.set("new", b"1")
            await store.erase("new")
    methods = [head.partition(" ")[0] for head in between.heads]
    assert methods == ["HEAD", "GET", "PUT", "DELETE"]
    assert len(server.requests) == len(methods)
    assert "x-ms-delete-snapshots: include" in between.heads[-1]


async def test_what_is_stored_compressed_comes_as_it_is_stored_behind_a_proxy_too(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = gzip.compress(b"text" * 50)
    server.put(PLACE + "packed", packed)
    server.script = lambda request, reply: reply.with_headers(Content_Encoding="gzip")
    with proxy() as between:
        monkeypatch.setenv("http_proxy", between.url)
        async with at(server) as store:
            assert await store.get("packed") == packed
    assert between.heads


# --- the ends of blobs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "expected"), [(10, DATA[-10:]), (len(DATA), DATA), (len(DATA) + 1, DATA), (0, b"")])
async def test_the_end_of_a_blob_is_a_range_of_the_version_whose_size_was_told(
    server: FaultServer, length: int, expected: bytes
) -> None:
    async with at(server) as store:
        assert not store.supports.suffix_reads
        value = await store.fetch("a/b", Suffix(length))
        assert value is not None
        assert (bytes(value.data), value.size) == (expected, len(DATA))
        assert value.version == (await store.stat("a/b") or Entry("", 0)).version
    if length:
        head, get, _ = server.requests
        assert (head.method, get.method) == ("HEAD", "GET")
        assert get.headers["if-match"] == value.version.etag  # type: ignore[union-attr]  # the server tells one


async def test_the_end_of_an_empty_or_missing_blob_costs_one_request(server: FaultServer) -> None:
    server.put(PLACE + "empty", b"")
    async with at(server) as store:
        value = await store.fetch("empty", Suffix(5))
        assert value is not None
        assert (bytes(value.data), value.size) == (b"", 0)
        assert await store.fetch("missing", Suffix(5)) is None
    assert [request.method for request in server.requests] == ["HEAD", "HEAD"]


async def test_a_blob_that_is_replaced_while_its_end_is_looked_for_is_looked_for_anew(server: FaultServer) -> None:
    def replace_it(request: Request, reply: Reply) -> Reply:
        if request.number == 1:
            server.put(PLACE + "a/b", b"the newer value")
        return azure(request, reply)

    server.script = replace_it
    async with at(server) as store:
        value = await store.fetch("a/b", Suffix(5))
        assert value is not None
        assert (bytes(value.data), value.size) == (b"value", 15)


async def test_a_blob_that_keeps_changing_is_a_changed_error(server: FaultServer) -> None:
    def replace_it(request: Request, reply: Reply) -> Reply:
        if request.method == "HEAD":
            server.put(PLACE + "a/b", DATA)
        return azure(request, reply)

    server.script = replace_it
    async with at(server) as store:
        with pytest.raises(ChangedError):
            await store.fetch("a/b", Suffix(5))
        first = len(server.requests)
        with pytest.raises(ChangedError):
            await store.fetch("a/b", Suffix(5), if_match=Version('"other"'))
    assert len(server.requests) <= first + 2


@pytest.mark.parametrize("wanted", [Range(len(DATA)), Range(len(DATA) + 5, 3)])
async def test_a_range_behind_the_end_is_empty(server: FaultServer, wanted: ByteRange) -> None:
    async with at(server) as store:
        value = await store.fetch("a/b", wanted)
    assert value is not None
    assert (bytes(value.data), value.size) == (b"", len(DATA))


async def test_what_the_emulator_says_of_a_range_that_begins_at_the_end_is_understood(server: FaultServer) -> None:
    """It sends 206 and `bytes 5-4/5`."""

    def emulator(request: Request, reply: Reply) -> Reply:
        if reply.status != 416:
            return azure(request, reply)
        nonsense = f"bytes {len(DATA)}-{len(DATA) - 1}/{len(DATA)}"
        return Reply(206, (("Content-Range", nonsense), ("ETag", '"1"')), b"")

    server.script = emulator
    async with at(server) as store:
        value = await store.fetch("a/b", Range(len(DATA)))
        assert value is not None
        assert (bytes(value.data), value.size, value.version) == (b"", len(DATA), Version('"1"'))
        server.script = lambda request, reply: replace(reply, headers=(("Content-Range", "bytes 7-9/25600"),))
        with pytest.raises(StoreError, match=r"contradicts itself|other bytes"):
            await store.fetch("a/b", Range(0, 3))


# --- what is missing, and what is not ----------------------------------------------------------------------------


async def test_only_a_blob_that_is_not_found_is_missing(server: FaultServer) -> None:
    async with at(server) as store:
        assert await store.get("missing") is None
        assert await store.stat("missing") is None
        # Private containers answer anonymous readers ResourceNotFound, and a proxy's 404 has no code at all.
        for code in ("ContainerNotFound", "ResourceNotFound", "AccountIsDisabled", ""):
            server.script = lambda request, reply, code=code: refusal(404, code)
            for ask in (store.get, store.stat, store.erase):
                with pytest.raises(StoreError) as raised:
                    await ask("a/b")
                assert (raised.value.status, raised.value.key) == (404, "a/b")


async def test_a_missing_container_says_so_also_where_a_head_brings_no_body(server: FaultServer) -> None:
    server.script = lambda request, reply: refusal(404, "ContainerNotFound", "Not there.")
    async with at(server) as store:
        for ask in (store.get, store.stat):
            with pytest.raises(StoreError, match="the container does not exist: ContainerNotFound"):
                await ask("a/b")


async def test_folders_of_a_hierarchical_namespace_are_no_values(server: FaultServer) -> None:
    server.put(PLACE + "a", b"")

    def hierarchical(request: Request, reply: Reply) -> Reply:
        if request.method == "DELETE":
            return refusal(409, "DirectoryIsNotEmpty")
        if request.key == PLACE + "a":
            return replace(reply, headers=(*reply.headers, ("x-ms-meta-hdi_isfolder", "true")))
        return azure(request, reply)

    server.script = hierarchical
    async with at(server) as store:
        assert await store.get("a") is None
        assert await store.stat("a") is None
        assert await store.fetch("a", Suffix(3)) is None
        await store.erase("a")
        assert await store.get("a/b") is not None


async def test_throttling_says_how_long_to_wait(server: FaultServer) -> None:
    server.script = lambda request, reply: refusal(503, "ServerBusy", Retry_After="7")
    async with at(server) as store:
        with pytest.raises(ThrottledError) as raised:
            await store.get("a/b")
    error = raised.value
    assert (error.retry_after, error.retryable, error.request_id, error.status) == (7.0, True, "r-1", 503)
    assert (error.store, error.key) == ("az://data/root", "a/b")


async def test_another_version_than_expected_is_a_changed_error(server: FaultServer) -> None:
    async with at(server) as store:
        with pytest.raises(ChangedError):
            await store.fetch("a/b", if_match=Version('"other"'))
        # The emulator takes a missing blob for one of another version.
        server.script = lambda request, reply: (
            refusal(412, "ConditionNotMet") if "if-match" in request.headers else azure(request, reply)
        )
        assert await store.fetch("missing", if_match=Version('"other"')) is None


@pytest.mark.parametrize("key", ["back\\slash", "dot.", "dots./b", "line\n", "\x7f", "\ufffe"])
async def test_keys_that_azure_would_change_are_refused_before_any_request(server: FaultServer, key: str) -> None:
    async with at(server) as store:
        for ask in (store.get(key), store.set(key, b""), store.erase(key)):
            with pytest.raises(InvalidKeyError):
                await ask
    assert server.requests == []


@pytest.mark.parametrize("root", ["dots.", "back\\slash", "dots./b"])
def test_a_prefix_that_azure_would_change_is_refused(root: str) -> None:
    with pytest.raises(InvalidKeyError):
        ObjectStore(f"az://data/{root}", account_name="acct", anon=True)


# --- writing and listing -----------------------------------------------------------------------------------------


def listing(server: FaultServer, request: Request) -> Reply:
    """List the blobs of the container below the prefix, and a folder of a hierarchical namespace."""
    prefix = query(request).get("prefix", [""])[0]
    keys = server.keys()
    names = [key.removeprefix("acct/data/") for key in keys if key.startswith(f"acct/data/{prefix}")]
    properties = (
        "<Last-Modified>Sat, 21 Nov 2026 17:00:00 GMT</Last-Modified><Etag>0x8D</Etag><Content-Type>a/b</Content-Type>"
    )
    blobs = [
        f"<Blob><Name>{name}</Name><Properties>{properties}<ResourceType>file</ResourceType>"
        f"<Content-Length>{len(server.get('acct/data/' + name) or b'')}</Content-Length></Properties></Blob>"
        for name in names
    ]
    blobs.append(
        f"<Blob><Name>{prefix}folder</Name><Properties>{properties}<ResourceType>directory</ResourceType>"
        "<Content-Length>0</Content-Length></Properties></Blob>"
    )
    body = f"<EnumerationResults><Blobs>{''.join(blobs)}</Blobs><NextMarker /></EnumerationResults>"
    return Reply(200, (("Content-Type", "application/xml"),), body.encode())


async def test_a_version_is_the_same_from_every_operation(server: FaultServer) -> None:
    server.script = lambda request, reply: (
        listing(server, request) if "comp=list" in request.target else azure(request, reply).with_headers(ETag='"0x8D"')
    )
    async with at(server) as store:
        version = await store.set("x", b"abc")
        assert version == Version('"0x8D"')
        server.put(PLACE + "x", b"abc", etag='"0x8D"')
        assert await store.stat("x") == Entry("x", 3, version)
        assert await store.fetch("x", if_match=version) is not None
        # Listings leave the quotes out, and have folders, which are no values.
        assert [entry async for entry in store.scan("")] == [Entry("a/b", len(DATA), version), Entry("x", 3, version)]


async def test_a_lost_race_is_a_failed_precondition(server: FaultServer) -> None:
    async with at(server) as store:
        with pytest.raises(PreconditionFailedError) as raised:
            await store.set("a/b", b"", precondition=IfAbsent())
        assert raised.value.status == 409
        with pytest.raises(PreconditionFailedError):
            await store.set("a/b", b"", precondition=IfMatch(Version('"other"')))
        version = await store.set("new", b"1", precondition=IfAbsent())
        assert version is not None
        assert await store.set("new", b"2", precondition=IfMatch(version)) is not None


@pytest.mark.parametrize(
    ("status", "code"), [(412, "LeaseIdMissing"), (409, "BlobImmutableDueToPolicy"), (409, "ContainerBeingDeleted")]
)
async def test_other_conflicts_are_no_lost_races(server: FaultServer, status: int, code: str) -> None:
    server.script = lambda request, reply: refusal(status, code)
    async with at(server) as store:
        with pytest.raises(StoreError, match=code) as raised:
            await store.set("a/b", b"")
    assert not isinstance(raised.value, PreconditionFailedError | ChangedError)


async def test_a_delete_takes_snapshots_along_and_a_signature_that_allows_it(server: FaultServer) -> None:
    async with at(server) as store:
        await store.erase("a/b")
        await store.erase("a/b")
    first, second = server.requests
    assert first.headers["x-ms-delete-snapshots"] == "include"
    assert query(first)["sp"] == ["d"]
    assert second.method == "DELETE"
    assert server.keys() == []


async def test_only_azure_itself_is_trusted_with_conditions(server: FaultServer) -> None:
    assert ObjectStore("az://data", account_name="acct", account_key=KEY).supports.conditional_writes is True
    store = at(server)
    assert store.supports.conditional_writes is None
    assert await store.probe_conditional_writes()
    assert server.keys() == [PLACE + "a/b"]
    await store.aclose()


async def test_the_secondary_region_is_read_and_not_written() -> None:
    store = ObjectStore("az://data", account_name="acct", account_key=KEY, location_mode="secondary")
    assert not store.supports.writeable
    for change in (store.set("a", b""), store.erase("a"), store.erase_values(["a", "b"])):
        with pytest.raises(UnsupportedOperationError):
            await change


# --- what a store is ---------------------------------------------------------------------------------------------


async def test_a_store_is_found_by_its_url_pickles_and_compares_by_what_it_sees(server: FaultServer) -> None:
    store = at(server)
    assert store.url == "az://data/root"
    copy = pickle.loads(pickle.dumps(store))
    assert copy == store
    assert hash(copy) == hash(store)
    assert bytes(await copy.get("a/b") or b"") == DATA
    assert ObjectStore("az://data/root", account_name="acct", account_key=KEY) != store
    named = ObjectStore("abfss://data@acct.dfs.core.windows.net/root", account_key=KEY)
    assert named == ObjectStore("az://data/root", account_name="acct", account_key=KEY)
    assert named.url == "abfss://data@acct.dfs.core.windows.net/root"
    for each in (store, copy, named):
        assert not re.search("hidden|" + re.escape(KEY), repr(each) + str(each.identity) + str(each.origin))
        await each.aclose()
    gc.collect()


async def test_arrays_are_opened_by_url_and_options(server: FaultServer) -> None:
    server.script = lambda request, reply: (
        listing(server, request) if "comp=list" in request.target else azure(request, reply)
    )
    options = {"endpoint_url": f"{server.url}/acct", "account_key": KEY}
    array = await aiozarr.create_array(
        "abfs://data/field.zarr", shape=(4, 4), dtype="int32", chunks=(2, 2), storage_options=options
    )
    await array[...].write(7)
    assert array.url == "az://data/field.zarr"
    again = await aiozarr.open_array("az://data/field.zarr", storage_options={**options, "read_timeout": 5})
    assert (await again[...] == 7).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_child_reads_and_lists_on_and_is_told_that_it_cannot_write(server: FaultServer) -> None:
    server.script = lambda request, reply: (
        listing(server, request) if "comp=list" in request.target else azure(request, reply)
    )
    store = at(server)

    async def in_the_parent() -> None:
        await store.set("x", b"1")
        assert await store.get("a/b") is not None
        await store.aclose()

    async def in_the_child() -> None:
        assert bytes(await store.get("a/b") or b"") == DATA
        with pytest.raises(ForkedProcessError):
            await store.set("x", b"2")
        assert await store.list() == ["a/b", "x"]
        await store.aclose()

    asyncio.run(in_the_parent())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks beside threads: the server's
        child = os.fork()
    if not child:
        try:
            asyncio.run(in_the_child())
        except BaseException:  # whatever it is, the child must not become a second test run
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
