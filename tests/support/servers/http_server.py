"""A small HTTP/1.1 object server for tests, in a thread of its own; a script can change every response.

It speaks GET and HEAD with ranges and conditions, PUT with `If-Match` and `If-None-Match: *`, and DELETE, over keys
that are the decoded paths. It counts connections and requests. `tests.support.servers.http_replies` has the scripts:

    with FaultServer({"a/b": b"..."}, script=first(2, status(503, Retry_After="1"))) as server:
        store = HTTPStore(server.url)
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
import struct
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Self
from urllib.parse import unquote

from tests.support.servers.http_replies import Reply, Request, Script, StoredObject, honest, matches

_MAX_HEAD = 1 << 20


class ScriptedServer(ABC):
    """The base of the servers: a thread with a loop of its own at `url`, for the length of a `with` block.

    Attributes:
        script: called on the server's thread with each request and the honest reply; what it returns is sent. It may be
            replaced at any time, and it may change the values, such as to replace an object between two requests.
        requests: all requests so far, in order.
        connections: how many connections were accepted so far.
        open_connections: how many are open now.
        in_flight: how many requests are being answered now; a client that goes away ends its request.
        max_in_flight: the most requests that were being answered at one time.
        latency: seconds before each answer.
        held_until: no request is answered before this many have been at the server at one time.
    """

    def __init__(
        self, *, script: Script | None = None, latency: float = 0.0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.script = script
        self.latency = latency
        self.held_until = 0
        self.requests: list[Request] = []
        self.connections = 0
        self.open_connections = 0
        self.in_flight = 0
        self.max_in_flight = 0
        self._tls = tls
        self._lock = threading.Lock()
        self._port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    @abstractmethod
    def _answer(self, request: Request) -> Reply:
        """Return the reply after the script, and apply its change."""

    # --- life ----------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The URL of the root, without a slash at its end."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return self._port

    def start(self) -> None:
        """Begin to listen; `with` does it."""
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="fault server", daemon=True)
        self._thread.start()
        ready.wait()

    def close(self) -> None:
        """Reset all connections and stop; closing twice is no error."""
        if self._loop is None or self._stop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop = self._stop = self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _run(self, ready: threading.Event) -> None:
        asyncio.run(self._serve(ready))

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._stop = stop = asyncio.Event()
        at_work: set[asyncio.Task[None]] = set()

        # asyncio's own server loses connections that it accepts while it is closed, and they are never closed.
        def accept() -> None:
            with suppress(BlockingIOError, ConnectionError):
                task = loop.create_task(self._accepted(listener.accept()[0], stop))
                at_work.add(task)
                task.add_done_callback(at_work.discard)

        with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
            listener.setblocking(False)
            self._port = listener.getsockname()[1]
            loop.add_reader(listener, accept)
            ready.set()
            await stop.wait()
            loop.remove_reader(listener)
        await asyncio.sleep(0)  # all that was accepted is at work now
        for task in at_work:
            task.cancel()
        if at_work:
            await asyncio.wait(at_work)
        await asyncio.sleep(0)  # the loop closes aborted sockets in its next round

    async def _accepted(self, connection: socket.socket, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        connection.setblocking(False)
        reader = asyncio.StreamReader(limit=_MAX_HEAD)
        protocol = asyncio.StreamReaderProtocol(reader)
        transport: asyncio.Transport | None = None
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            try:
                # asyncio does this where a socket's protocol is named; otherwise a body waits for the head's receipt.
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
                if self._tls is not None:
                    secured = await loop.start_tls(transport, protocol, self._tls, server_side=True)
                    assert secured is not None
                    transport = secured
                writer = asyncio.StreamWriter(
                    transport, protocol, reader, loop
                )  # gone before its transport, it complains
                await self._connection(reader, writer)
            finally:
                if transport is None:
                    connection.close()
                elif stop.is_set():  # TLS would wait for the other side's farewell
                    transport.abort()
                else:
                    transport.close()

    # --- one connection ------------------------------------------------------------------------------------------

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        connection = self.connections
        try:
            while (request := await _read_request(reader, writer, connection)) is not None:
                if not await self._serve_one(reader, writer, self._note(request)):
                    return
        finally:
            self.open_connections -= 1

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request) -> bool:
        """Answer a request; return whether the connection stays open."""
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            while self.max_in_flight < self.held_until:
                await _wait(reader, 0.01)
            return await _send(reader, writer, request, self._answer(request), self.latency)
        finally:
            self.in_flight -= 1

    def _note(self, request: Request) -> Request:
        number = len(self.requests) + 1
        request = Request(
            number, request.connection, request.method, request.target, request.key, request.headers, request.body
        )
        self.requests.append(request)
        return request


class FaultServer(ScriptedServer):
    """An object server at `url`, between `with` and its end, as `ScriptedServer` says."""

    def __init__(
        self,
        values: Mapping[str, bytes] | None = None,
        *,
        script: Script | None = None,
        latency: float = 0.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(script=script, latency=latency, tls=tls)
        self._objects: dict[str, StoredObject] = {}
        self._writes = 0
        for key, data in (values or {}).items():
            self.put(key, data)

    # --- the values ----------------------------------------------------------------------------------------------

    def put(self, key: str, data: bytes, *, etag: str | None = "", content_type: str | None = None) -> None:
        """Store a value without a request; `etag=""` makes a new ETag, and None sends none."""
        with self._lock:
            self._writes += 1
            self._objects[key] = StoredObject(
                bytes(data),
                f'"{self._writes:x}"' if etag == "" else etag,
                time.time(),
                content_type or "application/octet-stream",
            )

    def remove(self, key: str) -> None:
        """Remove a value, if it is there."""
        with self._lock:
            self._objects.pop(key, None)

    def get(self, key: str) -> bytes | None:
        """Return the value stored under `key`."""
        found = self._objects.get(key)
        return None if found is None else found.data

    def keys(self) -> list[str]:
        """Return all keys."""
        return sorted(self._objects)

    # --- the answers -----------------------------------------------------------------------------------------------

    def _answer(self, request: Request) -> Reply:
        script = self.script
        reply = self._judge(request)
        honest_status = reply.status
        if script is not None:
            reply = script(request, reply)
        if honest_status < 300 and (reply.status < 300 if reply.applied is None else reply.applied):
            if request.method == "PUT":
                self.put(request.key, request.body, etag=f'"{self._writes + 1:x}"')
            elif request.method == "DELETE":
                self.remove(request.key)
        return reply

    def _judge(self, request: Request) -> Reply:
        found = self._objects.get(request.key)
        if request.method in ("GET", "HEAD"):
            return honest(request, found)
        if request.method not in ("PUT", "DELETE"):
            return Reply(405, (("Allow", "GET, HEAD, PUT, DELETE"),))
        unless = request.headers.get("if-none-match")
        if not matches(request.headers.get("if-match"), found) or (unless is not None and matches(unless, found)):
            return Reply(412)
        if request.method == "DELETE":
            return Reply(204)
        return Reply(201 if found is None else 200, (("ETag", f'"{self._writes + 1:x}"'),))


MAX_JOINED_BYTES = 1 << 20


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    path = target.partition("?")[0]
    return Request(0, connection, method.upper(), target, unquote(path).removeprefix("/"), headers, body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    while (await reader.readline()).strip():
        pass
    return b"".join(parts)


async def _send(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request, reply: Reply, latency: float
) -> bool:
    """Send `reply`; return whether the connection stays open."""
    await _wait(reader, latency + reply.delay)
    if reply.reset:
        _reset(writer)
        return False
    if reply.raw is not None:
        writer.write(reply.raw)
        await writer.drain()
        if reply.then == "stall":
            await _wait(reader, math.inf)
        return False
    keep = not reply.close and reply.length != -1 and request.headers.get("connection", "").lower() != "close"
    head = _head(reply, keep)
    if request.method == "HEAD" or reply.status in (204, 304):
        writer.write(head)
    else:
        await _send_body(reader, writer, reply, head)
        if reply.stop_after is not None:
            await writer.drain()
            await _give_up(reader, writer, reply.then)
            return False
    await writer.drain()
    return keep and not reply.drop


def _head(reply: Reply, keep: bool) -> bytes:
    try:
        phrase = HTTPStatus(reply.status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = [f"HTTP/1.1 {reply.status} {phrase}", *(f"{name}: {value}" for name, value in reply.headers)]
    if reply.chunked:
        lines.append("Transfer-Encoding: chunked")
    elif reply.status not in (204, 304) and reply.length != -1:
        lines.append(f"Content-Length: {len(reply.body) if reply.length is None else reply.length}")
    if not keep:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _wait(reader: asyncio.StreamReader, seconds: float) -> None:
    """Wait, and end the connection when the client has ended it meanwhile."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        await asyncio.sleep(min(left, 0.01))
        if reader.at_eof() or reader.exception() is not None:  # its end, or a reset
            raise ConnectionResetError("the client has gone")


