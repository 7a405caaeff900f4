"""What a first read costs a process, and a node of a group, beside the peers: `python -m benchmarks.nodes`.

The first table has the seconds of fresh processes that open and read one small array on the disk, and of two commands.
The second has the microseconds of CPU of each node, of all threads, in fresh processes over a group of many arrays.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from statistics import median
from typing import Any, TypeAlias

Seconds: TypeAlias = tuple[float, float]
"""Seconds of a process, and its seconds of CPU."""

READS = {
    "aiozarr.sync": "import aiozarr.sync as z; z.open_array({path!r})[...]",
    "aiozarr": (
        "import asyncio, aiozarr\n"
        "async def main():\n"
        "    async with aiozarr.open_array({path!r}) as array: await array[...].read()\n"
        "asyncio.run(main())"
    ),
    "zarr-python": "import zarr; zarr.open_array({path!r}, mode='r')[...]",
    "tensorstore": (
        "import tensorstore as ts; "
        "ts.open({{'driver': 'zarr3', 'kvstore': 'file://' + {path!r}}}).result().read().result()"
    ),
    "empty interpreter": "",
    "aiozarr --help": "import sys; sys.argv = ['aiozarr', '--help']; from aiozarr.cli import main; main()",
    "aiozarr ls": "import sys; sys.argv = ['aiozarr', 'ls', {path!r}]; from aiozarr.cli import main; main()",
}
"""What a process does, by the names of the first table."""

LIBRARIES = ("aiozarr", "aiozarr.sync", "zarr-python")
OPERATIONS = (
    "create_array",
    "update_attributes",
    "members()",
    "group[name]",
    "open_array",
    "name in group",
    "create_hierarchy",
    "members(), consolidated",
    "group[name], consolidated",
)


def environment(folder: str) -> dict[str, str]:
    """Return the environment of a measured process: its bytecode is cached, in this folder."""
    variables = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return variables


def first_reads(pythons: Mapping[str, str], folder: str, rounds: int) -> dict[str, Seconds | None]:
    """Return the median seconds, and those of CPU, of each process of `READS`, in turn; None: it cannot run here."""
    path = f"{folder}/first/array"
    create = "import numpy, aiozarr.sync as z; z.create_array({!r}, data=numpy.arange(10_000.0).reshape(100, 100))"
    subprocess.run([pythons["aiozarr"], "-c", create.format(path)], check=True)
    seconds: dict[str, list[Seconds]] = {name: [] for name in READS}
    for number in range(rounds + 1):
        for name, program in READS.items():
            target = os.path.dirname(path) if "ls" in name else path
            begun, before = time.perf_counter(), _children_cpu()
            done = subprocess.run(
                [pythons.get(name, pythons["aiozarr"]), "-c", program.format(path=target)],
                capture_output=True,
                check=False,
                env=environment(folder),
            )
            if number and done.returncode == 0:  # the first one writes the bytecode
                seconds[name].append((time.perf_counter() - begun, _children_cpu() - before))
    return {
        name: (median([wall for wall, _ in values]), median([cpu for _, cpu in values])) if values else None
        for name, values in seconds.items()
    }


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def node_costs(pythons: Mapping[str, str], folder: str, count: int, rounds: int) -> dict[str, dict[str, float] | None]:
    """Return the median microseconds of CPU for each operation, by library; None for one that cannot run here."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in LIBRARIES}
    for _ in range(rounds):
        for name in LIBRARIES:
            command = [
                pythons.get(name, pythons["aiozarr"]),
                __file__,
                "--measure",
                name,
                folder,
                "--nodes",
                str(count),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment(folder))
            if done.returncode == 0:
                found[name].append(dict(zip(OPERATIONS, map(float, done.stdout.split()), strict=True)))
    return {
        name: {each: median([costs[each] for costs in runs]) for each in OPERATIONS} if runs else None
        for name, runs in found.items()
    }


