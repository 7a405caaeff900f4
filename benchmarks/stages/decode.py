"""The fourth stage: codecs, from the bytes of a chunk to its elements in place."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import aiozarr
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.worker_pool import available_cores
from aiozarr.settings import DEFAULT_SETTINGS
from benchmarks.layouts import Layout, values
from benchmarks.stages.figures import Figure, least

CHAINS: dict[str, list[dict[str, object]]] = {
    "zstd 3": [{"name": "zstd", "configuration": {"level": 3, "checksum": False}}],
    "gzip 5": [{"name": "gzip", "configuration": {"level": 5}}],
    "blosc lz4": [
        {
            "name": "blosc",
            "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0},
        }
    ],
    "crc32c": [{"name": "crc32c"}],
    "none": [],
}


def pipeline_of(chain: list[dict[str, object]], layout: Layout) -> CodecPipeline:
    """Return the codecs of an array of one chunk of `layout`."""

    async def made() -> ArrayLayout:
        array = await aiozarr.create_array(
            aiozarr.stores.MemoryStore(),
            shape=layout.chunks,
            chunks=layout.chunks,
            dtype="float32",
            codecs=[{"name": "bytes", "configuration": {"endian": "little"}}, *chain],
        )
        return ArrayLayout.resolve(array.metadata, node="bench", settings=DEFAULT_SETTINGS)

    return asyncio.run(made()).largest.pipeline


def in_all(pool: ThreadPoolExecutor, threads: int, function: Callable[[], None]) -> None:
    """Call `function` in all threads at once."""
    for each in [pool.submit(function) for _ in range(threads)]:
        each.result()


def figures(nbytes: int, repeats: int, runs: int) -> list[Figure]:
    """Return how fast chunks of `nbytes` are decoded into place, by one thread and by all."""
    import numpy as np

    layout = Layout(nbytes, nbytes)
    chunk = values(layout.shape, 0, layout.shape[0])
    threads = available_cores()
    found = []
    for name, chain in CHAINS.items():
        pipeline = pipeline_of(chain, layout)
        data = bytes(memoryview(pipeline.encode(chunk)).cast("B"))

        def decode(pipeline: CodecPipeline = pipeline, data: bytes = data) -> None:
            out = np.empty(layout.shape, np.float32)
            for _ in range(repeats):
                if pipeline.decode(data, out=out) is not out:
                    out[...] = pipeline.decode(data)

        # Not in the main thread, where Blosc takes threads of its own, which no read does.
        with ThreadPoolExecutor(1) as pool:
            one = pool.submit(least, decode, runs, time.thread_time).result()
        found.append(Figure("decode", f"{name}, one thread", repeats * nbytes / one / 1e9, "GB/s"))
        with ThreadPoolExecutor(threads) as pool:
            every = least(partial(in_all, pool, threads, decode), runs, time.perf_counter)
        found.append(
            Figure("decode", f"{name}, {threads} threads", threads * repeats * nbytes / every / 1e9, "GB/s, wall")
        )
    return found
