"""A blocking group is a mapping, and delegates creating and deleting."""

from __future__ import annotations

from typing import Any

import pytest

import aiozarr
from aiozarr import sync
from aiozarr.stores import MemoryStore


def test_a_group_is_a_mapping_of_names_to_nodes(array: sync.Array) -> None:
    root = sync.open_group(array.store, mode="r+")
    assert isinstance(root["g"], sync.Group)
    assert isinstance(root["g/a"], sync.Array)
    assert "g/a" in root
    assert "g/b" not in root
    assert 3 not in root
    assert list(root) == ["g"]
    assert [name for name, _ in root.members(None)] == ["g", "g/a"]
    assert [(name, type(node)) for name, node in root.arrays(None)] == [("g/a", sync.Array)]
    assert [(name, type(node)) for name, node in root.groups(None)] == [("g", sync.Group)]
    assert root.tree().splitlines()[1:] == ["└── g", "    └── a (7, 10) int32"]
    with pytest.raises(aiozarr.NodeNotFoundError):
        root["nothing"]


def test_a_group_creates_and_deletes() -> None:
    root = sync.create_group(MemoryStore(), attributes={"a": 1})
    made = root.create_array("x", shape=3, dtype="i4")
    made[...] = 5
    assert isinstance(root.create_group("y/z"), sync.Group)
    assert root["x"][...].tolist() == [5, 5, 5]  # type: ignore[index]
    root.delete("x")
    assert list(root) == ["y"]
    root.update_attributes({"b": 2})
    assert root.attrs == {"a": 1, "b": 2}
    assert repr(root) == f"<aiozarr.sync.Group {root.url}>"
    assert root.metadata.attributes == {"a": 1, "b": 2}


@pytest.mark.parametrize("name", ["../x", ".", "a//b", "__a", "\x00", 3, None])
def test_invalid_names_are_not_in_a_group(name: Any) -> None:
    group = aiozarr.sync.create_group(MemoryStore())
    group.create_group("a/b")
    assert "a/b" in group
    assert name not in group


def test_a_member_of_a_consolidated_group_is_opened_in_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    aiozarr.sync.create_group(store).create_array("a", shape=(3,), dtype="i4")
    aiozarr.sync.consolidate_metadata(store)
    group = aiozarr.sync.open_group(store)
    assert "a" in group  # the consolidated metadata is known to be current from here on
    calls: list[object] = []
    with monkeypatch.context() as patched:
        patched.setattr("aiozarr.sync.wait.run_blocking", lambda *args, **_: calls.append(args))
        assert group["a"].shape == (3,)
        group["missing"]
    assert len(calls) == 1
    aiozarr.sync.open_array(store, path="a", mode="r+").update_attributes({"units": "K"})
    assert group["a"].attrs == {"units": "K"}
