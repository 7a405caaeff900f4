"""New connections: one resolution for all who ask at a time, all addresses in turn, none of them waited for in vain."""

from __future__ import annotations

import asyncio
import errno
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from aiozarr.errors import StoreError, ThrottledError
from aiozarr.stores.files import open_file_limit
from aiozarr.stores.lane import Origin, Pool, RequestTemplate, Want
from aiozarr.stores.lane.addresses import AVOID_SECONDS, TTL_SECONDS, Addresses
from aiozarr.stores.lane.dial import HEAD_START, dial
from aiozarr.testing.http_server import FaultServer
from aiozarr.testing.virtual_time import run_virtual

GET = RequestTemplate("host", {}).render("GET", "/key")
NAME = "some-name.invalid"


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server with one value."""
    with FaultServer({"key": b"value"}, latency=0.02) as running:
        yield running


class Names:
    """What a loop is told in place of a resolution, and how often it asked."""

    def __init__(self, *addresses: str) -> None:
        self.addresses: tuple[str, ...] = addresses
        self.asked = 0
        self.cancelled = 0

    async def resolve(self, host: str, port: int, **_: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        self.asked += 1
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (address, port)) for address in self.addresses]


def of(names: Names, host: str = NAME) -> Addresses:
    """The addresses of a host, on the running loop, which is told `names`."""
    loop = asyncio.get_running_loop()
    loop.getaddrinfo = names.resolve  # type: ignore[method-assign, assignment]
    return Addresses(loop, host, 80)


def test_all_who_connect_at_a_time_share_one_resolution_and_begin_with_each_address_in_turn() -> None:
    async def scenario() -> None:
        names = Names("1.0.0.1", "1.0.0.2", "1.0.0.3")
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

    run_virtual(scenario())


def test_an_address_is_not_resolved() -> None:
    async def scenario() -> None:
        for host in ("127.0.0.1", "::1"):
            names = Names()
            assert await of(names, host).next() == [host]
            assert names.asked == 0

    run_virtual(scenario())


def test_families_alternate_and_the_first_one_is_that_of_the_system() -> None:
    async def scenario() -> None:
        addresses = of(Names("::1", "::2", "1.0.0.1"))
        assert await addresses.next() == ["::1", "1.0.0.1", "::2"]
        assert await addresses.next() == ["::2", "1.0.0.1", "::1"]

    run_virtual(scenario())


def test_an_address_that_failed_is_the_last_one_for_a_while() -> None:
    async def scenario() -> None:
        addresses = of(Names("::1", "1.0.0.1"))
        addresses.failed("::1")
        assert await addresses.next() == ["1.0.0.1", "::1"]
        await asyncio.sleep(AVOID_SECONDS)
        assert (await addresses.next())[0] == "::1"

    run_virtual(scenario())


def test_a_resolution_that_fails_fails_for_all_and_is_tried_again() -> None:
    async def scenario() -> None:
        names = Names()
        addresses = of(names)
        ended = await asyncio.gather(*(addresses.next() for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in ended] == 3 * [socket.gaierror]
        names.addresses = ("1.0.0.1",)
        assert await addresses.next() == ["1.0.0.1"]
        assert names.asked == 2

    run_virtual(scenario())


def test_a_resolution_ends_with_the_last_one_who_waits_for_it() -> None:
    async def scenario() -> None:
        names = Names("1.0.0.1")
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

    run_virtual(scenario())


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

    async def dial(self, addresses: Addresses) -> str:
        return await dial(addresses, self.attempt, self.dropped.append)


def test_an_address_that_refuses_costs_no_wait_and_is_not_tried_again_soon() -> None:
    async def scenario() -> None:
        net = Net(__1=ConnectionRefusedError(), a=0.01)
        addresses = of(Names("::1", "a"))
        assert await net.dial(addresses) == "a"
        (_, first), (_, second) = net.tried
        assert second - first < HEAD_START
        assert await net.dial(addresses) == "a"
        assert [address for address, _ in net.tried] == ["::1", "a", "a"]

    run_virtual(scenario())


def test_an_address_that_does_not_answer_gets_a_head_start_and_the_next_is_tried_beside_it() -> None:
    async def scenario() -> None:
        net = Net(__1=1000.0, a=0.01)
        assert await net.dial(of(Names("::1", "a"))) == "a"
        assert [later - earlier for (_, earlier), (_, later) in pairwise(net.tried)] == [pytest.approx(HEAD_START)]
        assert net.under_way == 0
        slow = Net(__1=1.5 * HEAD_START, a=1000.0)
        assert await slow.dial(of(Names("::1", "a"))) == "::1"
        assert slow.under_way == 0

    run_virtual(scenario())


def test_where_no_address_works_the_error_is_that_of_the_first() -> None:
    async def scenario() -> None:
        net = Net(a=ConnectionRefusedError("a"), b=ConnectionResetError("b"))
        with pytest.raises(ConnectionRefusedError, match="a"):
            await net.dial(of(Names("a", "b")))
        lacking = Net(a=OSError(errno.EMFILE, "files"), b=0.01)
        with pytest.raises(OSError, match="files"):
            await lacking.dial(of(Names("a", "b")))
        assert len(lacking.tried) == 1

    run_virtual(scenario())


def test_a_cancelled_attempt_leaves_no_other_under_way() -> None:
    async def scenario() -> None:
        net = Net(a=1000.0, b=1000.0)
        task = asyncio.create_task(net.dial(of(Names("a", "b"))))
        await asyncio.sleep(2 * HEAD_START)
        assert net.under_way == 2
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert net.under_way == 0
        assert len(asyncio.all_tasks()) == 1

    run_virtual(scenario())


async def test_requests_that_begin_together_open_their_connections_together(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    names = Names("127.0.0.1")
    monkeypatch.setattr(loop, "getaddrinfo", names.resolve)
    pool = Pool(loop, Origin(False, NAME, server.port))
    answers = await asyncio.gather(*(pool.send(GET, Want()) for _ in range(60)))
    assert {bytes(answer.body) for answer in answers} == {b"value"}
    assert server.connections == server.max_in_flight == 60
    assert names.asked == 1
    await asyncio.gather(*(pool.send(GET, Want()) for _ in range(60)))
    assert server.connections == 60
    await pool.aclose()


@pytest.mark.parametrize("room", [0, 3])
async def test_where_files_are_lacking_requests_wait_for_the_connections_that_there_are(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    loop = asyncio.get_running_loop()
    real: Callable[..., object] = loop.create_connection
    opened = 0

    async def scarce(*args: object, **options: object) -> object:
        nonlocal opened
        if opened >= room:
            raise OSError(errno.EMFILE, "Too many open files")
        opened += 1
        return await real(*args, **options)  # type: ignore[misc]

    monkeypatch.setattr(loop, "create_connection", scarce)
    pool = Pool(loop, Origin(False, "127.0.0.1", server.port))
    answers = await asyncio.gather(*(pool.send(GET, Want()) for _ in range(40)), return_exceptions=True)
    if room:
        assert all(not isinstance(answer, BaseException) for answer in answers)
        assert server.connections == server.max_in_flight == room
    else:
        assert all(isinstance(answer, ThrottledError) for answer in answers)
    assert pool.connections == room
    await pool.aclose()
    assert pool.connections == 0


SCARCE = """
import asyncio, resource, sys
from aiozarr.engine.runtime import new_loop
from aiozarr.stores.lane import Origin, Pool, RequestTemplate, Want

