"""The addresses of a host: one resolution for all, their order, and those that have failed."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from aiozarr.engine.private_thread import new_loop
from aiozarr.http1 import Endpoint, Expectation, Pool, RequestTemplate, Response
from aiozarr.http1.dns import AVOID_SECONDS, TTL_SECONDS, HostAddresses
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.fake_resolver import FakeResolver
from tests.support.servers.http_server import FaultServer

NAME = "some-name.invalid"


def of(names: FakeResolver, host: str = NAME) -> HostAddresses:
    """The addresses of a host, on the running loop, which is told `names`."""
    loop = asyncio.get_running_loop()
    loop.getaddrinfo = names.resolve  # type: ignore[method-assign, assignment]
    return HostAddresses(loop, host, 80)


@in_virtual_time
async def test_concurrent_connections_share_one_resolution_and_begin_with_different_addresses() -> None:
    names = FakeResolver("1.0.0.1", "1.0.0.2", "1.0.0.3")
    addresses = of(names)
    orders = await asyncio.gather(*(addresses.next() for _ in range(6)))
    assert names.asked == 1
    assert [order[0] for order in orders] == 2 * ["1.0.0.1", "1.0.0.2", "1.0.0.3"]
    assert all(sorted(order) == sorted(names.addresses) for order in orders)
    await asyncio.sleep(TTL_SECONDS / 2)
    await addresses.next()
    assert names.asked == 1
    await asyncio.sleep(TTL_SECONDS)
    names.addresses = ("1.0.0.4",)
    assert await addresses.next() == ["1.0.0.4"]
    assert names.asked == 2


@in_virtual_time
async def test_an_address_is_not_resolved() -> None:
    for host in ("127.0.0.1", "::1"):
        names = FakeResolver()
        assert await of(names, host).next() == [host]
        assert names.asked == 0


@in_virtual_time
async def test_families_alternate_beginning_with_that_of_the_system() -> None:
    addresses = of(FakeResolver("::1", "::2", "1.0.0.1"))
    assert await addresses.next() == ["::1", "1.0.0.1", "::2"]
    assert await addresses.next() == ["::2", "1.0.0.1", "::1"]


@in_virtual_time
async def test_an_address_that_failed_is_the_last_one_for_a_while() -> None:
    addresses = of(FakeResolver("::1", "1.0.0.1"))
    addresses.failed("::1")
    assert await addresses.next() == ["1.0.0.1", "::1"]
    await asyncio.sleep(AVOID_SECONDS)
    assert (await addresses.next())[0] == "::1"


@in_virtual_time
async def test_a_resolution_that_fails_fails_for_all_and_is_tried_again() -> None:
    names = FakeResolver()
    addresses = of(names)
    ended = await asyncio.gather(*(addresses.next() for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in ended] == 3 * [socket.gaierror]
    names.addresses = ("1.0.0.1",)
    assert await addresses.next() == ["1.0.0.1"]
    assert names.asked == 2


@in_virtual_time
async def test_a_resolution_is_cancelled_with_its_last_waiter() -> None:
    names = FakeResolver("1.0.0.1")
    addresses = of(names)
    tasks = [asyncio.create_task(addresses.next()) for _ in range(3)]
    await asyncio.sleep(0.001)
    tasks[0].cancel()
    await asyncio.wait(tasks[:1])
    assert names.cancelled == 0
    tasks[1].cancel()
    tasks[2].cancel()
    await asyncio.wait(tasks)
    await asyncio.sleep(0)
    assert names.cancelled == 1
    assert len(asyncio.all_tasks()) == 1
    assert await addresses.next() == ["1.0.0.1"]


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


def test_a_resolution_that_fails_after_its_request_was_cancelled_is_not_reported() -> None:
    loop = new_loop()
    reported: list[object] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))

    async def cancelled() -> None:
        pool = Pool(loop, Endpoint(False, "no-such-host.invalid", 80))
        request = loop.create_task(get(pool, "small"))
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        for _ in range(4):
            with pytest.raises(OSError):
                await loop.getaddrinfo("no-such-host.invalid", 80)

    try:
        loop.run_until_complete(cancelled())
        gc.collect()
    finally:
        loop.close()
    assert reported == []


GET = RequestTemplate("host", {}).render("GET", "/key", Expectation())
