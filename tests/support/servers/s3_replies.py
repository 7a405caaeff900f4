"""Answers of a server that plays S3, and a store of its bucket."""

from __future__ import annotations

from typing import Any

from aiozarr.stores.bucket.store import ObjectStore
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer

DATA = bytes(range(256)) * 100
XML = (("Content-Type", "application/xml"),)
_LISTING = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
_DELETED = b"<DeleteResult><Deleted><Key>root/a/b</Key></Deleted></DeleteResult>"


def at(server: FaultServer, url: str = "s3://bkt/root", **options: Any) -> ObjectStore:
    """Return a store of the server's bucket."""
    options = {"key": "KEYID", "secret": "s-hidden", "region": "us-east-1", **options}
    if options.get("anon"):
        options.pop("key")
        options.pop("secret")
    return ObjectStore(url, endpoint_url=server.url, **options)


def answers(request: Request, reply: Reply) -> Reply:
    """Answer listings and bulk deletes, which a server of files knows nothing of."""
    if "list-type=2" in request.target:
        return Reply(200, XML, _LISTING)
    return Reply(200, XML, _DELETED) if request.method == "POST" else reply


def document(code: str, status: int = 400) -> spoil.Spoil:
    """Answer with an error document."""
    return spoil.status(status, f"<Error><Code>{code}</Code><Message>Words</Message></Error>".encode())


async def everything(store: ObjectStore) -> None:
    """Send one request of each kind."""
    await store.fetch("a/b")
    await store.set("x", b"1")
    await store.list()
    await store.list_dir("")
    await store.erase("x")
    await store.erase_values(["a/b"])
