"""No secret is shown: not in a repr, a URL or an identity, nor in an error, its traceback, an event or a log."""

from __future__ import annotations

import base64
import copy
import logging
import pickle
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import fsspec
import pytest
from s3fs import S3FileSystem

import aiozarr
from aiozarr.stores import (
    CacheStore,
    FsspecStore,
    HTTPStore,
    ObjectStore,
    PrefixStore,
    ReadOnlyStore,
    Store,
    TraceStore,
    ZipStore,
    from_url,
)
from aiozarr.testing import LatencyStore
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

SECRET = "hIdDeN-5ecret"
ENCODED = base64.b64encode(SECRET.encode()).decode()
SHOWN = (SECRET, ENCODED, base64.b64encode(f"user:{SECRET}".encode()).decode(), ENCODED.rstrip("="))

Maker: TypeAlias = Callable[[str, Path], Store]


def with_user(url: str) -> str:
    return url.replace("http://", f"http://user:{SECRET}@")


def s3(url: str, **options: Any) -> ObjectStore:
    return ObjectStore("s3://bucket/x", key="key", secret=SECRET, endpoint_url=url, region="us-east-1", **options)


def azure(url: str, **options: Any) -> ObjectStore:
    return ObjectStore("az://container/x", account_name="name", endpoint_url=f"{url}/name", **options)


MAKERS: dict[str, Maker] = {
    "http, user in the URL": lambda url, _: HTTPStore(f"{with_user(url)}/x"),
    "http, query": lambda url, _: HTTPStore(f"{url}/x?sig={SECRET}"),
    "http, headers": lambda url, _: HTTPStore(f"{url}/x", headers={"X-Token": SECRET, "Cookie": SECRET}),
    "http, auth": lambda url, _: HTTPStore(f"{url}/x", auth=("user", SECRET)),
    "http, token": lambda url, _: HTTPStore(f"{url}/x", token=SECRET),
    "http, proxy": lambda url, _: HTTPStore("http://data.example/x", proxy=with_user(url)),
    "https, proxy": lambda url, _: HTTPStore("https://data.example/x", proxy=with_user(url)),
    "s3": lambda url, _: s3(url),
    "s3, session": lambda url, _: s3(url, token=SECRET),
    "gs": lambda url, _: ObjectStore("gs://bucket/x", token=SECRET, endpoint_url=url),
    "az, key": lambda url, _: azure(url, account_key=ENCODED),
    "az, signature": lambda url, _: azure(url, sas_token=f"sv=2020-10-02&sp=r&sig={SECRET}"),
    "az, connection string": lambda url, _: ObjectStore(
        "az://container/x",
        connection_string=f"AccountName=name;AccountKey={ENCODED};BlobEndpoint={url}/name",
    ),
    "fsspec http": lambda url, _: FsspecStore(f"{url}/x", client_kwargs={"headers": {"X-Token": SECRET}}),
    "s3fs": lambda url, _: FsspecStore(
        "s3://bucket/x",
        key="key",
        secret=SECRET,
        endpoint_url=url,
        client_kwargs={"region_name": "us-east-1"},
        config_kwargs={"retries": {"max_attempts": 0}},
    ),
    "fsspec http, user and query": lambda url, _: FsspecStore(f"{with_user(url)}/x?sig={SECRET}"),
    "fsspec http, as a file system": lambda url, _: FsspecStore(
        fsspec.filesystem("http"), path=f"{with_user(url)}/x?sig={SECRET}"
    ),
    "tar": lambda url, _: from_url(f"tar::{with_user(url)}/x.tar?sig={SECRET}"),
    "ftp": lambda url, _: from_url(f"ftp://user:{SECRET}@127.0.0.1:1/x"),
    "zip": lambda url, _: from_url(f"zip::{with_user(url)}/x/data.zip?sig={SECRET}"),
    "zip in s3": lambda url, _: ZipStore(s3(url), key="data.zip"),
    "prefix": lambda url, _: PrefixStore(HTTPStore(f"{with_user(url)}/x"), "a/"),
    "read-only": lambda url, _: ReadOnlyStore(s3(url)),
    "cache_directory": lambda url, folder: from_url(f"{with_user(url)}/x?sig={SECRET}", cache_directory=folder),
    "cache": lambda url, folder: CacheStore(HTTPStore(f"{url}/x?sig={SECRET}"), 1000, folder),
    "latency": lambda url, _: LatencyStore(HTTPStore(url, token=SECRET), 0.0),
    "trace": lambda url, _: TraceStore(HTTPStore(url, token=SECRET), EVENTS.append),
}
EVENTS: list[Any] = []


