"""The tile service of `examples/tiles` beside the same on zarr-python's async API: `python -m benchmarks.tiles`.

Clients ask both for random tiles of a pyramid behind a server with latency. Some of them leave early.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.figures import add_section, table_section
from benchmarks.server import REPOSITORY, served
from benchmarks.server_status import requests_of
from benchmarks.table import console_of, rows_table

EXAMPLE = REPOSITORY / "examples" / "tiles"
LEVELS = int(os.environ.get("TILES_LEVELS", "4"))
START_SECONDS = 60


def example(name: str) -> Any:
    """Import a module of the example, which is no package."""
    spec = spec_from_file_location(f"tiles_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def zarr_python() -> Any:
    """Return the same service on zarr-python, for uvicorn's `--factory`."""
    import zarr.api.asynchronous
    from fastapi import FastAPI, Response

    png = example("app").png
    app = FastAPI()
    levels: list[Any] = []

    @app.get("/stats")
    async def stats() -> dict[str, int]:
        if not levels:
            group = await zarr.api.asynchronous.open_group(os.environ["TILES_URL"], mode="r")
            levels.extend([await group.getitem(str(level)) for level in range(LEVELS)])
        return {"levels": len(levels)}

    @app.get("/tiles/{z}/{x}/{y}.png")
    async def tile(z: int, x: int, y: int) -> Response:
        values = await levels[z].getitem((slice(y * 256, (y + 1) * 256), slice(x * 256, (x + 1) * 256)))
        return Response(await asyncio.to_thread(png, values), media_type="image/png")

    return app


@contextmanager
def service(application: list[str], folder: Path, url: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "uvicorn", *application, "--port", str(port), "--log-level", "error"],
        cwd=folder,
        env={**os.environ, "TILES_URL": url},
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(START_SECONDS)


async def ask(address: str, clients: int, seconds: float, *, leave: float) -> tuple[float, float, float]:
    """Return answers a second, and the median and 99 % of their seconds.

    Args:
        address: of the service.
        clients: how many ask, each one tile after another.
        seconds: for how long.
        leave: the share of requests whose client leaves after 10 ms.
    """
    tiles = [(z, x, y) for z in range(LEVELS) for x in range(1 << z) for y in range(1 << z)]
    chooser, times = random.Random(7), []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(address, connector=connector) as session:
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                async with session.get("/stats") as answer:
                    answer.raise_for_status()
                    break
            except aiohttp.ClientConnectorError:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.1)

        async def client() -> None:
            while time.monotonic() < until:
                z, x, y = chooser.choice(tiles)
                begun = time.perf_counter()
                leaves = chooser.random() < leave
                limit = aiohttp.ClientTimeout(0.01 if leaves else START_SECONDS)
                try:
                    async with session.get(f"/tiles/{z}/{x}/{y}.png", timeout=limit) as answer:
                        answer.raise_for_status()
                        await answer.read()
                except TimeoutError:
                    continue
                times.append(time.perf_counter() - begun)

        begun = time.monotonic()
        until = begun + seconds
        await asyncio.gather(*[client() for _ in range(clients)])
        elapsed = time.monotonic() - begun
    times.sort()
    return len(times) / elapsed, times[len(times) // 2], times[int(len(times) * 0.99)]


async def run(root: str, clients: int, seconds: float, leaves: list[float], figures_file: Path | None) -> None:
    rows = []
    url = f"{root}/pyramid.zarr"
    services = {
        "aiozarr": (["app:app"], EXAMPLE),
        "zarr-python": (["benchmarks.tiles:zarr_python", "--factory"], REPOSITORY),
    }
    for leave in leaves:
        for name, (application, folder) in services.items():
            with service(application, folder, url) as address:
                before = requests_of(root)
                rate, median, slow = await ask(address, clients, seconds, leave=leave)
                asked = requests_of(root) - before - 1
            figures = [f"{rate:.0f}", f"{median * 1000:.0f}", f"{slow * 1000:.0f}", str(asked)]
            rows.append([name, f"{leave:.0%}", *figures])
    headings = ["service", "leave early", "tiles a second", "median ms", "99 % ms", "requests to the store"]
    console_of().print(rows_table(f"{clients} clients of a tile service", headings, rows))
    add_section(figures_file, "tiles", table_section(headings, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=64, help="how many ask at once (%(default)s)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement (%(default)s)")
    shares = "shares of requests whose client leaves after 10 ms (%(default)s)"
    parser.add_argument("--leave", type=float, nargs="+", default=[0.0, 0.5], help=shares)
    parser.add_argument("--latency", type=float, default=20.0, help="ms to the first byte of each answer (%(default)s)")
    parser.add_argument("--python-server", action="store_true", help="use the server in Python although nginx is there")
    parser.add_argument("--figures", type=Path, help="update the section `tiles` of docs/figures.json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(example("make_store").main(str(Path(folder) / "pyramid.zarr"), LEVELS))
        with served(Path(folder), args.latency / 1000, python=args.python_server) as server:
            asyncio.run(run(server.url, args.clients, args.seconds, args.leave, args.figures))


if __name__ == "__main__":
    main()
