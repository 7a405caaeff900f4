"""The server of the benchmarks: it writes the arrays into memory, serves them over HTTP, and prints its URL."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass

import numpy as np

import aiozarr
from aiozarr.stores import MemoryStore
from aiozarr.testing.http_server import FaultServer


@dataclass(frozen=True)
class Layout:
    """An array to read: its shape, chunks and shards, of int32."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None = None


LAYOUTS = {
    "medium": Layout((128, 512, 512), (1, 512, 512)),
    "small": Layout((2048, 8192), (1, 8192)),
    "sharded": Layout((256, 256, 256), (16, 16, 16), (128, 256, 256)),
}


async def objects() -> dict[str, bytes]:
    """All stored objects of all arrays."""
    store = MemoryStore()
    noise = np.random.default_rng(1)
    for name, layout in LAYOUTS.items():
        array = await aiozarr.create_array(
            store, name, shape=layout.shape, dtype="int32", chunks=layout.chunks, shards=layout.shards
        )
        await array[...].write(noise.integers(0, 1 << 12, layout.shape, dtype="int32"))
    return {key: bytes(value) for key in await store.list() if (value := await store.get(key)) is not None}


def main() -> None:
    with FaultServer(asyncio.run(objects()), latency=float(sys.argv[1]) / 1000) as server:
        print(server.url, flush=True)
        # It lives as long as its standard input is open, and so ends with whoever started it.
        sys.stdin.read()


if __name__ == "__main__":
    main()
