"""Credentials of S3 that are known without obstore: given, of the environment, and of a profile."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from aiozarr.model import Suffix
from aiozarr.stores.object.store import ObjectStore
from tests.support.servers.http_server import FaultServer

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
