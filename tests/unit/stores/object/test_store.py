"""The object store in front of a server that misbehaves, and what it shows, carries and keeps to itself."""

import asyncio
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import (
    ChangedError,
    ForkedProcessError,
    InvalidKeyError,
    LimitError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    ThrottledError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.model import IfAbsent, IfMatch, Range, Suffix, Version
from aiozarr.stores import LatencyStore, PrefixStore, ReadOnlyStore
from aiozarr.stores.object.store import ObjectStore
from aiozarr.stores.options.s3 import S3Options
from aiozarr.stores.s3.address import S3Place
from aiozarr.testing import http_replies as spoil
from aiozarr.testing.http_replies import Reply, Request
from aiozarr.testing.http_server import FaultServer
from local_s3 import LocalS3

DATA = bytes(range(256)) * 100


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server that has one object in a bucket."""
    with FaultServer({"bkt/root/a/b": DATA}) as running:
        yield running


def at(server: FaultServer, url: str = "s3://bkt/root", **options: Any) -> ObjectStore:
    """Return a store of the server's bucket."""
    options = {"key": "KEYID", "secret": "s-hidden", "region": "us-east-1", **options}
    if options.get("anon"):
        options.pop("key")
        options.pop("secret")
    return ObjectStore(url, endpoint_url=server.url, **options)


def document(code: str, status: int = 400) -> spoil.Spoil:
    """Answer with an error document."""
    return spoil.status(status, f"<Error><Code>{code}</Code><Message>Words</Message></Error>".encode())


async def test_a_read_is_a_signed_get_with_range_and_condition(server: FaultServer) -> None:
    async with at(server, requester_pays=True, token="t-hidden") as store:
        value = await store.fetch("a/b")
        assert value is not None
        part = await store.fetch("a/b", Range(5, 10), if_match=value.version)
        assert part is not None
        assert (bytes(part.data), part.size, part.version) == (DATA[5:15], len(DATA), value.version)
    first, second = server.requests
    assert first.method == "GET"
    assert "X-Amz-Signature=" in first.target
    assert "X-Amz-Credential=KEYID" in first.target
    assert "X-Amz-Security-Token=t-hidden" in first.target
    assert "x-amz-request-payer=requester" in first.target
    assert second.target == first.target
    assert (second.headers["range"], second.headers["if-match"]) == ("bytes=5-14", value.version and value.version.etag)


async def test_an_anonymous_read_is_not_signed(server: FaultServer) -> None:
    server.put("bkt/ü %+", b"x")
    async with at(server, "s3://bkt", anon=True) as store:
        assert await store.exists("ü %+")
    assert {request.target for request in server.requests} == {"/bkt/%C3%BC%20%25%2B"}


async def test_given_credentials_are_not_mixed_with_those_of_the_environment(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-another")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OTHER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "other")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    async with at(server) as store:
        await store.set("x", b"1")
        assert await store.get("x") is not None
    for request in server.requests:
        assert "of-another" not in str(request)
        assert "OTHER" not in str(request)


async def test_credentials_of_the_environment_sign(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    async with ObjectStore("s3://bkt/root") as store:
        assert await store.exists("a/b")
        assert os.environ["AWS_SECRET_ACCESS_KEY"] == "s"
        assert b"ENVKEY" not in pickle.dumps(store)
    assert "X-Amz-Credential=ENVKEY" in server.requests[0].target


async def test_a_profile_signs(server: FaultServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "credentials").write_text("[mine]\naws_access_key_id = PROFILEKEY\naws_secret_access_key = s\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, profile="mine") as store:
        found = await asyncio.gather(*(store.fetch("a/b", Suffix(number)) for number in range(1, 6)))
        assert [value and bytes(value.data) for value in found] == [DATA[-number:] for number in range(1, 6)]
    assert "X-Amz-Credential=PROFILEKEY" in server.requests[0].target


# --- what counts as missing, and what is an error ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "kind", "retryable"),
    [
        (document("NoSuchBucket", 404), StoreError, False),
        (document("AccessDenied", 403), PermissionDeniedError, False),
        (document("ExpiredToken", 400), UnauthenticatedError, False),
        (document("SlowDown", 503), ThrottledError, True),
        (document("InternalError", 500), StoreError, True),
        (document("MethodNotAllowed", 405), UnsupportedOperationError, False),
        (spoil.redirect("https://elsewhere.example/"), StoreError, False),
        (spoil.redirect("/bkt/root/other", 307), StoreError, False),
    ],
)
async def test_only_a_404_of_the_object_is_missing(
    server: FaultServer, fault: spoil.Spoil, kind: type[StoreError], retryable: bool
) -> None:
    server.script = spoil.always(fault)
    async with at(server) as store:
        for operation in (store.fetch, store.stat):
            with pytest.raises(kind) as caught:
                await operation("a/b")
            error = caught.value
            assert type(error) is kind
            assert (error.store, error.key, error.retryable) == ("s3://bkt/root", "a/b", retryable)
            assert "Signature" not in str(error)


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_object_that_is_not_there_is_missing(server: FaultServer, chunked: bool) -> None:
    for fault in (document("NoSuchKey", 404), spoil.status(404)):
        server.script = lambda request, reply, fault=fault: spoil.chunked(fault(reply)) if chunked else fault(reply)
        async with at(server) as store:
            assert await store.fetch("a/b") is None
            assert await store.fetch("a/b", Range(5, 5)) is None
            assert await store.stat("a/b") is None
    assert server.connections == 2


async def test_a_page_for_people_is_no_value(server: FaultServer) -> None:
    async with at(server) as store:
        server.script = spoil.always(spoil.html())
        for call in (store.fetch("a/b"), store.fetch("a/b", Range(2, 5)), store.stat("a/b")):
            with pytest.raises(StoreError, match="a page for people"):
                await call
        server.script = None
        server.put("bkt/root/page", b"<html>stored by somebody</html>")
        assert bytes(await store.get("page") or b"").startswith(b"<html>")


async def test_the_answer_to_a_delete_is_not_received_without_end(server: FaultServer) -> None:
    server.script = spoil.always(lambda reply: Reply(200, (), b"x" * (2 << 20)))
    async with at(server) as store:
        with pytest.raises(LimitError):
            await store.erase("a/b")


async def test_an_expired_signature_is_renewed_once(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at(server) as store:
        assert await store.exists("a/b")
        monkeypatch.setattr(store._service._link, "renew", lambda since: True)
        server.script = spoil.only({2: document("ExpiredToken", 403)})
        assert await store.get("a/b") is not None
        assert len(server.requests) == 3
        server.script = spoil.always(document("ExpiredToken", 403))
        with pytest.raises(UnauthenticatedError):
            await store.get("a/b")
        assert len(server.requests) == 5


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
    from aiozarr.stores.s3 import service as module

    asked: list[str] = []

    async def ask_region(place: S3Place, options: S3Options) -> str | None:
        asked.append(place.bucket)
        await asyncio.sleep(0)
        return "eu-north-1"

    monkeypatch.setattr(module, "ask_region", ask_region)
    store = ObjectStore("s3://bkt/x", anon=True)
    links = await asyncio.gather(*(store._service._ready() for _ in range(5)))
    assert {link.place.base for link in links} == {"https://bkt.s3.eu-north-1.amazonaws.com"}
    assert asked == ["bkt"]
    named = ObjectStore("s3://bkt/x", anon=True, region="us-west-2")
    assert (await named._service._ready()).place.region == "us-west-2"
    assert asked == ["bkt"]


# --- writing -----------------------------------------------------------------------------------------------------


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


# --- the probe ---------------------------------------------------------------------------------------------------


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


# --- secrets, identity, pickles, forks ---------------------------------------------------------------------------


def test_no_secret_is_shown_and_given_ones_travel() -> None:
    store = ObjectStore("s3://bkt/x", key="KEYID", secret="s-hidden", token="t-hidden", region="eu-west-1")
    options = store._service._options
    for text in (repr(store), str(store), store.url, repr(store.origin), repr(store.identity), repr(options)):
        assert "hidden" not in text
    clone = pickle.loads(pickle.dumps(store))
    assert clone == store
    assert clone._service._options == store._service._options


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
@pytest.mark.parametrize("operation", ["set", "a new store"])
def test_a_forked_child_of_a_process_that_wrote_to_s3_reads_and_is_told_that_it_cannot_write_and_never_hangs(
    server: FaultServer, operation: str
) -> None:
    store = at(server)
    asyncio.run(_use(store))

    async def in_the_child() -> None:
        with pytest.raises(ForkedProcessError):
            await (store if operation == "set" else at(server)).set("a/b", b"", precondition=IfAbsent())
        for reader in (store, at(server), at(server, anon=True)):  # which need no client library
            assert await reader.fetch("a/b") is not None

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


async def _use(store: ObjectStore) -> None:
    await store.set("x", b"1", precondition=IfAbsent())
    await store.aclose()


def test_a_program_that_leaves_its_stores_open_ends_in_good_order(s3_server: LocalS3) -> None:
    s3_server.create_bucket("leaving")
    code = (
        "import asyncio\nfrom aiozarr.stores.object.store import ObjectStore\n"
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


# --- on a real S3 server -----------------------------------------------------------------------------------------


async def test_bulk_deletes_page_and_name_what_could_not_be_removed(s3_server: LocalS3) -> None:
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


async def test_a_big_value_goes_up_in_parts(s3_server: LocalS3, monkeypatch: pytest.MonkeyPatch) -> None:
    from aiozarr.stores.obstore import service as module

    monkeypatch.setattr(module, "SINGLE_PUT_BYTES", 1 << 20)
    monkeypatch.setattr(module, "PART_BYTES", 5 << 20)
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


async def test_a_bucket_that_does_not_exist_is_an_error_for_every_operation(s3_server: LocalS3) -> None:
    async with ObjectStore("s3://never-made", **s3_server.storage_options) as store:
        calls = (
            store.fetch("a"),
            store.stat("a"),
            store.set("a", b""),
            store.set("a", b"", precondition=IfAbsent()),
            store.set("a", b"", precondition=IfMatch(Version('"x"'))),
            store.erase("a"),
            store.erase_values(["a"]),
            store.list(),
            store.list_dir(""),
        )
        for call in calls:
            with pytest.raises(StoreError, match="bucket does not exist") as caught:
                await call
            assert type(caught.value) is StoreError


async def test_the_store_above_is_that_of_the_prefix_above_and_shares_the_connections(s3_server: LocalS3) -> None:
    s3_server.create_bucket("above")
    options = s3_server.storage_options
    async with ObjectStore("s3://above/a/b", **options) as store:
        found = store.rooted_above()
        assert found is not None
        above, name = found
        assert (above, name) == (ObjectStore("s3://above/a", **options), "b")
        assert above.origin == store.origin
        await store.set("k", b"1")
        assert bytes(await above.get("b/k") or b"") == b"1"
        top = above.rooted_above()
        assert top is not None
        assert (top[0].url, top[1]) == ("s3://above", "a")
        assert top[0].rooted_above() is None


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
