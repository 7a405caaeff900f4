"""The main job on this machine: write, read and copy a few hundred MiB through an S3 server, and check all of it.

An S3 server (moto), or one of Google's kind (`--store gs`, aiozarr's own fake) or Azure's (`--store az`, azurite, where
it is installed), is started as a process of its own. A weather-like field goes there twice, once in plain chunks and
once in shards; both are read back by many overlapping reads, awaited and through the blocking facade; the whole store
is copied to a local folder. The exit status is 0 only if every value and every byte was equal.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn
from rich.table import Table

import aiozarr
import aiozarr.sync
from tests.support.servers import Azurite, NotInstalled, azurite
from tests.support.servers.gcs_server import gcs_process
from tests.support.servers.moto import local_s3

MIB = 1 << 20
BUCKET = "weather"
CHUNK = (1, 512, 512)
SHARD = (4, 1024, 1024)
PLANE = (1024, 1024)
LAYOUTS: dict[str, dict[str, Any]] = {
    "plain": {"chunks": CHUNK},
    "sharded": {"chunks": (1, 256, 256), "shards": SHARD},
}
Field = NDArray[np.float32]
Region = tuple[slice, ...]


def weather(mib: int) -> Field:
    """A smooth field over time, latitude and longitude, with noise in steps of 1/16, as measurements have it."""
    hours = max(4, mib * MIB // (PLANE[0] * PLANE[1] * 4))
    noise = np.random.default_rng(7)
    latitude = np.linspace(-np.pi / 2, np.pi / 2, PLANE[0], dtype=np.float32)[:, None]
    longitude = np.linspace(0, 2 * np.pi, PLANE[1], dtype=np.float32)[None, :]
    values = np.empty((hours, *PLANE), np.float32)
    for hour in range(hours):
        values[hour] = 288 + 30 * np.cos(latitude) + 8 * np.sin(longitude * 3 + hour / 4) * np.cos(latitude * 2)
        values[hour] += noise.integers(-8, 8, PLANE, dtype=np.int8) / np.float32(16)
    return values


def boxes(shape: tuple[int, ...]) -> list[Region]:
    """Boxes that cover the array, in no order, and do not stop where chunks do: neighbours want the same chunks."""
    rows = [slice(start, min(start + 400, shape[1])) for start in range(0, shape[1], 400)]
    columns = [slice(start, min(start + 300, shape[2])) for start in range(0, shape[2], 300)]
    hours = [slice(start, min(start + 4, shape[0])) for start in range(0, shape[0], 4)]
    found: list[Region] = [(hour, row, column) for hour in hours for row in rows for column in columns]
    random.Random(7).shuffle(found)
    return found


def requests_of(report: aiozarr.Report) -> int:
    """The requests to servers, without the reads and writes of local files, unless there was nothing else."""
    remote = [totals.requests for origin, totals in report.origins.items() if "://" in origin and origin[:5] != "file:"]
    return sum(remote) or report.requests


@dataclass
class Step:
    """One line of the table; `nbytes` are those of the values as the caller holds them, or of the objects copied."""

    name: str
    nbytes: int
    report: Any
    seconds: float = 0.0
    equal: bool | None = None

    def row(self) -> tuple[str, ...]:
        report = self.report
        moved = (report.bytes_wanted, report.bytes_fetched, report.bytes_written)
        return (
            self.name,
            f"{requests_of(report):,}",
            *(f"{count / MIB:,.1f}" if count else "" for count in moved),
            f"{self.seconds:.2f}",
            f"{self.nbytes / MIB / self.seconds:,.0f}",
            {True: "[green]yes", False: "[red]NO", None: ""}[self.equal],
        )


@dataclass
class Show:
    """The output: a bar per step on a terminal, a line per step elsewhere, and the table at the end."""

    console: Console = field(default_factory=Console)
    steps: list[Step] = field(default_factory=list)

    @contextmanager
    def step(self, name: str, nbytes: int) -> Iterator[tuple[Step, Callable[[int, int], None]]]:
        """Time and record one step; it yields the step and a function for its progress (bytes done, bytes of all)."""
        text = TextColumn("{task.description:<26}")
        columns = (text, BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeElapsedColumn())
        with (
            Progress(*columns, console=self.console, disable=not self.console.is_terminal) as bars,
            aiozarr.record() as report,
        ):
            bar = bars.add_task(name, total=nbytes or None)
            step = Step(name, nbytes, report)
            start = time.perf_counter()
            yield step, lambda done, total: bars.update(bar, completed=done, total=total)
            step.seconds = time.perf_counter() - start
        self.steps.append(step)
        if not self.console.is_terminal:
            print(f"{name}: {step.seconds:.2f} s", flush=True)

    def table(self) -> None:
        """Print all steps. Wanted, fetched and sent are stored bytes; rates count decoded values."""
        table = Table("step", title="what it cost")
        for heading in ("requests", "MiB wanted", "MiB fetched", "MiB sent", "seconds", "MiB/s", "equal"):
            table.add_column(heading, justify="right")
        for step in self.steps:
            table.add_row(*step.row())
        Console(width=None if self.console.is_terminal else 120).print(table)


async def write(show: Show, url: str, options: dict[str, str], name: str, values: Field) -> None:
    array = await aiozarr.create_array(
        url,
        name,
        shape=values.shape,
        dtype=values.dtype,
        fill_value=0,
        dimension_names=["time", "latitude", "longitude"],
        attributes={"units": "K"},
        storage_options=options,
        **LAYOUTS[name],
    )
    with show.step(f"write {name}", values.nbytes) as (_, progress):
        await array[...].write(values, progress=lambda p: progress(p.bytes_done, p.bytes_total))


async def read_awaited(show: Show, url: str, options: dict[str, str], name: str, values: Field) -> None:
    """Many reads under way at once: one per box, gathered."""
    array = await aiozarr.open_array(url, name, storage_options=options)
    result = np.zeros_like(values)
    done = 0

    async def read(box: Region, progress: Callable[[int, int], None]) -> None:
        nonlocal done
        result[box] = await array[box]
        done += result[box].nbytes
        progress(done, values.nbytes)

    with show.step(f"read {name}, awaited", values.nbytes) as (step, progress):
        await asyncio.gather(*[read(box, progress) for box in boxes(values.shape)])
    step.equal = bool(np.array_equal(result, values))


def read_blocking(show: Show, url: str, options: dict[str, str], name: str, values: Field) -> None:
    """One blocking read of everything: its requests overlap all the same."""
    array = aiozarr.sync.open_array(url, name, storage_options=options)
    result = np.zeros_like(values)
    with show.step(f"read {name}, blocking", values.nbytes) as (step, progress):
        array.view[...].read(out=result, progress=lambda p: progress(p.bytes_done, p.bytes_total))
    step.equal = bool(np.array_equal(result, values))


async def copy(show: Show, url: str, options: dict[str, str], folder: Path) -> None:
    with show.step("copy to a local folder", 0) as (step, progress):
        await aiozarr.copy(
            url, folder, source_options=options, progress=lambda p: progress(p.bytes_done, p.bytes_total)
        )
    copied = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    step.nbytes = sum(path.stat().st_size for path in copied.values())
    step.equal = await same_objects(url, options, copied)


async def same_objects(url: str, options: dict[str, str], copied: dict[str, Path]) -> bool:
    """Whether the store holds exactly these keys, each with the bytes of its file."""
    async with aiozarr.stores.from_url(url, **options) as store:
        stored = {entry.key async for entry in store.scan()}
        if not stored or stored != set(copied):
            return False
        # A store that is used directly has no budget: so many requests at once and no more.
        few = asyncio.Semaphore(16)

        async def same(key: str) -> bool:
            async with few:
                data = await store.get(key)
            return data is not None and bytes(data) == copied[key].read_bytes()

        return all(await asyncio.gather(*map(same, sorted(stored))))


@contextmanager
def local_azurite() -> Iterator[Azurite]:
    """Start Azure's emulator, or exit with a message that says how to install it."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        try:
            yield stack.enter_context(azurite(Path(folder)))
        except NotInstalled:
            raise SystemExit(
                "azurite, Azure's emulator, is not installed. With npm (Debian: apt-get install npm):\n"
                "  npm install --prefix .servers --ignore-scripts azurite@3.35.0\n"
                "or put azurite-blob on PATH."
            ) from None


