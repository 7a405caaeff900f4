"""Many keys removed at once: what is left is named, in few requests, also by servers that do not know how."""

from base64 import b64encode
from hashlib import md5
from xml.etree import ElementTree as ET

import pytest

from aiozarr.errors import EraseError, PermissionDeniedError, StoreError, ThrottledError
from aiozarr.stores.bucket.store import ObjectStore
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer

NAMESPACE = "{http://s3.amazonaws.com/doc/2006-03-01/}"
XML = (("Content-Type", "application/xml"),)


class Bucket:
    """Bulk deletes in front of a server's own objects, some of which it refuses to remove."""

    def __init__(self, server: FaultServer, refused: dict[str, str]) -> None:
        self.server, self.refused = server, refused

    def __call__(self, request: Request, reply: Reply) -> Reply:
        if request.method != "POST":
            return reply
        answer = ET.Element("DeleteResult")
        for found in ET.fromstring(request.body).iter(f"{NAMESPACE}Key"):
            key = found.text or ""
            code = self.refused.get(key)
            entry = ET.SubElement(answer, "Deleted" if code is None else "Error")
            ET.SubElement(entry, "Key").text = key
            if code is None:
                self.server.remove(f"bkt/{key}")
            else:
                ET.SubElement(entry, "Code").text = code
                ET.SubElement(entry, "Message").text = "Words <of> the server"
        return Reply(200, XML, ET.tostring(answer))


def at(server: FaultServer, **options: object) -> ObjectStore:
    return ObjectStore("s3://bkt/root", endpoint_url=server.url, key="k", secret="s", region="us-east-1", **options)


async def test_every_key_that_is_left_is_named_after_one_request(server: FaultServer) -> None:
    keys = [f"k/{number}" for number in range(20)] + ["odd & <key> \"'ü%2B+"]
    for key in keys:
        server.put(f"bkt/root/{key}", b"")
    refused = {"root/k/3": "AccessDenied", "root/k/5": "SlowDown", f"root/{keys[-1]}": "InternalError"}
    server.script = Bucket(server, refused)
    async with at(server) as store:
        with pytest.raises(EraseError) as caught:
            await store.erase_values(keys)
    failures = caught.value.failures
    assert set(failures) == {"k/3", "k/5", keys[-1]}
    assert [type(failures[key]) for key in ("k/3", "k/5", keys[-1])] == [
        PermissionDeniedError,
        ThrottledError,
        StoreError,
    ]
    assert [failures[key].retryable for key in ("k/3", "k/5", keys[-1])] == [False, True, True]
    assert {failures[key].status for key in failures} == {200}
    assert failures["k/3"].key == "k/3"
    assert len(server.requests) == 1
    assert set(server.keys()) == {"bkt/root/a/b", *(f"bkt/root/{key}" for key in failures)}


async def test_odd_keys_are_removed(server: FaultServer) -> None:
    server.script = Bucket(server, {})
    keys = ["a & b", "<x>", '"q"', "'", "]]>", "ü%20+", "a=b?c#d", "&amp;"]
    for key in keys:
        server.put(f"bkt/root/{key}", b"")
    async with at(server) as store:
        await store.erase_values(keys)
    assert server.keys() == ["bkt/root/a/b"]


async def test_a_thousand_keys_go_in_a_request(server: FaultServer) -> None:
    server.script = Bucket(server, {"root/1500": "AccessDenied"})
    async with at(server) as store:
        with pytest.raises(EraseError) as caught:
            await store.erase_values([str(number) for number in range(2500)])
    assert list(caught.value.failures) == ["1500"]
    assert [request.body.count(b"<Key>") for request in server.requests] == [1000, 1000, 500]
    digests = [b64encode(md5(request.body, usedforsecurity=False).digest()).decode() for request in server.requests]
    assert [request.headers["content-md5"] for request in server.requests] == digests


async def test_many_refusals_are_all_named(server: FaultServer) -> None:
    keys = [f"{number:02}" for number in range(40)] + ["a: b", "a"]
    refused = {f"root/{key}": "AccessDenied" for key in (*keys[::3], "a: b", "a")}
    server.script = Bucket(server, refused)
    for key in keys:
        server.put(f"bkt/root/{key}", b"")
    async with at(server) as store:
        with pytest.raises(EraseError) as caught:
            await store.erase_values(keys)
    assert {f"root/{key}" for key in caught.value.failures} == refused.keys()
    assert all(type(error) is PermissionDeniedError for error in caught.value.failures.values())
    assert set(server.keys()) == {"bkt/root/a/b", *(f"bkt/{key}" for key in refused)}
    assert [request.method for request in server.requests] == ["POST"]


@pytest.mark.parametrize(
    "refusal",
    [
        Reply(405),
        Reply(501),
        Reply(400, (), b"<Error><Code>MissingContentMD5</Code></Error>"),
        Reply(200, (), b"<html>no result</html>"),
        Reply(200, (), b"<DeleteResult><Error><Key>other</Key><Code>AccessDenied</Code></Error></DeleteResult>"),
    ],
)
async def test_a_server_without_bulk_deletes_removes_them_one_by_one(server: FaultServer, refusal: Reply) -> None:
    keys = [f"{number}" for number in range(40)]
    for key in keys:
        server.put(f"bkt/root/{key}", b"")
    denied = spoil.status(403, b"<Error><Code>AccessDenied</Code></Error>")
    server.script = lambda request, reply: (
        refusal if request.method == "POST" else denied(reply) if request.key == "bkt/root/7" else reply
    )
    async with at(server) as store:
        with pytest.raises(EraseError) as caught:
            await store.erase_values(keys)
    assert list(caught.value.failures) == ["7"]
    assert server.keys() == ["bkt/root/7", "bkt/root/a/b"]


async def test_bulk_deletes_can_be_switched_off(server: FaultServer) -> None:
    async with at(server, disable_bulk_delete=True) as store:
        await store.erase_values(["a/b", "never"])
    assert {request.method for request in server.requests} == {"DELETE"}
    assert server.keys() == []


async def test_a_server_that_is_gone_is_asked_once(server: FaultServer) -> None:
    server.script = spoil.always(spoil.reset)
    async with at(server) as store:
        with pytest.raises(StoreError) as caught:
            await store.erase_values(["a", "b"])
    assert caught.value.retryable
    assert not isinstance(caught.value, EraseError)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "code"), [(403, "AccessDenied"), (404, "NoSuchBucket"), (503, "SlowDown"), (400, "X")]
)
async def test_a_refusal_of_the_whole_request_is_one_error(server: FaultServer, status: int, code: str) -> None:
    server.script = spoil.always(spoil.status(status, f"<Error><Code>{code}</Code></Error>".encode()))
    async with at(server) as store:
        with pytest.raises(StoreError) as caught:
            await store.erase_values(["a", "b"])
    assert not isinstance(caught.value, EraseError)
    assert len(server.requests) == 1
