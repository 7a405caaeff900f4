"""The command bench: measures latency, request rate and bandwidth of a store, and derives settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from statistics import median, quantiles
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from aiozarr.cli.output import Output, bytes_text, output_options
from aiozarr.cli.targets import StorageOptions, TargetOptions, check_listable, iterated, store_options
from aiozarr.errors import NodeNotFoundError

if TYPE_CHECKING:
    from aiozarr.model import Entry

SMALL_BYTES = 1024
"""Bytes of a request whose time is latency."""
MAX_OBJECTS = 2000
"""Objects that are listed for the measurement."""
LATENCY_REQUESTS = 20
CONCURRENCIES = (1, 4, 16, 64, 128)
MIN_GAIN = 1.1
"""More requests at a time are better only if they are faster by this factor."""


class Sample(NamedTuple):
    """One measurement: `count` requests of `nbytes` together, `concurrency` at a time, in `seconds`."""

    measure: str
    concurrency: int
    requests: int
    bytes: int
    seconds: float

    @property
    def requests_per_second(self) -> float:
        """Completed requests per second."""
        return self.requests / max(self.seconds, 1e-9)

    @property
    def bytes_per_second(self) -> float:
        """Received bytes per second."""
        return self.bytes / max(self.seconds, 1e-9)


@click.command()
@click.argument("target")
@click.option(
    "--seconds", type=click.FloatRange(0.01), default=2.0, show_default=True, help="Time of each measurement."
)
@click.option("--part-size", type=click.IntRange(1), default=8 << 20, help="Bytes of a large request [default: 8 MiB].")
@click.option(
    "--max-requests", type=click.IntRange(1), default=64, show_default=True, help="Requests at a time, at most."
)
@store_options
@output_options
def bench(target: str, seconds: float, part_size: int, max_requests: int, stores: TargetOptions, out: Output) -> None:
    """Measure latency, request rate and bandwidth of reads below TARGET, and print the settings that follow.

    It reads the objects that are stored there, again and again, and writes nothing. Caches of the server count.
    """
    samples: list[Sample] = []
    latencies: list[float] = []
    with iterated(_measure(target, stores.of(target), seconds, part_size, max_requests)) as items:
        for item in items:
            if isinstance(item, list):
                latencies = item
                record, text = _latency(latencies)
            else:
                samples.append(item)
                record, text = _sample(item)
            out.record(record, text)
    record, text = recommend(latencies, samples)
    out.record(record, text)


def _latency(latencies: list[float]) -> tuple[dict[str, Any], str]:
    p50 = median(latencies)
    p90 = quantiles(latencies, n=10)[-1] if len(latencies) > 1 else p50
    record = {
        "type": "latency",
        "requests": len(latencies),
        "p50_ms": round(p50 * 1e3, 3),
        "p90_ms": round(p90 * 1e3, 3),
    }
    return (
        record,
        f"latency        : {p50 * 1e3:.1f} ms median, {p90 * 1e3:.1f} ms in 9 of 10, {len(latencies)} requests",
    )


def _sample(sample: Sample) -> tuple[dict[str, Any], str]:
    record = {
        "type": "rate",
        **sample._asdict(),
        "seconds": round(sample.seconds, 3),
        "requests_per_second": round(sample.requests_per_second, 1),
        "bytes_per_second": round(sample.bytes_per_second),
    }
    rate = (
        f"{sample.requests_per_second:,.0f} requests/s"
        if sample.measure == "small"
        else f"{bytes_text(sample.bytes_per_second)}/s"
    )
    return record, f"{sample.measure:<5} × {sample.concurrency:<7}: {rate}"


def recommend(latencies: Sequence[float], samples: Sequence[Sample]) -> tuple[dict[str, Any], str]:
    """Return the settings that the measurements suggest, as a record and as text.

    `max_requests` is the smallest number of requests at a time that no larger one beats by a tenth. `gap` is the bytes
    that arrive in the time of a request: reading over a smaller gap is cheaper than another request.
    """
    small = _best([sample for sample in samples if sample.measure == "small"])
    large = _best([sample for sample in samples if sample.measure == "large"])
    most = max([each.concurrency for each in (small, large) if each is not None], default=1)
    gap = 0
    if small is not None and large is not None:
        gap = round(large.bytes_per_second / max(small.requests_per_second, 1e-9))
    record = {"type": "settings", "max_requests": most, "gap": gap}
    text = f'settings       : Settings(max_requests={most}, gap={gap}); the defaults "auto" find them while they run'
    return record, text


def _best(samples: Sequence[Sample]) -> Sample | None:
    best: Sample | None = None
    for sample in samples:
        if best is None or sample.requests_per_second > MIN_GAIN * best.requests_per_second:
            best = sample
    return best


async def _measure(
    target: str, options: StorageOptions, seconds: float, part_size: int, max_requests: int
) -> AsyncGenerator[list[float] | Sample, None]:
    """Yield the latencies of single requests, then samples of small and of large requests at growing concurrency."""
    from aiozarr.engine.open_store import opened_store
    from aiozarr.engine.private_thread import current_engine
    from aiozarr.model import Range
    from aiozarr.settings import DEFAULT_SETTINGS

    engine = current_engine()
    assert engine is not None, "runs on the I/O thread"
    async with opened_store(target, options, DEFAULT_SETTINGS) as (store, _):
        try:
            check_listable(store)
            entries = await _objects(engine.scheduled(store, DEFAULT_SETTINGS))
            if not entries:
                raise NodeNotFoundError(f"nothing to read at {target}", url=target)

            async def fetch(entry: Entry, start: int, length: int) -> int:
                value = await store.fetch(entry.key, Range(start, length))
                return 0 if value is None else memoryview(value.data).nbytes

            await fetch(entries[0], 0, SMALL_BYTES)  # opens the connection
            latencies = []
            for number in range(LATENCY_REQUESTS):
                begun = monotonic()
                await fetch(entries[number % len(entries)], 0, SMALL_BYTES)
                latencies.append(monotonic() - begun)
            yield latencies
            most = max([entry.size or 0 for entry in entries])
            large = [entry for entry in entries if (entry.size or 0) >= most / 2]
            for measure, pool, length in (("small", entries, SMALL_BYTES), ("large", large, part_size)):
                for concurrency in CONCURRENCIES:
                    if concurrency > max_requests:
                        break
                    yield await _rate(measure, pool, length, concurrency, seconds, fetch)
        finally:
            await store.aclose()


async def _objects(store: Any) -> list[Entry]:
    found: list[Entry] = []
    entries = store.scan()
    try:
        async for entry in entries:
            if entry.size != 0:
                found.append(entry)
            if len(found) >= MAX_OBJECTS:
                break
    finally:
        with suppress(AttributeError):
            await entries.aclose()
    return found


async def _rate(
    measure: str, entries: Sequence[Entry], length: int, concurrency: int, seconds: float, fetch: Any
) -> Sample:
    """Read ranges of `length` bytes, `concurrency` at a time, until the time is over."""
    from aiozarr.concurrency import gather_all

    ranges = [(entry, start) for entry in entries for start in range(0, max(1, entry.size or 1), length)] or [
        (entries[0], 0)
    ]
    position = requests = received = 0
    begun = monotonic()

    async def work() -> None:
        nonlocal position, requests, received
        while monotonic() - begun < seconds:
            entry, start = ranges[position % len(ranges)]
            position += 1
            received += await fetch(entry, start, length)
            requests += 1
            await asyncio.sleep(0)

    await gather_all([work() for _ in range(concurrency)])
    return Sample(measure, concurrency, requests, received, monotonic() - begun)
