"""One connection, fed by hand: however the bytes of an answer arrive, the answer is the same."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.errors import ShortReadError, StoreError
from aiozarr.http1.connection import BodyCutError, Connection, Response, StaleConnectionError
from aiozarr.http1.pool import TICKS, Pool
from aiozarr.http1.response_check import Accept, Expectation
from aiozarr.http1.url import Endpoint
from aiozarr.model import Range

if TYPE_CHECKING:
    from collections.abc import Iterable

BODY = bytes(range(256)) * 3
PLAIN = b'HTTP/1.1 200 OK\r\nContent-Length: 768\r\nETag: "x"\r\n\r\n' + BODY
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\0\r\n2ff\r\n" + BODY[1:] + b"\r\n0\r\nT: x\r\n\r\n"
)
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN
ERROR = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nwhy"
TO_THE_END = b"HTTP/1.1 200 OK\r\n\r\n" + BODY


class UploadClient:
    """A transport that goes nowhere."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.sent.append(bytes(data))

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True


def connect(pool: Pool) -> tuple[Connection, UploadClient]:
    """Return a connection of `pool`, and its transport."""
    connection, wire = Connection(pool), UploadClient()
    connection.connection_made(wire)  # type: ignore[arg-type]  # all of a transport that is used
    return connection, wire


def feed(connection: Connection, data: bytes) -> None:
    """Deliver `data` as a transport does: into the buffer that the connection names, as much as fits."""
    while data:
        buffer = connection.get_buffer(-1)
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        connection.buffer_updated(count)
        data = data[count:]


def start(connection: Connection, want: Expectation, body: bytes = b"") -> asyncio.Future[Response]:
    """Send a request, and return the future of its answer."""
    future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
    connection.start(b"GET", want, future, memoryview(body))
    return future


def exchange(pieces: Iterable[bytes], want: Expectation, *, end: bool = False) -> tuple[Response, bool]:
    """Return the answer that `pieces` make, and whether the connection was kept."""

    async def main() -> tuple[Response, bool]:
        pool = Pool(asyncio.get_running_loop(), Endpoint(False, "h", 80))
        connection, wire = connect(pool)
        future = start(connection, want)
        for piece in pieces:
            feed(connection, piece)
        if end:
            connection.connection_lost(None)
        return await future, not wire.closed

    return asyncio.run(main())


def cut(data: bytes, points: list[int]) -> list[bytes]:
    """Return `data` in pieces."""
    edges = [0, *sorted({point % len(data) for point in points}), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges) if start < stop]


@given(answer=st.sampled_from([PLAIN, CHUNKED, INTERIM]), points=st.lists(st.integers(0, 2000), max_size=12))
def test_an_answer_is_the_same_however_it_is_cut(answer: bytes, points: list[int]) -> None:
    found, kept = exchange(cut(answer, points), Expectation())
    assert (found.status, bytes(found.body), kept) == (200, BODY, True)


@pytest.mark.parametrize("answer", [PLAIN, CHUNKED, INTERIM, ERROR])
def test_an_answer_may_come_byte_by_byte(answer: bytes) -> None:
    found, kept = exchange([answer[at : at + 1] for at in range(len(answer))], Expectation())
    assert bytes(found.body) == (b"why" if answer is ERROR else BODY)
    assert kept


@given(points=st.lists(st.integers(0, 2000), max_size=6))
def test_a_body_without_a_length_ends_with_the_connection(points: list[int]) -> None:
    found, _ = exchange(cut(TO_THE_END, points), Expectation(), end=True)
    assert bytes(found.body) == BODY


@pytest.mark.parametrize("points", [[], [100], [100, 130, 131]])
def test_a_body_is_received_in_pieces_of_the_callers_memory(points: list[int]) -> None:
    class Pieces:
        def __init__(self) -> None:
            self.given: list[memoryview] = []

        def next_buffer(self, left: int) -> memoryview:
            assert left == len(BODY) - sum(map(len, self.given))
            assert b"".join(self.given) == BODY[: len(BODY) - left]
            self.given.append(memoryview(bytearray(min(7, left))))
            return self.given[-1]

    pieces = Pieces()
    cuts = cut(PLAIN, points) if points else [PLAIN[:-1], PLAIN[-1:]]
    response, is_kept = exchange(cuts, Expectation(allocate=lambda *_: pieces))
    assert is_kept
    assert not response.body
    assert b"".join(pieces.given) == BODY
    assert not pieces.given[-1]  # it was told of the end


def test_a_body_is_received_in_place() -> None:
    """The buffer that the loop fills is the one that is handed out: nothing is copied in between."""

    async def main() -> None:
        pool = Pool(asyncio.get_running_loop(), Endpoint(False, "h", 80))
        connection, _ = connect(pool)
        future = start(connection, Expectation())
        feed(connection, PLAIN[:100])
        buffer = connection.get_buffer(-1)
        feed(connection, PLAIN[100:])
        body = memoryview((await future).body)
        assert body == BODY
        buffer[0] ^= 255
        assert body[len(BODY) - len(buffer)] == buffer[0]

    asyncio.run(main())


