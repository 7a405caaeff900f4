"""The link to a server carries everything, and counts it."""

from __future__ import annotations

import asyncio
from urllib.request import Request, urlopen

from tests.support.leaks import wait_for
from tests.support.servers.http_server import FaultServer
from tests.support.simulated_link import SimulatedLink

DATA = bytes(range(256)) * 2000


def test_it_carries_bytes_as_they_are_and_counts_requests_by_method() -> None:
    with FaultServer({"a": DATA}) as server, SimulatedLink(server.url, latency=0.001, bandwidth=50e6) as link:
        for _ in range(2):
            with urlopen(f"{link.url}/a", timeout=30) as answer:
                assert answer.read() == DATA
        with urlopen(Request(f"{link.url}/b", data=b"GET " * 50_000, method="PUT"), timeout=30):
            pass
        assert server.get("b") == b"GET " * 50_000
        assert link.requests == {"GET": 2, "PUT": 1}
        assert link.count == len(server.requests) == 3
        assert link.bytes_down > 2 * len(DATA)
        assert link.bytes_up > 200_000
        assert link.connections == 3
        assert asyncio.run(wait_for(lambda: link.open_connections == 0))


def test_it_may_end_before_its_clients() -> None:
    with FaultServer({"a": DATA}) as server:
        with SimulatedLink(server.url, latency=60.0) as link:

            async def ask() -> None:
                reader, writer = await asyncio.open_connection("127.0.0.1", int(link.url.rsplit(":", 1)[1]))
                writer.write(b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
                assert await wait_for(lambda: link.open_connections == 1)
                link.__exit__()
                assert await reader.read() == b""
                writer.close()

            asyncio.run(ask())
            link.__enter__()
        assert server.requests == []
