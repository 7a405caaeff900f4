"""Connections are limited by the files that the process may open."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest

from aiozarr.common.concurrency import open_file_limit
from aiozarr.http1.pool import Pool
from aiozarr.http1.request import RequestTemplate
from aiozarr.http1.response_check import Expectation
from aiozarr.http1.url import Endpoint
from tests.support.servers.http_server import FaultServer


@pytest.fixture
def distant() -> Iterator[FaultServer]:
    """A server whose responses take 20 ms."""
    with FaultServer({"key": b"value"}, latency=0.02) as running:
        yield running


GET = RequestTemplate("host", {}).render("GET", "/key", Expectation())
SCARCE = """
import asyncio, resource, sys
from aiozarr.engine.private_thread import new_loop
from aiozarr.http1.url import Endpoint
from aiozarr.http1.pool import Pool
from aiozarr.http1.request import RequestTemplate
from aiozarr.http1.response_check import Expectation

async def main():
    pool = Pool(asyncio.get_running_loop(), Endpoint(False, "127.0.0.1", int(sys.argv[1])))
    request = RequestTemplate("host", {}).render("GET", "/key", Expectation())
    resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
    answers = await asyncio.gather(*(pool.send(request, Expectation()) for _ in range(100)))
    assert all(bytes(answer.body) == b"value" for answer in answers)
    assert pool.connections < 30
    await pool.aclose()

with asyncio.Runner(loop_factory=new_loop if sys.argv[2] == "new" else asyncio.new_event_loop) as runner:
    runner.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on open files")
@pytest.mark.parametrize("loop", ["new", "asyncio"])
def test_a_process_without_room_for_more_files_reads_over_fewer_connections(distant: FaultServer, loop: str) -> None:
    command = [sys.executable, "-c", SCARCE, str(distant.port), loop]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(distant.requests) == 100


async def test_a_pool_never_opens_more_than_open_files_allow(
    distant: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    assert open_file_limit() == 18
    distant.held_until = 18
    pool = Pool(asyncio.get_running_loop(), Endpoint(False, "127.0.0.1", distant.port))
    await asyncio.gather(*(pool.send(GET, Expectation()) for _ in range(40)))
    assert distant.connections == distant.max_in_flight == 18
    await pool.aclose()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert open_file_limit() == sys.maxsize
