"""The program of the page on running a service, run by uvicorn, and stopped while a request is in flight."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest

from aiozarr import sync
from tests.docs.test_snippets import REPOSITORY, blocks_of
from tests.support.servers.http_server import FaultServer

PAGE = REPOSITORY / "docs" / "how-to" / "run-a-service.md"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FaultServer]:
    root = tmp_path / "weather.zarr"
    sync.create_group(root).create_array("wind", data=np.ones((2, 4, 4), "f4"), chunks=(1, 4, 4))
    files = [path for path in root.rglob("*") if path.is_file()]
    with FaultServer({path.relative_to(root).as_posix(): path.read_bytes() for path in files}) as server:
        yield server


@contextmanager
def service(folder: Path, url: str, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run the blocks of the page above its trial, and yield the process and its address."""
    program = [block for block in blocks_of(PAGE.read_text("utf-8")) if block.language == "python"][:2]
    (folder / "service.py").write_text("\n".join([block.body for block in program]), "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port), *options],
        cwd=folder,
        env={**os.environ, "WEATHER_URL": url},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: is_ready(address))
        yield process, address
    finally:
        process.kill()
        process.wait()


def is_ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/ready").status_code == 200
    except httpx.TransportError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("latency", "options", "outcomes"),
    [(1, (), {200}), (60, ("--timeout-graceful-shutdown", "1"), {500, httpx.RemoteProtocolError})],
    ids=["request ends", "grace period ends"],
)
def test_sigterm_ends_the_service_after_its_requests_or_after_the_grace_period(
    tmp_path: Path, store: FaultServer, latency: float, options: tuple[str, ...], outcomes: set[object]
) -> None:
    found: list[object] = []

    def request() -> None:
        try:
            found.append(httpx.get(f"{address}/wind/1", timeout=60).status_code)
        except httpx.TransportError as error:
            found.append(type(error))

    with service(tmp_path, store.url, *options) as (process, address):
        store.latency = latency
        client = threading.Thread(target=request)
        client.start()
        wait_until(lambda: store.in_flight == 1)
        process.terminate()
        process.wait(30)
        client.join()
    assert found[0] in outcomes
    wait_until(lambda: store.in_flight == 0)
