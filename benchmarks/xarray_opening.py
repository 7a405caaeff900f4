"""Opening and loading by xarray's own engine, by aiozarr's, and awaited: `python -m benchmarks.xarray_opening`.

A data set of 20 variables and a tree of 13 groups, over HTTP with latency. Metadata are consolidated.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from aiozarr.integrations import xarray as axr
from benchmarks.server import served
from benchmarks.server_status import requests_of
from benchmarks.table import console_of, rows_table


def dataset(variables: int) -> xr.Dataset:
    rng = np.random.default_rng(variables)
    hours = np.datetime64("2026-01-01", "ns") + np.arange(24) * np.timedelta64(1, "h")
    coords: dict[str, Any] = {"time": hours, "y": np.arange(90.0), "x": np.arange(180.0)}
    coords |= {f"level{n}": (f"level{n}", np.arange(4.0)) for n in range(5)}
    data = {f"v{n:02}": (("time", "y", "x"), rng.random((24, 90, 180), "f4")) for n in range(variables)}
    return xr.Dataset(data, coords)


def write(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset(20).to_zarr(folder / "set.zarr", zarr_format=3)
        nodes = {"/": xr.Dataset(), **{f"/g{n}/h{m}": dataset(2) for n in range(4) for m in range(2)}}
        nodes |= {f"/g{n}": xr.Dataset() for n in range(4)}
        xr.DataTree.from_dict(nodes).to_zarr(folder / "tree.zarr", zarr_format=3)


async def measured(
    url: str, open_data: Callable[[], Awaitable[Any]], load: Callable[[Any], Awaitable[Any]], rounds: int
) -> tuple[float, int, float]:
    """Return the seconds of opening, its requests, and the seconds of loading, each the median of some rounds."""
    opening, loading, requests = [], [], []
    for _ in range(rounds):
        before, begun = requests_of(url), time.perf_counter()
        data = await open_data()
        opening.append(time.perf_counter() - begun)
        requests.append(requests_of(url) - before - 1)  # the question itself is a request
        begun = time.perf_counter()
        await load(data)
        loading.append(time.perf_counter() - begun)
        data.close()
    return statistics.median(opening), round(statistics.median(requests)), statistics.median(loading)


async def blocking(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a blocking function from where coroutines are measured."""
    return function(*args, **options)


def ways(target: str, opener: Callable[..., Any], awaited: Callable[..., Awaitable[Any]]) -> dict[str, tuple[Any, Any]]:
    """Return how each reader opens the target, and how it loads what it has opened."""
    return {
        "engine='zarr'": (lambda: blocking(opener, target, engine="zarr"), lambda data: blocking(data.load)),
        "engine='aiozarr'": (
            lambda: blocking(opener, target, engine="aiozarr"),
            lambda data: blocking(data.aiozarr.load),
        ),
        "awaited": (lambda: awaited(target), lambda data: data.aiozarr.load_async()),
    }


async def run(url: str, latency: float, rounds: int) -> None:
    rows = []
    for name, opener, awaited in (
        ("set.zarr", xr.open_dataset, axr.open_dataset),
        ("tree.zarr", xr.open_datatree, axr.open_datatree),
    ):
        stock = 0.0
        for way, (open_data, load) in ways(f"{url}/{name}", opener, awaited).items():
            opening, requests, loading = await measured(url, open_data, load, rounds)
            stock = stock or opening
            rows.append(
                [name, way, f"{opening * 1000:.0f}", f"{opening / stock:.2f}", str(requests), f"{loading * 1000:.0f}"]
            )
    headings = ["data", "reader", "open ms", "of stock", "requests", "load ms"]
    console_of().print(rows_table(f"xarray over HTTP with {latency:g} ms", headings, rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=20.0, help="ms to the first byte of each answer (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts (%(default)s)")
    parser.add_argument("--python-server", action="store_true", help="use the server in Python although nginx is there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        with served(Path(folder), args.latency / 1000, python=args.python_server) as server:
            asyncio.run(run(server.url, args.latency, args.rounds))


if __name__ == "__main__":
    main()
