"""A TCP proxy that simulates a network link to any server: latency each way, bandwidth, and counts.

It runs in a thread of its own and knows nothing of what it carries. Tests ask it how many connections there were, and
how many requests passed; they never ask how long anything took.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

_PIECE = 64 << 10
_METHODS = (b"GET ", b"PUT ", b"POST ", b"HEAD ", b"DELETE ")


@dataclass
class SimulatedLink:
    """A link to the server at `target` (an `http://` URL), between `with` and its end.

    Attributes:
        latency: seconds that each piece is under way, in either direction.
        bandwidth: bytes per second of each connection and direction, or None without a limit.
        connections, open_connections: how many connections there were so far, and how many are open now.
        requests: how many HTTP requests began, by their method.
        bytes_up, bytes_down: bytes carried to the server, and from it.
        in_flight, max_in_flight: connections that wait for the first byte of an answer now, and the most there were.
    """

    target: str
    latency: float = 0.01
    bandwidth: float | None = None
    connections: int = 0
    open_connections: int = 0
    requests: dict[str, int] = field(default_factory=dict)
    bytes_up: int = 0
    bytes_down: int = 0
    in_flight: int = 0
    max_in_flight: int = 0

    @property
    def url(self) -> str:
        """The URL of the server, seen from over here."""
        parts = urlsplit(self.target)
        return parts._replace(netloc=f"127.0.0.1:{self._port}").geturl()

    @property
    def count(self) -> int:
        """How many requests there were."""
        return sum(self.requests.values())

    def reset(self) -> None:
        """Forget the requests and bytes so far."""
        self.requests.clear()
        self.bytes_up = self.bytes_down = 0
        self.max_in_flight = self.in_flight

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), name="wide area", daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        at_work: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            at_work.add(task)
            try:
                await self._connection(reader, writer)
            except (ConnectionError, asyncio.CancelledError):
                pass
            finally:
                at_work.discard(task)
                writer.close()

        server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1024)
        self._port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stop.wait()
        server.close()
        for task in at_work:
            task.cancel()
        if at_work:
            await asyncio.wait(at_work)

    # --- one connection ------------------------------------------------------------------------------------------

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(self.target)
        to_server = await asyncio.open_connection(parts.hostname, parts.port)
        self.connections += 1
        self.open_connections += 1
        line = _RequestCounter(self)
        try:
            ways = [
                asyncio.create_task(self._around(reader, to_server[1], line.up)),
                asyncio.create_task(self._around(to_server[0], writer, line.down)),
            ]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        finally:
            line.ended()
            for end in (writer, to_server[1]):
                end.close()
            await asyncio.gather(writer.wait_closed(), to_server[1].wait_closed(), return_exceptions=True)
            self.open_connections -= 1

    async def _around(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, passes: Callable[[bytes], None]
    ) -> None:
        """Carry pieces one way, each `latency` after it came; many are under way at a time."""
        loop = asyncio.get_running_loop()
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(256)

        async def receive() -> None:
            free = 0.0
            while piece := await reader.read(_PIECE):
                free = max(free, loop.time()) + (len(piece) / self.bandwidth if self.bandwidth else 0.0)
                await under_way.put((free + self.latency, piece))
            await under_way.put((loop.time() + self.latency, b""))

        receiving = asyncio.create_task(receive())
        try:
            while True:
                due, piece = await under_way.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not piece:
                    return
                passes(piece)
                writer.write(piece)
                await writer.drain()
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)


class _RequestCounter:
    """Counts the requests of a connection: one begins with the first piece sent after a response, or at the start."""

    def __init__(self, area: SimulatedLink) -> None:
        self._area = area
        self._asking = False

    def up(self, piece: bytes) -> None:
        """Look at a piece on its way to the server."""
        self._area.bytes_up += len(piece)
        if not self._asking and piece.startswith(_METHODS):
            method = piece[: piece.index(b" ")].decode()
            self._area.requests[method] = self._area.requests.get(method, 0) + 1
            self._asking = True
            self._area.in_flight += 1
            self._area.max_in_flight = max(self._area.max_in_flight, self._area.in_flight)

    def down(self, piece: bytes) -> None:
        """Look at a piece on its way back."""
        self._area.bytes_down += len(piece)
        self.ended()

    def ended(self) -> None:
        """The request is being answered, or never will be."""
        self._area.in_flight -= self._asking
        self._asking = False
