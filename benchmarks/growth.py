"""How costs grow, with chunks, the size of objects, latency and concurrency: `python -m benchmarks.growth`."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import aiozarr
from benchmarks.layouts import KIB, MIB, Layout, said
from benchmarks.meter import Cost, timed
from benchmarks.server import served
from benchmarks.stages.figures import least_cpu
from benchmarks.stages.plan import GRIDS, layout_of, measure
from benchmarks.stages.schedule import read_instantly
from benchmarks.svg import Points, picture
from benchmarks.table import console_of, markdown, rows_table

OBJECTS = 4096
"""The most objects of one array here; fewer where they are large."""


@dataclass(frozen=True)
class Curve:
    """A curve: its table, and the columns that are drawn."""

    name: str
    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    axes: tuple[str, str]
    drawn: dict[str, Points]


def chunks(counts: Sequence[int], runs: int) -> Curve:
    """Planning, and the cost of a chunk from plan to output, with stores that respond at once."""
    rows, planned, read = [], [], []
    for count in counts:
        for form, make in GRIDS.items():
            found, seconds, memory = measure(layout_of(make(round(count ** (1 / 3)))), runs)
            rows.append((f"{found:,}, {form}", f"{seconds * 1000:,.2f}", f"{memory / 1e6:.2f}", ""))
            if form == "a cube":
                planned.append((float(found), seconds * 1000))
        if count <= 100_000:
            seconds = least_cpu(partial(read_instantly, count), runs)
            rows.append((f"{count:,}, read", f"{seconds * 1000:,.1f}", "", f"{seconds / count * 1e6:.1f}"))
            read.append((float(count), seconds * 1000))
    headings = ("chunks", "CPU ms", "peak MB", "µs a chunk")
    drawn: dict[str, Points] = {"plan": planned, "whole read": read}
    return Curve("chunks", "CPU time by number of chunks", headings, rows, ("chunks", "CPU ms"), drawn)


def sizes(nbytes: Sequence[int], latency: float, *, python: bool) -> Curve:
    """Uncompressed arrays in objects of different sizes: the cost of transport and of the budget's growth."""
    rows, drawn = [], []
    for size in nbytes:
        layout = Layout(min(max(64 * MIB, size), OBJECTS * size), size, codec="raw")
        cost, requests = measured(layout, latency, python=python)
        rate = layout.nbytes / MIB / cost.seconds
        rows.append((said(size), f"{requests:,}", f"{cost.seconds:.3f}", f"{cost.cpu:.3f}", f"{rate:,.0f}"))
        drawn.append((float(size), rate))
    headings = ("object", "requests", "s", "CPU s", "MiB/s")
    return Curve("sizes", "MiB/s by size of objects", headings, rows, ("bytes of an object", "MiB/s"), {"read": drawn})


def latencies(seconds: Sequence[float], layout: Layout, *, python: bool) -> Curve:
    """The same read at growing latencies, which shows its round trips."""
    rows, drawn = [], []
    for latency in seconds:
        cost, requests = measured(layout, latency, python=python)
        trips = f"{cost.seconds / latency:.1f}" if latency else ""
        rows.append((f"{latency * 1000:g}", f"{requests:,}", f"{cost.seconds:.3f}", f"{cost.cpu:.3f}", trips))
        drawn.append((max(latency * 1000, 0.1), cost.seconds))
    headings = ("latency ms", "requests", "s", "CPU s", "round trips")
    title = f"seconds by latency: {said(layout.nbytes)} in {said(layout.chunk)}"
    return Curve("latencies", title, headings, rows, ("ms to the first byte", "seconds"), {"read": drawn})


