"""Which hosts a stranger's document reaches, and with which credentials of this machine."""

from __future__ import annotations

import json
import socket
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import AiozarrError
from tests.support.child_process import run_script
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer

SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIDFOUND",
    "AWS_SECRET_ACCESS_KEY": "secretfound",
    "AWS_SESSION_TOKEN": "sessionfound",
    "AZURE_STORAGE_SAS_TOKEN": "sig=sasfound",
    "AZURE_STORAGE_TOKEN": "azurefound",
}
PROFILE = "[default]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = secretprofile\n"
KNOWN = {"AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
ARRAY = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "|u1", "compressor": None, "filters": None}
DOCUMENT = json.dumps({**ARRAY, "fill_value": 0, "order": "C"})
SCHEMES = ("s3", "http", "https", "reference", "zip", "gs", "az", "abfs")

_connected: set[tuple[str, int]] = set()


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and arguments[0].family != socket.AF_UNIX:
        _connected.add(arguments[1][:2])


def machine(folder: Path) -> dict[str, str]:
    """Return the environment of a machine with credentials in its environment and files."""
    (folder / "credentials").write_text(PROFILE)
    (folder / "netrc").write_text("machine localhost login me password netrcfound\n")
    files = {"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "config", "NETRC": "netrc"}
    return {**SECRETS, **KNOWN, **{name: str(folder / file) for name, file in files.items()}}


def revealed(server: FaultServer) -> list[str]:
    """Return the secrets of this machine in what a server has received."""
    words = ["AKIDFOUND", "AKIDPROFILE", "found", "secretprofile"]
    text = "\n".join(f"{request.target} {request.headers}" for request in server.requests)
    return [word for word in words if word in text]


def references(target: str) -> bytes:
    return json.dumps({".zarray": DOCUMENT, "0": [target, 0, 4]}).encode()


def spec(**members: Any) -> Callable[[str], Any]:
    return lambda url: {"driver": "zarr3", "kvstore": {"driver": "s3", "bucket": "b", "endpoint": url, **members}}


TARGETS: dict[str, Callable[[str], Any]] = {
    "endpoint": spec(),
    "profile": spec(aws_credentials={"type": "profile", "profile": "default"}),
    "default": spec(aws_credentials={"type": "default"}),
    "context": lambda url: {**spec()(url), "context": {"aws_credentials": {"profile": "default"}}},
    "archive": lambda url: {
        "driver": "zarr3",
        "kvstore": {"driver": "zip", "base": {"driver": "s3", "bucket": "b", "path": "a.zip", "endpoint": url}},
    },
    "format 2": lambda url: {**spec()(url), "driver": "zarr"},
    "web": lambda url: {"driver": "zarr3", "kvstore": {"driver": "http", "base_url": url}},
    "url": lambda url: f"{url}/a",
    "references": lambda url: f"reference::{url}/refs.json",
    "record files": lambda url: f"reference::{url}/parquet",
    "remote archive": lambda url: f"zip::{url}/a.zip",
}


async def open_documents() -> None:
    for name, target in TARGETS.items():
        with FaultServer() as server:
            _connected.clear()
            for path in ("s3://b/secret", "http://127.0.0.1:1/x", "abfs://c@mine/x", "/etc/passwd"):
                server.put("refs.json", references(path))
                with suppress(AiozarrError):
                    node: Any = await aiozarr.open(target(server.url), schemes=SCHEMES)
                    await node[...]
            assert server.requests, name
            assert revealed(server) == [], name
            assert _connected == {("127.0.0.1", server.port)}, name


async def open_references() -> None:
    for target in ("s3://MyData/private.bin", "s3://mydata#/private.bin", "gs://mydata/x", "{other}/x"):
        with FaultServer({"x": b"abcd"}) as other, FaultServer() as server:
            _connected.clear()
            server.put("mydata/refs.json", references(target.format(other=other.url)))
            options = {"endpoint_url": server.url, "key": "k", "secret": "s", "region": "us-east-1"}
            url = "reference::s3://mydata/refs.json"
            array = await aiozarr.open_array(url, storage_options=options, schemes=SCHEMES)
            with pytest.raises(AiozarrError):
                await array[...]
            assert {request.key for request in server.requests} == {"mydata/refs.json"}, target
            assert _connected == {("127.0.0.1", server.port)}, target


async def follow_a_redirect() -> None:
    with FaultServer({"a/zarr.json": b"{}"}) as other, FaultServer() as server:

        def redirect(request: Request, reply: Reply) -> Reply:
            return Reply(302, (("Location", f"{other.url}/a/zarr.json"),))

        _connected.clear()
        server.script = redirect
        options = {"headers": {"Authorization": "Bearer found"}}
        with pytest.raises(AiozarrError):
            await aiozarr.open(f"{server.url}/a", storage_options=options, schemes=("http",))
        assert revealed(other) == []
        assert _connected <= {("127.0.0.1", server.port), ("127.0.0.1", other.port)}


@pytest.mark.parametrize("what", ["open_documents", "open_references", "follow_a_redirect"])
def test_a_strangers_document_reaches_its_own_host_without_credentials_of_this_machine(
    what: str, tmp_path: Path
) -> None:
    # In a process of its own, because the hook stays, and uvloop does not report its connections.
    script = f"""
        import asyncio, sys
        sys.modules["uvloop"] = None
        from tests.faults import test_hostile_locations as case
        sys.addaudithook(case._note)
        asyncio.run(case.{what}())
    """
    run_script(script, **machine(tmp_path))


@pytest.mark.parametrize("how", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "profile", "no schemes"])
async def test_own_endpoints_get_the_credentials_of_this_machine(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in machine(tmp_path).items():
        monkeypatch.setenv(name, value)
    with FaultServer() as server, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the endpoint has no TLS
        if how.startswith("AWS_"):
            monkeypatch.setenv(how, server.url)
        elif how == "profile":
            monkeypatch.delenv("AWS_ACCESS_KEY_ID")
            (tmp_path / "config").write_text(f"[default]\nendpoint_url = {server.url}\n")
        with pytest.raises(AiozarrError):
            await aiozarr.open(spec()(server.url), **({} if how == "no schemes" else {"schemes": SCHEMES}))
        assert revealed(server)
