"""The third stage: GETs by the lean lane, from a server on this machine that does not wait."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from aiozarr.engine.private_thread import new_loop
from aiozarr.stores import HTTPStore
from benchmarks.layouts import MIB, said
from benchmarks.server import served
from benchmarks.stages.figures import Figure, least_cpu

TASKS = 64


async def get(url: str, key: str, count: int, tasks: int) -> None:
    """GET a value so many times, a number of tasks at once."""
    async with HTTPStore(url) as store:

        async def work(share: int) -> None:
            for _ in range(share):
                value = await store.fetch(key)
                assert value is not None

        await asyncio.gather(*[work(count // tasks) for _ in range(tasks)])


def run(url: str, key: str, count: int, tasks: int) -> None:
    """The same on the kind of loop that the engine has."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(get(url, key, count, tasks))


def figures(count: int, large: int, runs: int, *, python: bool = False) -> list[Figure]:
    """Return the CPU cost of small GETs, and of a byte of `large` ones; connecting is part of both."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "small").write_bytes(bytes(1024))
        Path(folder, "large").write_bytes(bytes(large))
        with served(Path(folder), 0.0, python=python) as server:
            tasks = min(TASKS, count)
            small = least_cpu(lambda: run(server.url, "small", count, tasks), runs) / (count // tasks * tasks)
            bodies = max(4, count // 100)
            body = least_cpu(lambda: run(server.url, "large", bodies, 4), runs) / (bodies // 4 * 4)
        name = server.name.split(",")[0]
    return [
        Figure("transport", f"a GET of 1 KiB, {name}", small * 1e6, "µs CPU"),
        Figure("transport", f"GETs of {said(large)}", large / MIB / body, "MiB per CPU s"),
    ]