def concurrencies(limits: Sequence[int], chunk: int, latency: float, *, python: bool) -> Curve:
    """Fixed limits on requests at a time: requests a second rise with the limit until CPU or connections end it."""
    rows, drawn = [], []
    for limit in limits:
        layout = Layout(min(4096, max(8, 16 * limit)) * chunk, chunk, codec="raw")
        cost, requests = measured(layout, latency, python=python, max_requests=limit)
        rows.append((f"{limit:,}", f"{requests:,}", f"{cost.seconds:.3f}", f"{requests / cost.seconds:,.0f}"))
        drawn.append((float(limit), requests / cost.seconds))
    headings = ("max_requests", "requests", "s", "requests/s")
    title = f"requests a second by requests at a time, {latency * 1000:g} ms"
    return Curve("concurrencies", title, headings, rows, ("requests at a time", "requests/s"), {"read": drawn})


def measured(layout: Layout, latency: float, *, python: bool, max_requests: int | None = None) -> tuple[Cost, int]:
    """Write an array, read it once from a server that is started for it, and return cost and requests."""

    async def write(target: str) -> None:
        array = await aiozarr.create_array(
            target,
            shape=layout.shape,
            dtype="float32",
            chunks=layout.chunks,
            codecs=[{"name": "bytes", "configuration": {"endian": "little"}}],
        )
        await array[...].write(np.float32(1))

    async def read(target: str) -> tuple[Cost, int]:
        settings = aiozarr.Settings() if max_requests is None else aiozarr.Settings(max_requests=max_requests)
        array = await aiozarr.open_array(target, settings=settings)
        out = np.empty(layout.shape, np.float32)
        with aiozarr.record() as report, timed() as cost:
            await array[...].read(out=out)
        assert (out == 1).all()
        return cost, report.requests

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(write(f"{folder}/array"))
        with served(Path(folder), latency, python=python) as server:
            return asyncio.run(read(f"{server.url}/array"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("curves", nargs="*", help="chunks, sizes, latencies, concurrencies (default: all)")
    parser.add_argument("--quick", action="store_true", help="shorter curves")
    parser.add_argument("--tiny", action="store_true", help="hardly any work: whether it runs at all")
    parser.add_argument("--python-server", action="store_true", help="use the server in Python although nginx is there")
    parser.add_argument("--folder", type=Path, help="write each curve there: a table of Markdown, and a picture")
    args = parser.parse_args()
    size = 2 if args.tiny else 1 if args.quick else 0
    python = args.python_server
    some = (slice(None), slice(-2), slice(2))[size]
    counts: Sequence[int] = (8, 27) if args.tiny else (100, 1_000, 10_000, 100_000, 1_000_000)
    seconds: Sequence[float] = (0.0, 0.001, 0.005, 0.02, 0.05, 0.1, 0.2)
    layout = (Layout(64 * MIB, 64 * KIB, codec="raw"), Layout(16 * MIB, 64 * KIB, codec="raw"), Layout(64, 16))[size]
    makers: dict[str, Callable[[], Curve]] = {
        "chunks": lambda: chunks(counts[some], 3 - size),
        "sizes": lambda: sizes([KIB * 4**power for power in range(10)][some], 0.02, python=python),
        "latencies": lambda: latencies(seconds[some], layout, python=python),
        "concurrencies": lambda: concurrencies(
            [2**power for power in range(11)][some], (64 * KIB, 16 * KIB, 64)[size], 0.02, python=python
        ),
    }
    unknown = set(args.curves) - set(makers)
    if unknown:
        parser.error(f"no curve {', '.join(sorted(unknown))}")
    console = console_of()
    for name, make in makers.items():
        if args.curves and name not in args.curves:
            continue
        curve = make()
        console.print(rows_table(curve.title, curve.headings, curve.rows))
        if args.folder:
            args.folder.mkdir(parents=True, exist_ok=True)
            (args.folder / f"{name}.md").write_text(markdown(curve.headings, curve.rows) + "\n", "utf-8")
            (args.folder / f"{name}.svg").write_text(picture(curve.title, *curve.axes, curve.drawn), "utf-8")


if __name__ == "__main__":
    main()
