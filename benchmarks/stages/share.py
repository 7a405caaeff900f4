"""How the CPU time of a whole read divides: by threads, which the system counts, and by codecs, which are timed."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiozarr
from aiozarr.codecs import CodecPipeline
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
    """Add up the CPU time of `CodecPipeline.decode`, in all threads."""
    total, original = _Timed(), CodecPipeline.decode

    def decode(self: CodecPipeline, *args: Any, **kwargs: Any) -> Any:
        begun = time.thread_time()
        try:
            return original(self, *args, **kwargs)
        finally:
            spent = time.thread_time() - begun
            with total.lock:
                total.seconds += spent

    CodecPipeline.decode = decode  # type: ignore[method-assign]  # for as long as this measures
    try:
        yield total
    finally:
        CodecPipeline.decode = original  # type: ignore[method-assign]


def thread_clocks() -> dict[str, float]:
    """Return the CPU seconds of the I/O thread and of all workers so far."""
    found = {"loop": 0.0, "workers": 0.0}
    for thread in threading.enumerate():
        kind = {"aiozarr-io": "loop", "aiozarr-worker": "workers"}.get(thread.name.rpartition("-")[0] or thread.name)
        kind = "loop" if thread.name == "aiozarr-io" else kind
        if kind is not None and thread.ident is not None:
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
    shares.loop = after["loop"] - clocks["loop"]
    shares.codecs = codecs.seconds
    shares.workers = max(0.0, after["workers"] - clocks["workers"] - codecs.seconds)
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
