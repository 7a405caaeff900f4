"""How the CPU time of a whole read divides: by threads, which the system counts, and by codecs, which are timed."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import aiozarr
from aiozarr.codecs.codec_pipeline import CodecPipeline
from aiozarr.codecs.region_decoder import RegionDecoder
from benchmarks.layouts import Layout, said, whole
from benchmarks.server import served


@dataclass
class Shares:
    """CPU seconds of one read.

    Attributes:
        chunks: how many were read.
        seconds: wall time.
        caller: of the thread that awaits.
        loop: of the I/O thread: plan, keys, schedule, transport, bookkeeping.
        codecs: of the workers, in codecs; where these write into the output themselves, scatter is part of it.
        workers: of the workers in all else: scatter, and what they hand over.
    """

    chunks: int = 0
    seconds: float = 0.0
    caller: float = 0.0
    loop: float = 0.0
    codecs: float = 0.0
    workers: float = 0.0

    def rows(self, title: str) -> list[tuple[str, ...]]:
        """A line for each part: CPU ms, its share, and µs for each chunk."""
        parts = {
            "I/O thread: plan, schedule, transport": self.loop,
            "workers: codecs": self.codecs,
            "workers: scatter, hand-over": self.workers,
            "the caller's thread": self.caller,
        }
        total = sum(parts.values()) or 1.0
        return [
            (f"{title}: {name}", f"{cpu * 1000:.1f}", f"{cpu / total:.0%}", f"{cpu / max(1, self.chunks) * 1e6:.1f}")
            for name, cpu in parts.items()
        ]


HEADINGS = ("a read of", "CPU ms", "share", "µs a chunk")


@dataclass
class _Timed:
    seconds: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def codecs_timed() -> Iterator[_Timed]:
    """Add up the CPU time of codecs, in all threads, at both doors that a read enters them by."""
    total = _Timed()

    def timed(original: Callable[..., Any]) -> Callable[..., Any]:
        def decode(*args: Any, **kwargs: Any) -> Any:
            begun = time.thread_time()
            try:
                return original(*args, **kwargs)
            finally:
                spent = time.thread_time() - begun
                with total.lock:
                    total.seconds += spent

        return decode

    with (
        patch.object(CodecPipeline, "decode", timed(CodecPipeline.decode)),
        patch.object(RegionDecoder, "decode", timed(RegionDecoder.decode)),
    ):
        yield total


def thread_clocks() -> dict[str, float]:
    """Return the CPU seconds of the I/O thread and of all workers so far."""
    found = {"aiozarr-io": 0.0, "aiozarr-worker": 0.0}
    for thread in threading.enumerate():
        kind = thread.name.rstrip("0123456789").rstrip("-")
        if kind in found and thread.ident is not None:
            found[kind] += time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return found


async def read(target: str) -> Shares:
    """Read a whole array twice, and measure the second time."""
    array = await aiozarr.open_array(target)
    await array[...]
    shares = Shares()
    with codecs_timed() as codecs, aiozarr.record() as report:
        clocks, caller, begun = thread_clocks(), time.thread_time(), time.perf_counter()
        await array[...]
        shares.seconds, shares.caller = time.perf_counter() - begun, time.thread_time() - caller
        after = thread_clocks()
    shares.chunks = report.chunks
    shares.loop = after["aiozarr-io"] - clocks["aiozarr-io"]
    shares.codecs = codecs.seconds
    shares.workers = max(0.0, after["aiozarr-worker"] - clocks["aiozarr-worker"] - codecs.seconds)
    return shares


def rows(nbytes: int, latency: float, *, python: bool = False) -> list[tuple[str, ...]]:
    """Return the shares of reads of medium and small chunks and of a sharded array, over HTTP and from the disk."""
    layouts = {
        "medium": Layout(nbytes, min(nbytes, 1 << 20)),
        "small": Layout(nbytes, min(nbytes, 32 << 10)),
        "sharded": Layout(nbytes, min(nbytes, 64 << 10), min(nbytes, 64 << 20)),
    }
    found: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, layout in layouts.items():
            asyncio.run(write(f"{folder}/{name}", layout))
        with served(Path(folder), latency, python=python) as server:
            for name, layout in layouts.items():
                for place, root in (("HTTP", server.url), ("disk", folder)):
                    shares = asyncio.run(read(f"{root}/{name}"))
                    found += shares.rows(f"{said(nbytes)} in {said(layout.chunk)}, {name}, {place}")
    return found


async def write(target: str, layout: Layout) -> None:
    """Write the array, with aiozarr: these benchmarks run without peers."""
    array = await aiozarr.create_array(
        target,
        shape=layout.shape,
        dtype="float32",
        chunks=layout.chunks,
        shards=layout.shards,
        codecs=[
            {"name": "bytes", "configuration": {"endian": "little"}},
            {"name": "zstd", "configuration": {"level": 3, "checksum": False}},
        ],
    )
    await array[...].write(whole(layout))
