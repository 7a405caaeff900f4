"""How each peer opens an array, in one place for all scenarios; peers are imported when they are asked for.

A peer is named `tensorstore`, or `tensorstore@512` with that many requests at a time; without a number it has its own
defaults. Whoever knows a better setting of a peer adds it here.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from benchmarks.scenarios import Selection, Where

BUCKET = "bucket"
KEYS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_REGION": "us-east-1"}


@dataclass(frozen=True)
class Place:
    """The location of an array.

    Attributes:
        where: over HTTP, as an object of S3, or on the disk.
        root: the server's URL, or the folder of the arrays.
        name: the array's.
        zarr_format: 2 or 3; one peer has to be told.
        writing: whether it is going to be written.
    """

    where: Where
    root: str
    name: str
    zarr_format: int
    writing: bool = False

    @property
    def path(self) -> str:
        """The array's path or URL."""
        return f"{self.root}/{self.name}" if self.where == "local" else f"{self.root}/{BUCKET}/{self.name}"


@dataclass(frozen=True)
class Opened:
    """An array, opened: its shape, and how it is read and written."""

    shape: tuple[int, ...]
    read: Callable[[Selection], Awaitable[Any]]
    write: Callable[[Any], Awaitable[object]]


Opener: TypeAlias = Callable[[Place, int | None], Awaitable[Opened]]


async def aiozarr(place: Place, requests: int | None) -> Opened:
    """The library itself with its defaults; `requests` fixes its budget."""
    module = import_module("aiozarr")
    settings = module.Settings() if requests is None else module.Settings(max_requests=requests)
    target, options = place.path, None
    if place.where == "s3":
        target = f"s3://{BUCKET}/{place.name}"
        options = {"endpoint_url": place.root, "key": "bench", "secret": "bench", "region": "us-east-1"}
    mode = "r+" if place.writing else "r"
    array = await module.open_array(target, mode=mode, storage_options=options, settings=settings)

    async def read(selection: Selection) -> Any:
        return await array[selection].read()

    return Opened(array.shape, read, array[...].write)


async def tensorstore(place: Place, requests: int | None) -> Opened:
    """TensorStore, without its cache, which is off by default."""
    module = import_module("tensorstore")
    store: dict[str, Any] = {"driver": "file", "path": f"{place.path}/"}
    if place.where == "http":
        store = {"driver": "http", "base_url": f"{place.path}/"}
    elif place.where == "s3":
        store = {"driver": "s3", "bucket": BUCKET, "path": f"{place.name}/", "endpoint": place.root}
        store |= {"aws_region": "us-east-1", "aws_credentials": {"type": "environment"}}
    context = {} if requests is None else {f"{place.where}_request_concurrency": {"limit": requests}}
    driver = "zarr" if place.zarr_format == 2 else "zarr3"
    spec = {"driver": driver, "kvstore": store, "context": context if place.where != "local" else {}}
    array = await module.open(spec, open=True)

    async def read(selection: Selection) -> Any:
        return await array[selection].read()

    async def write(values: Any) -> None:
        await array.write(values)

    return Opened(tuple(array.shape), read, write)


def zarr_python(pipeline: str | None = None) -> Opener:
    """zarr-python with obstore, its fastest store over a network; with another pipeline of codecs, where named."""

    async def opener(place: Place, requests: int | None) -> Opened:
        module, storage = import_module("zarr"), import_module("zarr.storage")
        if requests is not None:
            module.config.set({"async.concurrency": requests})
        if pipeline is not None:
            package, _, name = pipeline.rpartition(".")
            import_module("zarr.registry").register_pipeline(getattr(import_module(package), name))
            module.config.set({"codec_pipeline.path": pipeline})
        store = storage.LocalStore(place.path, read_only=not place.writing)
        if place.where != "local":
            store = storage.ObjectStore(_object_store(place), read_only=not place.writing)
        array = await module.api.asynchronous.open_array(store=store, mode="r+" if place.writing else "r")
        return Opened(array.shape, array.getitem, lambda values: array.setitem(..., values))

    return opener


async def zarrista(place: Place, requests: int | None) -> Opened:
    """zarrista, Python's binding of zarrs."""
    module, stores = import_module("zarrista"), import_module("obstore.store")
    # A local store that is told to remove empty folders does so before every write.
    store = stores.LocalStore(place.path) if place.where == "local" else _object_store(place)
    array = await module.AsyncArray.open(store, "/")
    options = {} if requests is None else {"concurrent_target": requests}

    async def read(selection: Selection) -> Any:
        found = await array.retrieve_array_subset(selection, **options)
        return found.to_numpy() if hasattr(found, "to_numpy") else found

    async def write(values: Any) -> None:
        whole = tuple([slice(0, length) for length in values.shape])
        await array.store_array_subset(whole, values, **options)

    return Opened(tuple(array.shape), read, write)


def _object_store(place: Place) -> Any:
    stores = import_module("obstore.store")
    options = {"allow_http": True}
    if place.where == "http":
        return stores.HTTPStore.from_url(place.path, client_options=options)
    return stores.S3Store(
        BUCKET, prefix=place.name, endpoint=place.root, virtual_hosted_style_request=False, client_options=options
    )


PEERS: Mapping[str, tuple[Opener, tuple[str, ...]]] = {
    "aiozarr": (aiozarr, ("aiozarr",)),
    "tensorstore": (tensorstore, ("tensorstore",)),
    "zarr-python": (zarr_python(), ("zarr", "obstore")),
    "zarr-aiozarr": (zarr_python("aiozarr.integrations.zarr.CodecPipeline"), ("zarr", "obstore", "aiozarr")),
    "zarrs": (zarr_python("zarrs.ZarrsCodecPipeline"), ("zarr", "obstore", "zarrs")),
    "zarrista": (zarrista, ("zarrista", "obstore")),
}
"""Each peer by name: how it opens arrays, and the packages that it needs."""

BEST = ("tensorstore", "tensorstore@512", "zarr-python@128", "zarrista@64")
"""The peers that are compared unless others are named, at the best setting known of each."""


def split(peer: str) -> tuple[str, int | None]:
    """Return name and number of requests of `peer`.

    Raises:
        ValueError: there is no such peer.
    """
    name, _, requests = peer.partition("@")
    if name not in PEERS:
        raise ValueError(f"a peer is one of {', '.join(PEERS)}, perhaps with @ and a number, not {peer!r}")
    return name, int(requests) if requests else None


async def opened(peer: str, place: Place) -> Opened:
    """Open the array at `place` with `peer`."""
    name, requests = split(peer)
    os.environ.update(KEYS)
    return await PEERS[name][0](place, requests)
