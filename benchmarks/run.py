"""One scenario with one peer, in a process of its own: prints one line of JSON.

`benchmarks.compare` starts it, in the environment of the peer: `python -m benchmarks.run TASK`, a `Task` as JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.layouts import Layout, whole
from benchmarks.meter import Lag, peak, reset_peak, resident, timed, watched
from benchmarks.peers import Opened, Place, opened
from benchmarks.scenarios import What, Where, selections
from benchmarks.server_status import requests_of


@dataclass(frozen=True)
class Task:
    """An order to measure `repeats` times `what`, of the array `name` below `root`, which has `layout`."""

    peer: str
    what: What
    where: Where
    root: str
    name: str
    layout: dict[str, Any]
    repeats: int


@dataclass(frozen=True)
class Outcome:
    """One measurement of an operation.

    Attributes:
        first: seconds of the first read in the process, with all that is opened and learnt then.
        seconds: median over all.
        cpu: CPU seconds, median.
        memory: peak above what the process had before and above the output, in bytes.
        lag_p99, lag_max: of the caller's loop, in seconds, over all repeats.
        requests: to the server, in the first read; None where there is no server.
        digest: of all that was read.
    """

    first: float
    seconds: float
    cpu: float
    memory: int
    lag_p99: float
    lag_max: float
    requests: int | None
    digest: str


async def run(task: Task) -> Outcome:
    """Measure."""
    place = Place(task.where, task.root, task.name, task.layout["zarr_format"], task.what == "write")
    array = await opened(task.peer, place)
    written = whole(Layout(**task.layout)) if task.what == "write" else None
    costs, lags, requests, digest, nbytes = [], Lag(), None, "", 0
    await asyncio.sleep(0.05)
    reset_peak()
    before = resident()
    for _ in range(task.repeats):
        counted = None if task.where == "local" else requests_of(task.root)
        result: list[Any] = []
        async with watched() as lag:
            with timed() as cost:
                result = await _operate(array, task.what, written)
        costs.append(cost)
        lags.ticks += lag.ticks
        if counted is not None and requests is None:
            requests = requests_of(task.root) - counted - 1  # less the question itself
        nbytes = sum([each.nbytes for each in result])
        digest = digest or digest_of(result)
    highest = peak()
    return Outcome(
        first=costs[0].seconds,
        seconds=statistics.median([cost.seconds for cost in costs]),
        cpu=statistics.median([cost.cpu for cost in costs]),
        memory=max(0, highest - before - nbytes),
        lag_p99=lags.at(0.99),
        lag_max=lags.at(1.0),
        requests=requests,
        digest=digest,
    )


async def _operate(array: Opened, what: What, written: Any) -> list[Any]:
    if what == "write":
        await array.write(written)
        return []
    return list(await asyncio.gather(*[array.read(each) for each in selections(what, array.shape)]))


def digest_of(results: list[Any]) -> str:
    """Return a digest of all values, bit for bit."""
    found = hashlib.blake2b(digest_size=8)
    for each in results:
        found.update(np.ascontiguousarray(each).data)
    return found.hexdigest()


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    outcome = asyncio.run(run(task))
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(asdict(outcome)), flush=True)


def command(python: str | Path, task: Task) -> list[str]:
    """Return the command that measures `task` in the environment of `python`."""
    return [str(python), "-m", "benchmarks.run", json.dumps(asdict(task))]


if __name__ == "__main__":
    main()
