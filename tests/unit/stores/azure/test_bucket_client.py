"""The object store on Azure, against a server that behaves like Azure, and misbehaves."""

from __future__ import annotations

import asyncio
import gc
import gzip
import os
import pickle
import re
import warnings
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import aiozarr
from aiozarr.errors import (
    ChangedError,
    EraseError,
    InvalidKeyError,
    PreconditionFailedError,
    StoreError,
    ThrottledError,
    UnsupportedOperationError,
)
from aiozarr.model import Entry, IfAbsent, IfMatch, Range, Suffix, Version
from aiozarr.stores import ObjectStore
from aiozarr.stores.azure.bucket_client import AzureBucketClient
from aiozarr.stores.bucket.bucket_client import DELETE_CONCURRENCY
from tests.support.bodies import BytesBody
from tests.support.http_proxy import proxy
from tests.support.servers.azure_replies import DATA, KEY, PLACE, AzureServer, at, azure, refusal
from tests.support.servers.http_replies import Reply, Request, html


def query(request: Request) -> dict[str, list[str]]:
    return parse_qs(urlsplit(request.target).query)


async def test_connections_are_opened_ahead(server: AzureServer) -> None:
    async with at(server) as store:
        store._preconnect(3)
        client = store._client
        assert isinstance(client, AzureBucketClient)
        while len(client.sender.pool()._idle) < 3:
            await asyncio.sleep(0.01)
        assert len(await asyncio.gather(*(store.fetch("a/b") for _ in range(3)))) == 3
    assert server.connections == 3


async def test_an_html_page_does_not_confirm_a_delete(server: AzureServer) -> None:
    server.script = lambda request, reply: html(200)(reply)
    async with at(server) as store:
        with pytest.raises(StoreError, match="HTML page"):
            await store.erase("a/b")


@pytest.mark.parametrize("given", [{"token": "t"}, {"sas_token": "sig=x"}, {"use_azure_cli": True}])
def test_credentials_sent_over_http_are_warned_of(given: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match="without TLS"):
        ObjectStore("az://data", account_name="acct", endpoint_url="http://store.example", **given)


def test_found_credentials_sent_over_http_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    with pytest.warns(UserWarning, match="without TLS"):
        ObjectStore("az://data", account_name="acct", endpoint_url="http://store.example")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ObjectStore("az://data", account_name="acct", endpoint_url="http://127.0.0.1:1")
        ObjectStore("az://data", account_name="acct", account_key=KEY, endpoint_url="http://store.example")


