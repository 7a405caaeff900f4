"""Whether source and destination are disjoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiozarr.stores import LocalStore, MemoryStore, ZipStore
from aiozarr.transfer.copy_rules import check_disjoint


async def test_a_store_overlaps_itself(tmp_path: Path) -> None:
    store = MemoryStore()
    for one, other in [(store, store), (LocalStore(tmp_path / "a"), LocalStore(tmp_path / "x" / ".." / "a"))]:
        with pytest.raises(ValueError, match="the same"):
            await check_disjoint(one, other)


@pytest.mark.parametrize(("outer", "inner"), [("a", "a/b"), ("a", "a/b/c"), (".", "a")])
async def test_neither_may_be_inside_the_other(tmp_path: Path, outer: str, inner: str) -> None:
    around, inside = LocalStore(tmp_path / outer), LocalStore(tmp_path / inner)
    with pytest.raises(ValueError, match=r"destination .* inside the source"):
        await check_disjoint(around, inside)
    with pytest.raises(ValueError, match=r"source .* inside the destination"):
        await check_disjoint(inside, around)


async def test_symbolic_links_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ValueError, match="the same"):
        await check_disjoint(LocalStore(tmp_path / "real"), LocalStore(tmp_path / "link"))
    with pytest.raises(ValueError, match="inside"):
        await check_disjoint(LocalStore(tmp_path / "link"), LocalStore(tmp_path / "real" / "x"))


async def test_names_in_memory_nest_by_segments() -> None:
    store = MemoryStore.named("apart")
    with pytest.raises(ValueError, match="inside"):
        await check_disjoint(store, MemoryStore.named("apart", "a/"))
    await check_disjoint(MemoryStore.named("apart", "a/"), MemoryStore.named("apart", "ab/"))
    await check_disjoint(store, MemoryStore.named("apart2"))


async def test_siblings_with_a_common_prefix_are_disjoint(tmp_path: Path) -> None:
    await check_disjoint(LocalStore(tmp_path / "a"), LocalStore(tmp_path / "ab"))
    await check_disjoint(LocalStore(tmp_path / "a"), MemoryStore())


async def test_nodes_of_one_archive_nest_and_an_archive_is_not_written_from_its_directory(tmp_path: Path) -> None:
    archive, directory = ZipStore(tmp_path / "a.zip", "a"), LocalStore(tmp_path)
    inside = ZipStore(tmp_path / "a.zip", "a", prefix="x/")
    for around in (archive, directory):
        with pytest.raises(ValueError, match=r"destination .* inside the source"):
            await check_disjoint(around, inside)
    with pytest.raises(ValueError, match=r"source .* inside the destination"):
        await check_disjoint(inside, archive)
    await check_disjoint(inside, ZipStore(tmp_path / "a.zip", "a", prefix="xy/"))
    await check_disjoint(archive, directory)
    (tmp_path / "link.zip").symlink_to(tmp_path / "a.zip")
    with pytest.raises(ValueError, match="the same"):
        await check_disjoint(archive, ZipStore(tmp_path / "link.zip", "a"))
