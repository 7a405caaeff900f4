"""Small things in great number, and one after another, beside the peers: `python -m benchmarks.many`.

The first table has the microseconds of each of many chunks, points and members, and the peak memory above the result:
the cost of one at the largest count is compared with that at the count before. The second has the microseconds of
single reads that follow one another. All figures are medians of fresh processes, in turn with the peers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median, quantiles
from typing import Any, TypeAlias

import numpy as np

# A child is started by its path, in an environment that may have no aiozarr.
sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.meter import peak, reset_peak, resident, timed

LIBRARIES = ("aiozarr", "tensorstore", "zarr-python")
ITEMS = 256
"""Elements of a chunk of 1 KiB."""
LONE_ITEMS = 8192
"""Elements of a chunk of 32 KiB."""
LONE_CHUNKS = 256
COUNTS: dict[str, tuple[int, ...]] = {
    "read": (1_000, 10_000, 100_000),
    "points": (1_000, 10_000, 100_000),
    "write": (1_000, 10_000, 100_000),
}
COUNTS |= {"members": (100, 1_000, 10_000), "element": (1,)}
ENDLESS = 10**18
"""Chunks of the array of which one element is read."""

Figures: TypeAlias = dict[str, float]


@dataclass(frozen=True)
class Peer:
    """The calls of one library; each of them can be awaited.

    Attributes:
        open: takes a path or a URL.
        read: takes an array and a selection of slices.
        points: takes an array and the indices along its dimension.
        write: takes an array and its values.
        members: takes the path of a group, and counts its arrays; None if the library has no groups.
    """

    open: Callable[[str], Awaitable[Any]]
    read: Callable[[Any, Any], Awaitable[Any]]
    points: Callable[[Any, Any], Awaitable[Any]]
    write: Callable[[Any, Any], Awaitable[object]]
    members: Callable[[str], Awaitable[int]] | None


def peer_of(library: str) -> Peer:
    """Return the calls of `library`, which is imported."""
    if library == "aiozarr":
        aiozarr = import_module("aiozarr")

        async def count(path: str) -> int:
            group = await aiozarr.open_group(path, mode="r")
            return len([each async for each in group.members()])

        return Peer(
            open=lambda target: aiozarr.open_array(target, mode="r" if "://" in target else "r+"),
            read=lambda array, selection: array[selection].read(),
            points=lambda array, indices: array.vindex[indices].read(),
            write=lambda array, values: array[...].write(values),
            members=count,
        )
    if library == "tensorstore":
        tensorstore = import_module("tensorstore")

        def spec(target: str) -> dict[str, Any]:
            store = {"driver": "http", "base_url": f"{target}/"} if "://" in target else f"file://{target}/"
            return {"driver": "zarr3", "kvstore": store}

        return Peer(
            open=lambda target: tensorstore.open(spec(target), open=True),
            read=lambda array, selection: array[selection].read(),
            points=lambda array, indices: array.vindex[indices].read(),
            write=lambda array, values: array.write(values),
            members=None,
        )
    zarr = import_module("zarr")

    async def opened(target: str) -> Any:
        api = zarr.api.asynchronous
        if "://" not in target:
            return await api.open_array(store=target, mode="r+", zarr_format=3)
        store = import_module("obstore.store").HTTPStore.from_url(target, client_options={"allow_http": True})
        return await api.open_array(store=zarr.storage.ObjectStore(store, read_only=True), mode="r", zarr_format=3)

    async def members(path: str) -> int:
        group = await zarr.api.asynchronous.open_group(path, mode="r")
        return len([each async for each in group.members()])

    return Peer(
        open=opened,
        read=lambda array, selection: array.getitem(selection),
        points=lambda array, indices: array.get_coordinate_selection((indices,)),
        write=lambda array, values: array.setitem(..., values),
        members=members,
    )


async def measure(library: str, operation: str, count: int, target: str) -> Figures:
    """Return seconds, CPU seconds and bytes above the result of one operation, or the percentiles of lone reads."""
    peer = peer_of(library)
    if operation == "members":
        if peer.members is None:
            raise ValueError(f"{library} has no groups")
        await peer.members(target)
        return await _costs(partial(peer.members, target))
    array = await peer.open(target)
    if operation == "lone":
        return await _lone_reads(peer, array, count)
    # What the first reads of a process import and start is no chunk's cost.
    chunks = 4096 if operation in ("read", "points") else 64
    await peer.read(array, (slice(0, min(array.shape[0], chunks * ITEMS)),))
    if operation == "points":
        await peer.points(array, np.arange(64)[::-1].copy())
    if operation == "element":
        return await _costs(lambda: peer.read(array, (slice(ENDLESS - 1, ENDLESS),)))
    if operation == "points":
        # All counts select from the same array.
        indices = np.random.default_rng(1).integers(0, ITEMS * max(COUNTS["points"]), count) % array.shape[0]
        return await _costs(lambda: peer.points(array, indices))
    if operation == "write":
        values = np.arange(array.shape[0], dtype=np.float32)
        return await _costs(lambda: peer.write(array, values))
    return await _costs(lambda: peer.read(array, (slice(None),)))


async def _costs(operate: Callable[[], Awaitable[Any]]) -> Figures:
    reset_peak()
    before = resident()
    with timed() as cost:
        result = await operate()
    above = max(0, peak() - before - getattr(result, "nbytes", 0))
    return {"seconds": cost.seconds, "cpu": cost.cpu, "memory": float(above)}


async def _lone_reads(peer: Peer, array: Any, count: int) -> Figures:
    seconds = []
    for number in range(count + 100):
        start = number * 7919 % LONE_CHUNKS * LONE_ITEMS
        begun = time.perf_counter()
        await peer.read(array, (slice(start, start + LONE_ITEMS),))
        seconds.append(time.perf_counter() - begun)
    percentiles = quantiles(seconds[100:], n=100)
    return {"p50": percentiles[49], "p99": percentiles[98]}


async def create(folder: str, counts: Mapping[str, Sequence[int]]) -> None:
    """Write all arrays and groups; `write` has an empty array for each library."""
    aiozarr = import_module("aiozarr")

    async def array(name: str, chunks: int, items: int, *, written: bool = True) -> None:
        shape = (chunks * items,)
        made = await aiozarr.create_array(f"{folder}/{name}", shape=shape, chunks=(items,), dtype="float32")
        if written:
            await made[...].write(np.arange(shape[0], dtype=np.float32))

    for count in {*counts["read"], *counts["points"]}:
        await array(f"read-{count}", count, ITEMS)
    for count in counts["write"]:
        await array(f"write-{count}", count, ITEMS, written=False)
    for count in counts["members"]:
        group = await aiozarr.create_group(f"{folder}/members-{count}")
        described = {"shape": (8,), "chunks": (8,), "dtype": "f4"}
        await group.create_hierarchy({f"array{number:05}": described for number in range(count)})
    await array("element-1", ENDLESS, 1, written=False)
    await array("lone", LONE_CHUNKS, LONE_ITEMS)


def measured(python: str, library: str, operation: str, count: int, target: str) -> Figures | None:
    """Measure in a process of its own; None if the library cannot do it or is not installed there."""
    if operation == "write":
        # A tree of its own for each process, so that every chunk is new.
        fresh = f"{target}-fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        target = shutil.copytree(target, fresh)
    command = [python, __file__, "--measure", library, operation, str(count), target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def medians(runs: Sequence[Figures | None]) -> Figures | None:
    """Return the median of each figure, or None if any run failed."""
    kept = [each for each in runs if each is not None]
    return {name: median([each[name] for each in kept]) for name in kept[0]} if len(kept) == len(runs) else None


def grown(
    found: Mapping[tuple[str, str, int], Figures | None], counts: Mapping[str, Sequence[int]]
) -> Iterator[list[str]]:
    """Yield a row for each operation and count, with the growth of the cost of one and the ratios to the peers."""
    for operation, numbers in counts.items():
        for position, count in enumerate(numbers):
            row = ["element of 10¹⁸" if operation == "element" else f"{operation}, {count:,}"]
            mine = found["aiozarr", operation, count]
            for library in LIBRARIES:
                figures = found[library, operation, count]
                before = found[library, operation, numbers[position - 1]] if position else None
                if figures is None:
                    row += ["–"] * (3 if library == "aiozarr" else 4)
                    continue
                one = figures["seconds"] / count
                growth = "" if before is None else f"{one / (before['seconds'] / numbers[position - 1]):.2f}"
                row += [f"{one * 1e6:,.1f}", growth, f"{figures['memory'] / 1e6:,.0f}"]
                if library != "aiozarr":
                    row.append("–" if mine is None else f"{mine['seconds'] / figures['seconds']:.2f}")
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each library, in turn (%(default)s)")
    parser.add_argument("--tiny", action="store_true", help="hardly any work: whether it runs at all")
    parser.add_argument("--peers-python", default=sys.executable, help="the interpreter that has the peers")
    parser.add_argument("--folder", type=Path, help="write a picture of the first table there")
    parser.add_argument("--figures", type=Path, help="update the sections `many` and `lone` of docs/figures.json")
    parser.add_argument(
        "--measure", nargs=4, metavar=("LIBRARY", "OPERATION", "COUNT", "TARGET"), help=argparse.SUPPRESS
    )
    args = parser.parse_args()
    if args.measure:
        library, operation, count, target = args.measure
        print(json.dumps(asyncio.run(measure(library, operation, int(count), target))))
        return
    # Imported here: the interpreters of the peers may lack them.
    from benchmarks.figures import add_section, table_section
    from benchmarks.server import served
    from benchmarks.svg import picture
    from benchmarks.table import console_of, rows_table

    counts = dict.fromkeys(COUNTS, (1, 2)) | {"element": (1,)} if args.tiny else COUNTS
    pythons = {library: sys.executable if library == "aiozarr" else str(args.peers_python) for library in LIBRARIES}
    console = console_of()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(create(folder, counts))
        found: dict[tuple[str, str, int], Figures | None] = {}
        for operation, count in [(name, count) for name, numbers in counts.items() for count in numbers]:
            array = f"{folder}/{'read' if operation == 'points' else operation}-{count}"
            if operation == "points":
                array = f"{folder}/read-{max(counts['points'])}"
            runs: dict[str, list[Figures | None]] = {library: [] for library in LIBRARIES}
            for _ in range(args.rounds):
                for library in LIBRARIES:
                    runs[library].append(measured(pythons[library], library, operation, count, array))
            found |= {(library, operation, count): medians(each) for library, each in runs.items()}
        headings = ["µs of one", "aiozarr", "×", "MB"]
        headings += [name for each in LIBRARIES[1:] for name in (each, "×", "MB", "ratio")]
        rows = list(grown(found, counts))
        console.print(rows_table("The cost of one of many", headings, rows))
        add_section(args.figures, "many", table_section(headings, rows))
        if args.folder:
            curves = {}
            for operation in ("read", "write", "points", "members"):
                kept = [(count, found["aiozarr", operation, count]) for count in counts[operation]]
                curves[operation] = [(float(count), each["seconds"]) for count, each in kept if each is not None]
            args.folder.mkdir(parents=True, exist_ok=True)
            (args.folder / "many.svg").write_text(picture("seconds by count", "count", "seconds", curves), "utf-8")
        rows = []
        with served(Path(folder), 0.0, python=args.tiny) as server:
            for where, root in (("disk", folder), ("HTTP", server.url)):
                lone: dict[str, list[Figures | None]] = {library: [] for library in LIBRARIES}
                for _ in range(args.rounds):
                    for library in LIBRARIES:
                        reads = 10 if args.tiny else 2_000
                        lone[library].append(measured(pythons[library], library, "lone", reads, f"{root}/lone"))
                rows += _lone_rows(where, {library: medians(each) for library, each in lone.items()})
        headings = ["microseconds", *LIBRARIES, "of tensorstore", "of zarr-python"]
        console.print(rows_table("Single reads of 32 KiB, one after another", headings, rows))
        add_section(args.figures, "lone", table_section(headings, rows))


def _lone_rows(where: str, found: Mapping[str, Figures | None]) -> Iterator[list[str]]:
    mine = found["aiozarr"]
    for name in ("p50", "p99"):
        cells = ["–" if each is None else f"{each[name] * 1e6:,.0f}" for each in found.values()]
        peers = [found[library] for library in LIBRARIES[1:]]
        ratios = ["–" if mine is None or each is None else f"{mine[name] / each[name]:.2f}" for each in peers]
        yield [f"{where}, {name}", *cells, *ratios]


if __name__ == "__main__":
    main()
