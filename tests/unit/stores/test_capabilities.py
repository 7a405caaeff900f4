"""Copies by the server: GCS rewrites and Azure's copies; those of S3 are in s3/test_server_copy.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import aiozarr
from aiozarr.errors import ChangedError, PreconditionFailedError, StoreError, UnsupportedOperationError
from aiozarr.model import IfAbsent, Precondition, Version
from aiozarr.stores import LocalStore, MemoryStore, ObjectStore
from aiozarr.stores.capabilities import conditions_hold
from tests.support.servers.azure_replies import at, azure, refusal
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer

# --- GCS -----------------------------------------------------------------------------------------------------------


async def test_gcs_rewrites_objects_between_buckets() -> None:
    with GcsServer("one", "two") as server:
        source = ObjectStore("gs://one/a", **server.storage_options)
        target = ObjectStore("gs://two", **server.storage_options)
        assert target._can_copy_from(source)
        version = await source.set("c/0 ä", b"data")
        copied = await target._copy_from(source, "c/0 ä", "b/c/0", size=4, if_match=version)
        value = await target.fetch("b/c/0")
        assert value is not None
        assert (bytes(value.data), value.version) == (b"data", copied)
        with pytest.raises(ChangedError):
            await target._copy_from(source, "c/0 ä", "b/c/1", size=4, if_match=Version(generation="1"))
        with pytest.raises(ChangedError):
            await target._copy_from(source, "missing", "b/c/1", size=4)
        await source.aclose()
        await target.aclose()


async def test_a_rewrite_in_steps_is_continued_by_its_token() -> None:
    tokens: list[str] = []

    def script(request: Request, reply: Reply) -> Reply:
        if "rewriteTo" not in request.target:
            return reply
        token = request.target.partition("rewriteToken=")[2]
        tokens.append(token)
        if token == "2%2F":
            return reply
        body = json.dumps({"done": False, "rewriteToken": "2/" if token else "1"}).encode()
        return Reply(200, (("Content-Type", "application/json"),), body, applied=False)

    with GcsServer("one", script=script) as server:
        async with ObjectStore("gs://one", **server.storage_options) as store:
            await store.set("a", b"data")
            await store._copy_from(store, "a", "b", size=4)
            assert bytes(await store.get("b") or b"") == b"data"
    assert tokens == ["", "1", "2%2F"]


async def test_responses_that_are_nested_too_deeply_are_not_parsed() -> None:
    def script(request: Request, reply: Reply) -> Reply:
        return replace(reply, body=b"[" * 100_000) if request.method == "POST" else reply

    with GcsServer("one", script=script) as server:
        async with ObjectStore("gs://one", **server.storage_options) as store:
            await store.set("a", b"data")
            with pytest.raises(StoreError, match="copy is not valid"):
                await store._copy_from(store, "a", "b", size=4)


# --- Azure ---------------------------------------------------------------------------------------------------------


def copying(request: Request, reply: Reply) -> Reply:
    """Azure's container as `azure` plays it, with copies of blobs."""
    if "x-ms-copy-source" not in request.headers:
        return azure(request, reply)
    if request.headers.get("x-ms-source-if-match") == '"gone"':
        return refusal(412, "SourceConditionNotMet")
    return Reply(202, (("ETag", '"new"'), ("x-ms-copy-status", "success")))


async def test_azure_copies_within_an_account() -> None:
    seen: list[Request] = []

    def script(request: Request, reply: Reply) -> Reply:
        seen.append(request)
        return copying(request, reply)

    with FaultServer(script=script) as server:
        source, target = at(server, "az://data/root"), at(server, "az://other")
        assert target._can_copy_from(source)
        copied = await target._copy_from(source, "c/0 ä", "d/0", size=5, if_match=Version('"old"'))
        assert copied == Version('"new"')
        request = seen[0]
        assert (request.method, request.key, request.body) == ("PUT", "acct/other/d/0", b"")
        assert request.headers["x-ms-source-if-match"] == '"old"'
        assert request.headers["x-ms-copy-source"].startswith(f"{server.url}/acct/data/root/c/0%20%C3%A4?")
        assert "sp=r&" in request.headers["x-ms-copy-source"]
        assert "sp=w&" in request.target
        with pytest.raises(ChangedError):
            await target._copy_from(source, "c/0", "d/0", size=5, if_match=Version('"gone"'))
        with pytest.raises(UnsupportedOperationError, match="the server copies at most"):
            await target._copy_from(source, "c/0", "d/0", size=1 << 30)
        await source.aclose()
        await target.aclose()


