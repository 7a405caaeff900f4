"""The log of erased and resized nodes names a node through any store, and forgets nothing without saying so."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiozarr.hierarchy import changes as change_log
from aiozarr.hierarchy.changes import ChangeLog, lineage_of
from aiozarr.stores import LocalStore, MemoryStore, PrefixStore
from aiozarr.testing import LatencyStore


def test_a_change_of_a_node_is_one_of_all_nodes_below_it() -> None:
    log, store = ChangeLog(), MemoryStore()
    log.record(store, "a/b")
    for path, is_included in (("a/b", True), ("a/b/c/d", True), ("a", False), ("a/bc", False), ("", False)):
        assert log.may_include(lineage_of(store, path), 0) is is_included, path
        assert not log.may_include(lineage_of(store, path), log.count)
    assert not log.may_include(lineage_of(MemoryStore(), "a/b"), 0)
    log.record(store, "")
    assert log.may_include(lineage_of(store, "x/y"), 1)


def test_a_node_is_the_same_through_stores_with_other_roots(tmp_path: Path) -> None:
    memory = MemoryStore()
    for root, inner in (
        (memory, PrefixStore(memory, "g/")),
        (memory, LatencyStore(PrefixStore(memory, "g/"), 0)),
        (LocalStore(tmp_path), LocalStore(tmp_path / "g")),
        (MemoryStore.named("test_change_log"), MemoryStore.named("test_change_log", "g/")),
    ):
        for changed, path, seen, below in ((root, "g", inner, "a"), (inner, "", root, "g/a"), (root, "", inner, "a")):
            log = ChangeLog()
            log.record(changed, path)
            assert log.may_include(lineage_of(seen, below), 0)


def test_a_handle_that_has_missed_more_than_is_logged_has_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_log, "MAX_LOGGED", 2)
    log, store = ChangeLog(), MemoryStore()
    lineage = lineage_of(store, "a")
    for _ in range(3):
        log.record(store, "b")
    assert not log.may_include(lineage, 1)
    assert log.may_include(lineage, 0)
