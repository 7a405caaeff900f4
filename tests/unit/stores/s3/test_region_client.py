"""Authorised requests to one region: signed, renewed when the signature has expired."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import Any

import botocore.credentials
import botocore.session
import pytest

from aiozarr.errors import (
    PermissionDeniedError,
    UnauthenticatedError,
)
from aiozarr.model import Range
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.stores.s3 import credentials
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer
from tests.support.servers.s3_replies import DATA, answers, at, document


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
    assert ("x-amz-checksum-mode=ENABLED" in first.target, "checksum" in second.target) == (True, False)
    assert (second.headers["range"], second.headers["if-match"]) == ("bytes=5-14", value.version and value.version.etag)


async def test_an_expired_signature_is_renewed_once(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with at(server) as store:
        assert await store.exists("a/b")
        monkeypatch.setattr(store._client.tokens, "record_refusal", lambda key: True)  # type: ignore[attr-defined]
        server.script = spoil.only({2: document("ExpiredToken", 403)})
        assert await store.get("a/b") is not None
        assert len(server.requests) == 3
        server.script = spoil.always(document("ExpiredToken", 403))
        with pytest.raises(UnauthenticatedError):
            await store.get("a/b")
        assert len(server.requests) == 5


SKEWED = document("RequestTimeTooSkewed", 403)


def two_hours_ahead(request: Request, reply: Reply) -> Reply:
    """Refuse what is not signed with the time of a server that is two hours ahead."""
    server_time = time.time() + 7200
    signed = re.search(r"X-Amz-Date=(\w+)", request.target) or re.match(r"(.+)", request.headers["x-amz-date"])
    assert signed is not None
    moment = datetime.strptime(signed[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    if abs(moment - server_time) < 900:
        return answers(request, reply)
    refused = SKEWED(reply)
    return replace(refused, headers=(*refused.headers, ("Date", formatdate(server_time, usegmt=True))))


@pytest.mark.parametrize("operation", ["get", "stat", "set", "erase", "erase_values", "list", "list_dir"])
async def test_a_clock_that_is_off_is_corrected_once_by_the_server(server: FaultServer, operation: str) -> None:
    server.script = two_hours_ahead
    arguments = {"set": ("a/b", b"1"), "list": (), "list_dir": ("",), "erase_values": (["a/b"],)}.get(
        operation, ("a/b",)
    )
    async with at(server) as store:
        await getattr(store, operation)(*arguments)
        await getattr(store, operation)(*arguments)
        assert len(server.requests) == 3
        server.script = spoil.always(SKEWED)
        with pytest.raises(PermissionDeniedError, match="RequestTimeTooSkewed"):
            await getattr(store, operation)(*arguments)
        assert len(server.requests) <= 5


@pytest.mark.parametrize("operation", ["get", "stat", "set", "erase", "list", "list_dir", "erase_values"])
async def test_the_refusal_of_an_unsigned_request_mentions_missing_credentials(
    server: FaultServer, operation: str
) -> None:
    server.script = lambda request, reply: Reply(403)
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, anon=True) as store:
        arguments = {"set": ("k", b"1"), "list": (), "list_dir": ("",), "erase_values": (["k"],)}.get(operation, ("k",))
        with pytest.raises(PermissionDeniedError, match="anon=True sends no credentials"):
            await getattr(store, operation)(*arguments)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of the AWS tools."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def key_of(request: Request) -> str:
    text = request.target + request.headers.get("authorization", "").replace("/", "%2F")
    return text.split("Credential=")[1].split("%2F")[0]


class Found:
    """Credentials as botocore has them, that end."""

    def __init__(self, number: int, ends: datetime | None) -> None:
        self._frozen = botocore.credentials.ReadOnlyCredentials(f"KEY{number}", "s", None)
        self._expiry_time = ends

    def get_frozen_credentials(self) -> Any:
        return self._frozen


@pytest.fixture
def numbered(monkeypatch: pytest.MonkeyPatch, files: Path) -> list[int]:
    """Credentials that are others whenever they are looked for, off the loop."""
    (files / "config").write_text("[profile p]\nregion = us-east-1\n")
    found: list[int] = []

    def find(*_: object) -> Found:
        assert threading.current_thread() is not threading.main_thread()
        found.append(len(found))
        return Found(found[-1], None)

    monkeypatch.setattr(credentials, "find_credentials", find)
    return found


def refuses_first(request: Request, reply: Reply, code: str = "ExpiredToken") -> Reply:
    """Take every credentials but the first for expired."""
    if key_of(request) == "KEY0":
        return Reply(403, (), f"<Error><Code>{code}</Code><Message>ended</Message></Error>".encode())
    return answers(request, reply)


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId"])
@pytest.mark.parametrize("operation", ["fetch", "set", "list", "erase", "erase_values"])
async def test_credentials_that_have_ended_are_renewed_once(
    server: FaultServer, numbered: list[int], operation: str, code: str
) -> None:
    server.script = lambda request, reply: refuses_first(request, reply, code)
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, profile="p") as store:
        calls: dict[str, Any] = {
            "fetch": lambda: store.fetch("a/b"),
            "set": lambda: store.set("x", b"1"),
            "list": store.list,
            "erase": lambda: store.erase("a/b"),
            "erase_values": lambda: store.erase_values(["a/b"]),
        }
        await calls[operation]()
        assert [key_of(request) for request in server.requests] == ["KEY0", "KEY1"]
        await calls[operation]()
        assert len(server.requests) == 3
        server.script = spoil.always(spoil.status(400, b"<Error><Code>ExpiredToken</Code></Error>"))
        with pytest.raises(UnauthenticatedError):
            await calls[operation]()
        assert len(server.requests) == 5
    assert len(numbered) == 3


async def test_many_requests_whose_credentials_have_ended_renew_them_together(
    server: FaultServer, numbered: list[int]
) -> None:
    server.script = refuses_first
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, profile="p") as store:
        found = await asyncio.gather(*(store.fetch("a/b") for _ in range(30)))
        assert all(value is not None for value in found)
    assert len(numbered) == 2


async def test_given_credentials_that_have_ended_are_not_sent_again(server: FaultServer) -> None:
    server.script = spoil.always(spoil.status(400, b"<Error><Code>ExpiredToken</Code></Error>"))
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, key="k", secret="s", token="t") as store:
        for call in (store.fetch("a/b"), store.set("x", b"1"), store.list()):
            with pytest.raises(UnauthenticatedError):
                await call
    assert len(server.requests) == 3
