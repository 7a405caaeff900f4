"""What reads cost over a server of given latency: seconds, CPU, requests, and the lag of the caller's loop."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import aiozarr

MIB = 1 << 20
Scenario = Callable[[str], Awaitable[int]]


@dataclass(frozen=True)
class Round:
    """One measured read; `lag` is the worst delay, in seconds, of a timer on the caller's loop."""

    seconds: float
    cpu: float
    requests: int
    nbytes: int
    lag: float


async def medium(url: str) -> int:
    """All of 128 chunks of 1 MiB."""
    return await _whole(url, "medium")


async def small(url: str) -> int:
    """All of 2,048 chunks of 32 KiB."""
    return await _whole(url, "small")


async def plane(url: str) -> int:
    """A plane across the inner chunks of two shards."""
    array = await aiozarr.open_array(url, "sharded")
    return int((await array[:, 100, :]).nbytes)


async def points(url: str) -> int:
    """500 concurrent reads of one element each."""
    array = await aiozarr.open_array(url, "small")
    values = await asyncio.gather(*[array[(37 * i) % 2048, i].read() for i in range(500)])
    return sum(value.nbytes for value in values)


async def _whole(url: str, name: str) -> int:
    return int((await (await aiozarr.open_array(url, name))[...]).nbytes)


SCENARIOS: dict[str, Scenario] = {function.__name__: function for function in (medium, small, plane, points)}


async def _watch(lags: list[float]) -> None:
    while True:
        start = time.perf_counter()
        await asyncio.sleep(0.001)
        lags.append(time.perf_counter() - start - 0.001)


async def measure(scenario: Scenario, url: str) -> Round:
    lags = [0.0]
    watch = asyncio.create_task(_watch(lags))
    start, cpu = time.perf_counter(), time.process_time()
    with aiozarr.record() as report:
        nbytes = await scenario(url)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    watch.cancel()
    return Round(seconds, cpu, report.requests, nbytes, max(lags))


@contextmanager
def server(latency: float) -> Iterator[str]:
    script = Path(__file__).with_name("serve.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(latency)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        assert process.stdin is not None
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError("the server did not start")
        try:
            yield url
        finally:
            process.stdin.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", choices=SCENARIOS, action="append", help="repeatable (default: all)")
    parser.add_argument("--latency", type=float, default=10, help="ms before each answer (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    table = Table("scenario", title=f"reads over HTTP, {options.latency:g} ms before each answer")
    for heading in ("requests", "MiB", "seconds", "CPU s", "MiB/s", "worst lag, ms"):
        table.add_column(heading, justify="right")
    with server(options.latency) as url:
        for name in options.scenario or SCENARIOS:
            rounds = [asyncio.run(measure(SCENARIOS[name], url)) for _ in range(options.rounds)]
            seconds = statistics.median(r.seconds for r in rounds)
            table.add_row(
                name,
                f"{rounds[0].requests:,}",
                f"{rounds[0].nbytes / MIB:,.1f}",
                f"{seconds:.3f}",
                f"{statistics.median(r.cpu for r in rounds):.3f}",
                f"{rounds[0].nbytes / MIB / seconds:,.0f}",
                f"{max(r.lag for r in rounds) * 1000:.1f}",
            )
    Console().print(table)


if __name__ == "__main__":
    main()
