"""obstore's client for a bucket is made from the options: certificates, proxies, timeouts, credentials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiozarr.errors import StoreError
from aiozarr.stores.object.store import ObjectStore
from tests.support.certificates import authority
from tests.support.http_proxy import proxy as forward_proxy
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer

XML = (("Content-Type", "application/xml"),)
LISTING = b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
DELETED = b"<DeleteResult><Deleted><Key>root/a/b</Key></Deleted></DeleteResult>"


def answers(request: Request, reply: Reply) -> Reply:
    if "list-type=2" in request.target:
        return Reply(200, XML, LISTING)
    return Reply(200, XML, DELETED) if request.method == "POST" else reply


def at(server: FaultServer, **options: Any) -> ObjectStore:
    return ObjectStore(
        "s3://bkt/root", **{"endpoint_url": server.url, "key": "k", "secret": "s", "region": "us-east-1", **options}
    )


async def everything(store: ObjectStore) -> None:
    """One request of each kind."""
    await store.fetch("a/b")
    await store.set("x", b"1")
    await store.list()
    await store.list_dir("")
    await store.erase("x")
    await store.erase_values(["a/b"])


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
        "bytes": {"client_options": {"root_certificate": authority().pem()}},
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
