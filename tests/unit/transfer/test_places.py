"""Whether two stores lie apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiozarr.stores import LocalStore, MemoryStore
from aiozarr.transfer.places import check_apart


def test_a_store_is_no_copy_of_itself(tmp_path: Path) -> None:
    store = MemoryStore()
    for one, other in [(store, store), (LocalStore(tmp_path / "a"), LocalStore(tmp_path / "x" / ".." / "a"))]:
        with pytest.raises(ValueError, match="the same"):
            check_apart(one, other)


@pytest.mark.parametrize(("outer", "inner"), [("a", "a/b"), ("a", "a/b/c"), (".", "a")])
def test_neither_may_lie_inside_the_other(tmp_path: Path, outer: str, inner: str) -> None:
    around, inside = LocalStore(tmp_path / outer), LocalStore(tmp_path / inner)
    with pytest.raises(ValueError, match=r"destination .* inside the source"):
        check_apart(around, inside)
    with pytest.raises(ValueError, match=r"source .* inside the destination"):
        check_apart(inside, around)


def test_links_do_not_hide_where_a_folder_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ValueError, match="the same"):
        check_apart(LocalStore(tmp_path / "real"), LocalStore(tmp_path / "link"))
    with pytest.raises(ValueError, match="inside"):
        check_apart(LocalStore(tmp_path / "link"), LocalStore(tmp_path / "real" / "x"))


def test_names_in_memory_nest_by_segments() -> None:
    store = MemoryStore.named("apart")
    with pytest.raises(ValueError, match="inside"):
        check_apart(store, MemoryStore.named("apart", "a/"))
    check_apart(MemoryStore.named("apart", "a/"), MemoryStore.named("apart", "ab/"))
    check_apart(store, MemoryStore.named("apart2"))


def test_neighbours_with_a_common_beginning_lie_apart(tmp_path: Path) -> None:
    check_apart(LocalStore(tmp_path / "a"), LocalStore(tmp_path / "ab"))
    check_apart(LocalStore(tmp_path / "a"), MemoryStore())