async def measure(library: str, folder: str, count: int) -> list[float]:
    """Return the microseconds of CPU of each operation on a node of a group of `count` arrays, in this process."""
    folder = f"{folder}/{library}"
    shutil.rmtree(folder, ignore_errors=True)
    names = [f"array{number:05}" for number in range(count)]
    module: Any = import_module({"zarr-python": "zarr"}.get(library, library))
    peer = library == "zarr-python"
    described = {"shape": (100, 100), "chunks": (100, 100), "dtype": "f4"}
    costs: list[float] = []

    async def awaited(result: Any) -> Any:
        return await result if isinstance(result, Awaitable) else result

    async def timed(step: Callable[[Any], Any], items: Sequence[Any] = names) -> list[Any]:
        begun = time.process_time()
        results = [await awaited(step(name)) for name in items]
        costs.append((time.process_time() - begun) / count * 1e6)
        return results

    async def members(group: Any) -> list[Any]:
        found = group.members()
        return [each async for each in found] if isinstance(found, AsyncIterable) else list(found)

    async def open_group(name: str) -> Any:
        return await awaited(module.open_group(f"{folder}/{name}", mode="r+"))

    def create_hierarchy(group: Any) -> Any:
        if not peer:
            return group.create_hierarchy(dict.fromkeys(names, described))
        metadata = module.open_group(f"{folder}/one", mode="r")[names[0]].metadata
        return dict(group.create_hierarchy(dict.fromkeys(names, metadata)))

    group = await awaited(module.create_group(f"{folder}/one"))
    await awaited(group.create_array("warm", **described))  # imports are no node's cost
    arrays = await timed(lambda name: group.create_array(name, **described))
    await timed(lambda array: awaited(array.update_attributes({"units": "K"})), arrays)
    # Handles that know nothing yet; the peer's groups know as little.
    group = await open_group("one")
    await timed(lambda _: members(group), ["all"])
    find = group.__getitem__ if hasattr(type(group), "keys") else group.open
    await timed(find)
    await timed(lambda name: module.open_array(f"{folder}/one/{name}", mode="r"))
    await timed(group.__contains__ if hasattr(type(group), "keys") else group.contains)
    other = await awaited(module.create_group(f"{folder}/many"))
    await timed(lambda _: create_hierarchy(other), ["all"])
    await awaited(module.consolidate_metadata(f"{folder}/one"))
    group = await open_group("one")
    await timed(lambda _: members(group), ["all"])
    group = await open_group("one")
    await timed(group.__getitem__ if hasattr(type(group), "keys") else group.open)
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000, help="arrays of the group (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each library, in turn (%(default)s)")
    parser.add_argument("--peers-python", default=sys.executable, help="the interpreter that has the peers")
    parser.add_argument("--measure", nargs=2, metavar=("LIBRARY", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        library, folder = args.measure
        print(*asyncio.run(measure(library, folder, args.nodes)))
        return
    # Imported here: the interpreters of the peers may lack it.
    from benchmarks.table import console_of, rows_table

    console = console_of()
    peers = str(args.peers_python)
    pythons = {"aiozarr": sys.executable, "zarr-python": peers, "tensorstore": peers}
    with tempfile.TemporaryDirectory() as folder:
        seconds = first_reads(pythons, folder, 2 * args.rounds)
        rows = [[name, *_process_cells(value, seconds)] for name, value in seconds.items()]
        headings = ["process", "ms", "of zarr-python", "of tensorstore", "CPU ms", "of zarr-python", "of tensorstore"]
        console.print(rows_table("A process that reads one small array of the disk", headings, rows))
        costs = node_costs(pythons, folder, args.nodes, args.rounds)
    peer = costs["zarr-python"]
    rows = []
    for operation in OPERATIONS:
        cells = ["–" if each is None else f"{each[operation]:.0f}" for each in costs.values()]
        rows.append(
            [operation.replace("[", "\\["), *cells, *(_ratio(costs[name], peer, operation) for name in LIBRARIES[:2])]
        )
    headings = ["operation", *LIBRARIES, "aiozarr, ratio", "aiozarr.sync, ratio"]
    console.print(rows_table(f"Microseconds of CPU of a node, {args.nodes} arrays in a group", headings, rows))


def _process_cells(value: Seconds | None, seconds: Mapping[str, Seconds | None]) -> list[str]:
    if value is None:
        return ["not installed"]
    cells: list[str] = []
    for number, each in enumerate(value):
        peers = [seconds[name] for name in ("zarr-python", "tensorstore")]
        cells += [f"{each * 1000:.0f}", *("–" if peer is None else f"{each / peer[number]:.2f}" for peer in peers)]
    return cells


def _ratio(costs: Mapping[str, float] | None, peer: Mapping[str, float] | None, operation: str) -> str:
    return "–" if costs is None or peer is None else f"{costs[operation] / peer[operation]:.2f}"


if __name__ == "__main__":
    main()
