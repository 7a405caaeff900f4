"""Opening a node if some or all of its documents are forbidden."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import aiozarr
from aiozarr.errors import PermissionDeniedError, StoreError, UnauthenticatedError
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


async def serve(server: FaultServer) -> None:
    """Put an array of three ones at `a`, in a group that is consolidated."""
    source = aiozarr.stores.MemoryStore()
    group = await aiozarr.create_group(source)
    array = await group.create_array("a", shape=(3,), dtype="int32", chunks=(3,))
    await array[...].write(1)
    await aiozarr.consolidate_metadata(source)
    for key in await source.list():
        value = await source.get(key)
        assert value is not None
        server.put(f"data/{key}", bytes(value))


@pytest.mark.parametrize("zarr_format", [None, 3])
async def test_a_store_behind_a_redirecting_server_is_opened(zarr_format: int | None, server: FaultServer) -> None:
    with FaultServer() as other:
        await serve(other)
        server.script = lambda request, reply: spoil.redirect(f"{other.url}/data/{request.key}")(reply)
        async with await aiozarr.open_group(server.url, zarr_format=zarr_format) as group:
            array = await group.open("a")
            assert isinstance(array, aiozarr.Array)
            assert (await array[...]).tolist() == [1, 1, 1]
        async with await aiozarr.open_array(server.url, "a", zarr_format=zarr_format) as found:
            assert (await found[...]).tolist() == [1, 1, 1]


async def test_a_missing_node_behind_a_redirecting_server_is_an_error_with_its_url(server: FaultServer) -> None:
    with FaultServer() as other:
        server.script = lambda request, reply: spoil.redirect(f"{other.url}/data/{request.key}")(reply)
        with pytest.raises(StoreError, match=f"metadata of {server.url}/no could not be read.*redirect") as caught:
            await aiozarr.open_array(server.url, "no")
        assert caught.value.status == 404


async def test_a_refused_open_names_the_node_and_the_first_document(server: FaultServer) -> None:
    server.script = spoil.always(spoil.status(403))
    with pytest.raises(PermissionDeniedError, match=f"metadata of {server.url}/data/a could not be read") as caught:
        await aiozarr.open_array(f"{server.url}/data", "a")
    error = caught.value
    assert (error.store, error.key, error.range) == (f"{server.url}/data", "a/zarr.json", None)
    assert "67108865" not in str(error)
    with pytest.raises(PermissionDeniedError) as caught:
        await aiozarr.open_array(f"{server.url}/data", "a", zarr_format=2)
    assert caught.value.key == "a/.zarray"


async def test_missing_credentials_are_named_in_the_error(server: FaultServer) -> None:
    server.script = spoil.always(spoil.status(401))
    with pytest.raises(UnauthenticatedError, match="requires credentials, and none were given"):
        await aiozarr.open_array(server.url)
    for options in ({"token": "x"}, {"auth": ("user", "x")}, {"headers": {"X-Api-Key": "x"}}):
        with pytest.raises(UnauthenticatedError, match="does not accept the credentials"):
            await aiozarr.open_array(server.url, storage_options=options)
    with pytest.raises(UnauthenticatedError, match="does not accept the credentials"):
        await aiozarr.open_array(f"{server.url}/?sig=x")
