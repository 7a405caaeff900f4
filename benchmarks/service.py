"""A service: many readers in one process, each of which awaits random windows of two arrays.

`make bench BENCH="--scenarios service"` runs it beside the peers. One measurement alone, as JSON:

python -m benchmarks.service '{"peer": "aiozarr", "root": "http://127.0.0.1:9801/bucket", "names": ["a.zarr"]}'

With `--curve` before the JSON, the same from 1 to 1,024 readers; with `--mixes`, under other loads. With `--objects`,
the objects that the garbage collector tracks, per window in flight. Each prints a table.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.meter import peak, watched
from benchmarks.peers import Opened, split

if TYPE_CHECKING:
    from rich.table import Table

READERS = 64
WINDOW = 128
SECONDS = 4.0
WARM_UP_SECONDS = 1.5
CACHE_BYTES = 256 << 20
TASK_SECONDS = 120


@dataclass(frozen=True)
class ServiceTask:
    """An order to serve windows.

    Attributes:
        peer: who reads.
        root: the URL of the folder of the arrays.
        names: the arrays, or the URLs of arrays elsewhere; a window is of each in turn.
        readers: how many windows are awaited at once.
        window: edge of a window in elements, along the last two axes.
        seconds: of the measurement, after the warm-up.
        rate: windows begun a second in all; 0: each reader begins the next at once.
        cache_bytes: of decoded chunks; 0: none are cached.
        hot_share: windows within the hot corner, a quarter of each axis.
        leave_share: windows that are cancelled after 5 ms.
    """

    peer: str
    root: str
    names: Sequence[str]
    readers: int = READERS
    window: int = WINDOW
    seconds: float = SECONDS
    rate: float = 0.0
    cache_bytes: int = 0
    hot_share: float = 0.8
    leave_share: float = 0.0


@dataclass(frozen=True)
class ServiceOutcome:
    """One measurement of a service.

    Attributes:
        rate: windows a second.
        latency_p50, latency_p99: seconds from the beginning of a window to its end.
        lag_p99, lag_max: of the caller's loop, in seconds.
        cpu: CPU seconds per window, of all threads.
        threads: CPU seconds per window of the caller's thread, the I/O thread and all others.
        slowest_share: windows of the reader with the fewest, as a share of the mean.
        memory: peak resident bytes of the process.
    """

    rate: float
    latency_p50: float
    latency_p99: float
    lag_p99: float
    lag_max: float
    cpu: float
    threads: dict[str, float]
    slowest_share: float
    memory: int


@dataclass
class _Served:
    """What the readers have counted since the warm-up."""

    counts: list[int]
    latencies: list[float] = field(default_factory=list)


async def open_arrays(task: ServiceTask) -> list[Opened]:
    """Open the arrays of `task`, with a cache of decoded chunks where one is wanted.

    Raises:
        ValueError: the peer has no such cache.
    """
    name, requests = split(task.peer)
    urls = [each if "://" in each else f"{task.root}/{each}" for each in task.names]
    if name == "aiozarr":
        module = import_module("aiozarr")
        settings = module.Settings(
            chunk_cache_bytes=task.cache_bytes, **({} if requests is None else {"max_requests": requests})
        )
        opened = [await module.open_array(url, settings=settings) for url in urls]
        return [Opened(each.shape, _reader(each), each[...].write) for each in opened]
    if name == "tensorstore":
        module = import_module("tensorstore")
        context: dict[str, Any] = {"cache_pool": {"total_bytes_limit": task.cache_bytes}}
        if requests is not None:
            context["http_request_concurrency"] = {"limit": requests}
        shared = module.Context(context)
        specs = [
            {
                "driver": "zarr3",
                "kvstore": {"driver": "http", "base_url": f"{url}/"},
                "recheck_cached_data": False,
                "recheck_cached_metadata": False,
            }
            for url in urls
        ]
        opened = [await module.open(spec, open=True, context=shared) for spec in specs]
        return [Opened(tuple(each.shape), _reader(each), each.write) for each in opened]
    if task.cache_bytes:
        raise ValueError(f"{name} caches no decoded chunks")
    from benchmarks.peers import Place
    from benchmarks.peers import opened as open_one

    root, _, bucket = task.root.rpartition("/")
    assert bucket == "bucket"
    return [await open_one(task.peer, Place("http", root, each, 3)) for each in task.names]


def _reader(array: Any) -> Callable[[tuple[slice, ...]], Any]:
    async def read(selection: tuple[slice, ...]) -> Any:
        return await array[selection].read()

    return read


def windows(shape: tuple[int, ...], task: ServiceTask, random: np.random.Generator) -> tuple[slice, ...]:
    """Return the next window: one element along the first axes, `task.window` along the last two."""
    hot = random.random() < task.hot_share
    selection = []
    for axis, length in enumerate(shape):
        size = min(task.window, length) if axis >= len(shape) - 2 else 1
        room = max(1, (length // 4 if hot else length) - size + 1)
        first = int(random.integers(0, room))
        selection.append(slice(first, first + size))
    return tuple(selection)


async def serve(task: ServiceTask) -> ServiceOutcome:
    """Measure one service."""
    arrays = await open_arrays(task)
    served = _Served([0] * task.readers)
    measuring = False
    ends = time.perf_counter() + WARM_UP_SECONDS + task.seconds
    interval = task.readers / task.rate if task.rate else 0.0

    async def reader(number: int) -> None:
        random = np.random.default_rng(number)
        due = time.perf_counter() + interval * random.random()
        turn = number
        while (begun := time.perf_counter()) < ends:
            if interval:
                if due > begun:
                    await asyncio.sleep(due - begun)
                begun, due = max(due, begun), max(due, begun) + interval
            array = arrays[turn % len(arrays)]
            turn += 1
            selection = windows(array.shape, task, random)
            if random.random() < task.leave_share:
                await _leave(array, selection)
                continue
            block = await array.read(selection)
            assert block.size
            if measuring:
                served.counts[number] += 1
                served.latencies.append(time.perf_counter() - begun)

    tasks = [asyncio.create_task(reader(number)) for number in range(task.readers)]
    await asyncio.sleep(WARM_UP_SECONDS)
    gc.collect()
    async with watched() as lag:
        threads, cpu, began, measuring = thread_seconds(), time.process_time(), time.perf_counter(), True
        await asyncio.sleep(max(0.0, ends - time.perf_counter()))
        seconds, cpu, measuring = time.perf_counter() - began, time.process_time() - cpu, False
        threads = {name: spent - threads.get(name, 0.0) for name, spent in thread_seconds().items()}
    await asyncio.gather(*tasks)
    count = max(1, sum(served.counts))
    ordered = sorted(served.latencies) or [0.0]
    return ServiceOutcome(
        rate=count / seconds,
        latency_p50=ordered[len(ordered) // 2],
        latency_p99=ordered[int(len(ordered) * 0.99)],
        lag_p99=lag.at(0.99),
        lag_max=lag.at(1.0),
        cpu=cpu / count,
        threads={name: spent / count for name, spent in threads.items()},
        slowest_share=min(served.counts) * task.readers / count,
        memory=peak(),
    )


async def _leave(array: Opened, selection: tuple[slice, ...]) -> None:
    read = asyncio.ensure_future(array.read(selection))
    await asyncio.wait([read], timeout=0.005)
    read.cancel()
    await asyncio.gather(read, return_exceptions=True)


async def count_objects(task: ServiceTask, samples: int = 8) -> dict[str, float]:
    """Return how many objects of each type the garbage collector tracks per window in flight, most first.

    Objects of the readers themselves count too: about 12 per window.
    """
    arrays = await open_arrays(task)
    tracked: Counter[str] = Counter()
    is_measuring = True

    async def reader(number: int) -> None:
        random = np.random.default_rng(number)
        while is_measuring:
            array = arrays[number % len(arrays)]
            await array.read(windows(array.shape, task, random))
            number += 1

    readers = [asyncio.create_task(reader(number)) for number in range(task.readers)]
    await asyncio.sleep(WARM_UP_SECONDS)
    gc.disable()
    for _ in range(samples):
        await asyncio.sleep(0.037)
        tracked.update(_tracked_types())
    is_measuring = False
    await asyncio.gather(*readers)
    readers.clear()
    gc.enable()
    await asyncio.sleep(WARM_UP_SECONDS)
    idle = Counter(_tracked_types())
    found = {name: (count / samples - idle[name]) / task.readers for name, count in tracked.items()}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _tracked_types() -> Iterator[str]:
    gc.collect()  # the collector ceases to track tuples of numbers
    return (f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects())


def thread_seconds() -> dict[str, float]:
    """Return the CPU seconds of the calling thread, of the I/O thread, and of all others; empty without /proc."""
    found: dict[str, float] = {}
    caller = threading.get_native_id()
    others = {thread.native_id: thread.name for thread in threading.enumerate()}
    for each in Path("/proc/self/task").glob("*"):
        number = int(each.name)
        name = "caller" if number == caller else "I/O" if others.get(number) == "aiozarr-io" else "others"
        try:
            spent = int((each / "schedstat").read_text("ascii").split()[0]) / 1e9
        except OSError:
            continue
        found[name] = found.get(name, 0.0) + spent
    return found


LOADS: Mapping[str, dict[str, float]] = {
    "full load": {},
    "full load, 256 MiB of decoded chunks cached": {"cache_bytes": CACHE_BYTES},
    "200 windows a second": {"rate": 200.0},
}
"""The loads of the comparison, by title, each with what it changes in a task."""


CURVE = (1, 4, 16, 64, 256, 1024)
"""Readers of the curve."""

MIXES: Mapping[str, dict[str, float]] = {
    "as it is": {},
    "windows of 32": {"window": 32},
    "windows of 512": {"window": 512},
    "all hot": {"hot_share": 1.0},
    "none hot": {"hot_share": 0.0},
    "a third leaves": {"leave_share": 0.33},
    "cached, a third leaves": {"cache_bytes": CACHE_BYTES, "leave_share": 0.33},
}
"""Other loads, by title, each with what it changes in a task."""


def measured(python: str, task: Mapping[str, Any]) -> ServiceOutcome | str:
    """Return the outcome of `task` in a fresh process of `python`, or the last line of its error."""
    done = subprocess.run(
        [python, "-m", "benchmarks.service", json.dumps(task)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=TASK_SECONDS,
        check=False,
    )
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return ServiceOutcome(**json.loads(done.stdout.splitlines()[-1]))


def compare_services(
    peers: Sequence[str], pythons: Mapping[str, str], root: str, names: Sequence[str], rounds: int
) -> Iterator[tuple[str, dict[str, list[ServiceOutcome] | str]]]:
    """Measure everyone in turn under each load, in fresh processes; yield the outcomes of one load at a time."""
    for title, changes in LOADS.items():
        outcomes: dict[str, list[ServiceOutcome] | str] = {peer: [] for peer in peers}
        for number in range(rounds):
            for peer in peers if number % 2 == 0 else peers[::-1]:
                found = outcomes[peer]
                if isinstance(found, str):
                    continue
                python = pythons["aiozarr" if split(peer)[0] == "aiozarr" else "peers"]
                outcome = measured(python, {"peer": peer, "root": root, "names": list(names), **changes})
                if isinstance(outcome, str):
                    outcomes[peer] = outcome
                else:
                    found.append(outcome)
        yield title, outcomes


def service_table(title: str, outcomes: dict[str, list[ServiceOutcome] | str]) -> Table:
    """Return the table of one load: a line for each peer, medians of the rounds."""
    from benchmarks.table import rows_table

    headings = (
        "peer", "windows/s", "p50 ms", "p99 ms", "lag p99", "worst", "CPU ms", "caller", "I/O", "slowest", "MiB",
    )  # fmt: skip
    table = rows_table(title, headings, [])
    for peer, found in outcomes.items():
        if isinstance(found, str):
            table.add_row(peer, f"– {found}"[:60])
            continue

        def median(pick: Callable[[ServiceOutcome], float], found: list[ServiceOutcome] = found) -> float:
            return statistics.median([pick(each) for each in found])

        table.add_row(
            peer,
            f"{median(lambda each: each.rate):.0f}",
            f"{median(lambda each: each.latency_p50) * 1000:.0f}",
            f"{median(lambda each: each.latency_p99) * 1000:.0f}",
            f"{median(lambda each: each.lag_p99) * 1000:.1f}",
            f"{median(lambda each: each.lag_max) * 1000:.0f}",
            f"{median(lambda each: each.cpu) * 1000:.2f}",
            f"{median(lambda each: each.threads.get('caller', 0.0)) * 1000:.2f}",
            f"{median(lambda each: each.threads.get('I/O', 0.0)) * 1000:.2f}",
            f"{median(lambda each: each.slowest_share):.2f}",
            f"{median(lambda each: each.memory / (1 << 20)):.0f}",
        )
    return table


def print_table(title: str, task: Mapping[str, Any], rows: Mapping[str, Mapping[str, float]]) -> None:
    """Measure `task` with the changes of each row, and print the table."""
    from rich import print as show

    found = {name: measured(sys.executable, {**task, **changes}) for name, changes in rows.items()}
    show(service_table(title, {name: each if isinstance(each, str) else [each] for name, each in found.items()}))


def print_objects(found: Mapping[str, float]) -> None:
    """Print the sum and the most frequent types."""
    from rich import print as show

    from benchmarks.table import rows_table

    rows = [
        ("all", f"{sum(found.values()):.1f}"),
        *((name, f"{count:.1f}") for name, count in islice(found.items(), 25)),
    ]
    show(rows_table("tracked objects per window in flight", ("type", "objects"), rows))


def main() -> None:
    *options, text = sys.argv[1:]
    fields: dict[str, Any] = json.loads(text)
    if options == ["--curve"]:
        print_table("readers", fields, {str(readers): {"readers": readers} for readers in CURVE})
        return
    if options == ["--mixes"]:
        print_table("mixes", fields, MIXES)
        return
    if options == ["--objects"]:
        print_objects(asyncio.run(count_objects(ServiceTask(**fields))))
        return
    print(json.dumps(asdict(asyncio.run(serve(ServiceTask(**fields))))), flush=True)


if __name__ == "__main__":
    main()
