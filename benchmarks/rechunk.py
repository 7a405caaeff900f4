"""Maps into time series in little memory, by `aiozarr.convert` and by dask with zarr-python.

`python -m benchmarks.rechunk` prints seconds, CPU seconds, peak memory and written bytes of each process, on the local
disk. With `--rounds` both run several times, in turn.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from aiozarr import sync
from benchmarks.figures import add_section, table_section
from benchmarks.layouts import MIB, said, size_of
from benchmarks.meter import peak
from benchmarks.server import REPOSITORY
from benchmarks.table import console_of, rows_table

RUNNERS = ("aiozarr", "dask + zarr-python")
TIMES = 512
WINDOW = 32


def make_maps(url: str, size: int) -> None:
    """Write an array of `size` bytes in chunks of one time step each, step by step."""
    side = max(WINDOW, math.isqrt(size // (4 * TIMES)) // WINDOW * WINDOW)
    array = sync.create_array(url, shape=(TIMES, side, side), dtype="f4", chunks=(1, side, side))
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 1000, (side, side)).astype("f4")
    for step in range(TIMES):
        array[step] = noise + step


def rechunk(runner: str, source: str, result: str, max_memory: int) -> dict[str, float]:
    """Rechunk in this process, and return seconds, CPU seconds, and bytes of peak memory and of written files."""
    if runner == RUNNERS[0]:
        work: Callable[[], object] = partial(
            sync.convert, source, result, chunks=(TIMES, WINDOW, WINDOW), max_memory=max_memory
        )
    else:
        work = dask_rechunking(source, result)
    begun, cpu = time.perf_counter(), time.process_time()
    work()
    written = resource.getrusage(resource.RUSAGE_SELF).ru_oublock * 512
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "peak": peak(), "written": written}


def dask_rechunking(source: str, result: str) -> Callable[[], object]:
    """Return what rechunks by dask's threads over zarr-python's arrays, with both imported."""
    import dask.array
    import zarr

    def work() -> None:
        old: Any = zarr.open_array(source, mode="r")
        chunks = (TIMES, WINDOW, WINDOW)
        new: Any = zarr.create_array(result, shape=old.shape, dtype=old.dtype, chunks=chunks)
        dask.array.store(dask.array.from_array(old, chunks=old.chunks).rechunk(chunks), new, lock=False)  # type: ignore[no-untyped-call]

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=size_of, default=2048 * MIB, help="of the array (2GiB)")
    parser.add_argument("--max-memory", type=size_of, default=320 * MIB, help="of aiozarr's values and chunks (320MiB)")
    parser.add_argument("--rounds", type=int, default=1, help="in which both run in turn (1)")
    parser.add_argument("--tiny", action="store_true", help="4 MiB: as the tests run it")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--figures", type=Path, help="update the section `rechunk` of docs/figures.json")
    args = parser.parse_args()
    if args.child:
        runner, source, result, memory = args.child
        print(json.dumps(rechunk(runner, source, result, int(memory))))
        return
    size = 4 * MIB if args.tiny else args.size
    with tempfile.TemporaryDirectory() as folder:
        source = str(Path(folder) / "maps")
        make_maps(source, size)
        plan = sync.plan_conversion(
            source, f"{source}-none", chunks=(TIMES, WINDOW, WINDOW), max_memory=args.max_memory
        )
        rows: list[tuple[str, ...]] = []
        for _ in range(args.rounds):
            for runner in RUNNERS:
                result = f"{source}-result"
                found = child(runner, source, result, args)
                check(source, result)
                shutil.rmtree(result)
                mib = [f"{found[name] / MIB:,.0f}" for name in ("peak", "written")]
                rows.append((runner, f"{found['seconds']:.1f}", f"{found['cpu']:.1f}", *mib))
    headers = ("by", "seconds", "CPU seconds", "peak MiB", "written MiB")
    console_of().print(rows_table(f"{said(size)} from maps to time series", headers, rows))
    add_section(args.figures, "rechunk", {"size": said(size), **table_section(headers, rows)})
    print(plan)


def child(runner: str, source: str, result: str, args: argparse.Namespace) -> dict[str, float]:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.rechunk", "--child", runner, source, result, str(args.max_memory)]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def check(source: str, result: str) -> None:
    """Compare some elements of the result with the source."""
    expected = sync.open_array(source)[::97, ::7, 3]
    assert np.array_equal(sync.open_array(result)[::97, ::7, 3], expected), result


if __name__ == "__main__":
    main()
