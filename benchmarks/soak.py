"""Readers, writers and copies for hours, with faults: `python -m benchmarks.soak --minutes 480`.

Values say where they are and which write they are of, so a wrong one is found by whoever reads it. Memory, descriptors,
threads and tasks must not grow after the first sixth of the time. The exit status is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import aiozarr
from aiozarr.errors import AiozarrError
from aiozarr.stores import LocalStore, MemoryStore, ObjectStore, Store
from benchmarks.layouts import MIB
from benchmarks.meter import resident
from benchmarks.table import console_of, rows_table
from tests.support.leaks import unfinished_on_io_thread
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer
from tests.support.small_tree import copy_objects

ROWS, COLUMNS = 40, 256
CELLS = ROWS * COLUMNS
SHARD_ROWS = 4
"""Rows of one shard, each of another writer: so each write is a compare-and-swap against three others."""
SETTINGS = aiozarr.Settings(chunk_cache_bytes=1 << 20, chunk_cache_seconds=0.001)
SAMPLE_SECONDS = 0.5
ALLOWED_GROWTH = {"memory, MiB": 24.0, "descriptors": 24.0, "threads": 4.0, "tasks": 64.0}
"""Growth of the lowest sample from the first half, without the first sixth, to the second half."""


@dataclass
class Soak:
    """The shared state of all tasks.

    Attributes:
        counts: what was done, and which errors faults have led to.
        wrong: descriptions of wrong values; the first hundred.
    """

    chance: random.Random
    fault_share: float
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def spoil(self, server: FaultServer) -> spoil.Script:
        """Return the script of a server that spoils a share of all answers, and forgets its requests."""
        kinds = [
            spoil.status(503), spoil.status(500), spoil.status(429, Retry_After="0"), spoil.reset, spoil.applied(500),
            spoil.truncated(10), spoil.reset_in_body(10), spoil.delayed(0.2), spoil.dropping,
        ]  # fmt: skip

        def script(request: Request, reply: Reply) -> Reply:
            if len(server.requests) > 1000:
                server.requests.clear()
            if self.chance.random() >= self.fault_share:
                return reply
            self.counts["faults"] += 1
            return self.chance.choice(kinds)(reply)

        return script

    def note_wrong(self, text: str) -> None:
        """Keep the description of a wrong value."""
        self.counts["wrong values"] += 1
        if len(self.wrong) < 100:
            self.wrong.append(text)

    async def forever(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do something again and again, and count it. Errors are counted by their types."""
        while True:
            try:
                await work()
                self.counts[name] += 1
            except AiozarrError as error:
                self.counts[f"{name}: {type(error).__name__}"] += 1
            await asyncio.sleep(0)


