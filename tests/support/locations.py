"""The same array in every kind of location that aiozarr opens, each server behind a link that counts requests.

A new kind of location is added to `LOCATIONS`. Those that need a server from a system package are in `ON_SERVERS`.
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

from aiozarr import sync
from aiozarr.stores import MemoryStore, from_url
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.http_server import FaultServer
from tests.support.simulated_link import SimulatedLink

_numbers = itertools.count()


@dataclass(frozen=True)
class Location:
    """The location of an array.

    Attributes:
        url, storage_options: the arguments that open it.
        link: the link to the server, which counts connections and requests, or None without a server.
        writable: whether the location can be written to.
        keeps_connections: whether connections may stay open: fsspec caches file systems for the life of the process,
            and some of them keep connections. Their number must not grow with use.
    """

    url: str
    storage_options: dict[str, Any] = field(default_factory=dict)
    link: SimulatedLink | None = None
    writable: bool = True
    keeps_connections: bool = False


@dataclass(frozen=True)
class LocationContext:
    """The inputs of a location: the stored objects, a folder, and pytest's fixtures."""

    values: Mapping[str, bytes]
    folder: Path
    request: pytest.FixtureRequest
    stack: ExitStack
    latency: float = 0.0

    def link(self, target: str) -> SimulatedLink:
        """A link to a server."""
        return self.stack.enter_context(SimulatedLink(target, self.latency))

    def web(self, values: Mapping[str, bytes]) -> SimulatedLink:
        """A link to a new web server with these values."""
        return self.link(self.stack.enter_context(FaultServer(values)).url)

    def archive(self) -> bytes:
        """The values in an archive."""
        into = BytesIO()
        with zipfile.ZipFile(into, "w") as archive:
            for key, data in self.values.items():
                archive.writestr(key, data)
        return into.getvalue()


def sample_values() -> NDArray[Any]:
    """The elements of the array that is in all locations."""
    return np.arange(48 * 40, dtype="f4").reshape(48, 40)


def stored_objects(values: NDArray[Any] | None = None, **described: Any) -> dict[str, bytes]:
    """The stored objects of an array of `values`; `described` are further arguments of `create_array`."""
    store, values = MemoryStore(), sample_values() if values is None else values
    described = {"chunks": (8, 10), "shards": (16, 20), "attributes": {"unit": "K"}, **described}
    with sync.create_array(store, shape=values.shape, dtype=values.dtype, **described) as array:
        array[...] = values
    found = {key: store.fetch_now(key) for key in asyncio.run(store.list())}
    return {key: bytes(value.data) for key, value in found.items() if value is not None}


@contextmanager
def array_at(
    name: str, values: Mapping[str, bytes], folder: Path, request: pytest.FixtureRequest, latency: float = 0.0
) -> Iterator[Location]:
    """Store `values` in the location called `name`, and yield it."""
    with ExitStack() as stack:
        yield LOCATIONS[name](LocationContext(values, folder, request, stack, latency))


# --- on this machine -------------------------------------------------------------------------------------------------


def _path(context: LocationContext) -> Location:
    root = context.folder / f"ü {next(_numbers)}.zarr"
    for key, data in context.values.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return Location(str(root))


def _file(context: LocationContext) -> Location:
    return Location(Path(_path(context).url).as_uri())


def _memory(context: LocationContext) -> Location:
    name = f"location-{next(_numbers)}"
    store = MemoryStore.named(name)
    for key, data in context.values.items():
        store.set_now(f"below/a.zarr/{key}", data)
    return Location(f"memory://{name}/below/a.zarr")


def _archive(context: LocationContext) -> Location:
    path = context.folder / f"{next(_numbers)}.zip"
    path.write_bytes(context.archive())
    return Location(f"zip::{path.as_uri()}", writable=False)


# --- behind a server of the tests ------------------------------------------------------------------------------------


def _http(context: LocationContext) -> Location:
    link = context.web({f"some where/a.zarr/{key}": data for key, data in context.values.items()})
    return Location(f"{link.url}/some%20where/a.zarr", link=link, writable=False)


def _archive_over_http(context: LocationContext) -> Location:
    link = context.web({"a.zip": context.archive()})
    return Location(f"zip::{link.url}/a.zip", link=link, writable=False)


def _cached(context: LocationContext) -> Location:
    location = _http(context)
    options = {"cache_directory": str(context.folder / f"cache-{next(_numbers)}")}
    return Location(location.url, options, link=location.link, writable=False)


def _s3(context: LocationContext) -> Location:
    server = context.request.getfixturevalue("s3_server")
    return _bucket(context, server, "s3")


def _s3fs(context: LocationContext) -> Location:
    location = _s3(context)
    return Location(location.url.replace("s3://", "s3fs://"), location.storage_options, location.link)


def _bucket(context: LocationContext, server: Any, scheme: str) -> Location:
    link = context.link(server.endpoint_url)
    options = {**server.storage_options, "endpoint_url": link.url}
    bucket = f"location-{next(_numbers)}"
    server.create_bucket(bucket)
    return _filled(context, Location(f"{scheme}://{bucket}/some where/a.zarr", options, link), server.storage_options)


def _gcs(context: LocationContext) -> Location:
    server = context.stack.enter_context(GcsServer("bucket"))
    link = context.link(server.url)
    for key, data in context.values.items():
        server.put("bucket", f"a.zarr/{key}", data)
    return Location("gs://bucket/a.zarr", {**server.storage_options, "endpoint_url": link.url, "anon": True}, link)


# --- behind servers of others ----------------------------------------------------------------------------------------


def _azure(context: LocationContext) -> Location:
    server = context.request.getfixturevalue("azurite_server")
    link = context.link(server.endpoint_url)
    container = f"location-{next(_numbers)}"
    server.create_container(container)
    options = {**server.storage_options, "endpoint_url": link.url}
    return _filled(context, Location(f"az://{container}/a.zarr", options, link), server.storage_options)


def _radosgw(context: LocationContext) -> Location:
    return _bucket(context, context.request.getfixturevalue("radosgw_server"), "s3")


def _nginx(context: LocationContext) -> Location:
    server = context.request.getfixturevalue("nginx_server")
    name = f"location-{next(_numbers)}"
    for key, data in context.values.items():
        server.put(f"{name}/a.zarr/{key}", data)
    link = context.link(server.url)
    return Location(f"{link.url}/{name}/a.zarr", link=link, writable=False)


def _filled(context: LocationContext, location: Location, directly: dict[str, Any]) -> Location:
    """Write the values, past the link in front of the server."""

    async def fill() -> None:
        async with from_url(location.url, **directly) as store:
            for key, data in context.values.items():
                await store.set(key, data)

    asyncio.run(fill())
    return location


Maker: TypeAlias = Callable[[LocationContext], Location]

LOCATIONS: dict[str, Maker] = {
    "path": _path,
    "file": _file,
    "memory": _memory,
    "http": _http,
    "s3": _s3,
    "gs": _gcs,
    "zip": _archive,
    "zip over http": _archive_over_http,
    "cache over http": _cached,
    "s3fs": _s3fs,
    "az": _azure,
    "s3 on radosgw": _radosgw,
    "nginx": _nginx,
}
ON_SERVERS = frozenset({"az", "s3 on radosgw", "nginx"})


def all_locations(*names: str) -> list[Any]:
    """Parameters for `pytest.mark.parametrize`: these locations, or all; those on servers of others are marked."""
    return [
        pytest.param(name, marks=[pytest.mark.servers] if name in ON_SERVERS else [], id=name.replace(" ", "-"))
        for name in names or LOCATIONS
    ]
