"""Virtual references beside fsspec, zarr-python, VirtualiZarr and icechunk: seconds and requests of one file's chunks.

    make test-ecosystem ARGS=references      # builds the environment
    .ecosystem/references/env/bin/python -m benchmarks.references --chunks 1000 --latency 0.02

The file has one array of gzip-compressed chunks of 8 kB behind a local web server that waits before each response. Each
reader opens the array and reads all of it, three times; the table has its best time.

`--windows` compares random windows a second of 64 readers: of chunks that are objects, and of the same chunks as ranges
of one object. It needs none of the other libraries.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def serve(folder: Path, latency: float) -> None:
    """Serve the files of a folder with ranges, and the number of requests and the most at once at `/counts`."""
    from aiohttp import web

    counts = {"requests": 0, "now": 0, "most": 0}

    async def respond(request: web.Request) -> web.StreamResponse:
        if request.path == "/counts":
            found = dict(counts)
            counts.update(requests=0, most=0)
            return web.json_response(found)
        counts["requests"] += 1
        counts["now"] += 1
        counts["most"] = max(counts["most"], counts["now"])
        try:
            await asyncio.sleep(latency)
            path = folder / request.path.lstrip("/")
            return web.FileResponse(path) if path.is_file() else web.Response(status=404)
        finally:
            counts["now"] -= 1

    async def main() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", respond)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)  # the parent reads the port
        await asyncio.Event().wait()

    asyncio.run(main())


def write_file(path: Path, chunks: int) -> np.ndarray[Any, Any]:
    """Write an HDF5 file with so many chunks, and return its values."""
    import h5py  # pyright: ignore[reportMissingImports]  # optional

    values = np.random.default_rng(0).integers(0, 1 << 20, (chunks // 100, 400, 500)).astype("i4")
    with h5py.File(path, "w") as file:
        file.create_dataset("t2m", data=values, chunks=(1, 40, 50), compression="gzip", shuffle=True)
    return values


def readers(url: str, references: dict[str, Any], local: Path) -> dict[str, Callable[[], Any]]:
    """Return functions that open the array anew and read it."""
    import fsspec
    import icechunk  # pyright: ignore[reportMissingImports]  # optional
    import zarr
    from obspec_utils.registry import ObjectStoreRegistry  # pyright: ignore[reportMissingImports]  # optional
    from obstore.store import HTTPStore, LocalStore
    from virtualizarr.parsers import HDFParser  # pyright: ignore[reportMissingImports]  # optional

    import aiozarr.sync
    from aiozarr.integrations.icechunk import from_session
    from aiozarr.integrations.virtualizarr import from_manifest_store
    from aiozarr.integrations.zarr import enable
    from aiozarr.stores import from_references

    parsed = HDFParser()(url=local.as_uri(), registry=ObjectStoreRegistry({"file://": LocalStore()}))
    group = vars(parsed)["_group"]
    array = group["t2m"]
    renamed = type(group)(
        arrays={"t2m": array.rename_paths(f"{url}/{local.name}")}, attributes=dict(group.metadata.attributes)
    )

    def manifests() -> Any:
        registry = ObjectStoreRegistry({url: HTTPStore.from_url(url, client_options={"allow_http": True})})
        return type(parsed)(renamed, registry=registry)

    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(f"{url}/", icechunk.http_store({})))
    repository = icechunk.Repository.create(
        icechunk.in_memory_storage(), config, authorize_virtual_chunk_access={f"{url}/": None}
    )
    session = repository.writable_session("main")
    manifests().to_virtual_dataset(loadable_variables=[]).vz.to_icechunk(session.store)
    session.commit("references")

    def icechunk_store() -> Any:
        return repository.readonly_session("main").store

    def fsspec_store() -> Any:
        system = fsspec.filesystem(
            "reference", fo=references, asynchronous=True, skip_instance_cache=True, remote_protocol="http",
            remote_options={"asynchronous": True},
        )  # fmt: skip
        from zarr.storage import FsspecStore

        return FsspecStore(system, read_only=True)

    def stock(make: Callable[[], Any], zarr_format: Any) -> Callable[[], Any]:
        return lambda: zarr.open_array(make(), path="t2m", mode="r", zarr_format=zarr_format)[...]

    def enabled(make: Callable[[], Any], zarr_format: Any) -> Callable[[], Any]:
        def read() -> Any:
            with enable():
                return zarr.open_array(make(), path="t2m", mode="r", zarr_format=zarr_format)[...]

        return read

    def own(make: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: aiozarr.sync.open_array(make(), "t2m")[...]

    return {
        "kerchunk: zarr-python over fsspec": stock(fsspec_store, 2),
        "kerchunk: aiozarr": own(lambda: from_references(references, resolve={f"{url}/": {}})),
        "ManifestStore: zarr-python": stock(manifests, 3),
        "ManifestStore: zarr-python + enable()": enabled(manifests, 3),
        "ManifestStore: aiozarr": own(lambda: from_manifest_store(manifests())),
        "icechunk: zarr-python": stock(icechunk_store, 3),
        "icechunk: zarr-python + enable()": enabled(icechunk_store, 3),
        "icechunk: aiozarr": own(lambda: from_session(repository.readonly_session("main"))),
    }


def make_windows(folder: Path, url: str) -> dict[str, Any]:
    """Write an array, and one object with all of its chunks; return the references to that."""
    import aiozarr.sync

    values = np.random.default_rng(0).integers(0, 1 << 20, (100, 400, 500)).astype("i4")
    aiozarr.sync.create_array(folder / "array", data=values, chunks=(1, 40, 50))
    table: dict[str, Any] = {"zarr.json": (folder / "array/zarr.json").read_text("utf-8")}
    with (folder / "all.bin").open("wb") as blob:
        for path in sorted((folder / "array/c").rglob("*")):
            if path.is_file():
                data = path.read_bytes()
                table[str(path.relative_to(folder / "array"))] = [f"{url}/all.bin", blob.tell(), len(data)]
                blob.write(data)
    return table


async def windows_per_second(target: Any, readers: int, seconds: float) -> float:
    """Return the number of random windows, of 1 to 4 chunks, that `readers` read in a second."""
    import aiozarr

    array = await aiozarr.open_array(target, mode="r")
    random = np.random.default_rng(1)
    count, end = 0, time.perf_counter() + seconds

    async def read() -> None:
        nonlocal count
        while time.perf_counter() < end:
            z, y, x = (
                int(random.integers(0, length - size)) for length, size in zip(array.shape, (1, 30, 40), strict=True)
            )
            await array[z, y : y + 30, x : x + 40].read()
            count += 1

    await asyncio.gather(*[read() for _ in range(readers)])
    return count / seconds


def windows(latency: float, rounds: int = 5) -> None:
    """Print windows a second of objects and of references, in turn."""
    from statistics import median

    from aiozarr.stores import from_references
    from benchmarks.server import served

    with tempfile.TemporaryDirectory() as folder, served(Path(folder), latency) as server:
        table = make_windows(Path(folder), server.url)
        found: dict[str, list[float]] = {"objects": [], "references": []}
        for _ in range(rounds):
            for name, rates in found.items():
                target = f"{server.url}/array"
                store = target if name == "objects" else from_references(table, resolve={f"{server.url}/": {}})
                rates.append(asyncio.run(windows_per_second(store, 64, 3.0)))
        objects, references = (median(rates) for rates in found.values())
        print(f"windows a second ({server.name}): objects {objects:.0f}, references {references:.0f}")
        print(f"references / objects: {references / objects:.2f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.references", description=__doc__)
    parser.add_argument("--chunks", type=int, default=1000, help="a multiple of 100")
    parser.add_argument("--latency", type=float, default=0.02, help="seconds before each response")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--windows", action="store_true", help="random windows of 64 readers instead")
    options = parser.parse_args()
    if options.windows:
        windows(options.latency)
        return
    if options.serve is not None:
        serve(options.serve, options.latency)
        return
    warnings.simplefilter("ignore")
    from kerchunk.hdf import SingleHdf5ToZarr  # pyright: ignore[reportMissingImports]  # optional

    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "data.h5"
        values = write_file(local, options.chunks)
        command = [sys.executable, "-m", "benchmarks.references", "--serve", folder, "--latency", str(options.latency)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        try:
            assert server.stdout is not None
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            references = SingleHdf5ToZarr(str(local), inline_threshold=0).translate()
            text = json.dumps(references).replace(json.dumps(str(local)), json.dumps(f"{url}/data.h5"))
            print(f"{'reader':40} {'requests':>8} {'at once':>8} {'seconds':>8}")
            for name, read in readers(url, json.loads(text), local).items():
                best, counts = float("inf"), {}
                for _ in range(3):
                    urllib.request.urlopen(f"{url}/counts").close()
                    begun = time.perf_counter()
                    found = read()
                    best = min(best, time.perf_counter() - begun)
                    assert (found == values).all(), name
                    with urllib.request.urlopen(f"{url}/counts") as response:
                        counts = json.load(response)
                print(f"{name:40} {counts['requests']:8} {counts['most']:8} {best:8.3f}", flush=True)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
