"""The journal of a copy: an interrupted copy is continued, and never looks complete."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from aiozarr.errors import CopyError, PermissionDeniedError, UnsupportedOperationError
from aiozarr.model import JOURNAL_PREFIX, Entry, Version
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import on_key, on_operation
from aiozarr.transfer.journal import HEADER_KEY, checksum_of, digest, is_journal_key, size_hash
from tests.support.copies import TREE, contents, copied


def interrupted(source: FakeStore, at: str = "c/060") -> FakeStore:
    """A destination to which half of the objects were copied."""
    destination = FakeStore(faults=on_key(at, PermissionDeniedError("no")))
    with pytest.raises(CopyError):
        copied(source, destination)
    destination.faults = None
    destination.calls.clear()
    source.calls.clear()
    assert "zarr.json" not in contents(destination)
    return destination


def fetched(store: FakeStore) -> set[str]:
    return {call.key for call in store.calls if call.operation == "fetch" and not is_journal_key(call.key)}


def test_a_complete_copy_leaves_no_journal() -> None:
    destination = FakeStore()
    copied(FakeStore(TREE), destination)
    assert contents(destination, journal=True) == TREE
    sets = [call.key for call in destination.calls if call.operation == "set"]
    assert sets[0] == HEADER_KEY
    assert destination.calls[-1].key == HEADER_KEY
    assert destination.calls[-1].operation == "erase"


def test_a_resumed_copy_fetches_only_what_is_missing() -> None:
    source = FakeStore(TREE)
    destination = interrupted(source)
    there = set(contents(destination))
    assert len(there) > 40
    report = copied(source, destination, resume=True)
    assert contents(destination, journal=True) == TREE
    assert fetched(source) == set(TREE) - there
    assert report.skipped == len(there)
    assert report.objects == len(TREE) - len(there)


def test_what_changed_since_the_interruption_is_copied_again() -> None:
    source = FakeStore(TREE)
    destination = interrupted(source)
    source.memory.set_now("c/000", b"replaced..")
    destination.memory.erase_now("c/001")
    destination.memory.set_now("c/002", b"short")
    report = copied(source, destination, resume=True)
    assert contents(destination) == TREE | {"c/000": b"replaced.."}
    assert {"c/000", "c/001", "c/002"} <= fetched(source)
    assert report.skipped > 30


def test_a_copy_may_be_interrupted_again_and_again() -> None:
    source = FakeStore(TREE)
    destination = interrupted(source, "c/020")
    for at in ("c/040", "c/060", "c/080"):
        destination.faults = on_key(at, PermissionDeniedError("no"))
        with pytest.raises(CopyError):
            copied(source, destination, resume=True)
    destination.faults = None
    source.calls.clear()
    copied(source, destination, resume=True)
    assert contents(destination, journal=True) == TREE
    assert len(fetched(source)) <= 25


def test_failures_that_are_skipped_are_tried_again_by_a_resumed_copy() -> None:
    source, destination = FakeStore(TREE), FakeStore(faults=on_key("c/050", PermissionDeniedError("no")))
    report = copied(source, destination, on_error="continue")
    assert {key for key, _ in report.failed} == {"c/050", "zarr.json"}
    destination.faults = None
    source.calls.clear()
    copied(source, destination, resume=True)
    assert fetched(source) == {"c/050", "zarr.json"}
    assert contents(destination, journal=True) == TREE


def test_resume_without_a_journal_copies_to_an_empty_destination_only_and_takes_an_equal_one_as_complete() -> None:
    destination = FakeStore()
    copied(FakeStore(TREE), destination, resume=True)
    assert contents(destination) == TREE
    destination.reset()
    report = copied(FakeStore(TREE), destination, resume=True)
    assert (report.objects, report.skipped) == (0, len(TREE))
    assert not destination.log("set")
    destination.memory.set_now("zarr.json", bytes(len(TREE["zarr.json"])))
    with pytest.raises(CopyError, match="no journal of an interrupted copy"):
        copied(FakeStore(TREE), destination, resume=True)


def test_an_interrupted_copy_is_named_by_the_error_of_the_next_one() -> None:
    source = FakeStore(TREE)
    destination = interrupted(source)
    before = contents(destination, journal=True)
    with pytest.raises(CopyError, match="resume=True continues it"):
        copied(source, destination)
    assert contents(destination, journal=True) == before


def test_the_journal_of_another_copy_is_not_continued() -> None:
    source = FakeStore(TREE)
    destination = interrupted(source)
    with pytest.raises(CopyError, match=source.url):
        copied(FakeStore(TREE), destination, resume=True)
    header = {"source": "s\n" * 10_000}
    destination.memory.set_now(HEADER_KEY, json.dumps({**header, "checksum": checksum_of(header)}).encode())
    with pytest.raises(CopyError, match="cannot continue a copy of") as refused:
        copied(source, destination, resume=True)
    assert len(str(refused.value)) < 1_000
    assert str(refused.value).isprintable()
    copied(source, destination, overwrite=True)
    assert contents(destination, journal=True) == TREE


@pytest.mark.parametrize("header", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, None])
def test_a_damaged_journal_is_refused(header: bytes | None) -> None:
    source = FakeStore(TREE)
    destination = interrupted(source)
    if header is None:
        destination.memory.erase_now(HEADER_KEY)
    else:
        destination.memory.set_now(HEADER_KEY, header)
    with pytest.raises(CopyError, match="another copy"):
        copied(source, destination, resume=True)


def test_a_damaged_batch_only_costs_that_its_objects_are_copied_again() -> None:
    source = FakeStore(TREE)
    destination = interrupted(source)
    for key in contents(destination, journal=True):
        if is_journal_key(key) and key != HEADER_KEY:
            destination.memory.set_now(key, b"\xffdamaged")
    copied(source, destination, resume=True)
    assert contents(destination, journal=True) == TREE
    assert fetched(source) == set(TREE)


def test_batches_are_written_while_the_copy_runs() -> None:
    source, destination = FakeStore(TREE, latency=0.5), FakeStore(latency=0.5)
    copied(source, destination)
    batches = [call for call in destination.calls if call.operation == "set" and is_journal_key(call.key)]
    # 25 rounds of half a second, and a batch after a second.
    assert 8 <= len(batches) <= 27


def test_a_journal_that_cannot_be_written_does_not_stop_the_copy() -> None:
    def faults(call: Any) -> Any:
        is_batch = call.operation == "set" and is_journal_key(call.key) and call.key != HEADER_KEY
        return PermissionDeniedError("no") if is_batch else None

    destination = FakeStore(latency=0.5, faults=faults)
    copied(FakeStore(TREE, latency=0.5), destination)
    assert contents(destination, journal=True) == TREE


def test_journals_are_not_copied() -> None:
    source = FakeStore({**TREE, HEADER_KEY: b"x", f"a/{JOURNAL_PREFIX}0": b"y"})
    destination = FakeStore()
    assert copied(source, destination).objects == len(TREE)
    assert contents(destination, journal=True) == TREE


def test_a_destination_that_cannot_be_listed_has_no_journal() -> None:
    destination = FakeStore()
    destination.supports = replace(destination.supports, listable=False)
    copied(FakeStore(TREE), destination)
    assert len([call for call in destination.calls if call.operation == "set"]) == len(TREE)
    with pytest.raises(UnsupportedOperationError, match="resume"):
        copied(FakeStore(TREE), destination, resume=True)


def test_nothing_is_written_to_a_destination_if_the_source_is_refused() -> None:
    source, destination = FakeStore(TREE, faults=on_operation("list", PermissionDeniedError("no"))), FakeStore()
    with pytest.raises(CopyError):
        copied(source, destination)
    assert contents(destination, journal=True) == {}


def test_records_differ_by_key_size_and_version() -> None:
    entries = [
        Entry("a", 1),
        Entry("a", 2),
        Entry("b", 1),
        Entry("a", None),
        Entry("a", 1, Version("x")),
        Entry("a", 1, Version("x", "1")),
        Entry("a", 1, Version(None, "1")),
        Entry("\udcff", 1),
    ]
    assert len({digest(entry) for entry in entries}) == len(entries)
    assert size_hash(entries[0]) == size_hash(entries[4]) != size_hash(entries[1])
