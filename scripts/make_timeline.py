"""Draw docs/assets/timeline.svg: one read of a sharded array, from a server of this repository that answers slowly.

The picture is of a real run, so it is another one each time: `python scripts/make_timeline.py [FILE]`.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import aiozarr
from aiozarr.schedule.events import RequestEvent
from aiozarr.stores import MemoryStore
from scripts.timeline import timeline_svg
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer

PICTURE = Path(__file__).parents[1] / "docs" / "assets" / "timeline.svg"

LATENCY = 0.02
"""Seconds before each answer, as from a bucket in the same region."""

PIECE, PAUSE = 64 << 10, 0.004
"""Bodies come in pieces of so many bytes, with so many seconds after each: about 16 MB per second and connection."""

GZIP: list[str | dict[str, Any]] = ["bytes", {"name": "gzip", "configuration": {"level": 1}}]
"""A codec that takes its time, so that decoding is seen."""

READS = 5
"""The machine may be busy with other things: of so many reads the quickest is drawn."""

SETTINGS = aiozarr.Settings(max_requests=8, merge_gap_bytes=0)
"""Fewer requests at a time than there are to send, so that some have to wait."""


def slow_bodies(_: Request, reply: Reply) -> Reply:
    """Return `reply` as over a line of moderate width."""
    return replace(reply, piece=PIECE, pause=PAUSE) if len(reply.body) > PIECE else reply


async def put_array(server: FaultServer) -> None:
    """Store an array of 8 shards of 8 inner chunks; one of the shards would be all fill value, and is not stored."""
    store = MemoryStore()
    array = await aiozarr.create_array(
        store, shape=(1024, 4096), dtype="f4", chunks=(256, 256), shards=(512, 1024), codecs=GZIP
    )
    random = np.random.default_rng(5)
    values = np.cumsum(random.normal(size=array.shape).astype("f4").round(1), axis=1, dtype="f4")
    values[512:, 2048:3072] = 0
    await array[...].write(values)
    for key in await store.list():
        data = await store.get(key)
        assert data is not None
        server.put(key, bytes(data))


async def one_read() -> list[RequestEvent]:
    """Read four columns of the array, a column of inner chunks in each shard; return the quickest read's requests."""
    reads: list[list[RequestEvent]] = []
    with FaultServer() as server:
        await put_array(server)
        server.latency, server.script = LATENCY, slow_bodies
        for _ in range(READS):
            events: list[RequestEvent] = []
            settings = replace(SETTINGS, on_event=events.append, index_cache_bytes=0)
            array = await aiozarr.open_array(server.url, zarr_format=3, settings=settings)
            events.clear()
            await array[:, ::1024]
            reads.append(events)
    return min(reads, key=lambda events: max([each.decode_ended for each in events]) - events[0].started)


def main() -> None:
    """Make the picture."""
    parser = argparse.ArgumentParser(description="Draw the timeline of a real read as SVG.")
    parser.add_argument("file", nargs="?", type=Path, default=PICTURE, help="where to (default: %(default)s)")
    picture: Path = parser.parse_args().file
    picture.parent.mkdir(parents=True, exist_ok=True)
    events = asyncio.run(one_read())
    picture.write_text(timeline_svg(events), "utf-8")
    print(f"{picture}: {len(events)} requests")


if __name__ == "__main__":
    main()
