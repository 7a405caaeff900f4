"""Requests to Azure carry a signature or a token, which is renewed once when it is refused."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from aiozarr.errors import (
    PermissionDeniedError,
    UnauthenticatedError,
)
from aiozarr.model import Range
from aiozarr.stores.azure import credentials
from tests.support.servers.azure_replies import DATA, PLACE, at, azure, refusal
from tests.support.servers.http_replies import Request
from tests.support.servers.http_server import FaultServer


def query(request: Request) -> dict[str, list[str]]:
    return parse_qs(urlsplit(request.target).query)


async def test_with_an_account_key_one_signature_serves_all_reads_of_a_container(server: FaultServer) -> None:
    server.put(PLACE + "ü%20 +", b"odd")
    async with at(server) as store:
        value = await store.fetch("a/b")
        assert value is not None
        part = await store.fetch("a/b", Range(5, 10), if_match=value.version)
        assert part is not None
        assert (bytes(part.data), part.size, part.version) == (DATA[5:15], len(DATA), value.version)
        assert bytes(await store.get("ü%20 +") or b"") == b"odd"
    first, second, third = server.requests
    assert query(first)["sp"] == ["r"]
    assert query(first)["sr"] == ["c"]
    assert query(first) == query(second) == query(third)
    assert first.headers["x-ms-version"] == "2023-11-03"
    assert (second.headers["range"], second.headers["if-match"]) == ("bytes=5-14", value.version and value.version.etag)
    assert third.target.partition("?")[0] == "/acct/data/root/%C3%BC%2520%20%2B"


async def test_a_given_signature_is_the_query_of_every_read(server: FaultServer) -> None:
    async with at(server, sas_token="?sv=2021&sp=r&sig=s%2Bhidden") as store:
        assert bytes(await store.get("a/b") or b"") == DATA
        assert await store.stat("a/b") is not None
        assert "hidden" not in repr(store) + store.url + str(store.origin) + str(store.identity)
    assert {request.target.partition("?")[2] for request in server.requests} == {"sv=2021&sp=r&sig=s%2Bhidden"}


async def test_without_credentials_nothing_is_added_but_the_version_of_the_protocol(server: FaultServer) -> None:
    async with at(server, anon=True) as store:
        assert await store.get("a/b") is not None
    (request,) = server.requests
    assert request.target == "/acct/data/root/a/b"
    assert request.headers["x-ms-version"] == "2023-11-03"
    assert "authorization" not in request.headers


async def test_a_bearer_token_is_a_header_and_not_part_of_the_url(server: FaultServer) -> None:
    async with at(server, token="t-hidden") as store:
        assert await store.get("a/b") is not None
        await store.erase("a/b")
    for request in server.requests:
        assert request.headers["authorization"] == "Bearer t-hidden"
        assert "hidden" not in request.target


async def test_a_refused_token_of_a_credential_is_asked_for_anew_once(server: FaultServer) -> None:
    class Gets:
        count = 0

        def get_token(self, scope: str) -> Any:
            self.count += 1
            return type("Token", (), {"token": f"t{self.count}", "expires_on": time.time() + 3600})()

    server.script = lambda request, reply: (
        azure(request, reply)
        if request.headers["authorization"] == "Bearer t2"
        else refusal(401, "InvalidAuthenticationInfo")
    )
    gets = Gets()
    async with at(server, credential=gets) as store:
        assert bytes(await store.get("a/b") or b"") == DATA
        assert gets.count == 2
        server.script = lambda request, reply: refusal(401, "InvalidAuthenticationInfo")
        with pytest.raises(UnauthenticatedError):
            await store.get("a/b")
    assert len(server.requests) == 4


async def test_a_forbidden_request_requests_no_new_token(server: FaultServer) -> None:
    class Gets:
        count = 0

        def get_token(self, scope: str) -> Any:
            self.count += 1
            return type("Token", (), {"token": f"t{self.count}", "expires_on": time.time() + 3600})()

    server.script = lambda request, reply: refusal(403, "AuthorizationPermissionMismatch")
    gets = Gets()
    async with at(server, credential=gets) as store:
        for _ in range(3):
            with pytest.raises(PermissionDeniedError):
                await store.get("a/b")
    assert (gets.count, len(server.requests)) == (1, 3)


async def test_a_signature_that_has_run_out_is_renewed_once(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "MIN_AGE_SECONDS", 0)
    server.script = lambda request, reply: (
        refusal(403, "AuthenticationFailed", "s-hidden was signed") if request.number in (1, 3, 4) else reply
    )
    async with at(server) as store:
        assert bytes(await store.get("a/b") or b"") == DATA
        assert len(server.requests) == 2
        with pytest.raises(UnauthenticatedError) as raised:
            await store.get("a/b")
    assert len(server.requests) == 4
    assert "hidden" not in str(raised.value)
    assert "AuthenticationFailed" in str(raised.value)


async def test_a_signature_that_never_was_good_is_not_sent_twice(server: FaultServer) -> None:
    server.script = lambda request, reply: refusal(403, "AuthenticationFailed")
    async with at(server) as store:
        with pytest.raises(UnauthenticatedError):
            await store.get("a/b")
    assert len(server.requests) == 1
