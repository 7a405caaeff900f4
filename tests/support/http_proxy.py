"""A small forward proxy for tests, in a thread of its own: absolute requests and CONNECT, and a password."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Proxy:
    """A running proxy.

    Attributes:
        password: the value of the Proxy-Authorization header that it requires, or None.
        heads: the heads of all requests that came in, in order; those inside tunnels it does not see.
    """

    password: str | None = None
    heads: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, ready: threading.Event, stop: asyncio.Event) -> None:
        """Listen until `stop`."""
        work: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._client(reader, writer))
            work.add(task)
            task.add_done_callback(work.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._forward(reader, writer)
        finally:
            writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.heads.append(head)
        if self.password is not None and f"proxy-authorization: {self.password}".lower() not in head.lower():
            writer.write(
                b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            await writer.drain()
            return
        method, target, _ = head.split(" ", 2)
        place = urlsplit(f"//{target}" if method == "CONNECT" else target)
        origin_reader, origin_writer = await asyncio.open_connection(place.hostname, place.port)
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:  # one request for each connection, and without what was meant for the proxy
                lines = head.replace(f"{place.scheme}://{place.netloc}", "", 1).split("\r\n")
                kept = [line for line in lines[:-2] if not line.lower().startswith(("proxy-", "connection:"))]
                origin_writer.write("\r\n".join([*kept, "Connection: close", "", ""]).encode("latin-1"))
            await asyncio.gather(_pump(reader, origin_writer), _pump(origin_reader, writer))
        finally:
            origin_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    with suppress(OSError, NotImplementedError):
        writer.write_eof() if writer.can_write_eof() else writer.close()


@contextmanager
def proxy(password: str | None = None) -> Iterator[Proxy]:
    """Run a proxy until the end of the block."""
    running, ready, stops = Proxy(password), threading.Event(), []

    async def main() -> None:
        stop = asyncio.Event()
        stops.append((asyncio.get_running_loop(), stop))
        await running.serve(ready, stop)

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="proxy", daemon=True)
    thread.start()
    ready.wait()
    try:
        yield running
    finally:
        loop, stop = stops[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join()
