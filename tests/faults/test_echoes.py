"""A server that repeats the request in its error documents makes no error show what is secret in it."""

from __future__ import annotations

import base64
import json
import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import aiozarr
from aiozarr.stores import HTTPStore, ObjectStore, Store, from_url
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

SECRET = "hIdDeN-5ecret"
BASIC = base64.b64encode(f"user:{SECRET}".encode()).decode().rstrip("=")
S3: dict[str, Any] = {"key": "key", "secret": SECRET, "region": "us-east-1"}

MAKERS: dict[str, Callable[[str], Store]] = {
    "http, query": lambda url: HTTPStore(f"{url}/x?sig={SECRET}"),
    "http, auth": lambda url: HTTPStore(f"{url}/x", auth=("user", SECRET)),
    "http, header": lambda url: HTTPStore(f"{url}/x", headers={"X-Api-Key": SECRET}),
    "zip": lambda url: from_url(f"zip::{url}/x.zip?sig={SECRET}"),
    "s3, session": lambda url: ObjectStore("s3://bucket/x", token=SECRET, endpoint_url=url, **S3),
    "gs": lambda url: ObjectStore("gs://bucket/x", token=SECRET, endpoint_url=url),
    "az, signature": lambda url: ObjectStore(
        "az://container/x", account_name="name", sas_token=f"sv=2020-10-02&sig={SECRET}", endpoint_url=f"{url}/name"
    ),
}


def lines(request: spoil.Request) -> str:
    return ", ".join(f"{name}: {value}" for name, value in request.headers.items())


WAYS: dict[str, Callable[[spoil.Request], str]] = {
    "the address": lambda request: f"you sent {request.target}",
    "the headers": lambda request: f"you sent {dict(request.headers)}".replace("<", ""),
    "the headers' lines": lambda request: f"you sent {lines(request)}",
}


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.mark.parametrize("kind", ["xml", "json"])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 409])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MAKERS)
async def test_secrets_echoed_by_a_server_are_not_shown(
    name: str, way: str, status: int, kind: str, server: FaultServer
) -> None:
    def echo(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        said = WAYS[way](request).replace("&", "&amp;")
        document = f"<Error><Code>Bad</Code><Message>{said}</Message></Error>"
        if kind == "json":
            document = json.dumps({"error": {"message": said, "errors": [{"reason": "bad"}]}})
        return spoil.status(status, document.encode())(reply)

    server.script = echo
    store = MAKERS[name](server.url)
    operations: list[Callable[[], Awaitable[Any]]] = [
        lambda: store.get("a"),
        lambda: store.set("a", b"1"),
        lambda: store.list_prefix("a/"),
        lambda: store.erase("a"),
        lambda: store.erase_values(["a", "b"]),
    ]
    async with store:
        for operation in operations:
            try:
                await operation()
            except aiozarr.AiozarrError as error:
                shown = "".join(traceback.format_exception(error)) + repr(vars(error))
                assert SECRET not in shown
                assert BASIC not in shown