@pytest.mark.parametrize("extra", [b"H", b"HTTP/1.1 200 OK\r\n\r\n"])
@pytest.mark.parametrize("answer", [PLAIN, CHUNKED, ERROR])
def test_a_connection_with_bytes_behind_the_answer_is_not_used_again(answer: bytes, extra: bytes) -> None:
    for pieces in ([answer + extra], [answer, extra]):
        _, kept = exchange(pieces, Expectation())
        assert not kept


def test_every_part_of_an_answer_may_be_the_last_one() -> None:
    async def main() -> None:
        for answer in (PLAIN, CHUNKED, ERROR):
            for stop in range(len(answer)):
                pool = Pool(asyncio.get_running_loop(), Endpoint(False, "h", 80))
                connection, _ = connect(pool)
                future = start(connection, Expectation())
                feed(connection, answer[:stop])
                connection.connection_lost(None)
                with pytest.raises(StoreError) as caught:
                    await future
                assert caught.value.retryable
                body_begun = stop > answer.index(b"\r\n\r\n") + 3
                assert isinstance(caught.value, ShortReadError) == body_begun

    asyncio.run(main())


def test_a_used_connection_that_closes_before_the_first_byte_is_stale() -> None:
    async def main() -> None:
        pool = Pool(asyncio.get_running_loop(), Endpoint(False, "h", 80))
        connection, wire = connect(pool)
        future = start(connection, Expectation())
        feed(connection, PLAIN)
        await future
        again = start(connection, Expectation())
        connection.connection_lost(ConnectionResetError())
        with pytest.raises(StaleConnectionError):
            await again
        with pytest.raises(StaleConnectionError):
            start(connection, Expectation())
        assert wire.sent == [b"GET", b"GET"]

    asyncio.run(main())


def test_an_idle_connection_holds_no_buffer_of_the_last_answer() -> None:
    import gc
    import weakref

    async def main() -> None:
        pool = Pool(asyncio.get_running_loop(), Endpoint(False, "h", 80))
        connection, _ = connect(pool)
        future: Any = start(connection, Expectation())
        feed(connection, PLAIN[:100])
        feed(connection, PLAIN[100:])
        answer = await future
        memory = memoryview(answer.body).obj
        del answer, future
        gc.collect()
        assert isinstance(memory, bytearray)
        memory.append(0)  # refused while a buffer of it is held

        class Place:
            """Gives memory for a body, and has it from then on."""

            def receive(self, *_: object) -> memoryview:
                self.memory = memoryview(bytearray(len(BODY)))
                return self.memory

        place = Place()
        future = start(connection, Expectation(allocate=place.receive))
        feed(connection, PLAIN[:100])
        feed(connection, PLAIN[100:])
        assert (await future).body is place.memory
        gone = weakref.ref(place)
        del future, place
        gc.collect()
        assert gone() is None

    asyncio.run(main())


def test_a_part_is_accepted_with_its_size() -> None:
    answer = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nContent-Range: bytes 2-6/768\r\n\r\n" + BODY[2:7]
    found, _ = exchange([answer], Expectation(Range(2, 5)))
    assert isinstance(found.action, Accept)
    assert (bytes(found.body), found.action.size) == (BODY[2:7], 768)


UP = bytes(range(256)) * 1000
STORED = b'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: "1"\r\n\r\n'


async def test_a_body_is_sent_after_the_head() -> None:
    pool = Pool(asyncio.get_running_loop(), Endpoint(False, "h", 80))
    connection, wire = connect(pool)
    future = start(connection, Expectation(), UP)
    assert b"".join(wire.sent) == b"GET" + UP
    assert connection.upload_ticks == TICKS + 4
    feed(connection, STORED)
    assert (await future).status == 200
    assert connection.upload_ticks == 0
    assert pool.send_nowait(b"GET", Expectation(), asyncio.get_running_loop().create_future()) is connection
    assert connection.upload_ticks == 0
    connection.abort()


async def test_a_connection_whose_body_was_refused_is_not_used_again() -> None:
    pool = Pool(asyncio.get_running_loop(), Endpoint(False, "h", 80))
    connection, wire = connect(pool)
    future = start(connection, Expectation(), UP)
    feed(connection, ERROR)
    assert (await future).status == 404
    assert wire.closed
    assert pool.send_nowait(b"GET", Expectation(), asyncio.get_running_loop().create_future()) is None


async def test_a_connection_lost_during_an_upload_is_an_error_that_says_so() -> None:
    pool = Pool(asyncio.get_running_loop(), Endpoint(False, "h", 80))
    connection, _ = connect(pool)
    future = start(connection, Expectation(), UP)
    connection.connection_lost(ConnectionResetError())
    with pytest.raises(BodyCutError, match="before the response") as caught:
        await future
    assert caught.value.retryable
