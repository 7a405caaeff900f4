"""The memory of a read above its result, by the limit of bytes in flight: `python -m benchmarks.memory`."""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import aiozarr
from benchmarks.figures import add_section, table_section
from benchmarks.layouts import KIB, MIB, Layout, said, size_of
from benchmarks.meter import peak, reset_peak, resident
from benchmarks.server import REPOSITORY, served
from benchmarks.stages.share import write
from benchmarks.table import console_of, rows_table


async def above(target: str, in_flight: int | None) -> int:
    """Return the peak memory of reading a whole array, in bytes, above the memory before and the array itself."""
    settings = aiozarr.Settings() if in_flight is None else aiozarr.Settings(max_bytes_in_flight=in_flight)
    array = await aiozarr.open_array(target, settings=settings)
    # Threads, connections and scratch of the usual size belong to the process, not to the read.
    await array[:1, :1, :1]
    reset_peak()
    before = resident()
    result = await array[...]
    return peak() - before - int(result.nbytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=size_of, default=512 * MIB, help="of the array (512MiB)")
    parser.add_argument("--latency", type=float, default=20.0, help="ms (%(default)s)")
    parser.add_argument("--python-server", action="store_true", help="use the server in Python although nginx is there")
    parser.add_argument("--tiny", action="store_true", help="one layout of 256 KiB and one limit: as the tests run it")
    parser.add_argument("--child", nargs=2, metavar=("TARGET", "BYTES"), help=argparse.SUPPRESS)
    parser.add_argument("--figures", type=Path, help="update the section `memory` of docs/figures.json")
    args = parser.parse_args()
    if args.child:
        target, in_flight = args.child
        print(json.dumps(asyncio.run(above(target, int(in_flight) or None))))
        return
    layouts = {
        "chunks of 1 MiB": Layout(args.size, min(args.size, MIB)),
        "chunks of 32 KiB": Layout(args.size, min(args.size, 32 * KIB)),
        "shards of 64 MiB": Layout(args.size, min(args.size, 64 * KIB), min(args.size, 64 * MIB)),
    }
    limits = {"default": 0, "64 MiB": 64 * MIB, "16 MiB": 16 * MIB}
    if args.tiny:
        layouts, limits = {"chunks of 64 KiB": Layout(256 * KIB, 64 * KIB)}, {"default": 0}
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        with served(Path(folder), args.latency / 1000, python=args.python_server) as server:
            for number, (name, layout) in enumerate(layouts.items()):
                asyncio.run(write(f"{folder}/array-{number}", layout))
                for place, root in (("HTTP", server.url), ("disk", folder)):
                    target = f"{root}/array-{number}"
                    found = [child(target, in_flight) for in_flight in limits.values()]
                    rows.append((f"{name}, {place}", *[f"{each / MIB:.0f}" for each in found]))
        title = f"peak MiB above the result of {said(args.size)}, by Settings.max_bytes_in_flight ({server.name})"
    console_of().print(rows_table(title, ("array", *limits), rows))
    add_section(args.figures, "memory", table_section(("array", *limits), rows))


def child(target: str, in_flight: int) -> int:
    """Measure in a process of its own, so that memory left by another read does not count."""
    command = [sys.executable, "-m", "benchmarks.memory", "--child", target, str(in_flight)]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    return int(json.loads(done.stdout))


if __name__ == "__main__":
    main()