async def test_compressed_objects_are_returned_as_stored_also_through_a_proxy(
    server: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = gzip.compress(b"text" * 50)
    server.put(PLACE + "packed", packed)
    server.script = lambda request, reply: reply.with_headers(Content_Encoding="gzip")
    with proxy() as between:
        monkeypatch.setenv("http_proxy", between.url)
        async with at(server) as store:
            assert await store.get("packed") == packed
    assert between.heads


@pytest.mark.parametrize(("length", "expected"), [(10, DATA[-10:]), (len(DATA), DATA), (len(DATA) + 1, DATA), (0, b"")])
async def test_the_end_of_a_blob_is_a_range_of_the_version_whose_size_was_told(
    server: AzureServer, length: int, expected: bytes
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


async def test_the_end_of_an_empty_or_missing_blob_costs_one_request(server: AzureServer) -> None:
    server.put(PLACE + "empty", b"")
    async with at(server) as store:
        value = await store.fetch("empty", Suffix(5))
        assert value is not None
        assert (bytes(value.data), value.size) == (b"", 0)
        assert await store.fetch("missing", Suffix(5)) is None
    assert [request.method for request in server.requests] == ["HEAD", "HEAD"]


async def test_a_blob_that_is_replaced_while_its_end_is_looked_for_is_looked_for_anew(server: AzureServer) -> None:
    def replace_it(request: Request, reply: Reply) -> Reply:
        if request.number == 1:
            server.put(PLACE + "a/b", b"the newer value")
        return azure(request, reply)

    server.script = replace_it
    async with at(server) as store:
        value = await store.fetch("a/b", Suffix(5))
        assert value is not None
        assert (bytes(value.data), value.size) == (b"value", 15)


async def test_a_blob_that_keeps_changing_is_a_changed_error(server: AzureServer) -> None:
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


async def test_what_the_emulator_says_of_a_range_that_begins_at_the_end_is_understood(server: AzureServer) -> None:
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


async def test_only_a_blob_that_is_not_found_is_missing(server: AzureServer) -> None:
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


async def test_a_missing_container_says_so_also_where_a_head_brings_no_body(server: AzureServer) -> None:
    server.script = lambda request, reply: refusal(404, "ContainerNotFound", "Not there.")
    async with at(server) as store:
        for ask in (store.get, store.stat):
            with pytest.raises(StoreError, match="the container does not exist: ContainerNotFound"):
                await ask("a/b")


async def test_folders_of_a_hierarchical_namespace_are_no_values(server: AzureServer) -> None:
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


async def test_throttling_says_how_long_to_wait(server: AzureServer) -> None:
    server.script = lambda request, reply: refusal(503, "ServerBusy", Retry_After="7")
    async with at(server) as store:
        with pytest.raises(ThrottledError) as raised:
            await store.get("a/b")
    error = raised.value
    assert (error.retry_after, error.retryable, error.request_id, error.status) == (7.0, True, "r-1", 503)
    assert (error.store, error.key) == ("az://data/root", "a/b")


async def test_another_version_than_expected_is_a_changed_error(server: AzureServer) -> None:
    async with at(server) as store:
        with pytest.raises(ChangedError):
            await store.fetch("a/b", if_match=Version('"other"'))
        # The emulator takes a missing blob for one of another version.
        server.script = lambda request, reply: (
            refusal(412, "ConditionNotMet") if "if-match" in request.headers else azure(request, reply)
        )
        assert await store.fetch("missing", if_match=Version('"other"')) is None


@pytest.mark.parametrize("key", ["back\\slash", "dot.", "dots./b", "line\n", "\x7f", "\ufffe"])
async def test_keys_that_azure_would_change_are_refused_before_any_request(server: AzureServer, key: str) -> None:
    async with at(server) as store:
        for ask in (store.get(key), store.set(key, b""), store.erase(key)):
            with pytest.raises(InvalidKeyError):
                await ask
    assert server.requests == []


@pytest.mark.parametrize("root", ["dots.", "back\\slash", "dots./b"])
def test_a_prefix_that_azure_would_change_is_refused(root: str) -> None:
    with pytest.raises(InvalidKeyError):
        ObjectStore(f"az://data/{root}", account_name="acct", anon=True)


async def test_a_version_is_the_same_from_every_operation(server: AzureServer) -> None:
    server.script = lambda request, reply: (
        reply if "comp=list" in request.target else azure(request, reply).with_headers(ETag='"0x8D"')
    )
    async with at(server) as store:
        version = await store.set("x", b"abc")
        assert version == Version('"0x8D"')
        for key, data in (("x", b"abc"), ("a/b", DATA)):
            server.put(PLACE + key, data, etag='"0x8D"')
        assert await store.stat("x") == Entry("x", 3, version)
        assert await store.fetch("x", if_match=version) is not None
        # Listings leave the quotes out, and have folders, which are no values.
        assert [entry async for entry in store.scan("")] == [Entry("a/b", len(DATA), version), Entry("x", 3, version)]


@pytest.mark.parametrize(
    ("status", "code"), [(412, "LeaseIdMissing"), (409, "BlobImmutableDueToPolicy"), (409, "ContainerBeingDeleted")]
)
async def test_other_conflicts_are_no_lost_races(server: AzureServer, status: int, code: str) -> None:
    server.script = lambda request, reply: refusal(status, code)
    async with at(server) as store:
        with pytest.raises(StoreError, match=code) as raised:
            await store.set("a/b", b"")
    assert not isinstance(raised.value, PreconditionFailedError | ChangedError)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.stores.bucket.bucket_client.SINGLE_UPLOAD_BYTES", 1000)
    monkeypatch.setattr("aiozarr.stores.bucket.bucket_client.PART_BYTES", 10_000)


@pytest.mark.usefixtures("small_blocks")
async def test_a_large_value_is_stored_in_blocks_and_bound_by_conditions(server: AzureServer) -> None:
    async with at(server) as store:
        assert await store.set("one", DATA, precondition=IfAbsent()) is not None
        assert len(server.requests) == 1  # only single requests were tested
        server.requests.clear()
        client = store._client
        assert isinstance(client, AzureBucketClient)
        client.supports = replace(client.supports, conditional_writes=True)
        version = await store.set("big", DATA, precondition=IfAbsent())
        assert version is not None
        assert server.get(PLACE + "big") == DATA
        *blocks, commit = server.requests
        names = [query(request)["blockid"][0] for request in blocks]
        assert (len(set(names)), {len(name) for name in names}) == (3, {40})
        assert sorted(len(request.body) for request in blocks) == [5600, 10_000, 10_000]
        assert commit.headers["if-none-match"] == "*"
        assert query(commit)["sp"] == ["w"]
        with pytest.raises(PreconditionFailedError):
            await store.set("big", DATA[::-1], precondition=IfAbsent())
        assert await store.set("big", DATA[::-1], precondition=IfMatch(version)) is not None
        assert server.get(PLACE + "big") == DATA[::-1]


@pytest.mark.usefixtures("small_blocks")
async def test_blocks_that_another_writer_has_removed_are_sent_again(server: AzureServer) -> None:
    def script(request: Request, reply: Reply) -> Reply:
        server.blocks.clear()
        return azure(request, reply)

    server.script = script
    async with at(server) as store:
        with pytest.raises(StoreError, match="InvalidBlockList") as raised:
            await store.set("big", DATA)
    assert raised.value.retryable
    assert server.get(PLACE + "big") is None


@pytest.mark.usefixtures("small_blocks")
async def test_files_are_uploaded_while_they_are_read(server: AzureServer) -> None:
    body = BytesBody(len(DATA), DATA)
    async with at(server) as store:
        assert store._can_upload(len(DATA))
        assert (store._upload_part_bytes(1000), store._upload_part_bytes(len(DATA))) == (None, 10_000)
        assert await store._upload("small", body.part(5, 500)) is not None
        assert server.get(PLACE + "small") == DATA[5:505]
        upload_id = await store._begin_parts("big")
        parts = [
            await store._upload_part("big", upload_id, number, body.part(start, min(20_000, len(DATA) - start)))
            for number, start in enumerate((0, 20_000))
        ]
        assert server.get(PLACE + "big") is None
        assert await store._complete_parts("big", upload_id, parts) == (await store.stat("big")).version  # type: ignore[union-attr]
        assert server.get(PLACE + "big") == DATA
        await store._abort_parts("big", upload_id)
        assert store._upload_part_bytes(len(DATA), conditional=True) is None  # the probe has not tested blocks
        for key in ("small", "big"):
            with pytest.raises(PreconditionFailedError):
                await store._upload(key, body.part(0, 9), precondition=IfAbsent())
        parts = [await store._upload_part("big", upload_id, 0, body.part(0, 9))]
        with pytest.raises(PreconditionFailedError):
            await store._complete_parts("big", upload_id, parts, precondition=IfAbsent())


async def test_a_write_that_is_not_confirmed_is_an_error(server: AzureServer) -> None:
    server.script = lambda request, reply: html(200)(reply)
    async with at(server) as store:
        with pytest.raises(StoreError, match="HTML page"):
            await store.set("a/b", b"1")
        server.script = lambda request, reply: refusal(404, "ContainerNotFound")
        with pytest.raises(StoreError, match="container does not exist"):
            await store.set("a/b", b"1")


async def test_keys_that_cannot_be_removed_are_named_after_all_others_were(server: AzureServer) -> None:
    for number in range(40):
        server.put(f"{PLACE}k{number}", b"1")
    server.latency = 0.005
    server.script = lambda request, reply: (
        refusal(403, "AuthorizationPermissionMismatch") if request.key.endswith("3") else azure(request, reply)
    )
    async with at(server) as store:
        with pytest.raises(EraseError) as raised:
            await store.erase_values([f"k{number}" for number in range(41)])
    assert list(raised.value.failures) == ["k3", "k13", "k23", "k33"]
    assert len(server.keys()) == 5
    assert 1 < server.max_in_flight <= DELETE_CONCURRENCY


async def test_all_requests_go_through_the_proxy_of_the_environment(
    server: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy() as between:
        monkeypatch.setenv("http_proxy", between.url)
        async with at(server) as store:
            value = await store.fetch("a/b", Suffix(3))
            assert value is not None
            assert bytes(value.data) == DATA[-3:]
            assert not store._can_upload(1)
            large = bytes(3 << 20)
            assert await store.set("new", large, precondition=IfAbsent()) is not None
            with pytest.raises(PreconditionFailedError):
                await store.set("new", b"", precondition=IfAbsent())
            assert server.get(PLACE + "new") == large
            await store.erase("new")
    methods = [head.partition(" ")[0] for head in between.heads]
    assert methods == ["HEAD", "GET", "PUT", "PUT", "DELETE"]
    assert len(server.requests) == len(methods)
    assert "x-ms-delete-snapshots: include" in between.heads[-1]


async def test_a_delete_takes_snapshots_along_and_a_signature_that_allows_it(server: AzureServer) -> None:
    async with at(server) as store:
        await store.erase("a/b")
        await store.erase("a/b")
    first, second = server.requests
    assert first.headers["x-ms-delete-snapshots"] == "include"
    assert query(first)["sp"] == ["d"]
    assert second.method == "DELETE"
    assert server.keys() == []


async def test_only_azure_itself_is_trusted_with_conditions(server: AzureServer) -> None:
    assert ObjectStore("az://data", account_name="acct", account_key=KEY).supports.conditional_writes is True
    store = at(server)
    assert store.supports.conditional_writes is None
    assert await store.probe_conditional_writes()
    assert server.keys() == [PLACE + "a/b"]
    await store.aclose()


async def test_the_secondary_region_is_read_and_not_written() -> None:
    store = ObjectStore("az://data", account_name="acct", account_key=KEY, location_mode="secondary")
    assert not store.supports.writable
    for change in (store.set("a", b""), store.erase("a"), store.erase_values(["a", "b"])):
        with pytest.raises(UnsupportedOperationError):
            await change


async def test_a_store_is_found_by_its_url_pickles_and_compares_by_what_it_sees(server: AzureServer) -> None:
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


async def test_arrays_are_opened_by_url_and_options(server: AzureServer) -> None:
    options = {"endpoint_url": f"{server.url}/acct", "account_key": KEY}
    array = await aiozarr.create_array(
        "abfs://data/field.zarr", shape=(4, 4), dtype="int32", chunks=(2, 2), storage_options=options
    )
    await array[...].write(7)
    assert array.url == "az://data/field.zarr"
    again = await aiozarr.open_array("az://data/field.zarr", storage_options={**options, "read_timeout": 5})
    assert (await again[...] == 7).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_child_reads_lists_and_writes_on(server: AzureServer) -> None:
    store = at(server)

    async def in_the_parent() -> None:
        await store.set("x", b"1")
        assert await store.get("a/b") is not None
        await store.aclose()

    async def in_the_child() -> None:
        assert bytes(await store.get("a/b") or b"") == DATA
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
