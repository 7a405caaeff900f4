"""Runs of chunks that a worker reads from a blocking store in one hop; in virtual time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from arrays import RAW, SETTINGS, Sample, engine, layout_of

from aiozarr.engine import Engine
from aiozarr.errors import ChecksumError, CodecError, MissingChunkError, PermissionDeniedError
from aiozarr.model import ByteRange, Value, Version
from aiozarr.schedule import Event, Report
from aiozarr.stores import MemoryStore
from aiozarr.testing.virtual_time import run_virtual


class Faulty(MemoryStore):
    """A memory store that refuses one key."""

    refused = "a/c/5/0"

    def fetch_now(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        if key == self.refused:
            raise PermissionDeniedError("no", key=key)
        return super().fetch_now(key, range, if_match=if_match)


async def stored(store: MemoryStore, **layout: object) -> tuple[Sample, Engine]:
    array = Sample(layout_of((8, 2), (1, 2), **layout), store)  # type: ignore[arg-type]  # the caller's own keywords
    worker = engine()
    await worker.write([array.write(array.values)], settings=SETTINGS)
    return array, worker


def test_every_chunk_counts_as_one_request_and_is_told_to_the_observer() -> None:
    async def scenario() -> None:
        array, worker = await stored(MemoryStore())
        events: list[Event] = []
        report = Report()
        read = array.read(...)
        await worker.read([read], settings=replace(SETTINGS, on_event=events.append), recorder=report)
        assert np.array_equal(read.out, array.values)
        assert (report.requests, report.bytes_fetched, report.chunks, report.retries) == (8, 64, 8, 0)
        assert [event.key for event in events] == [f"a/c/{row}/0" for row in range(8)]

    run_virtual(scenario())


def test_a_refused_chunk_ends_the_read_and_the_observer_learns_of_it() -> None:
    async def scenario() -> None:
        array, worker = await stored(Faulty())
        events: list[Event] = []
        with pytest.raises(PermissionDeniedError):
            await worker.read([array.read(...)], settings=replace(SETTINGS, on_event=events.append))
        (failed,) = [event for event in events if event.error is not None]
        assert failed.key == Faulty.refused

    run_virtual(scenario())


def test_missing_chunks_fill_or_raise_and_damaged_ones_are_read_twice() -> None:
    async def scenario() -> None:
        store = MemoryStore()
        array, worker = await stored(store, fill_value=9, codecs=[*RAW, {"name": "crc32c"}])
        store.erase_now("a/c/3/0")
        read = array.read(...)
        await worker.read([read], settings=SETTINGS)
        assert read.out[3].tolist() == [9, 9]
        with pytest.raises(MissingChunkError) as missing:
            await worker.read([array.read(...)], settings=replace(SETTINGS, missing="raise"))
        assert missing.value.key == "a/c/3/0"
        store.set_now("a/c/6/0", b"x" * 12)
        report = Report()
        with pytest.raises(ChecksumError) as damaged:
            await worker.read([array.read(6)], settings=SETTINGS, recorder=report)
        assert (damaged.value.store, damaged.value.key, report.requests) == (store.url, "a/c/6/0", 2)
        store.set_now("a/c/6/0", b"short")
        with pytest.raises(CodecError, match="a/c/6/0"):
            await worker.read([array.read(6)], settings=SETTINGS)

    run_virtual(scenario())
