"""Credentials of profiles: found by botocore in files, processes, roles and single sign-on, and renewed in time."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore.credentials
import botocore.session
import pytest
from botocore.exceptions import ClientError

from aiozarr.errors import UnauthenticatedError
from aiozarr.stores.bucket import token_source
from aiozarr.stores.bucket.store import ObjectStore
from aiozarr.stores.bucket.token_source import RENEW_BEFORE_SECONDS
from aiozarr.stores.s3 import credentials
from aiozarr.stores.s3.address import S3Options
from aiozarr.stores.s3.credentials import (
    REUSE_SECONDS,
    FoundCredentials,
    has_files,
    read_configured,
)
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer
from tests.support.servers.moto import LocalS3


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


def test_region_and_endpoint_are_those_of_the_profile_and_its_service(files: Path) -> None:
    (files / "config").write_text(
        "[default]\nregion = eu-west-1\nendpoint_url = http://all:1\n"
        "[profile minio]\nservices = mine\n[services mine]\ns3 =\n  endpoint_url = http://minio:9000\n"
        "[profile plain]\nignore_configured_endpoint_urls = true\nendpoint_url = http://no\n"
    )
    assert has_files()
    assert read_configured(None) == {"region": "eu-west-1", "endpoint_url": "http://all:1"}
    assert read_configured("minio")["endpoint_url"] == "http://minio:9000"
    assert ObjectStore("s3://bkt", profile="plain").origin[0] == "https://bkt.s3.us-east-1.amazonaws.com"  # type: ignore[index]
    store = ObjectStore("s3://bkt", profile="minio")
    assert store.origin[0] == "http://minio:9000"  # type: ignore[index]
    given = ObjectStore("s3://bkt", profile="minio", endpoint_url="http://127.0.0.1:1")
    assert given.origin[0] == "http://127.0.0.1:1"  # type: ignore[index]


def test_endpoints_of_files_and_environment_can_be_ignored(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (files / "config").write_text("[default]\nregion = eu-west-1\nendpoint_url = http://all:1\n")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://env:1")
    assert ObjectStore("s3://bkt").origin[0] == "http://env:1"  # type: ignore[index]
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert ObjectStore("s3://bkt").origin[0] == "https://bkt.s3.eu-west-1.amazonaws.com"  # type: ignore[index]


def test_a_profile_that_is_not_there_is_a_value_error(files: Path) -> None:
    with pytest.raises(ValueError, match="nobody"):
        ObjectStore("s3://bkt", profile="nobody")


async def test_without_botocore_a_profile_has_no_credentials_and_the_error_names_the_extra(
    server: FaultServer, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "config").write_text(f"[profile mine]\nendpoint_url = {server.url}\n")
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    async with ObjectStore("s3://bkt/root", profile="mine") as store:
        with pytest.raises(UnauthenticatedError, match="pip install botocore"):
            await store.fetch("a/b")
    async with ObjectStore("s3://bkt/root", profile=None, anon=True) as store:
        assert store.origin[0] == "https://bkt.s3.us-east-1.amazonaws.com"  # type: ignore[index]
    monkeypatch.setenv("AWS_PROFILE", "mine")
    async with ObjectStore("s3://bkt/root", key="KEY", secret="s") as store:
        assert await store.exists("a/b")
    assert [key_of(request) for request in server.requests] == ["KEY"]


@pytest.mark.parametrize("given", [{}, {"anon": True}, {"key": "k", "secret": "s"}])
def test_a_configuration_that_cannot_be_read_is_an_error_without_its_text(
    given: dict[str, Any], files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    for text in ("[default]\nhidden-secret\n", "[default]\nservices = gone\n", "[default]\na=1\n[default]\na=hidden\n"):
        (files / "config").write_text(text)
        with pytest.raises(ValueError, match="the AWS configuration") as caught:
            ObjectStore("s3://bkt", **given)
        assert "hidden" not in "".join(traceback.format_exception(caught.value))
    (files / "config").unlink()
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ValueError, match="no profile 'nobody'"):
        ObjectStore("s3://bkt", **given)


async def test_the_profile_of_the_environment_and_the_default_one_sign(
    server: FaultServer, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (files / "credentials").write_text(
        "[default]\naws_access_key_id = DEFAULT\naws_secret_access_key = s\n"
        "[other]\naws_access_key_id = OTHER\naws_secret_access_key = s\n"
    )
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url) as store:
        assert await store.exists("a/b")
    monkeypatch.setenv("AWS_PROFILE", "other")
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url) as store:
        assert await store.exists("a/b")
        await store.set("x", b"1")
    assert [key_of(request) for request in server.requests] == ["DEFAULT", "OTHER", "OTHER"]


async def test_the_credentials_of_a_process_sign(server: FaultServer, files: Path) -> None:
    script = files / "process.py"
    script.write_text(
        'print(\'{"Version": 1, "AccessKeyId": "PROCESS", "SecretAccessKey": "s", "SessionToken": "t",'
        ' "Expiration": "2099-01-01T00:00:00Z"}\')'
    )
    (files / "config").write_text(f"[profile p]\ncredential_process = {sys.executable} {script}\n")
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, profile="p") as store:
        assert await store.exists("a/b")
    assert key_of(server.requests[0]) == "PROCESS"
    assert "X-Amz-Security-Token=t" in server.requests[0].target


async def test_a_role_is_assumed_with_the_credentials_of_another_profile(
    server: FaultServer, s3_server: LocalS3, files: Path
) -> None:
    (files / "credentials").write_text("[base]\naws_access_key_id = BASE\naws_secret_access_key = s\n")
    (files / "config").write_text(
        "[profile role]\nregion = us-east-1\nrole_arn = arn:aws:iam::123456789012:role/reader\nsource_profile = base\n"
        "services = here\n"
        f"[services here]\nsts =\n  endpoint_url = {s3_server.endpoint_url}\n"
        f"[profile base]\nregion = us-east-1\nservices = here\n"
    )
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, profile="role") as store:
        assert await store.exists("a/b")
    assert key_of(server.requests[0]).startswith("ASIA")
    assert "X-Amz-Security-Token=" in server.requests[0].target


async def test_a_sign_in_that_has_ended_says_how_to_sign_in(server: FaultServer, files: Path) -> None:
    (files / "config").write_text(
        "[profile sso]\nsso_start_url = https://example.awsapps.com/start\nsso_region = eu-west-1\n"
        "sso_account_id = 123456789012\nsso_role_name = reader\nregion = eu-west-1\n"
    )
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, profile="sso") as store:
        for call in (store.fetch("a/b"), store.set("x", b""), store.list()):
            with pytest.raises(UnauthenticatedError, match="aws sso login") as caught:
                await call
            assert "'sso'" in str(caught.value)
            assert "anon=True" in str(caught.value)
    assert not server.requests


async def test_without_any_credentials_the_error_says_what_was_tried(server: FaultServer, files: Path) -> None:
    (files / "config").write_text("[default]\nregion = eu-west-1\n")
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url) as store:
        with pytest.raises(UnauthenticatedError, match=r"container's service or from an instance's.*anon=True"):
            await store.fetch("a/b")


async def test_without_files_and_instance_the_error_says_what_was_tried(server: FaultServer) -> None:
    store = ObjectStore("s3://bkt/root", endpoint_url=server.url, metadata_endpoint="http://127.0.0.1:9")
    for call in (lambda: store.fetch("a/b"), lambda: store.set("x", b""), store.list):
        with pytest.raises(UnauthenticatedError, match=r"web identity.*metadata service.*anon=True"):
            await call()
    await store.aclose()


async def test_the_service_of_a_container_is_asked(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    document = (
        b'{"AccessKeyId": "CONTAINER", "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"}'
    )
    server.put("creds", document)
    (tmp_path / "token").write_text("container-token")
    monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/creds")
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url) as store:
        assert await store.exists("a/b")
    assert (server.requests[0].key, server.requests[0].headers["authorization"]) == ("creds", "container-token")
    assert key_of(server.requests[-1]) == "CONTAINER"


async def test_options_name_the_container_the_instance_and_the_web_identity(
    server: FaultServer, s3_server: LocalS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/of-another")
    server.put(
        "creds", b'{"AccessKeyId": "BOX", "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"}'
    )
    (tmp_path / "token").write_text("a-jwt")
    identity = {
        "role_arn": "arn:aws:iam::123456789012:role/reader",
        "role_session_name": "me",
        "web_identity_token_file": str(tmp_path / "token"),
        "sts_endpoint": s3_server.endpoint_url,
    }
    keys = []
    for given in ({"container_credentials_full_uri": f"{server.url}/creds"}, identity):
        async with ObjectStore("s3://bkt/root", endpoint_url=server.url, **given) as store:
            assert await store.exists("a/b")
            await store.set("x", b"1")
        assert key_of(server.requests[-1]) == key_of(server.requests[-2])
        keys.append(key_of(server.requests[-1]))
    assert keys[0] == "BOX"
    assert keys[1].startswith("ASIA")
    assert os.environ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"] == "/of-another"
    assert "AWS_ROLE_ARN" not in os.environ


async def test_the_metadata_service_of_an_instance_is_asked_where_the_option_says(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    server.put("latest/meta-data/iam/security-credentials/", b"reader")
    server.put(
        "latest/meta-data/iam/security-credentials/reader",
        b'{"Code": "Success", "AccessKeyId": "INSTANCE", "SecretAccessKey": "s", "Token": "t",'
        b' "Expiration": "2099-01-01T00:00:00Z"}',
    )
    server.script = lambda request, reply: Reply(200, (), b"v2-token") if request.key == "latest/api/token" else reply
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url, metadata_endpoint=server.url) as store:
        assert await store.exists("a/b")
        assert await store.exists("a/b")
    assert [key_of(request) for request in server.requests[-2:]] == ["INSTANCE"] * 2
    assert server.requests[-3].headers["x-aws-ec2-metadata-token"] == "v2-token"


async def test_without_botocore_the_error_names_the_extra(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    async with ObjectStore("s3://bkt/root", endpoint_url=server.url) as store:
        with pytest.raises(UnauthenticatedError, match=r"pip install botocore \(anon=True"):
            await store.fetch("a/b")
    assert not server.requests


class Found:
    """Credentials as botocore has them, that end."""

    def __init__(self, number: int, ends: datetime | None) -> None:
        self._frozen = botocore.credentials.ReadOnlyCredentials(f"KEY{number}", "s", None)
        self._expiry_time = ends

    def get_frozen_credentials(self) -> Any:
        return self._frozen


@pytest.mark.parametrize(
    ("lifetime", "reused"),
    [
        (None, REUSE_SECONDS - RENEW_BEFORE_SECONDS),
        (1000, 1000 - RENEW_BEFORE_SECONDS),
        (28800, REUSE_SECONDS - RENEW_BEFORE_SECONDS),
        (60, 1),
    ],
)
async def test_credentials_are_cached_for_a_while_and_renewed_before_they_expire(
    monkeypatch: pytest.MonkeyPatch, lifetime: float | None, reused: float
) -> None:
    now = 1_800_000_000.0
    clocks = SimpleNamespace(time=lambda: now, monotonic=lambda: now - 1e9)
    for module in (credentials, token_source):
        monkeypatch.setattr(module, "time", clocks)
    expiry = None if lifetime is None else datetime.fromtimestamp(now + lifetime, UTC)
    monkeypatch.setattr(credentials, "find_credentials", lambda *_: Found(1, expiry))
    source = FoundCredentials(S3Options(), "us-east-1")
    assert source.cached() is None
    found = await source.token()
    assert found.key == "KEY1"
    now += reused - 0.5
    assert source.cached() is found
    now += 0.5
    assert source.cached() is None


async def test_one_of_many_that_wait_looks_for_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def find(*_: object) -> Found:
        looked.append(threading.current_thread().name)
        return Found(len(looked), None)

    monkeypatch.setattr(credentials, "find_credentials", find)
    source = FoundCredentials(S3Options(), "us-east-1")
    found = await asyncio.gather(*(source.token() for _ in range(10)))
    assert {each.key for each in found} == {"KEY1"}
    assert await asyncio.to_thread(lambda: asyncio.run(source.token())) is found[0]  # another loop
    assert len(looked) == 1
    for _ in range(3):
        assert source.record_refusal(found[0])
        assert (await source.token()).key == "KEY2"
    assert len(looked) == 2


async def test_errors_of_botocore_are_told_without_their_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(*_: object) -> Any:
        raise ClientError({"Error": {"Code": "X", "Message": "s-hidden"}}, "AssumeRole")

    monkeypatch.setattr(credentials, "find_credentials", find)
    with pytest.raises(UnauthenticatedError, match="ClientError") as caught:
        await FoundCredentials(S3Options(), "us-east-1").token()
    assert "hidden" not in str(caught.value)
