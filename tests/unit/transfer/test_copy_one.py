"""The copy of one object under a key of its own: conditional, by the routes of all copies, and comparable."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.engine import Engine
from aiozarr.errors import CopyError
from aiozarr.model import Entry
from aiozarr.stores import LocalStore, MemoryStore, ObjectStore, Store
from aiozarr.transfer import CopyReport
from aiozarr.transfer.copy import copy_one
from aiozarr.transfer.copy_rules import CopyRules
from tests.support.servers.gcs_server import GcsServer
from tests.support.servers.moto import LocalS3

LARGE = bytes(range(256)) * 8192  # 2 MiB
SETTINGS = aiozarr.Settings(max_request_bytes=300_000)


async def copied(source: Store, destination: Store, **rules: Any) -> CopyReport:
    """Copy `a` of one store to `x/b` of the other."""
    engine = Engine(asyncio.get_running_loop())
    try:
        entry = await source.stat("a")
        assert entry is not None
        return await copy_one(engine, source, entry, destination, "x/b", CopyRules(**rules), SETTINGS)
    finally:
        await engine.close()


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


async def test_a_large_object_arrives_in_parts_and_no_store_is_asked_for_all_of_it(tmp_path: Path) -> None:
    with GcsServer("b") as server:
        async with ObjectStore("gs://b/x", **server.storage_options) as source:
            await source.set("a", LARGE)
            target = LocalStore(tmp_path)
            with aiozarr.record() as record:
                report = await copied(source, target)
    assert (tmp_path / "x/b").read_bytes() == LARGE
    assert files(tmp_path) == ["x/b"]
    assert (report.objects, report.bytes) == (1, len(LARGE))
    assert record.bytes_fetched == len(LARGE)
    assert report.requests == 7  # parts; the destination is a local disk


@pytest.mark.parametrize("destination", ["file", "memory", "s3"])
async def test_an_object_that_appears_meanwhile_is_kept(
    tmp_path: Path, s3_server: LocalS3, destination: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = LocalStore(tmp_path / "source")
    await source.set("a", LARGE)
    s3_server.create_bucket("one")
    target: Store = {
        "file": lambda: LocalStore(tmp_path / "target"),
        "memory": MemoryStore,
        "s3": lambda: ObjectStore("s3://one/x", **s3_server.storage_options),
    }[destination]()
    stat = type(target).stat

    async def stat_before_the_other_writer(store: Store, key: str) -> Entry | None:
        entry = await stat(store, key)
        if store is target:
            await target.set("x/b", b"theirs")
        return entry

    monkeypatch.setattr(type(target), "stat", stat_before_the_other_writer)
    with pytest.raises(CopyError, match=r"b already exists; overwrite=True replaces it"):
        await copied(source, target)
    monkeypatch.undo()
    assert bytes(await target.get("x/b") or b"") == b"theirs"
    await copied(source, target, overwrite=True)
    assert bytes(await target.get("x/b") or b"") == LARGE
    assert not [name for name in files(tmp_path) if ".aiozarr-write~" in name]
    await target.aclose()


@pytest.mark.parametrize("rule", ["resume", "skip_equal"])
async def test_an_equal_object_is_skipped_and_another_one_is_not(tmp_path: Path, rule: str) -> None:
    source, target = LocalStore(tmp_path / "source"), LocalStore(tmp_path / "target")
    await source.set("a", LARGE)
    rules = {rule: True, "overwrite": rule == "skip_equal"}
    assert (await copied(source, target, **rules)).objects == 1
    report = await copied(source, target, **rules)
    assert (report.objects, report.skipped) == (0, 1)
    await target.set("x/b", LARGE[:-1] + b"!")
    if rule == "resume":
        with pytest.raises(CopyError, match="overwrite=True replaces it"):
            await copied(source, target, **rules)
    else:
        assert (await copied(source, target, **rules)).objects == 1
        assert bytes(await target.get("x/b") or b"") == LARGE


@pytest.mark.parametrize("verify", ["size", "checksum", None])
async def test_a_dry_run_plans_and_a_copy_without_a_listing_needs_no_size(tmp_path: Path, verify: Any) -> None:
    class Unsized(MemoryStore):
        async def stat(self, key: str) -> Entry | None:
            return Entry(key, None)

    source, target = Unsized(), LocalStore(tmp_path)
    await source.set("a", LARGE)
    report = await copied(source, target, dry_run=True, verify=verify)
    assert report.planned == (("copy", "a"),)
    assert not files(tmp_path)
    assert (await copied(source, target, verify=verify)).bytes == len(LARGE)
    assert (tmp_path / "x/b").read_bytes() == LARGE
