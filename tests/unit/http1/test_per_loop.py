"""Connections belong to one event loop: its users share them, and they are closed with the loop."""

from __future__ import annotations

import asyncio
import gc
import os
import warnings
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from aiozarr.http1.connection import Response
from aiozarr.http1.endpoint_client import acquire, release
from aiozarr.http1.pool import Pool
from aiozarr.http1.request import RequestTemplate
from aiozarr.http1.response_check import Expectation
from aiozarr.http1.url import Endpoint
from tests.support.servers.http_server import FaultServer

DATA = bytes(range(256)) * 1000
WHOLE = Expectation()


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server with one big and one small value."""
    with FaultServer({"big": DATA, "small": b"small", "empty": b""}) as running:
        yield running


def origin_of(server: FaultServer, **limits: float) -> Endpoint:
    """Return the origin of a server."""
    return Endpoint(False, "127.0.0.1", server.port, **limits)  # type: ignore[arg-type]


@pytest_asyncio.fixture
async def pool(server: FaultServer) -> AsyncIterator[Pool]:
    """A pool with few connections."""
    made = Pool(asyncio.get_running_loop(), origin_of(server, max_connections=4))
    yield made
    await made.aclose()


async def get(pool: Pool, key: str, want: Expectation = WHOLE) -> Response:
    """Send a GET."""
    return await pool.send(RequestTemplate("host", {}).render("GET", f"/{key}", want), want)


async def until(condition: object, server: FaultServer) -> None:
    """Wait for the server to have no connection left open."""
    for _ in range(500):
        if server.open_connections == 0:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{server.open_connections} connections are open")


def test_a_loop_that_ends_closes_its_connections_without_a_warning(server: FaultServer) -> None:
    class User:
        pass

    user = User()

    async def main() -> None:
        origin = origin_of(server)
        pool = acquire(user, origin, lambda loop: Pool(loop, origin))
        assert acquire(user, origin, lambda loop: Pool(loop, origin)) is pool
        assert bytes((await get(pool, "small")).body) == b"small"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            asyncio.run(main())
            gc.collect()
        asyncio.run(until(0, server))
    assert server.connections == 3


async def test_the_last_user_to_leave_closes_the_pool(server: FaultServer) -> None:
    class User:
        pass

    one, other = User(), User()
    origin = origin_of(server)
    pool = acquire(one, origin, lambda loop: Pool(loop, origin))
    assert acquire(other, origin, lambda loop: Pool(loop, origin)) is pool
    await get(pool, "small")
    closed: list[bool] = []
    for user in (one, one, other):
        await release(user)
        closed.append(pool.closed)
    assert closed == [False, False, True]
    await until(0, server)
    assert acquire(one, origin, lambda loop: Pool(loop, origin)) is not pool
    await release(one)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_child_reads_over_connections_of_its_own_and_the_parents_stay(server: FaultServer) -> None:
    class User:
        pass

    user = User()
    origin = origin_of(server)

    async def read() -> bytes:
        return bytes((await get(acquire(user, origin, lambda loop: Pool(loop, origin)), "small")).body)

    loop = asyncio.new_event_loop()
    try:
        assert loop.run_until_complete(read()) == b"small"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks beside threads: the server's
            child = os.fork()
        if not child:
            os._exit(asyncio.run(read()) != b"small")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert server.connections == 2
        assert loop.run_until_complete(read()) == b"small"
        assert server.connections == 2
        loop.run_until_complete(release(user))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


GET = RequestTemplate("host", {}).render("GET", "/key", Expectation())
