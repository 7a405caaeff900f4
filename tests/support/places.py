"""One array in every kind of place that aiozarr opens, each with a line in front of it that counts, where there is one.

What is new is added to `PLACES`; places behind servers of other makers are named in `ON_SERVERS`.
"""

from __future__ import annotations

import asyncio
import itertools
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from wide_area import WideArea

from aiozarr import sync
from aiozarr.stores import MemoryStore, from_url
from aiozarr.testing.gcs_server import GcsServer
from aiozarr.testing.http_server import FaultServer

_numbers = itertools.count()


@dataclass(frozen=True)
class Place:
    """Where an array is.

    Attributes:
        url, storage_options: what opens it.
        line: the line to the server, which counts connections and requests; None: there is no server.
        writeable: whether the place can be written to.
        keeps_connections: fsspec keeps the file systems it makes for as long as the process lives, and some keep their
            connections: there may be some left, and no more with every use.
    """

    url: str
    storage_options: dict[str, Any] = field(default_factory=dict)
    line: WideArea | None = None
    writeable: bool = True
    keeps_connections: bool = False


@dataclass(frozen=True)
class Surroundings:
    """What places are made of: the stored values, a folder, and pytest's fixtures."""

    values: Mapping[str, bytes]
    folder: Path
    request: pytest.FixtureRequest
    stack: ExitStack
    latency: float = 0.0

    def line(self, target: str) -> WideArea:
        """A line to a server."""
        return self.stack.enter_context(WideArea(target, self.latency))

    def web(self, values: Mapping[str, bytes]) -> WideArea:
        """A line to a new web server with these values."""
        return self.line(self.stack.enter_context(FaultServer(values)).url)

    def archive(self) -> bytes:
        """The values in an archive."""
        into = BytesIO()
        with zipfile.ZipFile(into, "w") as archive:
            for key, data in self.values.items():
                archive.writestr(key, data)
        return into.getvalue()


def sample() -> NDArray[Any]:
    """The elements of the array that is in all places."""
    return np.arange(48 * 40, dtype="f4").reshape(48, 40)


def stored(values: NDArray[Any] | None = None, **described: Any) -> dict[str, bytes]:
    """The stored objects of an array of `values`; `described` is what `create_array` takes besides."""
    store, values = MemoryStore(), sample() if values is None else values
    described = {"chunks": (8, 10), "shards": (16, 20), "attributes": {"unit": "K"}, **described}
    with sync.create_array(store, shape=values.shape, dtype=values.dtype, **described) as array:
        array[...] = values
    found = {key: store.fetch_now(key) for key in asyncio.run(store.list())}
    return {key: bytes(value.data) for key, value in found.items() if value is not None}


@contextmanager
def a_place(
    name: str, values: Mapping[str, bytes], folder: Path, request: pytest.FixtureRequest, latency: float = 0.0
) -> Iterator[Place]:
    """Put `values` into the place called `name`, for as long as the context lasts."""
    with ExitStack() as stack:
        yield PLACES[name](Surroundings(values, folder, request, stack, latency))


# --- on this machine -------------------------------------------------------------------------------------------------


def _path(around: Surroundings) -> Place:
    root = around.folder / f"ü {next(_numbers)}.zarr"
    for key, data in around.values.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return Place(str(root))


def _file(around: Surroundings) -> Place:
    return Place(Path(_path(around).url).as_uri())


def _memory(around: Surroundings) -> Place:
    name = f"place-{next(_numbers)}"
    store = MemoryStore.named(name)
    for key, data in around.values.items():
        store.set_now(f"below/a.zarr/{key}", data)
    return Place(f"memory://{name}/below/a.zarr")


def _archive(around: Surroundings) -> Place:
    path = around.folder / f"{next(_numbers)}.zip"
    path.write_bytes(around.archive())
    return Place(f"zip::{path.as_uri()}", writeable=False)


# --- behind a server of the tests ------------------------------------------------------------------------------------


