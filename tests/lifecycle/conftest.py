"""Arrays of 0, 1, ... 19 in every kind of place that needs no server of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from aiozarr import sync
from aiozarr.stores import LocalStore, MemoryStore
from tests.support.servers.http_server import FaultServer


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server with an array of 0, 1, ... 19 in chunks of two, at its root."""
    store = MemoryStore()
    array = sync.create_array(store, shape=20, dtype="i4", chunks=2)
    array[...] = np.arange(20)
    values = {key: bytes(store.fetch_now(key).data) for key in ["zarr.json", *(f"c/{n}" for n in range(10))]}  # type: ignore[union-attr]  # all are stored
    with FaultServer(values) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path, server: FaultServer) -> str:
    """The same array in a folder."""
    store = LocalStore(tmp_path / "a.zarr")
    for key in server.keys():  # noqa: SIM118  # a server is no dict
        store.set_now(key, server.get(key) or b"")
    return str(tmp_path / "a.zarr")


@pytest.fixture(params=["http", "local", "memory"])
def place(request: pytest.FixtureRequest, server: FaultServer, folder: str) -> str:
    """The URL of the array; memory's holds in this process only."""
    match request.param:
        case "http":
            return server.url
        case "local":
            return folder
        case _:
            store = MemoryStore.named("lifecycle")
            for key in server.keys():  # noqa: SIM118  # a server is no dict
                store.set_now(key, server.get(key) or b"")
            return "memory://lifecycle"
