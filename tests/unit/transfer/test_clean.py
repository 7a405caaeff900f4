from __future__ import annotations

import os
import time
from importlib import import_module
from pathlib import Path

import pytest

import aiozarr
import aiozarr.sync as z
from aiozarr.errors import StoreError, UnsupportedOperationError
from aiozarr.stores import LocalStore, MemoryStore, ObjectStore, PrefixStore
from aiozarr.stores.capabilities import PROBE_PREFIX
from aiozarr.stores.local.atomic_write import open_temporary
from aiozarr.stores.s3 import bucket_client
from aiozarr.transfer import clean
from tests.support.bodies import BytesBody
from tests.support.command_line import invoke, records, succeed
from tests.support.servers.moto import LocalS3

TEMPORARY = ".aiozarr-write~1-2-3"
HOURS = 2 * 3600


def leave(path: Path, seconds: float = HOURS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"abc")
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


def test_files_without_a_writer_are_listed_and_removed_on_request(tmp_path: Path) -> None:
    root, other = tmp_path / "a.zarr", tmp_path / "other"
    z.create_array(root, data=[1, 2])
    old = [leave(root / TEMPORARY), leave(root / "c/new/folder" / TEMPORARY)]
    stays = [
        leave(root / "c" / TEMPORARY, 600),
        leave(root / "foreign.tmp"),
        leave(root / ".aiozarr-copy~/copy.json"),
        leave(root / "__aiozarr__/conversion.json"),
        leave(other / TEMPORARY),
    ]
    (root / "link").symlink_to(other)
    path, descriptor = open_temporary(os.fsencode(root), 0o666)
    os.utime(path, (time.time() - HOURS, time.time() - HOURS))
    try:
        before = {each for each in tmp_path.rglob("*") if each.is_file()}
        found = z.clean(root)
        assert {Path(each.location) for each in found} == set(old)
        assert {(each.kind, each.nbytes, each.seconds >= HOURS) for each in found} == {("file", 3, True)}
        assert {each for each in tmp_path.rglob("*") if each.is_file()} == before
        assert z.clean(f"file://{root}", delete=True)
    finally:
        os.close(descriptor)
    assert {each for each in tmp_path.rglob("*") if each.is_file()} == before - set(old)
    assert all(each.exists() for each in stays)
    assert not (root / "c/new").exists()
    assert (root / "link").is_symlink()


def test_files_beside_an_archive_belong_to_it(tmp_path: Path) -> None:
    old, deeper = leave(tmp_path / TEMPORARY), leave(tmp_path / "deeper" / TEMPORARY)
    archive = tmp_path / "a.zip"
    for _ in range(2):
        assert [each.location for each in z.clean(archive, delete=True)] == [str(old)]
        with z.create_array(archive, data=[1], overwrite=True):
            leave(old)
    assert (deeper.exists(), archive.exists()) == (True, True)


async def test_objects_of_tests_are_removed_and_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    now = int(time.time())
    old, new = (f"a/{PROBE_PREFIX}{seconds:x}-{'0' * 16}" for seconds in (now - HOURS, now))
    for key in (old, new, "a/c/0", f"{PROBE_PREFIX}x", f"a/.aiozarr-copy~/upload-{'0' * 32}"):
        await store.set(key, b"1")
    assert [(each.kind, each.nbytes) for each in await clean(store)] == [("object", 1)]
    assert len(await store.list()) == 5
    await clean(store, delete=True)
    assert old not in await store.list()
    assert len(await store.list()) == 4


async def test_wrappers_and_stores_without_listings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOperationError, match="inside"):
        await clean(PrefixStore(LocalStore(tmp_path), "a"))
    with pytest.raises(UnsupportedOperationError):
        await clean("http://127.0.0.1:1/a")


async def test_the_uploads_of_killed_copies_are_aborted_and_foreign_ones_stay(
    s3_server: LocalS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_server.create_bucket("cleaned")
    options = s3_server.storage_options
    async with ObjectStore("s3://cleaned/x", **options) as store:
        own = await store._begin_parts("a/c/0")
        own_record = await store.list()
        foreign = await store._begin_parts("a/c/0")
        await store.erase_values([key for key in await store.list() if key not in own_record])
        assert await clean("s3://cleaned/x", storage_options=options) == []
        monkeypatch.setattr(import_module("aiozarr.transfer.clean"), "MIN_AGE_SECONDS", 0)
        (found,) = await clean("s3://cleaned/x", storage_options=options)
        assert (found.kind, found.location, found.nbytes) == ("upload", "s3://cleaned/x/a/c/0", None)
        await store._upload_part("a/c/0", own, 0, BytesBody(10))
        (removed,) = await clean("s3://cleaned", delete=True, storage_options=options)
        assert removed.location == found.location
        with pytest.raises(StoreError):
            await store._upload_part("a/c/0", own, 0, BytesBody(10))
        await store._upload_part("a/c/0", foreign, 0, BytesBody(10))
        await store._abort_parts("a/c/0", foreign)
        assert await store.list() == []


async def test_a_finished_upload_leaves_no_record(s3_server: LocalS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_client, "MAX_SINGLE_COPY_BYTES", 1)
    s3_server.create_bucket("recorded")
    async with ObjectStore("s3://recorded/x", **s3_server.storage_options) as store:
        upload_id = await store._begin_parts("a")
        assert len(await store.list()) == 1
        part = await store._upload_part("a", upload_id, 0, BytesBody(10))
        await store._complete_parts("a", upload_id, [part])
        await store._copy_from(store, "a", "b", size=10)
        await store._abort_parts("a", await store._begin_parts("a"))
        assert sorted(await store.list()) == ["a", "b"]


async def test_a_record_is_no_object_of_a_copy(tmp_path: Path) -> None:
    store = MemoryStore()
    await store.set(f".aiozarr-copy~/upload-{'0' * 32}", b"{}")
    await aiozarr.create_array(tmp_path / "a.zarr", data=[1, 2])
    report = await aiozarr.copy(tmp_path / "a.zarr", store, resume=True)
    assert report.skipped == 0
    await aiozarr.copy(store, tmp_path / "b.zarr")
    assert not (tmp_path / "b.zarr/.aiozarr-copy~").exists()


def test_the_command_lists_first(tmp_path: Path) -> None:
    old = leave(tmp_path / "a.zarr" / TEMPORARY)
    result = invoke("clean", tmp_path / "a.zarr")
    assert (result.exit_code, str(old) in result.stdout, "found 1 leftover" in result.stderr) == (0, True, True)
    (record,) = records("clean", tmp_path / "a.zarr")
    assert (record["type"], record["kind"], record["location"]) == ("leftover", "file", str(old))
    assert old.exists()
    succeed("clean", "--delete", tmp_path / "a.zarr")
    assert not old.exists()
