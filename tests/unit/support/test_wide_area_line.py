"""The line to a server carries everything, and counts it."""

from __future__ import annotations

import asyncio
from urllib.request import Request, urlopen

from aftermath import wait_for
from wide_area import WideArea

from aiozarr.testing.http_server import FaultServer

DATA = bytes(range(256)) * 2000


def test_it_carries_bytes_as_they_are_and_counts_requests_by_method() -> None:
    with FaultServer({"a": DATA}) as server, WideArea(server.url, latency=0.001, bandwidth=50e6) as line:
        for _ in range(2):
            with urlopen(f"{line.url}/a", timeout=30) as answer:
                assert answer.read() == DATA
        with urlopen(Request(f"{line.url}/b", data=b"GET " * 50_000, method="PUT"), timeout=30):
            pass
        assert server.get("b") == b"GET " * 50_000
        assert line.requests == {"GET": 2, "PUT": 1}
        assert line.count == len(server.requests) == 3
        assert line.bytes_down > 2 * len(DATA)
        assert line.bytes_up > 200_000
        assert line.connections == 3
        assert asyncio.run(wait_for(lambda: line.open_connections == 0))


def test_it_may_end_before_its_clients() -> None:
    with FaultServer({"a": DATA}) as server:
        with WideArea(server.url, latency=60.0) as line:

            async def ask() -> None:
                reader, writer = await asyncio.open_connection("127.0.0.1", int(line.url.rsplit(":", 1)[1]))
                writer.write(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
                assert await wait_for(lambda: line.open_connections == 1)
                line.__exit__()
                assert await reader.read() == b""
                writer.close()

            asyncio.run(ask())
            line.__enter__()
        assert server.requests == []
