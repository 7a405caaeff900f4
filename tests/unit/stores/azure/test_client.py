"""obstore's client for a container is made from the options, and by them alone."""

from __future__ import annotations

import pytest

from aiozarr.errors import (
    ChangedError,
)
from aiozarr.model import Entry, IfAbsent, Range, Suffix, Version
from aiozarr.stores import ObjectStore
from tests.support.http_proxy import proxy
from tests.support.servers.azure_replies import DATA, at, azure, refusal
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer


async def test_a_service_principal_reads_with_the_token_that_the_client_library_got(server: FaultServer) -> None:
    def script(request: Request, reply: Reply) -> Reply:
        if request.key == "tenant/oauth2/v2.0/token":
            assert b"p-hidden" in request.body
            return Reply(200, (), b'{"access_token": "t-hidden", "expires_in": 3600}')
        if request.headers.get("authorization") != "Bearer t-hidden":
            return refusal(401, "NoAuthenticationInformation")
        return azure(request, reply)

    server.script = script
    principal = {"tenant_id": "tenant", "client_id": "id", "client_secret": "p-hidden", "authority_host": server.url}
    store = ObjectStore("az://data/root", endpoint_url=f"{server.url}/acct", **principal)
    value = await store.fetch("a/b", Range(5, 10))
    assert value is not None
    assert (bytes(value.data), value.size) == (DATA[5:15], len(DATA))
    assert await store.stat("a/b") == Entry("a/b", len(DATA), value.version)
    end = await store.fetch("a/b", Suffix(7), if_match=value.version)
    assert end is not None
    assert bytes(end.data) == DATA[-7:]
    assert await store.get("missing") is None
    assert await store.fetch("a/b", Range(len(DATA) + 1)) is not None
    with pytest.raises(ChangedError):
        await store.fetch("a/b", if_match=Version('"other"'))
    assert await store.set("new", b"1", precondition=IfAbsent()) is not None
    assert "hidden" not in repr(store) + str(store.identity)
    assert sum(request.method == "POST" for request in server.requests) == 1
    await store.aclose()


async def test_all_requests_go_through_the_proxy_of_the_environment(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy() as between:
        monkeypatch.setenv("http_proxy", between.url)
        async with at(server) as store:
            value = await store.fetch("a/b", Suffix(3))
            assert value is not None
            assert bytes(value.data) == DATA[-3:]
            await store.set("new", b"1")
            await store.erase("new")
    methods = [head.partition(" ")[0] for head in between.heads]
    assert methods == ["HEAD", "GET", "PUT", "DELETE"]
    assert len(server.requests) == len(methods)
    assert "x-ms-delete-snapshots: include" in between.heads[-1]
