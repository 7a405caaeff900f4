"""Connections: reuse, retry, waiting, cancellation, closing, and answers in every framing."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import pytest_asyncio

from aiozarr.errors import ChangedError, LimitError, ShortReadError, StoreError, StoreTimeoutError, ThrottledError
from aiozarr.http1.connection import Connection, Response
from aiozarr.http1.pool import MAX_WRITE_BYTES, PIECE_BYTES, Pool
from aiozarr.http1.request import PieceReader, RequestTemplate
from aiozarr.http1.response_check import Accept, Expectation
from aiozarr.http1.url import Endpoint
from aiozarr.model import Range
from tests.support.certificates import authority
from tests.support.fake_resolver import FakeResolver
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply
from tests.support.servers.http_server import FaultServer

DATA = bytes(range(256)) * 1000
WHOLE = Expectation()


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server with one big and one small value."""
    with FaultServer({"big": DATA, "small": b"small", "empty": b""}) as running:
        yield running


@pytest.fixture
def distant() -> Iterator[FaultServer]:
    """A server whose responses take 20 ms."""
    with FaultServer({"key": b"value"}, latency=0.02) as running:
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


async def opened(server: FaultServer, count: int) -> None:
    """Wait until so many connections are open."""
    for _ in range(500):
        if server.open_connections == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{server.open_connections} connections are open")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


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
    server.held_until = 4
    await asyncio.gather(*(get(pool, f"small?{number}") for number in range(40)))
    assert server.connections == 4
    assert server.max_in_flight == 4
    for connection in range(1, 5):
        # The server reads connections in any order, and the requests of one in the order in which they were sent.
        sent = [int(each.target.partition("?")[2]) for each in server.requests if each.connection == connection]
        assert sent == sorted(sent)


async def test_a_cancelled_waiter_leaves_its_place_in_the_queue(pool: Pool, server: FaultServer) -> None:
    server.held_until = 5  # more than there can be: no request is answered
    tasks = [asyncio.create_task(get(pool, "small")) for _ in range(12)]
    await opened(server, 4)
    for task in tasks[4:8]:
        task.cancel()
    server.held_until = 0
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in ended] == [False] * 4 + [True] * 4 + [False] * 4
    assert pool.connections <= 4
    assert bytes((await get(pool, "small")).body) == b"small"


async def test_preconnected_connections_are_used_by_any_request(pool: Pool, server: FaultServer) -> None:
    server.latency = 0.02
    pool.preconnect(3)
    assert pool.connections == 3
    pool.preconnect(2)  # there are enough
    await opened(server, 3)
    await asyncio.gather(*(get(pool, "small") for _ in range(3)))
    assert server.connections == 3
    pool.preconnect(100)
    await opened(server, 4)  # and no more than there may be
    await asyncio.gather(*(get(pool, "small") for _ in range(9)))
    assert (server.connections, pool.connections) == (4, 4)


async def test_a_queued_request_gets_a_preconnected_connection(pool: Pool, server: FaultServer) -> None:
    pool.preconnect(4)
    answers = await asyncio.gather(*(get(pool, "small") for _ in range(12)))
    assert [bytes(answer.body) for answer in answers] == [b"small"] * 12
    assert server.connections == 4


@pytest.mark.parametrize("turns", [0, 1, 2, 5])
async def test_a_pool_that_closes_opens_nothing_more(server: FaultServer, turns: int) -> None:
    pool = Pool(asyncio.get_running_loop(), origin_of(server))
    pool.preconnect(8)
    for _ in range(turns):
        await asyncio.sleep(0)
    await pool.aclose()
    assert len(asyncio.all_tasks()) == 1
    await until(0, server)
    assert pool.connections == 0


async def test_a_failed_preconnect_raises_nothing_and_occupies_no_connection() -> None:
    loop, faults = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _, context: faults.append(context))
    pool = Pool(loop, Endpoint(False, "127.0.0.1", 1, max_connections=4))
    pool.preconnect(4)
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