async def test_a_token_authorises_the_source_of_a_copy_too() -> None:
    seen: list[Request] = []

    def script(request: Request, reply: Reply) -> Reply:
        seen.append(request)
        return copying(request, reply)

    with FaultServer(script=script) as server:
        async with at(server, token="secret-token") as store:
            await store._copy_from(store, "a", "b", size=1)
    assert seen[0].headers["x-ms-copy-source-authorization"] == "Bearer secret-token"


# --- which stores --------------------------------------------------------------------------------------------------


async def test_other_servers_and_credentials_do_not_copy(tmp_path: Path) -> None:
    options = {"endpoint_url": "http://127.0.0.1:9", "secret": "s", "region": "us-east-1"}
    store = ObjectStore("s3://a", key="k", **options)
    assert store._can_copy_from(ObjectStore("s3://b/c", key="k", **options))
    for other in (
        ObjectStore("s3://a", key="other", **options),
        ObjectStore("s3://a", key="k", **options | {"endpoint_url": "http://127.0.0.1:8"}),
        MemoryStore(),
        LocalStore(tmp_path),
    ):
        assert not store._can_copy_from(other)
    with pytest.raises(UnsupportedOperationError):
        await store._copy_from(MemoryStore(), "a", "b", size=1)


async def test_a_server_that_refuses_to_copy_gets_the_bytes() -> None:
    refused = 0

    def script(request: Request, reply: Reply) -> Reply:
        nonlocal refused
        if "rewriteTo" in request.target:
            refused += 1
            return Reply(403, (), b'{"error": {"code": 403, "message": "no"}}', applied=False)
        return reply

    with GcsServer("one", script=script) as server:
        options = server.storage_options
        async with ObjectStore("gs://one/a", **options) as store:
            for number in range(300):
                await store.set(f"c/{number}", b"data")
            report = await aiozarr.copy("gs://one/a", "gs://one/b", source_options=options, destination_options=options)
    assert (report.objects, report.server_side, report.failed) == (300, 0, ())
    # Those that were under way when the third refusal came, and no others.
    assert 3 <= refused < 300


def server(obeys: Callable[[Precondition, int], bool], *, versions: bool = True) -> Callable[..., object]:
    stored = 0

    async def put(key: str, value: bytes, condition: Precondition) -> Version | None:
        nonlocal stored
        assert key.startswith("a/")
        if not obeys(condition, stored):
            raise PreconditionFailedError("no")
        stored += 1
        return Version(f'"{stored}"') if versions else None

    return put


async def erase(key: str) -> None:
    assert key.startswith("a/")


def correct(condition: Precondition, stored: int) -> bool:
    return stored == 0 if isinstance(condition, IfAbsent) else condition.version.etag == f'"{stored}"'


@pytest.mark.parametrize(
    ("obeys", "holds"),
    [
        (correct, True),
        (lambda condition, stored: True, False),
        (lambda condition, stored: False, False),
        (lambda condition, stored: correct(condition, stored) if isinstance(condition, IfAbsent) else True, False),
        (lambda condition, stored: correct(condition, stored) if isinstance(condition, IfAbsent) else False, False),
    ],
)
async def test_a_server_is_trusted_that_refuses_and_accepts_rightly(
    obeys: Callable[[Precondition, int], bool], holds: bool
) -> None:
    assert await conditions_hold(server(obeys), erase, "a/") is holds  # type: ignore[arg-type]


async def test_without_versions_there_are_no_conditions() -> None:
    assert not await conditions_hold(server(correct, versions=False), erase, "a/")  # type: ignore[arg-type]