class Table:
    """An array whose row `r` is written by one task: all its cells hold the number of the latest write."""

    def __init__(self, name: str, soak: Soak, target: Store) -> None:
        self.name = name
        self.target = target
        self._soak = soak
        self._begun = np.zeros(ROWS, "i8")
        self._done = np.zeros(ROWS, "i8")

    async def create(self) -> None:
        """Create the array. All cells are of the write 0."""
        values = np.arange(CELLS).reshape(ROWS, COLUMNS)
        shards, chunks = (SHARD_ROWS, COLUMNS), (1, COLUMNS // 4)
        # The server of faults cannot list, which a creation needs.
        source = MemoryStore()
        await aiozarr.create_array(source, data=values, chunks=chunks, shards=shards)
        await copy_objects(source, self.target)

    async def write(self, rows: Sequence[int]) -> None:
        """Write one of the rows."""
        row = self._soak.chance.choice(rows)
        self._begun[row] += 1
        number = int(self._begun[row])
        values = number * CELLS + row * COLUMNS + np.arange(COLUMNS)
        array = await aiozarr.open_array(self.target, mode="r+", settings=SETTINGS)
        await array[row].write(values)
        self._done[row] = number

    async def read(self) -> None:
        """Read some cells, and check whose they are, and of which write."""
        chance = self._soak.chance
        first, start = chance.randrange(ROWS), chance.randrange(COLUMNS)
        rows, columns = slice(first, first + chance.randint(1, 8)), slice(start, start + chance.randint(1, COLUMNS))
        done = self._done[rows].copy()
        array = await aiozarr.open_array(self.target, settings=SETTINGS)
        values = await array[rows, columns]
        self.check(values, np.arange(CELLS).reshape(ROWS, COLUMNS)[rows, columns], done, self._begun[rows])

    def check(
        self,
        values: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
        cells: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
        done: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
        begun: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    ) -> None:
        """Check values that were read: of these cells, each row of one write, at least `done` and at most `begun`."""
        numbers, found = np.divmod(values, CELLS)
        if not np.array_equal(found, cells):
            self._soak.note_wrong(f"{self.name}: foreign values {values[found != cells][:5]}")
        elif not (numbers == numbers[:, :1]).all():
            self._soak.note_wrong(f"{self.name}: a row of several writes {np.unique(numbers)[:5]}")
        elif not ((numbers[:, 0] >= done) & (numbers[:, 0] <= begun)).all():
            self._soak.note_wrong(f"{self.name}: writes {numbers[:, 0]}, of {done} done and {begun} begun")

    async def copy(self, folder: Path) -> None:
        """Copy the array while it is written, and check the copy."""
        done = self._done.copy()
        try:
            await aiozarr.copy(self.target, folder, settings=SETTINGS)
            values = await (await aiozarr.open_array(folder, settings=SETTINGS))[...]
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        self.check(values, np.arange(CELLS).reshape(ROWS, COLUMNS), done, self._begun)


async def sample() -> dict[str, float]:
    """Return what must not grow."""
    tasks = len(asyncio.all_tasks()) + len(await unfinished_on_io_thread())
    descriptors = len(os.listdir("/dev/fd"))
    return dict(zip(ALLOWED_GROWTH, (resident() / MIB, descriptors, threading.active_count(), tasks), strict=True))


async def watch(seconds: float) -> list[dict[str, float]]:
    """Return samples of all that time."""
    samples: list[dict[str, float]] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        await asyncio.sleep(min(SAMPLE_SECONDS, seconds / 12))
        samples.append(await sample())
        if len(samples) > 4096:  # hours: every other one is enough, and the samples must not grow either
            del samples[1::2]
    return samples


async def run(soak: Soak, seconds: float, readers: int, writers: int, copies: int) -> list[dict[str, float]]:
    """Run all tasks for so many seconds, and return the samples; the last one is of the time after all tasks."""
    with tempfile.TemporaryDirectory() as folder, FaultServer() as server:
        store = ObjectStore("s3://soak/", endpoint_url=server.url, anon=True)
        tables = [Table("disk", soak, LocalStore(Path(folder) / "x.zarr")), Table("server", soak, store)]
        for table in tables:
            await table.create()
        server.script = soak.spoil(server)
        works = [soak.forever("reads", tables[number % 2].read) for number in range(readers)]
        for number in range(writers):
            table, rows = tables[number % 2], range(number // 2, ROWS, (writers + 1) // 2)
            works.append(soak.forever("writes", lambda table=table, rows=rows: table.write(rows)))  # type: ignore[misc]
        for number in range(copies):
            target = Path(folder) / f"copy-{number}"
            works.append(soak.forever("copies", lambda target=target: tables[0].copy(target)))  # type: ignore[misc]
        tasks = [asyncio.create_task(work) for work in works]
        ended = asyncio.gather(*tasks)
        watching = asyncio.create_task(watch(seconds))
        # A task ends only by an error that is no fault's.
        either: list[asyncio.Future[Any]] = [watching, ended]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        has_failed = ended.done()
        for task in (*tasks, *([watching] if has_failed else [])):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if has_failed:
            await ended
        await asyncio.gather(ended, return_exceptions=True)
        server.script = None
        for table in tables:
            await table.read()
        await store.aclose()
    # The server's tasks have ended with it.
    gc.collect()
    return [*watching.result(), await sample()]


def report(soak: Soak, samples: Sequence[dict[str, float]], seed: int) -> bool:
    """Print the table, and return whether nothing was wrong."""
    *running, last = samples
    sixth, half = len(running) // 6, len(running) // 2
    rows, is_right = [], not soak.wrong
    for name, allowed in ALLOWED_GROWTH.items():
        # Work under way comes and goes; what is lost remains in the lowest sample, too.
        early, late = (min(each[name] for each in part) for part in (running[sixth:half], running[half:]))
        is_right = is_right and late - early <= allowed
        figures = [f"{each:.0f}" for each in (early, late, late - early, allowed, last[name])]
        rows.append((name, *figures, "" if late - early <= allowed else "grows"))
    headings = ("", "first half", "second half", "growth", "allowed", "afterwards", "")
    console = console_of()
    console.print(rows_table(f"soak of {len(running)} samples, seed {seed}", headings, rows))
    console.print(rows_table("", ("what", "count"), [(name, f"{soak.counts[name]:,}") for name in sorted(soak.counts)]))
    for text in soak.wrong:
        print(text)
    if last["tasks"] > 1:
        print(f"{last['tasks'] - 1:.0f} tasks are left")
        is_right = False
    return is_right and bool(soak.counts["reads"]) and bool(soak.counts["writes"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="(%(default)s)")
    parser.add_argument("--readers", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--writers", type=int, default=20, help="(%(default)s)")
    parser.add_argument("--copies", type=int, default=2, help="at a time (%(default)s)")
    parser.add_argument("--faults", type=float, default=0.05, help="share of the server's answers (%(default)s)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of regions and faults (random)")
    args = parser.parse_args()
    soak = Soak(random.Random(args.seed), args.faults)
    samples = asyncio.run(run(soak, args.minutes * 60, args.readers, args.writers, args.copies))
    sys.exit(0 if report(soak, samples, args.seed) else 1)


if __name__ == "__main__":
    main()
