"""The object store in front of a server that misbehaves, and what it shows, carries and keeps to itself."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import warnings

import pytest

import aiozarr
from aiozarr.errors import (
    ChangedError,
    InvalidKeyError,
    PreconditionFailedError,
    StoreError,
    ThrottledError,
    UnsupportedOperationError,
)
from aiozarr.http1.response_check import Expectation
from aiozarr.model import IfAbsent, IfMatch, Range, Version
from aiozarr.stores import PrefixStore, ReadOnlyStore
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.stores.s3.region_client import S3RegionClient
from aiozarr.testing import LatencyStore
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer
from tests.support.servers.moto import LocalS3
from tests.support.servers.s3_replies import DATA, at


async def test_a_replaced_object_is_a_changed_error(server: FaultServer) -> None:
    async with at(server) as store:
        value = await store.fetch("a/b")
        assert value is not None
        server.put("bkt/root/a/b", DATA)
        with pytest.raises(ChangedError):
            await store.fetch("a/b", Range(5, 10), if_match=value.version)
        server.script = spoil.when(lambda request: True, lambda reply: reply)
        server.script = lambda request, reply: spoil.status_only(206)(reply) if reply.status == 412 else reply
        with pytest.raises(StoreError):  # a server that ignores the condition
            await store.fetch("a/b", Range(5, 10), if_match=value.version)


async def test_keys_with_control_characters_are_refused_before_anything_is_sent(server: FaultServer) -> None:
    for store in (at(server), at(server, anon=True)):
        for call in (store.fetch("a\x01"), store.stat("a\n"), store.set("a\x7f", b""), store.erase("\t")):
            with pytest.raises(InvalidKeyError):
                await call
        await store.aclose()
    assert not server.requests


async def test_the_bucket_of_aws_is_looked_for_in_its_own_region(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def fetch_region(client: S3RegionClient) -> str | None:
        asked.append(client.endpoint.bucket)
        await asyncio.sleep(0)
        return "eu-north-1"

    monkeypatch.setattr("aiozarr.stores.s3.bucket_client.fetch_region", fetch_region)
    store = ObjectStore("s3://bkt/x", anon=True)
    get = ("GET", "k", Expectation())
    requests = await asyncio.gather(*(store._client.authorise_later(*get) for _ in range(5)))
    assert {request.sender.endpoint.host for request in requests} == {"bkt.s3.eu-north-1.amazonaws.com"}
    assert asked == ["bkt"]
    named = ObjectStore("s3://bkt/x", anon=True, region="us-west-2")
    assert (await named._client.authorise_later(*get)).sender.endpoint.host == "bkt.s3.us-west-2.amazonaws.com"
    assert asked == ["bkt"]


async def test_writes_carry_their_conditions(server: FaultServer) -> None:
    async with at(server) as store:
        await store.set("new", b"1", precondition=IfAbsent())
        with pytest.raises(PreconditionFailedError) as caught:
            await store.set("new", b"2", precondition=IfAbsent())
        assert (caught.value.key, caught.value.status) == ("new", 412)
        with pytest.raises(PreconditionFailedError):
            await store.set("new", b"2", precondition=IfMatch(Version('"stale"')))
        value = await store.fetch("new")
        assert value is not None
        assert value.version is not None
        assert await store.set("new", b"3", precondition=IfMatch(value.version)) is not None
        sent = len(server.requests)
        with pytest.raises(UnsupportedOperationError):
            await store.set("new", b"4", precondition=IfMatch(Version('W/"weak"')))
        assert len(server.requests) == sent
    assert server.get("bkt/root/new") == b"3"


@pytest.mark.parametrize("status", [500, 503])
async def test_the_client_library_does_not_retry(server: FaultServer, status: int) -> None:
    server.script = spoil.always(spoil.status(status))
    async with at(server) as store:
        with pytest.raises(StoreError) as caught:
            await store.set("x", b"1")
    assert (caught.value.status, caught.value.retryable) == (status, True)
    assert len(server.requests) == 1


async def test_a_server_that_is_not_there_is_a_retryable_error_for_writes_too() -> None:
    store = ObjectStore("s3://bkt", endpoint_url="http://127.0.0.1:1", key="k", secret="s")
    for call in (store.set("a", b""), store.erase("a"), store.list(), store.fetch("a")):
        with pytest.raises(StoreError) as caught:
            await call
        assert caught.value.retryable
    await store.aclose()


def ignores_conditions(request: Request, reply: Reply) -> Reply:
    """Answer 200 to every PUT, and take it."""
    return Reply(200, (("ETag", f'"n{request.number}"'),), applied=True) if request.method == "PUT" else reply


def refuses_all(request: Request, reply: Reply) -> Reply:
    """Answer 412 to every replacement under a condition, as a server does that compares without the quotes."""
    return Reply(412) if request.method == "PUT" and "if-match" in request.headers else reply


def knows_no_conditions(request: Request, reply: Reply) -> Reply:
    """Answer 501 to every condition."""
    conditional = {"if-match", "if-none-match"} & request.headers.keys()
    return Reply(501, applied=False) if request.method == "PUT" and conditional else reply


@pytest.mark.parametrize(
    ("script", "holds"),
    [(None, True), (ignores_conditions, False), (refuses_all, False), (knows_no_conditions, False)],
)
async def test_conditional_writes_are_probed_and_no_object_is_left(
    server: FaultServer, script: spoil.Script | None, holds: bool
) -> None:
    server.script = script
    async with at(server) as store:
        assert store.supports.conditional_writes is None
        assert await store.probe_conditional_writes() is holds
        sent = len(server.requests)
        assert await store.probe_conditional_writes() is holds
        assert len(server.requests) == sent
        assert pickle.loads(pickle.dumps(store)).supports.conditional_writes is holds
        if not holds:
            with pytest.raises(UnsupportedOperationError):
                await store.set("x", b"", precondition=IfAbsent())
    assert server.keys() == ["bkt/root/a/b"]


async def test_a_probe_that_fails_leaves_no_object_and_decides_nothing(server: FaultServer) -> None:
    server.script = lambda request, reply: Reply(503) if request.number == 3 else reply
    async with at(server) as store:
        with pytest.raises(ThrottledError):
            await store.probe_conditional_writes()
        assert store.supports.conditional_writes is None
    assert server.keys() == ["bkt/root/a/b"]


async def test_the_probe_for_a_part_of_the_store_writes_below_its_prefix(server: FaultServer) -> None:
    async with at(server) as inner:
        store = PrefixStore(LatencyStore(PrefixStore(inner, "a"), 0), "c")
        assert await store.probe_conditional_writes()
        assert inner.supports.conditional_writes is True
    assert {request.method for request in server.requests} >= {"PUT", "DELETE"}
    assert all(request.target.startswith("/bkt/root/a/c/__aiozarr_probe_") for request in server.requests)


async def test_the_probe_for_a_part_of_what_may_not_be_written_writes_nothing(server: FaultServer) -> None:
    async with at(server) as inner:
        assert await PrefixStore(ReadOnlyStore(inner), "a").probe_conditional_writes() is False
    assert server.requests == []


def test_aws_itself_is_trusted() -> None:
    assert ObjectStore("s3://bkt", region="us-east-1", anon=True).supports.conditional_writes is True


def test_no_secret_is_shown_and_given_ones_travel() -> None:
    store = ObjectStore("s3://bkt/x", key="KEYID", secret="s-hidden", token="t-hidden", region="eu-west-1")
    options = store._client._options
    for text in (repr(store), str(store), store.url, repr(store.origin), repr(store.identity), repr(options)):
        assert "hidden" not in text
    clone = pickle.loads(pickle.dumps(store))
    assert clone == store
    assert clone._client._options == store._client._options


def test_stores_with_other_servers_credentials_or_roots_are_other_stores() -> None:
    options = {"key": "k", "secret": "s", "endpoint_url": "http://127.0.0.1:1"}
    stores = [
        ObjectStore("s3://bkt/x", **options),
        ObjectStore("s3://bkt/y", **options),
        ObjectStore("s3://bkt/x", **{**options, "secret": "other"}),
        ObjectStore("s3://bkt/x", **{**options, "endpoint_url": "http://127.0.0.1:2"}),
        ObjectStore("s3://bkt/x", endpoint_url="http://127.0.0.1:1", anon=True),
    ]
    assert len({store.identity for store in stores}) == 5
    assert stores[0].origin == stores[1].origin
    assert len({store.origin for store in stores}) == 4


def test_credentials_that_were_found_are_not_sent_openly_without_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    with pytest.warns(UserWarning, match="without TLS"):
        ObjectStore("s3://bkt", endpoint_url="http://server.example")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_child_of_a_process_that_wrote_to_s3_reads_and_writes(server: FaultServer) -> None:
    store = at(server)
    asyncio.run(_use(store))

    async def in_the_child() -> None:
        for child_store in (store, at(server)):
            await child_store.set("of-child", b"1", precondition=None)
            with pytest.raises(PreconditionFailedError):
                await child_store.set("x", b"2", precondition=IfAbsent())
            assert await child_store.fetch("a/b") is not None

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
    assert server.get("bkt/root/of-child") == b"1"


async def _use(store: ObjectStore) -> None:
    await store.set("x", b"1", precondition=IfAbsent())
    await store.aclose()


def test_a_program_that_leaves_its_stores_open_ends_in_good_order(s3_server: LocalS3) -> None:
    s3_server.create_bucket("leaving")
    code = (
        "import asyncio\nfrom aiozarr.stores.bucket.store import ObjectStore\n"
        f"store = ObjectStore('s3://leaving', **{s3_server.storage_options!r})\n"
        "async def main():\n"
        "    await store.set('a', b'1')\n"
        "    return await store.list(), bytes((await store.fetch('a')).data)\n"
        "print(asyncio.run(main()), asyncio.run(main()))"
    )
    for _ in range(3):
        done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == "(['a'], b'1') (['a'], b'1')\n"


async def test_bulk_deletes_are_paged_and_name_the_remaining_keys(s3_server: LocalS3) -> None:
    s3_server.create_bucket("bulk")
    store = ObjectStore("s3://bulk", **s3_server.storage_options)
    for number in range(30):
        await store.set(f"k/{number}", b"")
    await store.erase_values([f"k/{number}" for number in range(15)] + ["never/there"])
    assert len(await store.list()) == 15
    with pytest.raises(InvalidKeyError):
        await store.erase_values(["k/20", "/bad"])
    await store.erase_prefix("k/")
    assert await store.list() == []
    await store.aclose()


async def test_a_large_value_is_uploaded_in_parts(s3_server: LocalS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.stores.bucket.bucket_client.SINGLE_UPLOAD_BYTES", 1 << 20)
    monkeypatch.setattr("aiozarr.stores.bucket.bucket_client.PART_BYTES", 5 << 20)
    s3_server.create_bucket("parts")
    data = os.urandom(11 << 20)
    async with ObjectStore("s3://parts", **s3_server.storage_options) as store:
        version = await store.set("big", data)
        value = await store.fetch("big")
        assert value is not None
        assert memoryview(value.data) == data
        assert value.version == version
        assert version is not None
        assert version.etag is not None
        assert version.etag.endswith('-3"')


async def test_the_store_above_is_that_of_the_prefix_above_and_shares_the_connections(s3_server: LocalS3) -> None:
    s3_server.create_bucket("above")
    options = s3_server.storage_options
    async with ObjectStore("s3://above/a/b", **options) as store:
        found = store.parent_store()
        assert found is not None
        above, name = found
        assert (above, name) == (ObjectStore("s3://above/a", **options), "b")
        assert above.origin == store.origin
        await store.set("k", b"1")
        assert bytes(await above.get("b/k") or b"") == b"1"
        top = above.parent_store()
        assert top is not None
        assert (top[0].url, top[1]) == ("s3://above", "a")
        assert top[0].parent_store() is None


async def test_copies_above_a_target_in_a_bucket_follow_its_changes(s3_server: LocalS3) -> None:
    s3_server.create_bucket("inside")
    options = s3_server.storage_options
    async with await aiozarr.create_group("s3://inside/q", storage_options=options) as root:
        await root.create_array("g/a", shape=4, dtype="i4")
        await aiozarr.consolidate_metadata(root.store)
        async with await aiozarr.open_array("s3://inside/q/g", "a", mode="r+", storage_options=options) as array:
            await array.resize(9)
        opened = await aiozarr.open_group(root.store)
        assert opened.metadata.consolidated is not None
        assert opened.metadata.consolidated.nodes["g/a"]["zarr.json"]["shape"] == [9]
