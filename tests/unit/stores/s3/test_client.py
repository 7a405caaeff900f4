"""The options of a bucket: certificates, proxies, credentials."""

from __future__ import annotations

import asyncio
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from aiozarr.errors import StoreError
from aiozarr.model import Suffix
from aiozarr.stores.bucket.store import ObjectStore
from tests.support.certificates import authority
from tests.support.http_proxy import proxy as forward_proxy
from tests.support.servers.http_server import FaultServer
from tests.support.servers.s3_replies import DATA, answers, at, everything


@pytest.mark.parametrize("how", ["verify", "environment", "pem", "bytes", "unchecked", "allow"])
async def test_a_server_with_a_certificate_of_ones_own_is_read_written_and_listed(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(authority().pem())
    options: dict[str, Any] = {
        "verify": {"client_kwargs": {"verify": str(path)}},
        "environment": {},
        "pem": {"root_certificate": authority().pem().decode()},
        "bytes": {"root_certificate": authority().pem()},
        "unchecked": {"verify": False},
        "allow": {"allow_invalid_certificates": True},
    }[how]
    if how == "environment":
        monkeypatch.setenv("AWS_CA_BUNDLE", str(path))
    with FaultServer({"bkt/root/a/b": b"abc"}, script=answers, tls=authority().server()) as server:
        async with at(server, **options) as store:
            await everything(store)


async def test_an_unknown_certificate_is_refused_for_reads_and_writes() -> None:
    with FaultServer({"bkt/root/a/b": b"abc"}, tls=authority().server()) as server:
        async with at(server) as store:
            for call in (store.fetch("a/b"), store.set("x", b"")):
                with pytest.raises(StoreError, match="certificate"):
                    await call
    assert not server.requests


def test_certificates_that_cannot_be_read_are_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        ObjectStore("s3://bkt", verify=str(tmp_path / "none.pem"), anon=True)


@pytest.mark.parametrize("name", ["proxy", "proxies"])
async def test_a_proxy_that_is_given_sees_every_request(server: FaultServer, name: str) -> None:
    server.script = answers
    with forward_proxy() as proxy:
        options = {"proxy": proxy.url} if name == "proxy" else {"config_kwargs": {"proxies": {"http": proxy.url}}}
        async with at(server, **options) as store:
            await everything(store)
        assert len(proxy.heads) == 6
        assert "hidden" not in repr(store)


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
