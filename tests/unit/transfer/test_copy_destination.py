"""Mirrors, dry runs and completed copies: what a destination has already, and what is removed from it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import CopyError, EraseError, NodeNotFoundError, PermissionDeniedError
from aiozarr.model import JOURNAL_PREFIX, Entry
from aiozarr.stores import LocalStore, MemoryStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import on_key, on_operation
from aiozarr.transfer.copy_destination import DestinationListing
from aiozarr.transfer.copy_rules import KeyFilter
from aiozarr.transfer.sync_record import RECORD_KEY
from tests.support.copies import TREE, contents, copied

OLD = {"zarr.json": b"old", "c/000": b"old", "c/900": b"extra", "gone/zarr.json": b"extra", "gone/c/0": b"extra"}


def test_a_mirror_has_the_objects_of_the_source_and_no_others() -> None:
    destination = FakeStore(OLD)
    report = copied(FakeStore(TREE), destination, delete=True)
    found = contents(destination, journal=True)
    assert found.pop(RECORD_KEY)
    assert found == TREE
    assert (report.deleted, report.objects) == (3, len(TREE))
    calls = [(number, call.operation) for number, call in enumerate(destination.calls) if call.key != RECORD_KEY]
    assert max(number for number, name in calls if name == "set") < min(
        number for number, name in calls if name == "erase"
    )


def test_a_mirror_of_nothing_deletes_nothing() -> None:
    destination = FakeStore(OLD)
    with pytest.raises(NodeNotFoundError, match="there is nothing to copy"):
        copied(FakeStore(), destination, delete=True)
    assert contents(destination) == OLD


def test_patterns_protect_objects_of_the_destination() -> None:
    destination = FakeStore(OLD)
    copied(FakeStore(TREE), destination, delete=True, keys=KeyFilter(exclude="gone/*"))
    assert contents(destination) == TREE | {key: data for key, data in OLD.items() if key.startswith("gone")}
    copied(FakeStore(TREE), destination, delete=True, keys=KeyFilter("gone/c/*"))
    assert contents(destination) == TREE | {"gone/zarr.json": b"extra"}


def test_nothing_is_deleted_if_an_object_failed() -> None:
    destination = FakeStore(OLD, faults=on_key("c/050", PermissionDeniedError("no")))
    report = copied(FakeStore(TREE), destination, delete=True, on_error="continue")
    assert report.failed
    assert not report.deleted
    assert contents(destination)["gone/c/0"] == b"extra"


def test_a_failed_deletion_is_an_error() -> None:
    destination = FakeStore(OLD, faults=on_operation("erase", PermissionDeniedError("no")))
    with pytest.raises(CopyError, match="delete") as caught:
        copied(FakeStore(TREE), destination, delete=True)
    assert isinstance(caught.value.__cause__, PermissionDeniedError | EraseError)


@pytest.mark.parametrize("rules", [{}, {"delete": True}, {"overwrite": True}])
def test_a_dry_run_counts_and_writes_nothing(rules: dict[str, bool]) -> None:
    destination = FakeStore(OLD if rules else {})
    before = contents(destination, journal=True)
    report = copied(FakeStore(TREE), destination, dry_run=True, **rules)
    assert contents(destination, journal=True) == before
    assert {call.operation for call in destination.calls} <= {"list"}
    assert (report.objects, report.bytes) == (len(TREE), sum(map(len, TREE.values())))
    assert report.deleted == (3 if "delete" in rules else 0)
    assert report.dry_run
    assert str(report).startswith("not written (dry run): ")


def test_a_dry_run_refuses_what_the_copy_would_refuse() -> None:
    with pytest.raises(CopyError, match="already contains 5 objects"):
        copied(FakeStore(TREE), FakeStore(OLD), dry_run=True)


def test_a_journal_of_a_node_below_is_none_of_this_destination() -> None:
    found = DestinationListing()
    for key in ("a", f"{JOURNAL_PREFIX}copy.json", f"b/{JOURNAL_PREFIX}copy.json"):
        found.add(Entry(key, 1))
    assert (found.count, found.first, found.journal_keys) == (1, "a", [f"{JOURNAL_PREFIX}copy.json"])


class PartlyListed(FakeStore):
    """A store whose listing is refused behind its first entry."""

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        yield Entry("another/c/0", 1)
        raise PermissionDeniedError("no")


def test_credentials_that_may_not_list_the_destination_may_write_to_it() -> None:
    destination = PartlyListed()
    assert copied(FakeStore(TREE), destination).objects == len(TREE)
    assert contents(destination) == TREE


async def filled(store: MemoryStore, **replaced: bytes) -> MemoryStore:
    for key, data in (TREE | replaced).items():
        await store.set(key, data)
    return store


async def test_equal_objects_are_skipped_and_the_others_replaced() -> None:
    source, destination = await filled(MemoryStore()), await filled(MemoryStore(), extra=b"x")
    await destination.set("c/002", b"0123456789")
    report = await aiozarr.copy(source, destination, overwrite=True, skip_equal=True)
    assert (report.objects, report.skipped, report.deleted) == (1, len(TREE) - 1, 0)
    assert await destination.get("extra") == b"x"
    with pytest.raises(ValueError, match="skip_equal=True needs overwrite=True or delete=True"):
        await aiozarr.copy(source, destination, skip_equal=True)


async def test_a_complete_copy_that_is_resumed_has_nothing_to_do(tmp_path: Path) -> None:
    source, destination = await filled(MemoryStore()), LocalStore(tmp_path / "copy")
    await aiozarr.copy(source, destination, resume=True)
    again = await aiozarr.copy(source, destination, resume=True)
    assert (again.objects, again.skipped) == (0, len(TREE))
    await destination.set("c/000", b"short")
    with pytest.raises(CopyError, match="no journal of an interrupted copy"):
        await aiozarr.copy(source, destination, resume=True)


@pytest.mark.parametrize("rules", [{"resume": True}, {"delete": True}, {"overwrite": True, "skip_equal": True}])
async def test_files_of_killed_writers_are_removed_from_the_destination(rules: Any, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c/.aiozarr-write~killed").write_bytes(b"x")
    os.utime(tmp_path / "c/.aiozarr-write~killed", (0, 0))
    await aiozarr.copy(await filled(MemoryStore()), LocalStore(tmp_path), **rules)
    assert sorted(os.listdir(tmp_path / "c")) == sorted(key[2:] for key in TREE if key != "zarr.json")
