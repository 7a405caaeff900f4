"""New connections: one resolution for concurrent ones, and all addresses of a host in turn."""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise

import pytest
import pytest_asyncio

from aiozarr.engine.private_thread import new_loop
from aiozarr.errors import StoreError
from aiozarr.http1.connect import ATTEMPT_DELAY, AVOID_SECONDS, TTL_SECONDS, HostAddresses, connect
from aiozarr.http1.connection import Response
from aiozarr.http1.pool import Pool
from aiozarr.http1.request import RequestTemplate
from aiozarr.http1.response_check import Expectation
from aiozarr.http1.url import Endpoint
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.fake_resolver import FakeResolver
from tests.support.servers.http_server import FaultServer

GET = RequestTemplate("host", {}).render("GET", "/key", Expectation())
NAME = "some-name.invalid"


def of(names: FakeResolver, host: str = NAME) -> HostAddresses:
    """The addresses of a host, on the running loop, which is told `names`."""
    loop = asyncio.get_running_loop()
    loop.getaddrinfo = names.resolve  # type: ignore[method-assign, assignment]
    return HostAddresses(loop, host, 80)


class Net:
    """Attempts to connect, each of which takes some seconds and then works or not."""

    def __init__(self, **fates: float | OSError) -> None:
        self.fates = {name.replace("_", ":"): fate for name, fate in fates.items()}
        self.tried: list[tuple[str, float]] = []
        self.dropped: list[str] = []
        self.under_way = 0

    async def attempt(self, address: str) -> str:
        self.tried.append((address, asyncio.get_running_loop().time()))
        self.under_way += 1
        try:
            fate = self.fates[address]
            await asyncio.sleep(fate if isinstance(fate, float) else 0.01)
            if isinstance(fate, OSError):
                raise fate
            return address
        finally:
            self.under_way -= 1

    async def connect(self, addresses: HostAddresses) -> str:
        return await connect(addresses, self.attempt, self.dropped.append)


@in_virtual_time
async def test_an_address_that_refuses_costs_no_wait_and_is_not_tried_again_soon() -> None:
    net = Net(__1=ConnectionRefusedError(), a=0.01)
    addresses = of(FakeResolver("::1", "a"))
    assert await net.connect(addresses) == "a"
    (_, first), (_, second) = net.tried
    assert second - first < ATTEMPT_DELAY
    assert await net.connect(addresses) == "a"
    assert [address for address, _ in net.tried] == ["::1", "a", "a"]


@in_virtual_time
async def test_an_address_that_does_not_answer_gets_a_head_start_and_the_next_is_tried_beside_it() -> None:
    net = Net(__1=1000.0, a=0.01)
    assert await net.connect(of(FakeResolver("::1", "a"))) == "a"
    assert [later - earlier for (_, earlier), (_, later) in pairwise(net.tried)] == [pytest.approx(ATTEMPT_DELAY)]
    assert net.under_way == 0
    slow = Net(__1=1.5 * ATTEMPT_DELAY, a=1000.0)
    assert await slow.connect(of(FakeResolver("::1", "a"))) == "::1"
    assert slow.under_way == 0


@in_virtual_time
async def test_where_no_address_works_the_error_is_that_of_the_first() -> None:
    net = Net(a=ConnectionRefusedError("a"), b=ConnectionResetError("b"))
    with pytest.raises(ConnectionRefusedError, match="a"):
        await net.connect(of(FakeResolver("a", "b")))
    lacking = Net(a=OSError(errno.EMFILE, "files"), b=0.01)
    with pytest.raises(OSError, match="files"):
        await lacking.connect(of(FakeResolver("a", "b")))
    assert len(lacking.tried) == 1


@in_virtual_time
async def test_a_cancelled_attempt_leaves_no_other_under_way() -> None:
    net = Net(a=1000.0, b=1000.0)
    task = asyncio.create_task(net.connect(of(FakeResolver("a", "b"))))
    await asyncio.sleep(2 * ATTEMPT_DELAY)
    assert net.under_way == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert net.under_way == 0
    assert len(asyncio.all_tasks()) == 1


async def test_an_address_without_an_answer_is_a_retryable_error() -> None:
    pool = Pool(asyncio.get_running_loop(), Endpoint(False, "127.0.0.1", 1))
    with pytest.raises(StoreError) as caught:
        await pool.send(GET, Expectation())
    assert caught.value.retryable


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