async def _send_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reply: Reply, head: bytes) -> None:
    """Send the head, and the body in pieces; a short one leaves together with its head, as servers send it."""
    is_whole = not (reply.chunked or reply.piece or reply.pause or reply.flood is not None)
    if is_whole and reply.stop_after is None and len(reply.body) <= MAX_JOINED_BYTES:
        # Not by `writelines`: since Python 3.12 it may leave the connection open when it is closed at once.
        writer.write(head + bytes(reply.body))
        return
    writer.write(head)
    body = memoryview(reply.body)
    if reply.stop_after is not None:
        body = body[: reply.stop_after]
    piece = reply.piece or (1 << 16 if reply.chunked else max(1, len(body)))
    for start in range(0, len(body), piece):
        part = body[start : start + piece]
        writer.write(b"%x\r\n%s\r\n" % (len(part), part) if reply.chunked else part)
        if reply.pause:
            await writer.drain()
            await _wait(reader, reply.pause)
    while reply.flood is not None:
        part = memoryview(bytes(1 << 16))
        writer.write(b"%x\r\n%s\r\n" % (len(part), part) if reply.chunked else part)
        await writer.drain()
        reply.flood.append(len(part))
    if reply.chunked and reply.stop_after is None:
        writer.write(b"0\r\n\r\n")


async def _give_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, then: str) -> None:
    if then == "stall":
        await _wait(reader, math.inf)
    elif then == "reset":
        # Let what was sent arrive: a reset makes the other side forget what it has not read yet.
        await asyncio.sleep(0.02)
        _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    raw = writer.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
