"""CPU time of one small GET by the lean lane, `await store.fetch(key)` and all, on asyncio and on uvloop.

    python benchmarks/lane.py http://127.0.0.1:8080/bucket/key

The URL names a small value on a server that answers faster than Python asks, such as nginx on the same machine. CPU
time of this process is counted, so other load matters less than it would for seconds; the smallest of many rounds is
the cost without interruptions, the median is what a busy machine gives.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable

import uvloop

from aiozarr.model import Range
from aiozarr.stores import from_url

ROUNDS = 30
REQUESTS = 3200


async def measure(url: str, tasks: int, part: bool, store_url: str | None) -> list[float]:
    """Return microseconds of CPU time per GET, one figure per round, with `tasks` requests at a time."""
    base, _, key = url.rpartition("/")
    byte_range = Range(0, 1024) if part else None
    if store_url is None:
        store = from_url(base)
    else:
        scheme, _, rest = base.partition("://")
        host, _, path = rest.partition("/")
        store = from_url(f"s3://{path}", endpoint_url=f"{scheme}://{host}", key="k", secret="s", region="us-east-1")

    async def work(count: int) -> None:
        for _ in range(count):
            await store.fetch(key, byte_range)

    figures = []
    async with store:
        await work(100)
        for _ in range(ROUNDS):
            begin = time.process_time()
            await asyncio.gather(*(work(REQUESTS // tasks) for _ in range(tasks)))
            figures.append((time.process_time() - begin) / REQUESTS * 1e6)
    return figures


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("url", help="a small value on an HTTP server that is fast")
    url = parser.parse_args().url
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
        "asyncio": asyncio.new_event_loop,
        "uvloop": uvloop.new_event_loop,
    }
    print("loop      store   request      at once   least   median   (µs of CPU per GET)")
    for name, factory in loops.items():
        for store in (None, "s3"):
            for part in (False, True):
                for tasks in (1, 64):
                    with asyncio.Runner(loop_factory=factory) as runner:
                        found = runner.run(measure(url, tasks, part, store))
                    kind = "range" if part else "whole value"
                    print(
                        f"{name:9} {store or 'http':7} {kind:12} {tasks:7} {min(found):7.1f} "
                        f"{statistics.median(found):8.1f}"
                    )


if __name__ == "__main__":
    main()