async def main():
    pool = Pool(asyncio.get_running_loop(), Origin(False, "127.0.0.1", int(sys.argv[1])))
    request = RequestTemplate("host", {}).render("GET", "/key")
    resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
    answers = await asyncio.gather(*(pool.send(request, Want()) for _ in range(100)))
    assert all(bytes(answer.body) == b"value" for answer in answers)
    assert pool.connections < 30
    await pool.aclose()

with asyncio.Runner(loop_factory=new_loop if sys.argv[2] == "new" else asyncio.new_event_loop) as runner:
    runner.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on open files")
@pytest.mark.parametrize("loop", ["new", "asyncio"])
def test_a_process_without_room_for_more_files_reads_over_fewer_connections(server: FaultServer, loop: str) -> None:
    command = [sys.executable, "-c", SCARCE, str(server.port), loop]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 100


async def test_a_pool_never_opens_more_than_open_files_allow(
    server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    assert open_file_limit() == 18
    pool = Pool(asyncio.get_running_loop(), Origin(False, "127.0.0.1", server.port))
    await asyncio.gather(*(pool.send(GET, Want()) for _ in range(40)))
    assert server.connections == server.max_in_flight == 18
    await pool.aclose()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert open_file_limit() == sys.maxsize


def test_a_fixed_limit_of_1024_requests_is_one_of_1024_connections_where_files_allow() -> None:
    assert Origin(False, "h", 80).max_connections == 1024


async def test_an_address_without_an_answer_is_a_retryable_error() -> None:
    pool = Pool(asyncio.get_running_loop(), Origin(False, "127.0.0.1", 1))
    with pytest.raises(StoreError) as caught:
        await pool.send(GET, Want())
    assert caught.value.retryable
