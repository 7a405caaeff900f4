"""Arrays on a web server that misbehaves, opened by their URL as users do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

import aiozarr
from aiozarr.stores import MemoryStore
from tests.support.servers.http_server import FaultServer

QUICK = aiozarr.Settings(idle_timeout=0.4, retry_seconds=3.0, merge_gap_bytes=0, max_request_bytes=50)
"""So that a test of something that ends by a time limit is over soon; the repetitions themselves fit in well.

Of the small shards of these tests index and data are two requests: 50 bytes are too little for both.
"""

RAW = [{"name": "bytes", "configuration": {"endian": "little"}}]
CHECKED = [*RAW, {"name": "crc32c"}]


def document(
    shape: Sequence[int] = (8,),
    chunks: Sequence[int] = (2,),
    *,
    inner: Sequence[int] | None = None,
    codecs: Sequence[Any] = CHECKED,
    index_codecs: Sequence[Any] = CHECKED,
    dtype: str = "int32",
    **members: Any,
) -> dict[str, Any]:
    """Return a metadata document, as stored."""
    chain = list(codecs)
    if inner is not None:
        configuration = {"chunk_shape": list(inner), "codecs": chain, "index_codecs": list(index_codecs)}
        chain = [{"name": "sharding_indexed", "configuration": {**configuration, "index_location": "end"}}]
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(shape),
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": chain,
        **members,
    }


@dataclass
class RemoteArray:
    """An array with the values 1, 2, 3, ... on a server, opened.

    Attributes:
        begun: how many requests the server had seen when the array was ready.
    """

    server: FaultServer
    array: aiozarr.Array
    values: NDArray[Any]
    begun: int = field(init=False)

    def __post_init__(self) -> None:
        self.begun = len(self.server.requests)

    @property
    def keys(self) -> list[str]:
        """The keys requested since, in order."""
        return [request.key for request in self.server.requests[self.begun :]]

    @property
    def ranges(self) -> list[str]:
        """The Range header of every request since."""
        return [request.headers.get("range", "") for request in self.server.requests[self.begun :]]


async def serve_array(server: FaultServer, *, settings: aiozarr.Settings = QUICK, **described: Any) -> RemoteArray:
    """Put an array onto `server`, and open it by its URL; `described` are the arguments of `document`."""
    described = document(**described)
    shape = tuple(described["shape"])
    values = np.arange(1, prod(shape) + 1, dtype=described["data_type"]).reshape(shape)
    store = MemoryStore()
    await store.set("zarr.json", json.dumps(described).encode())
    writable = await aiozarr.open_array(store, mode="r+")
    await writable[...].write(values)
    for key in await store.list():
        data = await store.get(key)
        assert data is not None
        server.put(key, bytes(data))
    return RemoteArray(server, await aiozarr.open_array(server.url, zarr_format=3, settings=settings), values)
