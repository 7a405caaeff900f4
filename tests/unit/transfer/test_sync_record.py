"""Mirrors of and on servers that report no MD5 transfer nothing twice, and notice each change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.stores import LocalStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import on_key
from aiozarr.transfer.journal import is_journal_key
from aiozarr.transfer.sync_record import RECORD_BYTES, RECORD_KEY
from tests.support.copies import TREE, contents, copied
from tests.support.servers.gcs_server import GcsServer

MIRROR = {"delete": True}
SYNC = {"overwrite": True, "skip_equal": True}
HOW = pytest.mark.parametrize("how", [MIRROR, SYNC], ids=["mirror", "sync"])
COUNT = 12


@pytest.fixture
def server() -> Iterator[GcsServer]:
    with GcsServer("b") as server:
        yield server


async def filled(url: str, options: Any) -> None:
    await aiozarr.create_group(url, storage_options=options)
    data = list(range(2 * (COUNT - 2)))
    await aiozarr.create_array(url, "a", data=data, chunks=(2,), storage_options=options)


@HOW
@pytest.mark.parametrize("direction", ["down", "up", "across"])
async def test_a_second_copy_transfers_nothing(
    server: GcsServer, tmp_path: Path, how: dict[str, Any], direction: str
) -> None:
    options = server.storage_options
    source = str(tmp_path / "source") if direction == "up" else "gs://b/source"
    target = str(tmp_path / "target") if direction == "down" else "gs://b/target"
    sides = {
        "source_options": options if source.startswith("gs:") else None,
        "destination_options": options if target.startswith("gs:") else None,
    }
    await filled(source, sides["source_options"])
    plan = await aiozarr.copy(source, target, dry_run=True, **how, **sides)
    counts = [plan.objects]
    for _ in range(3):
        report = await aiozarr.copy(source, target, **how, **sides)
        counts.append(report.objects)
    plan = await aiozarr.copy(source, target, dry_run=True, **how, **sides)
    assert counts == [COUNT, COUNT, 0, 0]
    assert (plan.objects, plan.skipped) == (0, COUNT)
    # A listing of each side, which are one for a local disk, and again at the end; the documents above, and the record.
    assert report.requests <= {"down": 1, "up": 5, "across": 6}[direction]


@HOW
async def test_changes_on_either_side_are_copied(server: GcsServer, tmp_path: Path, how: dict[str, Any]) -> None:
    url, options, target = "gs://b/x", server.storage_options, tmp_path / "x"
    await filled(url, options)

    async def sync(**others: Any) -> int:
        return (await aiozarr.copy(url, target, source_options=options, **how, **others)).objects

    assert [await sync(), await sync()] == [COUNT, 0]
    chunk = target / "a/c/3"
    good = chunk.read_bytes()
    chunk.write_bytes(bytes(len(good)))  # of the same size
    assert await sync(size_only=True) == 0
    assert chunk.read_bytes() != good
    assert [await sync(), await sync()] == [1, 0]  # a comparison of sizes is not recorded
    assert chunk.read_bytes() == good
    chunk.unlink()
    assert [await sync(), await sync()] == [1, 0]
    array = await aiozarr.open_array(url, "a", mode="r+", storage_options=options)
    await array[:2].write([7, 8])
    assert [await sync(), await sync()] == [1, 0]
    assert (await (await aiozarr.open_array(target, "a"))[:3]).tolist() == [7, 8, 2]
    # A record that is damaged, or of an unknown version, is as good as none.
    record = target / RECORD_KEY
    record.write_bytes(record.read_bytes()[:-1])
    assert [await sync(), await sync()] == [COUNT, 0]
    # A filtered copy keeps the records of the others.
    assert await sync(exclude="a/c/1*") == 0
    assert await sync() == 0
    assert record.stat().st_size - 51 == COUNT * RECORD_BYTES
    # The record of one source says nothing about another.
    await filled("gs://b/y", options)
    assert (await aiozarr.copy("gs://b/y", target, source_options=options, **how)).objects == COUNT


async def test_sizes_alone_are_compared_if_that_is_requested(server: GcsServer, tmp_path: Path) -> None:
    url, options = "gs://b/x", server.storage_options
    await filled(url, options)
    await aiozarr.copy(url, tmp_path / "x", source_options=options)
    assert not [
        key for key in await LocalStore(tmp_path).list() if key.endswith(RECORD_KEY)
    ]  # a plain copy leaves nothing but its objects
    report = await aiozarr.copy(url, tmp_path / "x", source_options=options, delete=True, size_only=True)
    assert (report.objects, report.skipped) == (2, COUNT - 2)  # documents are compared by their bytes
    with pytest.raises(ValueError, match="size_only=True needs overwrite=True or delete=True"):
        await aiozarr.copy(url, tmp_path / "x", source_options=options, size_only=True)


@HOW
def test_an_interrupted_mirror_leaves_no_wrong_record(how: dict[str, Any]) -> None:
    source, destination = FakeStore(TREE), FakeStore()
    assert copied(source, destination, **how).objects == len(TREE)
    assert [key for key in contents(destination, journal=True) if is_journal_key(key)] == [RECORD_KEY]
    # Another chunk of the same size, and a mirror that is interrupted after it was stored.
    old, new = TREE["c/005"], b"0123456789"
    asyncio.run(source.memory.set("c/005", new))
    destination.faults = on_key("zarr.json", aiozarr.PermissionDeniedError("no"))
    asyncio.run(source.memory.set("zarr.json", b"{ }"))
    with pytest.raises(aiozarr.CopyError):
        copied(source, destination, **how)
    assert contents(destination)["c/005"] == new
    destination.faults = None
    asyncio.run(source.memory.set("c/005", old))
    assert copied(source, destination, **how).objects == 2
    assert contents(destination) == {**TREE, "zarr.json": b"{ }"}
    assert copied(source, destination, **how).objects == 0


@HOW
async def test_documents_of_arrays_on_several_pages_are_recorded(
    server: GcsServer, tmp_path: Path, how: dict[str, Any]
) -> None:
    url, options = "gs://b/x", server.storage_options
    await aiozarr.create_array(url, data=[*range(1, 1201)], chunks=(1,), storage_options=options)
    counts = [(await aiozarr.copy(url, tmp_path / "x", source_options=options, **how)).objects for _ in range(3)]
    assert counts == [1201, 0, 0]


@HOW
def test_a_failed_object_is_the_only_one_that_the_next_copy_transfers(how: dict[str, Any]) -> None:
    source, destination = FakeStore(TREE), FakeStore()
    destination.faults = on_key("c/005", aiozarr.PermissionDeniedError("no"))
    report = copied(source, destination, on_error="continue", **how)
    assert report.failed
    destination.faults = None
    assert copied(source, destination, **how).objects == len(TREE) - report.objects


async def test_local_copies_have_no_record(tmp_path: Path) -> None:
    await filled(str(tmp_path / "x"), None)
    for _ in range(2):
        report = await aiozarr.copy(tmp_path / "x", tmp_path / "y", delete=True)
    assert report.objects == 0
    assert not [key for key in await LocalStore(tmp_path).list() if key.endswith(RECORD_KEY)]
