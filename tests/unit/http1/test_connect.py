"""New connections: one resolution for concurrent ones, and all addresses of a host in turn."""

from __future__ import annotations

import asyncio
import errno
from itertools import pairwise

import pytest

from aiozarr.errors import StoreError
from aiozarr.http1 import Endpoint, Expectation, Pool, RequestTemplate
from aiozarr.http1.connect import ATTEMPT_DELAY, connect
from aiozarr.http1.dns import HostAddresses
from aiozarr.testing.virtual_time import in_virtual_time
from tests.support.fake_resolver import FakeResolver

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