@contextmanager
def location(store: str, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Start the server that `store` needs; yield the URL for the arrays and its storage options."""
    if store == "s3":
        with local_s3() as server:
            server.create_bucket(BUCKET)
            yield f"s3://{BUCKET}/field.zarr", server.storage_options
    elif store == "gs":
        with gcs_process(BUCKET) as options:
            yield f"gs://{BUCKET}/field.zarr", options
    elif store == "az":
        with local_azurite() as emulator:
            emulator.create_container(BUCKET)
            yield f"az://{BUCKET}/field.zarr", emulator.storage_options
    else:
        yield str(folder / "source.zarr") if store == "local" else "memory://demo/field.zarr", {}


def run(show: Show, url: str, options: dict[str, str], folder: Path, mib: int) -> bool:
    values = weather(mib // len(LAYOUTS))

    async def write_and_read() -> None:
        await aiozarr.create_group(url, attributes={"title": "weather-like field"}, storage_options=options)
        for name in LAYOUTS:
            await write(show, url, options, name, values)
        for name in LAYOUTS:
            await read_awaited(show, url, options, name, values)

    asyncio.run(write_and_read())
    for name in LAYOUTS:
        read_blocking(show, url, options, name, values)
    asyncio.run(copy(show, url, options, folder / "field.zarr"))
    return all(step.equal is not False for step in show.steps)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--mib", type=int, default=256, help="MiB of array data, both arrays together (default: %(default)s)"
    )
    parser.add_argument(
        "--store", choices=("s3", "gs", "az", "local", "memory"), default="s3", help="default: %(default)s"
    )
    arguments = parser.parse_args()
    mib: int = arguments.mib
    show = Show()
    # A terminated demo cleans up as an interrupted one does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="aiozarr-demo-"))
    try:
        with location(arguments.store, folder) as (url, options):
            show.console.print(f"{mib} MiB of float32 in {url} {options.get('endpoint_url', '')}")
            equal = run(show, url, options, folder, mib)
    except KeyboardInterrupt:
        print("interrupted: server and temporary folder are gone", file=sys.stderr)
        return 130
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show.table()
    print("every value and byte was equal" if equal else "SOMETHING WAS NOT EQUAL: see the table")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
