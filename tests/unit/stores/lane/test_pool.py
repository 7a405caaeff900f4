"""Connections: reuse, retry, waiting, cancellation, closing, and answers in every framing."""

import asyncio
import gc
import os
import warnings
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from aiozarr.engine.runtime import new_loop
from aiozarr.errors import LimitError, ShortReadError, StoreError, StoreTimeoutError
from aiozarr.model import Range
from aiozarr.stores.lane import Accept, Answer, Origin, Pool, RequestTemplate, Want, leave, obtain
from aiozarr.testing import http_replies as spoil
from aiozarr.testing.http_replies import Reply
from aiozarr.testing.http_server import FaultServer

DATA = bytes(range(256)) * 1000
WHOLE = Want()


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server with one big and one small value."""
    with FaultServer({"big": DATA, "small": b"small", "empty": b""}) as running:
        yield running


def origin_of(server: FaultServer, **limits: float) -> Origin:
    """Return the origin of a server."""
    return Origin(False, "127.0.0.1", server.port, **limits)  # type: ignore[arg-type]


@pytest_asyncio.fixture
async def pool(server: FaultServer) -> AsyncIterator[Pool]:
    """A pool with few connections."""
    made = Pool(asyncio.get_running_loop(), origin_of(server, max_connections=4))
    yield made
    await made.aclose()


async def get(pool: Pool, key: str, want: Want = WHOLE) -> Answer:
    """Send a GET."""
    return await pool.send(RequestTemplate("host", {}).render("GET", f"/{key}", want.range, want.etag), want)


async def until(condition: object, server: FaultServer) -> None:
    """Wait for the server to have no connection left open."""
    for _ in range(500):
        if server.open_connections == 0:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{server.open_connections} connections are open")


async def test_one_connection_serves_one_request_after_another(pool: Pool, server: FaultServer) -> None:
    for key, expected in (("big", DATA), ("small", b"small"), ("empty", b""), ("big", DATA)):
        answer = await get(pool, key)
        assert bytes(answer.body) == expected
    assert (await get(pool, "missing")).status == 404
    assert server.connections == 1


async def test_the_connection_used_last_is_used_first(pool: Pool, server: FaultServer) -> None:
    await asyncio.gather(*(get(pool, "big") for _ in range(3)))
    used = {request.connection for request in server.requests}
    await get(pool, "small")
    last = server.requests[-1].connection
    for _ in range(3):
        await get(pool, "small")
    assert {request.connection for request in server.requests[-3:]} == {last}
    assert last in used


async def test_requests_beyond_the_limit_wait_in_line(pool: Pool, server: FaultServer) -> None:
    order: list[int] = []

    async def one(number: int) -> None:
        await get(pool, "small")
        order.append(number)

    server.latency = 0.01
    await asyncio.gather(*(one(number) for number in range(40)))
    assert server.connections == 4
    assert server.max_in_flight == 4
    assert [number // 4 for number in order] == sorted(number // 4 for number in order)


async def test_one_who_waits_and_is_cancelled_keeps_no_place(pool: Pool, server: FaultServer) -> None:
    server.latency = 0.02
    tasks = [asyncio.create_task(get(pool, "small")) for _ in range(12)]
    await asyncio.sleep(0.01)
    for task in tasks[4:8]:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in ended] == [False] * 4 + [True] * 4 + [False] * 4
    assert pool.connections <= 4
    assert bytes((await get(pool, "small")).body) == b"small"


async def opened(server: FaultServer, count: int) -> None:
    """Wait until so many connections are open."""
    for _ in range(500):
        if server.open_connections == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{server.open_connections} connections are open")


async def test_connections_are_opened_ahead_and_used_by_whoever_needs_one(pool: Pool, server: FaultServer) -> None:
    server.latency = 0.02
    pool.prepare(3)
    assert pool.connections == 3
    pool.prepare(2)  # there are enough
    await opened(server, 3)
    await asyncio.gather(*(get(pool, "small") for _ in range(3)))
    assert server.connections == 3
    pool.prepare(100)
    await opened(server, 4)  # and no more than there may be
    await asyncio.gather(*(get(pool, "small") for _ in range(9)))
    assert (server.connections, pool.connections) == (4, 4)


async def test_who_waits_in_line_gets_a_connection_that_was_opened_ahead(pool: Pool, server: FaultServer) -> None:
    pool.prepare(4)
    answers = await asyncio.gather(*(get(pool, "small") for _ in range(12)))
    assert [bytes(answer.body) for answer in answers] == [b"small"] * 12
    assert server.connections == 4


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
async def test_a_pool_that_closes_opens_nothing_more(server: FaultServer, turns: int) -> None:
    pool = Pool(asyncio.get_running_loop(), origin_of(server))
    pool.prepare(8)
    for _ in range(turns):
        await asyncio.sleep(0)
    await pool.aclose()
    assert len(asyncio.all_tasks()) == 1
    await until(0, server)
    assert pool.connections == 0


async def test_connections_that_cannot_be_opened_ahead_are_nobodys_error_and_keep_no_place() -> None:
    loop, faults = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _, context: faults.append(context))
    pool = Pool(loop, Origin(False, "127.0.0.1", 1, max_connections=4))
    pool.prepare(4)
    while pool.connections:
        await asyncio.sleep(0.01)
    with pytest.raises(StoreError, match="no connection"):
        await get(pool, "small")
    gc.collect()
    assert faults == []


async def test_a_connection_closed_between_requests_costs_one_silent_retry(pool: Pool, server: FaultServer) -> None:
    await get(pool, "small")
    # The second request is taken in and never answered; the third comes on a new connection.
    server.script = spoil.only({2: spoil.reset})
    answer = await get(pool, "small")
    assert bytes(answer.body) == b"small"
    assert [request.connection for request in server.requests] == [1, 1, 2]


async def test_a_request_is_repeated_silently_only_once(pool: Pool, server: FaultServer) -> None:
    await asyncio.gather(*(get(pool, "small") for _ in range(3)))
    before = len(server.requests)
    server.script = spoil.always(spoil.reset)
    with pytest.raises(StoreError) as caught:
        await get(pool, "small")
    assert caught.value.retryable
    assert len(server.requests) - before == 2


async def test_a_new_connection_that_fails_is_not_repeated(pool: Pool, server: FaultServer) -> None:
    server.script = spoil.always(spoil.reset)
    with pytest.raises(StoreError, match="before an answer") as caught:
        await get(pool, "small")
    assert caught.value.retryable
    assert len(server.requests) == 1


async def test_no_repetition_after_the_first_byte_of_an_answer(pool: Pool, server: FaultServer) -> None:
    await get(pool, "small")
    server.script = spoil.always(spoil.garbage(b"HTTP/1.1 200 O"))
    with pytest.raises(StoreError, match="within the answer") as caught:
        await get(pool, "small")
    assert caught.value.retryable
    assert len(server.requests) == 2


@pytest.mark.parametrize("after", [0, 1, 70_000])
async def test_a_body_that_ends_early_is_a_short_read(pool: Pool, server: FaultServer, after: int) -> None:
    for script in (spoil.truncated(after), spoil.reset_in_body(after)):
        server.script = spoil.always(script)
        with pytest.raises(ShortReadError) as caught:
            await get(pool, "big")
        assert caught.value.retryable


@pytest.mark.parametrize("piece", [1, 7, 40_000, 1 << 20])
async def test_chunked_bodies_are_read_and_the_connection_kept(pool: Pool, server: FaultServer, piece: int) -> None:
    key = "small" if piece < 40_000 else "big"
    server.script = lambda request, reply: spoil.dripping(piece, 0.0)(spoil.chunked(reply))
    for _ in range(2):
        assert bytes((await get(pool, key)).body) == (b"small" if key == "small" else DATA)
    assert server.connections == 1


async def test_a_chunked_body_is_bounded(pool: Pool, server: FaultServer) -> None:
    server.script = spoil.always(spoil.chunked)
    with pytest.raises(LimitError):
        await get(pool, "big", Want(max_bytes=1000))
    assert len(bytes((await get(pool, "big", Want(max_bytes=len(DATA)))).body)) == len(DATA)


async def test_a_body_may_end_with_the_connection(pool: Pool, server: FaultServer) -> None:
    server.script = spoil.always(spoil.until_close)
    for _ in range(2):
        assert bytes((await get(pool, "big")).body) == DATA
    with pytest.raises(LimitError):
        await get(pool, "big", Want(max_bytes=1000))
    with pytest.raises(ShortReadError):
        server.script = lambda request, reply: spoil.truncated(3)(spoil.until_close(reply))
        await get(pool, "small", Want(Range(0, 5)))


async def test_a_longer_body_than_allowed_is_not_received(pool: Pool, server: FaultServer) -> None:
    with pytest.raises(LimitError):
        await get(pool, "big", Want(max_bytes=1000))
    assert pool.connections == 0


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"small",
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + HEAD + b"small",
        HEAD + b"smallHTTP/1.1 200 OK\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nsmall",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nsmall\r\n0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nsmall\r\n0\r\n\r\nHTTP/1.1 404 No\r\nE: x\r\n\r\n",
    ],
)
async def test_unusual_answers_that_are_valid_are_read(pool: Pool, server: FaultServer, answer: bytes) -> None:
    server.script = spoil.always(spoil.garbage(answer))
    found = await get(pool, "small")
    assert (found.status, bytes(found.body)) == (200, b"small")


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nsmall!",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nsmall\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nsmall",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\nsmall",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nsmall\r\n0\r\n" + b"T: x\r\n" * 100_000,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 20) + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
    ],
    ids=range(11),
)
async def test_answers_that_are_not_http_or_never_end_are_errors(
    pool: Pool, server: FaultServer, answer: bytes
) -> None:
    server.script = spoil.always(spoil.garbage(answer))
    with pytest.raises(StoreError):
        await get(pool, "small")
    assert pool.connections == 0
    server.script = None
    assert bytes((await get(pool, "small")).body) == b"small"


async def test_an_error_document_is_kept_up_to_a_bound_and_the_connection_with_it(
    pool: Pool, server: FaultServer
) -> None:
    server.script = spoil.always(spoil.status(500, b"x" * 1000))
    assert len((await get(pool, "small")).body) == 1000  # type: ignore[arg-type]
    server.script = spoil.always(lambda reply: Reply(500, body=b"x" * 1000, chunked=True))
    assert len((await get(pool, "small")).body) == 1000  # type: ignore[arg-type]
    assert server.connections == 1
    for long in (Reply(500, body=b"x" * 500_000), Reply(500, body=b"x" * 500_000, chunked=True)):
        server.script = lambda request, reply, long=long: long
        assert len((await get(pool, "small")).body) <= 1 << 16  # type: ignore[arg-type]


async def test_the_answer_to_head_has_no_body_whatever_length_it_announces(pool: Pool, server: FaultServer) -> None:
    for _ in range(2):
        answer = await pool.send(RequestTemplate("host", {}).render("HEAD", "/big"), Want(head=True))
        assert isinstance(answer.verdict, Accept)
        assert answer.verdict.size == len(DATA)
    assert server.connections == 1


@pytest.mark.parametrize("fault", [spoil.no_answer, spoil.stalled(100_000), spoil.dripping(1, 0.02)])
async def test_no_progress_is_a_timeout_and_a_drip_is_no_progress(server: FaultServer, fault: spoil.Spoil) -> None:
    pool = Pool(asyncio.get_running_loop(), origin_of(server, idle_timeout=0.1))
    server.script = spoil.always(fault)
    with pytest.raises(StoreTimeoutError) as caught:
        await get(pool, "big")
    assert caught.value.retryable
    assert pool.connections == 0
    await pool.aclose()


async def test_a_slow_answer_that_makes_progress_is_waited_for(server: FaultServer) -> None:
    pool = Pool(asyncio.get_running_loop(), origin_of(server, idle_timeout=0.2))
    server.script = spoil.always(spoil.dripping(len(DATA) // 50, 0.01))
    assert bytes((await get(pool, "big")).body) == DATA
    await pool.aclose()


async def test_connections_that_nobody_uses_are_closed_after_a_while(server: FaultServer) -> None:
    pool = Pool(asyncio.get_running_loop(), origin_of(server, idle_timeout=0.05))
    await asyncio.gather(*(get(pool, "small") for _ in range(3)))
    await until(0, server)
    assert pool.connections == 0
    assert bytes((await get(pool, "small")).body) == b"small"
    await pool.aclose()


async def test_memory_of_bodies_goes_with_the_last_connection_and_with_the_pool(server: FaultServer) -> None:
    pool = Pool(asyncio.get_running_loop(), origin_of(server, idle_timeout=0.05))
    await get(pool, "big")
    await asyncio.sleep(0)  # what wakes a task holds the answer until its turn is over
    assert pool.bodies.held > 0
    await until(0, server)
    while pool.bodies.held:  # the sweep that closes the last connection
        await asyncio.sleep(0.01)
    await get(pool, "big")
    await asyncio.sleep(0)
    assert pool.bodies.held > 0
    await pool.aclose()
    assert pool.bodies.held == 0


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4, 6, 10])
async def test_a_cancelled_request_closes_its_connection_and_no_other(
    pool: Pool, server: FaultServer, turns: int
) -> None:
    await get(pool, "small")
    server.script = spoil.when(lambda request: request.key == "big", spoil.stalled(100_000))
    task = asyncio.create_task(get(pool, "big"))
    for _ in range(turns):
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert pool.connections <= 1
    assert bytes((await get(pool, "small")).body) == b"small"
    await pool.aclose()
    await until(0, server)


async def test_closing_ends_requests_under_way_with_an_error(pool: Pool, server: FaultServer) -> None:
    server.script = spoil.always(spoil.no_answer)
    task = asyncio.create_task(get(pool, "small"))
    await asyncio.sleep(0.05)
    await pool.aclose()
    with pytest.raises(StoreError, match="closed"):
        await task
    await until(0, server)


async def test_a_server_that_is_not_there_is_a_retryable_error() -> None:
    pool = Pool(asyncio.get_running_loop(), Origin(False, "127.0.0.1", 1))
    with pytest.raises(StoreError) as caught:
        await get(pool, "small")
    assert caught.value.retryable
    assert pool.connections == 0


async def test_a_connection_that_takes_too_long_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()

    async def never(*args: object, **options: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(loop, "create_connection", never)
    pool = Pool(loop, Origin(False, "127.0.0.1", 1, connect_timeout=0.01))
    with pytest.raises(StoreTimeoutError, match="no connection"):
        await get(pool, "small")
    assert pool.connections == 0


async def test_a_name_that_does_not_resolve_is_not_tried_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    async def unknown(*args: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    pool = Pool(asyncio.get_running_loop(), Origin(False, "nowhere.invalid", 80))
    with pytest.raises(StoreError, match="does not resolve") as caught:
        await get(pool, "small")
    assert not caught.value.retryable


def test_a_loop_that_ends_closes_its_connections_without_a_warning(server: FaultServer) -> None:
    class User:
        pass

    user = User()

    async def main() -> None:
        origin = origin_of(server)
        pool = obtain(user, origin, lambda loop: Pool(loop, origin))
        assert obtain(user, origin, lambda loop: Pool(loop, origin)) is pool
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
    pool = obtain(one, origin, lambda loop: Pool(loop, origin))
    assert obtain(other, origin, lambda loop: Pool(loop, origin)) is pool
    await get(pool, "small")
    closed: list[bool] = []
    for user in (one, one, other):
        await leave(user)
        closed.append(pool.closed)
    assert closed == [False, False, True]
    await until(0, server)
    assert obtain(one, origin, lambda loop: Pool(loop, origin)) is not pool
    await leave(one)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_child_reads_over_connections_of_its_own_and_the_parents_stay(server: FaultServer) -> None:
    class User:
        pass

    user = User()
    origin = origin_of(server)

    async def read() -> bytes:
        return bytes((await get(obtain(user, origin, lambda loop: Pool(loop, origin)), "small")).body)

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
        loop.run_until_complete(leave(user))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def test_a_name_is_tried_at_each_of_its_addresses(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    found = [(0, 0, 0, "", (address, server.port)) for address in ("127.0.0.9", "127.0.0.1")]

    async def resolve(*_: object, **__: object) -> object:
        return found

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    pool = Pool(loop, Origin(False, "two-addresses.invalid", server.port))
    assert bytes((await get(pool, "small")).body) == b"small"
    found.pop()
    await pool.aclose()
    pool = Pool(loop, Origin(False, "two-addresses.invalid", server.port))
    with pytest.raises(StoreError, match="no connection"):
        await get(pool, "small")


def test_a_resolution_that_fails_after_its_request_was_cancelled_is_not_reported() -> None:
    loop = new_loop()
    reported: list[object] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))

    async def cancelled() -> None:
        pool = Pool(loop, Origin(False, "no-such-host.invalid", 80))
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