def refusing(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
    """Say no, and repeat all that was said, as servers do to whoever debugs a signature."""
    said = f"{request.target} {dict(request.headers)}"
    body = (
        f"<Error><Code>SignatureDoesNotMatch</Code><Message>{said}</Message><StringToSign>{said}</StringToSign></Error>"
    )
    return spoil.status(403, body.encode())(reply)


SCRIPTS: dict[str, spoil.Script] = {
    "refused": refusing,
    "broken": spoil.always(spoil.status(500)),
    "gone": spoil.always(spoil.status(404)),
    "nonsense": spoil.always(spoil.garbage(b"nonsense\r\n\r\n")),
    "reset": spoil.always(spoil.reset),
    "sent elsewhere": spoil.always(spoil.redirect(f"/elsewhere?sig={SECRET}")),
    "sent astray": spoil.always(spoil.redirect(f"ftp://user:{SECRET}@example.org/?sig={SECRET}")),
}


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


def check(where: str, text: str) -> None:
    for secret in SHOWN:
        assert secret not in text, f"{where} shows a secret: {text}"


@pytest.mark.parametrize("name", MAKERS)
def test_a_store_shows_no_secret_itself(name: str, tmp_path: Path) -> None:
    store = MAKERS[name]("http://127.0.0.1:1", tmp_path)
    for each in (store, copy.copy(store), pickle.loads(pickle.dumps(store))) if name != "trace" else (store,):
        for where in ("url", "origin", "identity", "supports"):
            check(where, repr(getattr(each, where)))
        check("repr", repr(each))
        check("str", f"{each} {[each]}")


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("name", MAKERS)
async def test_an_error_shows_no_secret(
    name: str,
    script: str,
    tmp_path: Path,
    server: FaultServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(S3FileSystem, "retries", 1)  # its pauses between attempts show nothing
    caplog.set_level(logging.DEBUG, "aiozarr")
    caplog.set_level(logging.INFO)
    server.script = SCRIPTS[script]
    EVENTS.clear()
    store = MAKERS[name](server.url, tmp_path)
    raised: list[BaseException] = []
    operations: list[Callable[[], Awaitable[Any]]] = [
        lambda: store.get("a"),
        lambda: store.stat("a"),
        lambda: store.list_prefix("a/"),
        lambda: store.erase("a"),
    ]
    async with store:
        for operation in operations:
            try:
                await operation()
            except aiozarr.AiozarrError as error:
                raised.append(error)
    for each in raised:
        check("error", f"{each} {each!r} {vars(each)}")
        check("traceback", "".join(traceback.format_exception(each)))
        # distributed, once it is imported, has pickles carry the causes of errors; those of aiohttp cannot be pickled.
        each.__cause__ = each.__context__ = None
        check("pickle", repr(pickle.loads(pickle.dumps(each))))
    check("events", repr(EVENTS))
    check("logs", caplog.text)


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@host:port/",
        f"https://user:{SECRET}@/x?sig={SECRET}",
        f"http://user:{SECRET}@host/a b",
        f"zip::http://user:{SECRET}@host.zip",
        f"zip::nonsense://user:{SECRET}@host/x.zip",
        f"nonsense://user:{SECRET}@host/x?sig={SECRET}",
        f"s3://user:{SECRET}@bucket/x",
    ],
)
def test_a_url_that_is_refused_is_not_shown(url: str) -> None:
    with pytest.raises((ValueError, TypeError, aiozarr.AiozarrError)) as caught:
        from_url(url)
    check("error", "".join(traceback.format_exception(caught.value)))