def _http(around: Surroundings) -> Place:
    line = around.web({f"some where/a.zarr/{key}": data for key, data in around.values.items()})
    return Place(f"{line.url}/some%20where/a.zarr", line=line, writeable=False)


def _archive_over_http(around: Surroundings) -> Place:
    line = around.web({"a.zip": around.archive()})
    return Place(f"zip::{line.url}/a.zip", line=line, writeable=False)


def _cached_by_fsspec(around: Surroundings) -> Place:
    line = around.web({f"a.zarr/{key}": data for key, data in around.values.items()})
    options = {"simplecache": {"cache_storage": str(around.folder / f"cache-{next(_numbers)}")}}
    url = f"simplecache::{line.url}/a.zarr"
    return Place(url, options, line=line, writeable=False, keeps_connections=True)


def _s3(around: Surroundings) -> Place:
    server = around.request.getfixturevalue("s3_server")
    return _bucket(around, server, "s3")


def _s3fs(around: Surroundings) -> Place:
    place = _s3(around)
    return Place(place.url.replace("s3://", "s3fs://"), place.storage_options, place.line)


def _bucket(around: Surroundings, server: Any, scheme: str) -> Place:
    line = around.line(server.endpoint_url)
    options = {**server.storage_options, "endpoint_url": line.url}
    bucket = f"place-{next(_numbers)}"
    server.create_bucket(bucket)
    return _filled(around, Place(f"{scheme}://{bucket}/some where/a.zarr", options, line), server.storage_options)


def _gcs(around: Surroundings) -> Place:
    server = around.stack.enter_context(GcsServer("bucket"))
    line = around.line(server.url)
    for key, data in around.values.items():
        server.put("bucket", f"a.zarr/{key}", data)
    return Place("gs://bucket/a.zarr", {**server.storage_options, "endpoint_url": line.url, "anon": True}, line)


# --- behind servers of others ----------------------------------------------------------------------------------------


def _azure(around: Surroundings) -> Place:
    server = around.request.getfixturevalue("azurite_server")
    line = around.line(server.endpoint_url)
    container = f"place-{next(_numbers)}"
    server.create_container(container)
    options = {**server.storage_options, "endpoint_url": line.url}
    return _filled(around, Place(f"az://{container}/a.zarr", options, line), server.storage_options)


def _radosgw(around: Surroundings) -> Place:
    return _bucket(around, around.request.getfixturevalue("radosgw_server"), "s3")


def _nginx(around: Surroundings) -> Place:
    server = around.request.getfixturevalue("nginx_server")
    name = f"place-{next(_numbers)}"
    for key, data in around.values.items():
        server.put(f"{name}/a.zarr/{key}", data)
    line = around.line(server.url)
    return Place(f"{line.url}/{name}/a.zarr", line=line, writeable=False)


def _filled(around: Surroundings, place: Place, directly: dict[str, Any]) -> Place:
    """Write the values, past the line in front of the server."""

    async def fill() -> None:
        async with from_url(place.url, **directly) as store:
            for key, data in around.values.items():
                await store.set(key, data)

    asyncio.run(fill())
    return place


Maker: TypeAlias = Callable[[Surroundings], Place]

PLACES: dict[str, Maker] = {
    "path": _path,
    "file": _file,
    "memory": _memory,
    "http": _http,
    "s3": _s3,
    "gs": _gcs,
    "zip": _archive,
    "zip over http": _archive_over_http,
    "simplecache over http": _cached_by_fsspec,
    "s3fs": _s3fs,
    "az": _azure,
    "s3 on radosgw": _radosgw,
    "nginx": _nginx,
}
ON_SERVERS = frozenset({"az", "s3 on radosgw", "nginx"})


def all_places(*names: str) -> list[Any]:
    """Parameters for `pytest.mark.parametrize`: these places, or all; those on servers of others are marked."""
    return [
        pytest.param(name, marks=[pytest.mark.servers] if name in ON_SERVERS else [], id=name.replace(" ", "-"))
        for name in names or PLACES
    ]