async def test_what_the_server_must_not_get_twice_is_repeated_only_if_nothing_was_sent(
    pool: Pool, server: FaultServer
) -> None:
    await get(pool, "small")
    server.script = spoil.only({2: spoil.reset})
    request = b"GET /small HTTP/1.1\r\nHost: host\r\n\r\n"
    with pytest.raises(StoreError, match="before the response") as caught:
        await pool.send(request, Expectation(), repeatable=False)
    assert caught.value.retryable
    assert len(server.requests) == 2
    await get(pool, "small")
    for connection in pool._idle:  # closed, and not yet noticed
        assert connection._transport is not None
        connection._transport.close()
    assert bytes((await pool.send(request, Expectation(), repeatable=False)).body) == b"small"


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
    with pytest.raises(StoreError, match="before the response") as caught:
        await get(pool, "small")
    assert caught.value.retryable
    assert len(server.requests) == 1


async def test_no_repetition_after_the_first_byte_of_an_answer(pool: Pool, server: FaultServer) -> None:
    await get(pool, "small")
    server.script = spoil.always(spoil.garbage(b"HTTP/1.1 200 O"))
    with pytest.raises(StoreError, match="within the response") as caught:
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
async def test_a_connection_is_reused_after_a_chunked_body(pool: Pool, server: FaultServer, piece: int) -> None:
    key = "small" if piece < 40_000 else "big"
    server.script = lambda request, reply: spoil.dripping(piece, 0.0)(spoil.chunked(reply))
    for _ in range(2):
        assert bytes((await get(pool, key)).body) == (b"small" if key == "small" else DATA)
    assert server.connections == 1


async def test_a_chunked_body_is_bounded(pool: Pool, server: FaultServer) -> None:
    server.script = spoil.always(spoil.chunked)
    with pytest.raises(LimitError):
        await get(pool, "big", Expectation(max_bytes=1000))
    assert len(bytes((await get(pool, "big", Expectation(max_bytes=len(DATA)))).body)) == len(DATA)


async def test_a_body_may_end_with_the_connection(pool: Pool, server: FaultServer) -> None:
    server.script = spoil.always(spoil.until_close)
    for _ in range(2):
        assert bytes((await get(pool, "big")).body) == DATA
    with pytest.raises(LimitError):
        await get(pool, "big", Expectation(max_bytes=1000))
    with pytest.raises(ShortReadError):
        server.script = lambda request, reply: spoil.truncated(3)(spoil.until_close(reply))
        await get(pool, "small", Expectation(Range(0, 5)))


async def test_a_longer_body_than_allowed_is_not_received(pool: Pool, server: FaultServer) -> None:
    with pytest.raises(LimitError):
        await get(pool, "big", Expectation(max_bytes=1000))
    assert pool.connections == 0


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


