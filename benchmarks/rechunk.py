"""Maps into time series in little memory, by `aiozarr.convert` and by dask with zarr-python.

`python -m benchmarks.rechunk` prints seconds and the peak memory of each process, on the local disk.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from aiozarr import sync
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
    """Rechunk in this process, and return seconds and the peak memory in bytes."""
    begun = time.perf_counter()
    if runner == RUNNERS[0]:
        chunks = (TIMES, WINDOW, WINDOW)
        sync.convert(source, result, chunks=chunks, max_memory=max_memory)
    else:
        rechunk_by_dask(source, result)
    return {"seconds": time.perf_counter() - begun, "peak": peak()}


def rechunk_by_dask(source: str, result: str) -> None:
    """Rechunk by dask's threads over zarr-python's arrays."""
    import dask.array
    import zarr

    old: Any = zarr.open_array(source, mode="r")
    chunks = (TIMES, WINDOW, WINDOW)
    new: Any = zarr.create_array(result, shape=old.shape, dtype=old.dtype, chunks=chunks)
    dask.array.store(dask.array.from_array(old, chunks=old.chunks).rechunk(chunks), new, lock=False)  # type: ignore[no-untyped-call]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=size_of, default=2048 * MIB, help="of the array (2GiB)")
    parser.add_argument("--max-memory", type=size_of, default=320 * MIB, help="of aiozarr's values and chunks (320MiB)")
    parser.add_argument("--tiny", action="store_true", help="4 MiB: as the tests run it")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        runner, source, result, memory = args.child
        print(json.dumps(rechunk(runner, source, result, int(memory))))
        return
    size = 4 * MIB if args.tiny else args.size
    with tempfile.TemporaryDirectory() as folder:
        source = str(Path(folder) / "maps")
        make_maps(source, size)
        results = [(runner, child(runner, source, f"{source}-{number}", args)) for number, runner in enumerate(RUNNERS)]
        plan = sync.plan_conversion(
            source, f"{source}-none", chunks=(TIMES, WINDOW, WINDOW), max_memory=args.max_memory
        )
        check(source, [f"{source}-{number}" for number in range(len(RUNNERS))])
    rows = [(runner, f"{found['seconds']:.1f}", f"{found['peak'] / MIB:.0f}") for runner, found in results]
    console_of().print(rows_table(f"{said(size)} from maps to time series", ("by", "seconds", "peak MiB"), rows))
    print(plan)


def child(runner: str, source: str, result: str, args: argparse.Namespace) -> dict[str, float]:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.rechunk", "--child", runner, source, result, str(args.max_memory)]
    done = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def check(source: str, results: list[str]) -> None:
    """Compare some elements of each result with the source."""
    expected = sync.open_array(source)[::97, ::7, 3]
    for result in results:
        assert np.array_equal(sync.open_array(result)[::97, ::7, 3], expected), result


if __name__ == "__main__":
    main()
