"""The example of a tile service, run by uvicorn in a process of its own and asked by HTTP clients."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.servers.http_server import FaultServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "tiles"
LEVELS = 2

pytestmark = pytest.mark.skipif(not EXAMPLE.is_dir(), reason="there are no examples here")


def module(name: str) -> Any:
    spec = spec_from_file_location(f"tiles_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("tiles") / "pyramid.zarr"
    asyncio.run(module("make_store").main(str(folder), LEVELS))
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextmanager
def service(url: str, **environment: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port), "--log-level", "warning"],
        cwd=EXAMPLE,
        env={**os.environ, "TILES_URL": url, **environment},
    )
    try:
        address = f"http://127.0.0.1:{port}"
        until = time.monotonic() + 60
        while True:
            try:
                httpx.get(f"{address}/stats")
                break
            except httpx.TransportError:
                assert process.poll() is None, "the service has ended"
                assert time.monotonic() < until, "the service does not answer"
                time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def pixels(png: bytes) -> np.ndarray:
    """Decode a PNG of one byte per pixel whose rows have no filter."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, data, shape = 8, b"", (0, 0)
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            shape = struct.unpack(">II", body[:8])[::-1]
        data += body if kind == b"IDAT" else b""
        at += 12 + length
    rows = np.frombuffer(zlib.decompress(data), "u1").reshape(shape[0], shape[1] + 1)
    assert not rows[:, 0].any()
    return rows[:, 1:]


@pytest.mark.parametrize("kind", ["store", "references"])
async def test_64_clients_get_the_tiles_of_the_store_and_chunks_are_read_once(
    values: dict[str, bytes], kind: str
) -> None:
    expected = {z: module("make_store").picture(z) for z in range(LEVELS)}
    with FaultServer(values) as server, ExitStack() as stack:
        refs = {key: [f"{server.url}/{key}", 0, len(data)] for key, data in values.items()}
        server.put("refs.json", json.dumps({"version": 1, "refs": refs}).encode())
        url = server.url if kind == "store" else f"reference::{server.url}/refs.json"
        address = stack.enter_context(service(url))
        async with httpx.AsyncClient(base_url=address, limits=httpx.Limits(max_connections=64), timeout=60) as client:
            assert "<title>Tiles</title>" in (await client.get("/")).text
            tiles = [(z, x, y) for z in range(LEVELS) for x in range(1 << z) for y in range(1 << z)]
            answers = await asyncio.gather(*[client.get(f"/tiles/{z}/{x}/{y}.png") for z, x, y in tiles * 4])
            for (z, x, y), answer in zip(tiles * 4, answers, strict=True):
                assert answer.status_code == 200
                assert answer.headers["content-type"] == "image/png"
                tile = expected[z][y * 256 : (y + 1) * 256, x * 256 : (x + 1) * 256]
                np.testing.assert_array_equal(pixels(answer.content), tile)
            for path in ("/tiles/0/1/0.png", "/tiles/9/0/0.png", "/tiles/-1/0/0.png"):
                assert (await client.get(path)).status_code == 404
            stats = (await client.get("/stats")).json()
    assert stats["tiles"] == len(tiles) * 4
    # Each shard: its index, and its chunks once.
    assert 0 < len([request for request in server.requests if "/c/" in str(request)]) <= LEVELS + len(tiles)


async def test_reads_end_with_their_clients_and_deadlines_and_broken_tiles_are_errors(values: dict[str, bytes]) -> None:
    with FaultServer(values) as server, service(server.url, TILES_DEADLINE="2") as address:
        server.latency = 30
        async with httpx.AsyncClient(base_url=address, timeout=60) as client:
            with pytest.raises(httpx.TimeoutException):
                await client.get("/tiles/1/1/1.png", timeout=0.3)
            for _ in range(3000):
                stats = (await client.get("/stats")).json()
                if stats["cancelled"] and not server.in_flight:
                    break
                await asyncio.sleep(0.02)
            assert stats["cancelled"] == 1
            assert server.in_flight == 0
            assert (await client.get("/tiles/1/1/1.png")).status_code == 504
            assert (await client.get("/stats")).json()["late"] == 1
            server.latency = 0
            for key in values:
                if key.startswith("1/c/"):
                    server.put(key, b"broken")
            answer = await client.get("/tiles/1/1/1.png")
    assert answer.status_code == 502
    assert set(answer.json()) == {"error"}


def test_the_image_installs_the_checkout_and_copies_files_that_exist() -> None:
    text = (EXAMPLE / "Dockerfile").read_text("utf-8")
    copied = [name for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for name in line.split()[:-1]]
    assert "src" in copied
    assert [name for name in copied if not (EXAMPLE.parents[1] / name).exists()] == []
    # The package is on no index.
    assert re.findall(r"\S*aiozarr\S*", re.sub(r"^#.*$", "", text, flags=re.MULTILINE)) == []
