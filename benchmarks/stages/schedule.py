"""The second stage: the cost of queue, budget and bookkeeping per request, with stores that respond at once."""

from __future__ import annotations

import asyncio
import json

import aiozarr
from aiozarr.schedule.executor import RequestExecutor
from aiozarr.schedule.requests import RequestSource, RetryPolicy, ScheduledRequest
from aiozarr.stores import ByteRange, Store, Supports, Value, Version
from benchmarks.stages.figures import Figure, least_cpu

POLICY = RetryPolicy()
CHUNK = 64


class Instant(ScheduledRequest):
    """A call that is answered at once."""

    __slots__ = ("source",)

    def __init__(self, source: Calls) -> None:
        super().__init__(POLICY, 1)
        self.source = source

    async def send(self) -> None:
        pass

    def completed(self, error: BaseException | None) -> None:
        source = self.source
        source.origin.charge(-1)
        source.left -= 1
        if not source.left:
            source.end.set()


class Calls(RequestSource):
    """So many of them, for one caller."""

    max_requests = None
    max_bytes = 1 << 40

    def __init__(self, origin: RequestExecutor, count: int) -> None:
        self.origin, self.left, self.waiting = origin, count, count
        self.end = asyncio.Event()

    def next(self) -> ScheduledRequest | None:
        if not self.waiting:
            return None
        self.waiting -= 1
        return Instant(self)

    def pending(self) -> int:
        return self.waiting


class Distant(Store):
    """A store of the loop, as those of a network are, which has one array, all of whose chunks are alike."""

    def __init__(self, chunks: int) -> None:
        self.supports = Supports(conditional_reads=True)
        self._chunk = Value(bytes(CHUNK), Version("1"), CHUNK)
        document = json.dumps(
            {
                "zarr_format": 3,
                "node_type": "array",
                "shape": [CHUNK * chunks],
                "data_type": "uint8",
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [CHUNK]}},
                "chunk_key_encoding": {"name": "default"},
                "fill_value": 0,
                "codecs": [{"name": "bytes"}],
            }
        ).encode()
        self._document = Value(document, Version("1"), len(document))

    @property
    def url(self) -> str:
        return "bench://distant"

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        if "/" in key:
            return self._chunk
        return self._document if key == "zarr.json" else None


async def through_the_queue(count: int) -> None:
    """Send calls through a queue of their own."""
    origin = RequestExecutor()
    calls = Calls(origin, count)
    origin.register(calls)
    origin.wake(calls)
    await calls.end.wait()
    origin.unregister(calls)


def send_instantly(count: int) -> None:
    """The same, on a loop of its own."""
    asyncio.run(through_the_queue(count))


def read_instantly(count: int) -> None:
    """Read as many chunks, of 64 bytes each."""

    async def read() -> None:
        await (await aiozarr.open_array(Distant(count)))[...]

    asyncio.run(read())


def figures(count: int, runs: int) -> list[Figure]:
    """Return µs of CPU time per request."""
    queue = least_cpu(lambda: send_instantly(count), runs)
    engine = least_cpu(lambda: read_instantly(count), runs)
    return [
        Figure("schedule", "a call through the queue", queue / count * 1e6, "µs CPU"),
        Figure("schedule", "a chunk of 64 B through the whole engine", engine / count * 1e6, "µs CPU"),
    ]
