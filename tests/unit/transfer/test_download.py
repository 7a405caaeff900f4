"""Downloads of a bucket into files: without tasks, in parts, with faults, and without numpy."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import Buffer

import aiozarr
from aiozarr.engine import Engine
from aiozarr.engine.copy import local_files
from aiozarr.stores import LocalStore, MemoryStore, ObjectStore
from aiozarr.stores.local.atomic_write import NewFile
from aiozarr.transfer import Verify, journal
from aiozarr.transfer.copy_rules import CopyRules
from tests.support.copies import copy_operation
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.http_replies import Reply, Request, truncated
from tests.support.servers.moto import LocalS3

LARGE = bytes(range(256)) * 4097  # more than 1 MiB
TREE = {"zarr.json": b"{}", "empty": b"", **{f"c/{n}": bytes([n]) * (n + 1) for n in range(200)}, "c/large": LARGE}
SETTINGS = aiozarr.Settings(max_request_bytes=100_000)


def served(script: Callable[[Request, Reply], Reply] | None = None) -> GcsServer:
    return GcsServer("b", script=script)


async def fill(server: GcsServer) -> dict[str, str]:
    async with ObjectStore("gs://b/x", **server.storage_options) as store:
        await asyncio.gather(*[store.set(key, data) for key, data in TREE.items()])
    return server.storage_options


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_all_bytes_arrive_with_one_request_for_each_small_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "PIECE_BYTES", 30_011)  # parts come in pieces
    monkeypatch.setattr(local_files, "MAX_WRITE_SECONDS", -1.0)  # and workers write most of them
    monkeypatch.setattr(journal, "MIN_WRITE_SECONDS", math.inf)  # a slow copy would write batches of its journal
    with served() as server:
        options = await fill(server)
        report = await aiozarr.copy("gs://b/x", tmp_path / "x", source_options=options, settings=SETTINGS)
    assert files(tmp_path / "x") == TREE
    assert (report.objects, report.bytes, report.failed) == (len(TREE), sum(map(len, TREE.values())), ())
    fetched = len(TREE) - 1 + 11  # the large one in parts
    assert report.requests == 1 + fetched  # a listing, and the objects; the destination is a local disk


async def test_small_objects_take_no_task() -> None:
    most = 0

    def look(_: Any) -> None:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))

    with served() as server:
        options = await fill(server)
        engine = Engine(asyncio.get_running_loop())
        async with ObjectStore("gs://b/x", **options) as source:
            settings = aiozarr.Settings(max_requests=4)
            rules = CopyRules(overwrite=True)
            await copy_operation(engine, source, MemoryStore(), rules, settings=settings, progress=look).run()
        await engine.close()
    # The workers of the listing, and those of requests that wait for a connection.
    assert most <= 2 * 4 + 4 + 4


@pytest.mark.parametrize("verify", ["size", "checksum", None])
async def test_truncated_and_refused_responses_are_repeated(tmp_path: Path, verify: Any) -> None:
    count = 0

    def script(request: Request, reply: Reply) -> Reply:
        nonlocal count
        if request.method == "GET" and "/x/c/" in request.target:
            count += 1
            if count % 3 == 0:
                return Reply(503, (("Retry-After", "0"),))
        return reply

    with served(script) as server:
        options = await fill(server)
        await aiozarr.copy("gs://b/x", tmp_path / "x", source_options=options, settings=SETTINGS, verify=verify)
    assert files(tmp_path / "x") == TREE


async def test_objects_that_change_are_copied_as_they_are_now(tmp_path: Path) -> None:
    changed = {"c/7": b"another size", "c/large": LARGE[::-1]}
    done: set[str] = set()

    with served() as server:
        options = await fill(server)
        source = ObjectStore("gs://b/x", **options)

        class Changing(ObjectStore):
            async def _entries(self, prefix: str) -> Any:
                found = [entry async for entry in super()._entries(prefix)]
                for key, data in changed.items():
                    done.add(key)
                    await source.set(key, data)
                for entry in found:
                    yield entry

        async with Changing("gs://b/x", **options) as store, source:
            report = await aiozarr.copy(store, tmp_path / "x", settings=SETTINGS)
    assert set(report.changed) == done == set(changed)
    assert files(tmp_path / "x") == TREE | changed


@pytest.mark.parametrize("key", ["c/large", "c/9"])
async def test_an_object_that_cannot_be_fetched_is_named_and_leaves_nothing(tmp_path: Path, key: str) -> None:
    def script(request: Request, reply: Reply) -> Reply:
        is_one = request.method == "GET" and request.target.split("?")[0].endswith(f"/x/{key}")
        return Reply(403) if is_one and not request.headers.get("range", "").startswith("bytes=0-") else reply

    with served(script) as server:
        options = await fill(server)
        arguments: Any = {"source_options": options, "settings": SETTINGS}
        with pytest.raises(aiozarr.CopyError, match=key):
            await aiozarr.copy("gs://b/x", tmp_path / "x", **arguments)
        assert "zarr.json" not in files(tmp_path / "x")
        report = await aiozarr.copy("gs://b/x", tmp_path / "x", resume=True, on_error="continue", **arguments)
        assert {failed for failed, _ in report.failed} == {key, "zarr.json"}
    found = {name: data for name, data in files(tmp_path / "x").items() if not name.startswith(".aiozarr-copy~")}
    assert found == {name: data for name, data in TREE.items() if name not in (key, "zarr.json")}


@pytest.mark.parametrize("moment", [1, 10, 100, 205])
async def test_a_cancelled_download_leaves_whole_objects_and_no_temporary_files(tmp_path: Path, moment: int) -> None:
    reached = asyncio.Event()

    def look(progress: aiozarr.Progress) -> None:
        if progress.done >= moment:
            reached.set()

    with served() as server:
        options = await fill(server)
        task = asyncio.ensure_future(
            aiozarr.copy("gs://b/x", tmp_path / "x", source_options=options, settings=SETTINGS, progress=look)
        )
        waiting = asyncio.ensure_future(reached.wait())
        await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        task.cancel()
        await asyncio.wait([task])
        found = files(tmp_path / "x")
        assert not [name for name in found if ".aiozarr-write~" in name]
        assert all(TREE[name] == data for name, data in found.items() if not name.startswith(".aiozarr-copy~"))
        if not task.cancelled():
            return
        if "zarr.json" in found:  # the last object: it was cancelled while it removed its journal
            assert {name: data for name, data in found.items() if not name.startswith(".aiozarr-copy~")} == TREE
        await aiozarr.copy("gs://b/x", tmp_path / "x", source_options=options, settings=SETTINGS, resume=True)
    assert files(tmp_path / "x") == TREE


async def test_a_part_whose_connection_is_lost_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "PIECE_BYTES", 10_000)
    lost: list[str] = []

    def script(request: Request, reply: Reply) -> Reply:
        part = request.headers.get("range", "")
        if part.startswith("bytes=0-") and not lost and "large" in request.target:
            lost.append(part)
            return truncated(25_000)(reply)
        return reply

    with served(script) as server:
        options = await fill(server)
        await aiozarr.copy("gs://b/x", tmp_path / "x", source_options=options, settings=SETTINGS)
    assert len(lost) == 1
    assert files(tmp_path / "x") == TREE


async def test_a_full_disk_is_an_error_and_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with served() as server:
        options = await fill(server)
        with pytest.raises(aiozarr.CopyError, match="space"):
            await aiozarr.copy("gs://b/x", tmp_path / "x", source_options=options, settings=SETTINGS)
    assert not [name for name in files(tmp_path / "x") if ".aiozarr-write~" in name or name == "c/large"]


@pytest.mark.parametrize("slow", [False, True])
async def test_a_piece_that_cannot_be_written_is_an_error_and_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: bool
) -> None:
    write = NewFile.write

    def fail_late(self: NewFile, start: int, data: memoryview) -> None:
        if start:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        write(self, start, data)

    monkeypatch.setattr(NewFile, "write", fail_late)
    monkeypatch.setattr(local_files, "PIECE_BYTES", 30_011)
    monkeypatch.setattr(local_files, "MAX_WRITE_SECONDS", -1.0 if slow else 3600.0)
    with served() as server:
        options = await fill(server)
        report = await aiozarr.copy(
            "gs://b/x", tmp_path / "x", source_options=options, settings=SETTINGS, on_error="continue"
        )
    assert {key for key, _ in report.failed} == {"c/large", "zarr.json"}
    assert "Input/output error" in str(dict(report.failed)["c/large"])
    assert not [name for name in files(tmp_path / "x") if ".aiozarr-write~" in name or name == "c/large"]


@pytest.mark.parametrize("verify", ["size", "checksum"])
async def test_small_objects_of_a_batch_are_stored_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verify: Verify
) -> None:
    stored: list[int] = []
    store_together = LocalStore._set_values_now

    def note(self: LocalStore, values: Sequence[tuple[str, Buffer]]) -> None:
        stored.append(len(values))
        store_together(self, values)

    monkeypatch.setattr(LocalStore, "_set_values_now", note)
    with served() as server:
        options = await fill(server)
        await aiozarr.copy("gs://b/x", tmp_path / "x", source_options=options, settings=SETTINGS, verify=verify)
    assert files(tmp_path / "x") == TREE
    # Those that are read back are stored one by one.
    assert max(stored, default=0) > 1 if verify == "size" else not stored


async def test_a_file_in_the_place_of_a_folder_is_a_failure_of_one_object(tmp_path: Path) -> None:
    (tmp_path / "x" / "c" / "large").mkdir(parents=True)
    (tmp_path / "x" / "c" / "large" / "below").write_bytes(b"")
    with served() as server:
        options = await fill(server)
        report = await aiozarr.copy(
            "gs://b/x", tmp_path / "x", source_options=options, settings=SETTINGS, overwrite=True, on_error="continue"
        )
    assert {key for key, _ in report.failed} == {"c/large", "zarr.json"}


@pytest.mark.parametrize("number", [0, 1])
def test_a_copy_of_bytes_imports_neither_numpy_nor_codecs_nor_obstore(
    tmp_path: Path, s3_server: LocalS3, number: int
) -> None:
    s3_server.create_bucket("bare")
    options = s3_server.storage_options

    async def store() -> None:
        async with ObjectStore("s3://bare/x", **options) as target:
            for key, data in TREE.items():
                await target.set(key, data)

    asyncio.run(store())
    arguments = [("'s3://bare/x', 'x'", "source_options"), ("'x', 's3://bare/y', path='c'", "destination_options")]
    if number:
        for key, data in TREE.items():
            path = tmp_path / "x" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    places, name = arguments[number]
    script = f"""
import asyncio, sys, aiozarr
from aiozarr.transfer import journal
journal.MIN_WRITE_SECONDS = journal.WRITE_SHARE = -1.0  # as in a long copy
report = asyncio.run(aiozarr.copy({places}, {name}={options!r}))
unwanted = [name for name in ("numpy", "aiozarr.codecs", "aiozarr.hierarchy", "numcodecs", "aiohttp", "fsspec",
                              "obstore")
            if name in sys.modules]
print(report.objects, unwanted)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split(maxsplit=1)[1:] == ["[]\n"], done.stderr
