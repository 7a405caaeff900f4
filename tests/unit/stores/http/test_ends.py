"""The ends of values on servers that answer no suffix ranges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from aiozarr.errors import ChangedError
from aiozarr.model import Suffix, Version
from aiozarr.stores.http.read import ATTEMPTS_AT_END
from aiozarr.stores.http.store import HTTPStore
from aiozarr.testing.http_replies import Reply, Request
from aiozarr.testing.http_server import FaultServer

DATA = bytes(range(200))


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer({"a": DATA, "empty": b""}) as running:
        yield running


def at(server: FaultServer) -> HTTPStore:
    store = HTTPStore(server.url)
    store.supports = replace(store.supports, suffix_reads=False)
    return store


@pytest.mark.parametrize(("length", "expected"), [(7, DATA[-7:]), (200, DATA), (300, DATA), (0, b"")])
async def test_an_end_is_found_by_the_size(server: FaultServer, length: int, expected: bytes) -> None:
    async with at(server) as store:
        value = await store.fetch("a", Suffix(length))
        assert value is not None
        assert (bytes(value.data), value.size, value.version) == (expected, 200, Version('"1"'))
    assert [request.method for request in server.requests] == (["HEAD", "GET"] if length else ["HEAD"])
    assert not any("bytes=-" in request.headers.get("range", "") for request in server.requests)


async def test_the_end_of_what_is_empty_or_missing_costs_one_request(server: FaultServer) -> None:
    async with at(server) as store:
        value = await store.fetch("empty", Suffix(7))
        assert value is not None
        assert (bytes(value.data), value.size) == (b"", 0)
        assert await store.fetch("missing", Suffix(7)) is None
    assert len(server.requests) == 2


async def test_another_version_than_expected_is_noticed_by_the_size_already(server: FaultServer) -> None:
    async with at(server) as store:
        with pytest.raises(ChangedError) as raised:
            await store.fetch("a", Suffix(7), if_match=Version('"other"'))
    assert (raised.value.key, raised.value.range) == ("a", Suffix(7))
    assert len(server.requests) == 1


async def test_a_value_that_changes_in_between_is_looked_at_anew_a_few_times(server: FaultServer) -> None:
    changes = 1

    def replace_it(request: Request, reply: Reply) -> Reply:
        nonlocal changes
        if request.method == "HEAD" and changes:
            changes -= 1
            server.put("a", b"newer")
        return reply

    server.script = replace_it
    async with at(server) as store:
        value = await store.fetch("a", Suffix(2))
        assert value is not None
        assert bytes(value.data) == b"er"
        changes, before = 100, len(server.requests)
        with pytest.raises(ChangedError):
            await store.fetch("a", Suffix(2))
        assert len(server.requests) - before == 2 * ATTEMPTS_AT_END


def test_the_hosts_of_azure_are_known_to_have_no_suffix_ranges() -> None:
    azure = HTTPStore("https://acct.blob.core.windows.net/data/field.zarr")
    assert not azure.supports.suffix_reads
    assert azure._template.headers["x-ms-version"] == "2023-11-03"
    mine = HTTPStore("https://acct.blob.core.windows.net/data", headers={"X-MS-Version": "2021-12-02"})
    assert list(mine._template.headers.values()) == ["2021-12-02"]
    other = HTTPStore("https://blob.core.windows.net.example/data")
    assert other.supports.suffix_reads
    assert other._template.headers == {}
