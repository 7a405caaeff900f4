"""Arrays in a bucket of Google Cloud Storage: created, written, read, updated by several at once, and copied."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr import sync
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.http_replies import Reply, Request, applied

VALUES = np.arange(64 * 48, dtype="int32").reshape(64, 48)


@pytest.fixture
def server() -> Iterator[GcsServer]:
    with GcsServer("bucket", "other") as running:
        yield running


def create(server: GcsServer, url: str = "gs://bucket/a.zarr", **layout: Any) -> sync.Array:
    made: dict[str, Any] = {"chunks": (16, 16), **layout}
    return sync.create_array(
        url, shape=VALUES.shape, dtype=VALUES.dtype, fill_value=-1, storage_options=server.storage_options, **made
    )


@pytest.mark.parametrize("layout", [{}, {"chunks": (4, 4), "shards": (32, 24)}])
def test_written_values_are_read_back(server: GcsServer, layout: dict[str, Any]) -> None:
    array = create(server, **layout)
    array[...] = VALUES
    found = sync.open_array("gcs://bucket/a.zarr", storage_options=server.storage_options)
    assert np.array_equal(found[...], VALUES)
    assert np.array_equal(found[3:40, 5:6], VALUES[3:40, 5:6])


def test_parts_of_a_shard_are_read_by_suffix_and_under_the_generation_of_the_first(server: GcsServer) -> None:
    create(server, chunks=(4, 4), shards=(64, 48))[...] = VALUES
    before = len(server.requests)
    # A shard as small as this comes whole, unless nothing may be read over.
    settings = aiozarr.Settings(merge_gap_bytes=0)
    found = sync.open_array("gs://bucket/a.zarr", storage_options=server.storage_options, settings=settings)
    assert np.array_equal(found[:4, :4], VALUES[:4, :4])
    shards = [request for request in server.requests[before:] if "/c/" in request.target]
    assert [request.headers["range"].partition("=")[2][:1] for request in shards] == [
        "-",
        shards[1].headers["range"][6],
    ]
    blob = server.blob("bucket", "a.zarr/c/0/0")
    assert blob is not None
    assert shards[1].headers["x-goog-if-generation-match"] == str(blob.generation)


def test_writers_of_parts_of_one_chunk_lose_nothing(server: GcsServer) -> None:
    create(server, chunks=(64, 48))

    async def write(row: int) -> None:
        array = await aiozarr.open_array("gs://bucket/a.zarr", mode="r+", storage_options=server.storage_options)
        await array[row].write(VALUES[row])

    async def main() -> None:
        await asyncio.gather(*(write(row) for row in range(8)))

    asyncio.run(main())
    found = sync.open_array("gs://bucket/a.zarr", storage_options=server.storage_options)
    assert np.array_equal(found[:8], VALUES[:8])


def test_the_lost_response_of_a_conditional_write_ends_in_the_right_values(
    server: GcsServer,
) -> None:
    create(server, chunks=(64, 48))[...] = VALUES
    lost: list[int] = []

    def script(request: Request, reply: Reply) -> Reply:
        if "ifGenerationMatch" in request.target and "probe" not in request.target and not lost:
            lost.append(request.number)
            return applied(503)(reply)
        return reply

    server.script = script
    array = sync.open_array("gs://bucket/a.zarr", mode="r+", storage_options=server.storage_options)
    array[3] = 5
    assert lost
    server.script = None
    found = sync.open_array("gs://bucket/a.zarr", storage_options=server.storage_options)[...]
    expected = VALUES.copy()
    expected[3] = 5
    assert np.array_equal(found, expected)


def test_groups_are_listed_and_copied_from_bucket_to_bucket_and_to_a_folder(server: GcsServer, tmp_path: Path) -> None:
    options = server.storage_options
    group = sync.create_group("gs://bucket/g", storage_options=options)
    create(server, "gs://bucket/g/a")[...] = VALUES
    assert [name for name, _ in group.members()] == ["a"]
    sync.copy("gs://bucket/g", "gs://other/g", source_options=options, destination_options=options)
    sync.copy("gs://other/g", tmp_path / "g", source_options=options)
    assert np.array_equal(sync.open_array(str(tmp_path / "g" / "a"))[...], VALUES)


def test_the_emulator_of_the_environment_is_found(server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    create(server)[...] = VALUES
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url.removeprefix("http://"))
    assert np.array_equal(sync.open_array("gs://bucket/a.zarr")[...], VALUES)


def test_a_damaged_chunk_is_fetched_again(server: GcsServer) -> None:
    create(server, codecs=["bytes"])[...] = VALUES
    spoiled: list[int] = []

    def script(request: Request, reply: Reply) -> Reply:
        if "/c/" in request.target and not spoiled:
            spoiled.append(request.number)
            return Reply(reply.status, reply.headers, b"\xff" + reply.body[1:])
        return reply

    server.script = script
    found = sync.open_array("gs://bucket/a.zarr", storage_options=server.storage_options)
    assert np.array_equal(found[...], VALUES)
    assert spoiled


def test_an_array_whose_creation_was_answered_by_an_error_after_the_fact_is_created_all_the_same(
    server: GcsServer,
) -> None:
    lost: list[str] = []

    def script(request: Request, reply: Reply) -> Reply:
        if "ifGenerationMatch=0" in request.target and "zarr.json" in request.target and not lost:
            lost.append(request.target)
            return applied(503)(reply)
        return reply

    server.script = script
    array = create(server)
    assert lost
    array[...] = VALUES
    assert np.array_equal(array[...], VALUES)
