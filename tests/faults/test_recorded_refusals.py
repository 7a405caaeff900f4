"""No refusal that servers, proxies and networks of delivery send is taken for a value, or for a write that was done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from html import escape as html_escape
from json import dumps
from typing import Any

import numpy as np
import obstore
import obstore.store
import pytest

import aiozarr
from aiozarr.errors import PermissionDeniedError, StoreError, UnsupportedOperationError
from aiozarr.model import IfAbsent, Range
from aiozarr.stores import FsspecStore, HTTPStore, MemoryStore, ObjectStore, Store
from aiozarr.stores.capabilities import CopyFromStore, UploadedPart, UploadStore
from aiozarr.stores.obspec_store import from_obspec
from tests.support.bodies import BytesBody
from tests.support.recorded_refusals import REFUSALS, azure, json, text, xml
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer

STORES: dict[str, Callable[[str], Store]] = {
    "s3": lambda url: ObjectStore("s3://bucket/x", endpoint_url=url, key="k", secret="s", region="us-east-1"),
    "gs": lambda url: ObjectStore("gs://bucket/x", endpoint_url=url, anon=True),
    "az": lambda url: ObjectStore("az://container/x", account_name="a", anon=True, endpoint_url=f"{url}/a"),
    "http": lambda url: HTTPStore(f"{url}/x"),
}


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


async def listed(store: Store) -> list[str]:
    return [entry.key async for entry in store.scan("")]


async def outcome(operation: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await operation()
    except StoreError:
        return "raised"


@pytest.mark.parametrize("kind", STORES)
async def test_a_refusal_is_an_error_or_says_of_the_object_that_it_is_missing(kind: str, server: FaultServer) -> None:
    async with STORES[kind](server.url) as store:
        for name, (reply, missing_for) in REFUSALS.items():
            server.script = lambda request, _, reply=reply: reply  # type: ignore[misc]
            expected = None if kind in missing_for else "raised"
            outcomes = {
                "fetch": await outcome(lambda: store.fetch("k")),
                "fetch of a part": await outcome(lambda: store.fetch("k", Range(3, 4))),
            }
            wanted = dict.fromkeys(outcomes, expected)
            # The response to a HEAD has no document: one of a web server says that something is missing.
            is_unclear = kind == "http" and reply.status == 404 and "x-ms-error-code" not in dict(reply.headers)
            outcomes["stat"] = await outcome(lambda: store.stat("k"))
            wanted["stat"] = None if is_unclear else expected
            if kind != "http":
                changes = await outcomes_of_changes(store)
                outcomes |= changes
                wanted |= dict.fromkeys(changes, "raised") | {"erase": expected}
                if kind != "s3":  # which removes several keys by one request for the bucket
                    wanted["erase of several"] = expected
            assert outcomes == wanted, name


async def outcomes_of_changes(store: Store) -> dict[str, Any]:
    assert isinstance(store, CopyFromStore)
    assert isinstance(store, UploadStore)
    body = BytesBody(3)
    operations: dict[str, Callable[[], Awaitable[Any]]] = {
        "list": lambda: listed(store),
        "set": lambda: store.set("k", b"1"),
        "conditional set": lambda: store.set("k", b"1", precondition=IfAbsent()),
        "copy": lambda: store._copy_from(store, "other", "k", size=3),
        "erase": lambda: store.erase("k"),
        "erase of several": lambda: store.erase_values(["k", "l"]),
    }
    if store._can_upload(3):
        operations |= {
            "upload": lambda: store._upload("k", body),
            "part": lambda: store._upload_part("k", "u", 0, body),
        }
        operations["complete"] = lambda: store._complete_parts("k", "u", [UploadedPart('"e"')])
        if store.url.startswith("s3"):
            operations["begin"] = lambda: store._begin_parts("k")
    return {name: await outcome(operation) for name, operation in operations.items()}


@pytest.mark.parametrize("name", ["Traefik", "nginx"])
async def test_a_404_of_a_proxy_is_repeated_and_never_read_as_the_fill_value(name: str, server: FaultServer) -> None:
    memory = MemoryStore()
    await aiozarr.create_array(memory, data=np.arange(1, 5), chunks=(4,), codecs=["bytes"])
    async for entry in memory.scan(""):
        server.put(f"bucket/x/{entry.key}", await memory.get(entry.key) or b"")
    target = STORES["s3"](server.url)
    array = await aiozarr.open_array(target)
    refused: list[Request] = []

    def once(request: Request, reply: Reply) -> Reply:
        if request.key.endswith("c/0") and request.method == "GET" and len(refused) < 2:
            refused.append(request)
            return REFUSALS[name][0]
        return reply

    server.script = once
    async with target:
        assert (await array[...]).tolist() == [1, 2, 3, 4]
    assert len(refused) == 2


@pytest.mark.parametrize("code", ["InvalidArgument", "InvalidRequest", "NotImplemented", "BadRequest"])
async def test_a_server_that_refuses_conditions_is_written_to_without_them(code: str, server: FaultServer) -> None:
    def refuse(request: Request, reply: Reply) -> Reply:
        is_conditional = {"if-match", "if-none-match"} & request.headers.keys() and request.method == "PUT"
        return xml(400, code, "A header implies functionality that is not implemented") if is_conditional else reply

    server.script = refuse
    async with STORES["s3"](server.url) as store:
        with pytest.raises(UnsupportedOperationError, match=r"refuses a condition|does not do this"):
            await store.set("k", b"1", precondition=IfAbsent())
        assert not await store.probe_conditional_writes()
    assert server.keys() == []  # and nothing is to be removed
    assert not [request for request in server.requests if request.method == "DELETE"]


async def test_a_probe_whose_object_cannot_be_removed_is_a_warning(server: FaultServer) -> None:
    server.script = lambda request, reply: xml(403, "AccessDenied") if request.method == "DELETE" else reply
    async with STORES["s3"](server.url) as store:
        with pytest.warns(UserWarning, match="cannot be removed"):
            assert await store.probe_conditional_writes()


@pytest.mark.parametrize(
    ("reply", "values"),
    [
        (xml(403, "AccessDenied"), [0, 9, 0, 0]),
        (xml(403, "InvalidObjectState"), None),
        (azure(403, "Other"), [0, 9, 0, 0]),
    ],
)
async def test_a_write_takes_the_statuses_of_missing_objects_as_a_read_does(
    reply: Reply, values: list[int] | None, server: FaultServer
) -> None:
    memory = MemoryStore()
    await aiozarr.create_array(memory, shape=(4,), dtype="i8", chunks=(4,))
    server.put("bucket/x/zarr.json", await memory.get("zarr.json") or b"")
    server.script = lambda request, honest: reply if request.method == "GET" and honest.status == 404 else honest
    settings = aiozarr.Settings(missing_status=(404, 403), retries=0)
    async with STORES["s3"](server.url) as store:
        array = await aiozarr.open_array(store, mode="r+", settings=settings)
        if values is None:
            with pytest.raises(PermissionDeniedError, match="InvalidObjectState"):
                await array[1:2].write(9)
        else:
            await array[1:2].write(9)
            assert (await array[...]).tolist() == values


async def test_a_redirect_names_the_server_of_its_target_without_its_query(server: FaultServer) -> None:
    location = "https://name:pass@other.example:8443/x?X-Amz-Signature=abcdef"
    server.script = lambda request, _: Reply(307, (("Location", location),))
    for kind in ("s3", "gs", "az"):
        async with STORES[kind](server.url) as store:
            with pytest.raises(StoreError, match=r"to https://other\.example:8443 \(") as caught:
                await store.get("k")
            assert "abcdef" not in str(caught.value)
            assert "pass" not in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        'User: arn:aws:sts::1:role/a is not authorized to perform: s3:GetObject on "arn:aws:s3:::b/k" by a deny',
        "the request needs x-amz-server-side-encryption=aws:kms",
        "X-Amz-Expires must be less than 300 seconds",
        "use https://bucket.host/key & a token",
    ],
)
async def test_the_words_of_a_refusal_are_shown(words: str, server: FaultServer) -> None:
    replies = (
        xml(403, "AccessDenied", html_escape(words)),
        json(403, dumps({"error": {"code": 403, "message": words}})),
        text(403, words),
    )
    for reply in replies:
        server.script = lambda request, _, reply=reply: reply  # type: ignore[misc]
        for make in STORES.values():
            async with make(server.url) as store:
                with pytest.raises(StoreError) as caught:
                    await store.get("k")
                assert repr(words) in str(caught.value)


def of_obstore(url: str) -> Store:
    store = obstore.store.S3Store(
        "bucket",
        endpoint=url,
        access_key_id="k",
        secret_access_key="s",
        region="us-east-1",
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )
    return from_obspec(store, native=False)


def of_s3fs(url: str) -> Store:
    # s3fs repeats what botocore's own table says: one request is enough here.
    config = {"retries": {"max_attempts": 0}}
    options = {"key": "k", "secret": "s", "endpoint_url": url, "skip_instance_cache": True, "config_kwargs": config}
    return FsspecStore("s3://bucket/x", **options, client_kwargs={"region_name": "us-east-1"})


@pytest.mark.parametrize("make", [of_obstore, of_s3fs])
async def test_other_libraries_errors_are_told_by_the_same_table(
    make: Callable[[str], Store], server: FaultServer
) -> None:
    async with make(server.url) as store:
        for name, (reply, missing_for) in REFUSALS.items():
            if reply.status != 404 or "compressed" in name:
                continue  # these libraries do not decompress documents of errors, so that each of them is an error
            server.script = lambda request, _, reply=reply: reply  # type: ignore[misc]
            expected = None if "s3" in missing_for else "raised"
            assert await outcome(lambda: store.fetch("k")) == expected, name
            assert await outcome(lambda: store.stat("k")) == expected, name
            assert await outcome(lambda: store.erase("k")) == expected, name
            assert await outcome(lambda: store.set("k", b"1")) == "raised", name