async def test_an_error_document_is_read_up_to_a_bound_and_its_connection_reused(
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
        answer = await pool.send(
            RequestTemplate("host", {}).render("HEAD", "/big", Expectation()), Expectation(head=True)
        )
        assert isinstance(answer.action, Accept)
        assert answer.action.size == len(DATA)
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


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say what was received")
@pytest.mark.parametrize("protocol", ["HTTP/1.0", "HTTP/1.1"])
async def test_requests_that_a_server_does_not_receive_move_to_connections_that_it_answers(protocol: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = protocol

        def do_GET(self) -> None:
            with lock:
                paths.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"value")

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 5
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass

    paths: list[str] = []
    lock = threading.Lock()
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        # Without moves, this would take longer than any test may.
        pool = Pool(asyncio.get_running_loop(), Endpoint(False, "127.0.0.1", server.server_port, idle_timeout=10_000))
        sweeping = asyncio.create_task(sweep_often(pool))
        answers = await asyncio.gather(*(get(pool, f"{number}") for number in range(200)))
        assert {bytes(answer.body) for answer in answers} == {b"value"}
        assert set(paths) == {f"/{number}" for number in range(200)}
        sweeping.cancel()
        await pool.aclose()
        server.shutdown()
        thread.join()


async def sweep_often(pool: Pool) -> None:
    """Sweep the pool as if its idle timeout were short."""
    while True:
        await asyncio.sleep(0.1)
        pool._sweep()


async def test_a_slow_answer_that_makes_progress_is_waited_for(server: FaultServer) -> None:
    pool = Pool(asyncio.get_running_loop(), origin_of(server, idle_timeout=0.2))
    server.script = spoil.always(spoil.dripping(len(DATA) // 50, 0.01))
    assert bytes((await get(pool, "big")).body) == DATA
    await pool.aclose()


async def test_idle_connections_are_closed_after_a_while(server: FaultServer) -> None:
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
    assert pool.buffers.free_bytes > 0
    await until(0, server)
    while pool.buffers.free_bytes:  # the sweep that closes the last connection
        await asyncio.sleep(0.01)
    await get(pool, "big")
    await asyncio.sleep(0)
    assert pool.buffers.free_bytes > 0
    await pool.aclose()
    assert pool.buffers.free_bytes == 0


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


async def test_a_connection_that_is_closed_with_unread_bytes_ends_its_request(server: FaultServer) -> None:
    server.script = spoil.always(spoil.stalled(100_000))
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET /big HTTP/1.1\r\nHost: host\r\n\r\n")
        await asyncio.to_thread(client.recv, 1, socket.MSG_PEEK)
    await until(0, server)  # the system sends a reset in place of an end


async def test_closing_ends_requests_under_way_with_an_error(pool: Pool, server: FaultServer) -> None:
    server.script = spoil.always(spoil.no_answer)
    task = asyncio.create_task(get(pool, "small"))
    await asyncio.sleep(0.05)
    await pool.aclose()
    with pytest.raises(StoreError, match="closed"):
        await task
    await until(0, server)


async def test_a_server_that_is_not_there_is_a_retryable_error() -> None:
    pool = Pool(asyncio.get_running_loop(), Endpoint(False, "127.0.0.1", 1))
    with pytest.raises(StoreError) as caught:
        await get(pool, "small")
    assert caught.value.retryable
    assert pool.connections == 0


async def test_a_connection_that_takes_too_long_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()

    async def never(*args: object, **options: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(loop, "create_connection", never)
    pool = Pool(loop, Endpoint(False, "127.0.0.1", 1, connect_timeout=0.01))
    with pytest.raises(StoreTimeoutError, match="no connection"):
        await get(pool, "small")
    assert pool.connections == 0


@pytest.mark.parametrize("code", [socket.EAI_NONAME, socket.EAI_AGAIN])
async def test_a_name_that_does_not_resolve_is_tried_again_only_if_its_resolver_may_know_it_later(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:

    async def unknown(*args: object, **options: object) -> None:
        raise socket.gaierror(code, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    pool = Pool(asyncio.get_running_loop(), Endpoint(False, "nowhere.invalid", 80))
    with pytest.raises(StoreError, match="does not resolve") as caught:
        await get(pool, "small")
    assert caught.value.retryable is (code == socket.EAI_AGAIN)


async def test_a_name_is_tried_at_each_of_its_addresses(server: FaultServer, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    found = [(0, 0, 0, "", (address, server.port)) for address in ("127.0.0.9", "127.0.0.1")]

    async def resolve(*_: object, **__: object) -> object:
        return found

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    pool = Pool(loop, Endpoint(False, "two-addresses.invalid", server.port))
    assert bytes((await get(pool, "small")).body) == b"small"
    found.pop()
    await pool.aclose()
    pool = Pool(loop, Endpoint(False, "two-addresses.invalid", server.port))
    with pytest.raises(StoreError, match="no connection"):
        await get(pool, "small")


GET = RequestTemplate("host", {}).render("GET", "/key", Expectation())
NAME = "some-name.invalid"


async def test_requests_that_begin_together_open_their_connections_together(
    distant: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    names = FakeResolver("127.0.0.1")
    monkeypatch.setattr(loop, "getaddrinfo", names.resolve)
    distant.held_until = 60
    pool = Pool(loop, Endpoint(False, NAME, distant.port))
    answers = await asyncio.gather(*(pool.send(GET, Expectation()) for _ in range(60)))
    assert {bytes(answer.body) for answer in answers} == {b"value"}
    assert distant.connections == distant.max_in_flight == 60
    assert names.asked == 1
    await asyncio.gather(*(pool.send(GET, Expectation()) for _ in range(60)))
    assert distant.connections == 60
    await pool.aclose()


@pytest.mark.parametrize("room", [0, 3])
async def test_where_files_are_lacking_requests_wait_for_the_connections_that_there_are(
    distant: FaultServer, monkeypatch: pytest.MonkeyPatch, room: int
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
    distant.held_until = room
    pool = Pool(loop, Endpoint(False, "127.0.0.1", distant.port))
    answers = await asyncio.gather(*(pool.send(GET, Expectation()) for _ in range(40)), return_exceptions=True)
    if room:
        assert all(not isinstance(answer, BaseException) for answer in answers)
        assert distant.connections == distant.max_in_flight == room
    else:
        assert all(isinstance(answer, ThrottledError) for answer in answers)
    assert pool.connections == room
    await pool.aclose()
    assert pool.connections == 0


def test_a_fixed_limit_of_1024_requests_is_one_of_1024_connections_where_files_allow() -> None:
    assert Endpoint(False, "h", 80).max_connections == 1024


# --- bodies that are read while they are sent --------------------------------------------------------------------


class CountedBody:
    """A body of repeated bytes that counts the memory that it is read into."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.starts: list[int] = []
        self.memory: set[int] = set()

    def bytes_at(self, start: int, nbytes: int) -> bytes:
        first = start % 256
        return (bytes(range(256)) * (nbytes // 256 + 2))[first : first + nbytes]

    async def read_into(self, start: int, memory: memoryview) -> None:
        self.starts.append(start)
        self.memory.add(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
        memory[:] = self.bytes_at(start, len(memory))


async def put(pool: Pool, key: str, body: memoryview | PieceReader) -> Response:
    head = RequestTemplate("host", {}).render("PUT", f"/{key}", WHOLE, body=body)
    return await pool.send(head, WHOLE, body)


async def test_a_body_is_sent_in_pieces_of_reused_memory(pool: Pool, server: FaultServer) -> None:
    bodies = [CountedBody(40 * PIECE_BYTES + 7) for _ in range(3)]
    answers = await asyncio.gather(*[put(pool, f"new{number}", body) for number, body in enumerate(bodies)])
    assert [answer.status for answer in answers] == [201] * 3
    for number, body in enumerate(bodies):
        assert server.get(f"new{number}") == body.bytes_at(0, body.nbytes)
        assert body.starts == list(range(0, body.nbytes, PIECE_BYTES))
    # A transport holds the piece that the system has not taken yet, while the next one is read.
    assert len(set().union(*[body.memory for body in bodies])) <= 2 * len(bodies) + len(bodies)
    assert bytes((await get(pool, "small")).body) == b"small"
    assert server.connections == 3


async def test_a_body_is_sent_in_pieces_over_tls() -> None:
    with FaultServer(tls=authority().server()) as server:
        made = Pool(asyncio.get_running_loop(), Endpoint(True, "127.0.0.1", server.port, authority().trust()))
        body = CountedBody(40 * PIECE_BYTES + 7)
        assert (await put(made, "new", body)).status == 201
        assert server.get("new") == body.bytes_at(0, body.nbytes)
        assert len(body.memory) <= 3
        await made.aclose()


@asynccontextmanager
async def serving(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[Pool]:
    """Yield a pool of connections to a server that answers heads, and reads bodies only if `answer` does."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await answer(reader, writer)
        writer.transport.abort()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, limit=4096)
    port = listener.sockets[0].getsockname()[1]
    made = Pool(asyncio.get_running_loop(), Endpoint(False, "127.0.0.1", port, idle_timeout=0.2))
    async with listener:
        yield made
        await made.aclose()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


@pytest.mark.parametrize(("status", "closes"), [(403, False), (503, True), (307, True)])
async def test_a_refusal_ends_an_upload_whose_body_the_server_does_not_read(status: int, closes: bool) -> None:
    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 3\r\n\r\nwhy" % status)
        if closes:  # with unread bytes, which resets the connection
            raise ConnectionAbortedError
        await asyncio.sleep(3600)

    async with serving(refuse) as made:
        body = CountedBody(1 << 30)
        answer = await put(made, "x", body)
        assert (answer.status, bytes(answer.body)) == (status, b"why")
        assert max(body.starts) < 64 << 20  # the buffers of the system
        assert made.connections == 0  # the next request would be read as the rest of the body


async def test_a_confirmation_before_the_end_of_the_body_is_an_error() -> None:
    async def confirm(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await asyncio.sleep(3600)

    async with serving(confirm) as made:
        with pytest.raises(StoreError, match="before it had all") as caught:
            await put(made, "x", CountedBody(1 << 30))
        assert caught.value.retryable


async def test_a_server_that_stops_reading_is_a_timeout_and_a_slow_one_is_not() -> None:
    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(20):
            await asyncio.sleep(0.05)
            await reader.readexactly(nbytes // 20)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async def stop(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        await asyncio.sleep(3600)

    nbytes = 20 << 20
    async with serving(read) as made:
        assert (await put(made, "x", CountedBody(nbytes))).status == 200
    async with serving(stop) as made:
        with pytest.raises(StoreTimeoutError):
            await put(made, "x", CountedBody(1 << 30))


async def test_other_requests_have_their_turn_between_the_pieces_of_a_body(pool: Pool) -> None:
    turns = 0
    seen: list[int] = []

    class Watched(CountedBody):
        async def read_into(self, start: int, memory: memoryview) -> None:
            seen.append(turns)
            await super().read_into(start, memory)

    task = asyncio.create_task(put(pool, "new", Watched(8 * PIECE_BYTES)))
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    assert len(seen) == 8
    assert sorted(set(seen)) == seen


async def test_memory_is_sent_in_pieces_without_a_copy(
    pool: Pool, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, sent = memoryview(bytes(range(256)) * (MAX_WRITE_BYTES // 256) + b"end"), list[memoryview]()
    send_piece = Connection.send_piece

    async def record(connection: Connection, piece: memoryview) -> None:
        sent.append(piece)
        await send_piece(connection, piece)

    monkeypatch.setattr(Connection, "send_piece", record)
    assert (await put(pool, "new", body)).status == 201
    assert server.get("new") == body
    assert [len(piece) for piece in sent] == [PIECE_BYTES] * 4 + [3]
    assert all(piece.obj is body.obj for piece in sent)


async def test_a_body_is_read_again_for_a_new_connection(pool: Pool, server: FaultServer) -> None:
    server.script = spoil.only({1: spoil.dropping})
    await get(pool, "small")
    body = CountedBody(3 * PIECE_BYTES)
    assert (await put(pool, "new", body)).status == 201
    assert server.get("new") == body.bytes_at(0, body.nbytes)
    assert body.starts.count(0) == 2


@pytest.mark.parametrize("cancelled", [True, False])
async def test_an_upload_that_ends_early_stores_nothing_and_closes_its_connection(
    pool: Pool, server: FaultServer, cancelled: bool
) -> None:
    class Changing(CountedBody):
        async def read_into(self, start: int, memory: memoryview) -> None:
            if start:
                if cancelled:
                    await asyncio.sleep(3600)
                raise ChangedError("the file was changed")
            await super().read_into(start, memory)

    task = asyncio.create_task(put(pool, "new", Changing(3 * PIECE_BYTES)))
    if cancelled:
        await opened(server, 1)
        await asyncio.sleep(0.01)
        task.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else ChangedError):
        await task
    await until(None, server)
    assert server.get("new") is None
    assert not server.requests
