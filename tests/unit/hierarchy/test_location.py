"""Paths of nodes: joining, names relative to another node, ancestors, and prefixes of keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.errors import InvalidKeyError
from aiozarr.hierarchy.location import ancestors, child_path, join_path, key_prefix, relative_name

SEGMENTS = st.lists(st.sampled_from(["a", "b1", "c.d", "zarr", "ä"]), min_size=1, max_size=4)


@given(st.lists(st.sampled_from(["a", "b"]), max_size=3), SEGMENTS)
def test_a_joined_name_is_the_name_relative_to_the_node_above(above: list[str], name: list[str]) -> None:
    base, below = "/".join(above), "/".join(name)
    path = join_path(base, below)
    assert path == "/".join([*above, *name])
    assert relative_name(path, base) == below
    assert key_prefix(path) == f"{path}/"
    assert ancestors(path) == ["/".join([*above, *name][:count]) for count in range(len(above) + len(name))]


def test_the_root_has_no_ancestors_and_an_empty_prefix() -> None:
    assert ancestors("") == []
    assert key_prefix("") == ""
    assert join_path("", "") == ""


@pytest.mark.parametrize("name", ["..", "a//b", "a/../b"])
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidKeyError):
        join_path("g", name)


def test_a_child_has_a_name() -> None:
    assert child_path("g", "a/b", 3) == "g/a/b"
    with pytest.raises(ValueError, match="empty"):
        child_path("g", "", 3)
