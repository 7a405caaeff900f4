"""Links to directories below a local root: what erases removes the link, and nothing behind it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
import aiozarr.sync as z
from aiozarr.errors import StoreError
from aiozarr.stores import FsspecStore, LocalStore, MemoryStore, PrefixStore
from tests.support.command_line import invoke, succeed


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with `src.zarr`, and with `dst.zarr`, in which `b` and `photos` are links to what lies in `other`."""
    z.create_group(tmp_path / "dst.zarr")
    z.create_array(tmp_path / "other/b.zarr", data=np.arange(4), chunks=(2,))
    z.create_array(tmp_path / "src.zarr", data=np.arange(4))
    (tmp_path / "other/photos").mkdir()
    (tmp_path / "other/photos/1.jpg").write_text("x")
    (tmp_path / "dst.zarr/b").symlink_to("../other/b.zarr")
    (tmp_path / "dst.zarr/photos").symlink_to("../other/photos")
    return tmp_path


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


ALL = {"b.zarr/zarr.json", "b.zarr/c/0", "b.zarr/c/1", "photos/1.jpg"}


def group(tree: Path) -> Any:
    return z.open_group(tree / "dst.zarr", mode="r+")


def prefix_store(tree: Path) -> PrefixStore:
    return PrefixStore(LocalStore(tree), "dst.zarr")


def fsspec_store(tree: Path) -> FsspecStore:
    return FsspecStore(f"file://{tree}/dst.zarr")


ERASING: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "sync --delete": (lambda t: succeed("sync", "--delete", t / "src.zarr", t / "dst.zarr"), set()),
    "copy": (lambda t: z.copy(t / "src.zarr", t / "dst.zarr", delete=True), set()),
    "rm": (lambda t: succeed("rm", "-r", t / "dst.zarr"), set()),
    "rm --include": (lambda t: succeed("rm", "-r", "--include", "*", t / "dst.zarr"), {"b", "photos"}),
    "rm of a link": (lambda t: succeed("rm", "-r", t / "dst.zarr/b"), {"photos"}),
    "rm of a link to no node": (lambda t: succeed("rm", "-r", t / "dst.zarr/photos"), {"b"}),
    "create_group": (lambda t: z.create_group(t / "dst.zarr", overwrite=True), set()),
    "create_array": (lambda t: z.create_array(t / "dst.zarr", data=[1], overwrite=True), set()),
    "create_array at a link": (lambda t: group(t).create_array("b", data=[1], overwrite=True), {"photos"}),
    "convert": (lambda t: z.convert(t / "src.zarr", t / "dst.zarr", overwrite=True), set()),
    "copy over": (lambda t: z.copy(t / "src.zarr", t / "dst.zarr", overwrite=True), {"b", "photos"}),
    "a prefix store": (lambda t: asyncio.run(prefix_store(t).erase_prefix("")), set()),
    "copy to a prefix store": (lambda t: z.copy(t / "src.zarr", prefix_store(t), delete=True), set()),
    "group in a prefix store": (lambda t: z.create_group(prefix_store(t), overwrite=True), set()),
    "fsspec": (lambda t: asyncio.run(fsspec_store(t).erase_prefix("")), set()),
    "copy to fsspec": (lambda t: z.copy(t / "src.zarr", fsspec_store(t), delete=True), set()),
    "group in fsspec": (lambda t: z.create_group(fsspec_store(t), overwrite=True), set()),
    "delete in fsspec": (lambda t: z.open_group(fsspec_store(t), mode="r+").delete("b"), {"photos"}),
    "delete": (lambda t: group(t).delete("b"), {"photos"}),
    "move": (lambda t: group(t).move("b", "c"), {"photos"}),
}


@pytest.mark.parametrize("name", ERASING)
def test_nothing_behind_a_link_is_erased(tree: Path, name: str) -> None:
    erase, links = ERASING[name]
    erase(tree)
    assert files(tree / "other") == ALL
    stored = tree / "dst.zarr"
    assert {each.name for each in stored.iterdir() if each.is_symlink()} == links if stored.exists() else not links


async def test_a_prefix_behind_a_link_is_not_erased(tree: Path) -> None:
    store = LocalStore(tree / "dst.zarr")
    for inner, prefix in ((store, "b/c/"), (PrefixStore(store, "b/"), "c/")):
        with pytest.raises(StoreError, match="behind a link"):
            await inner.erase_prefix(prefix)
    group = await aiozarr.open_group(tree / "dst.zarr", mode="r+")
    await aiozarr.create_group(tree / "other/g/deep")
    (tree / "dst.zarr/g").symlink_to("../other/g")
    with pytest.raises(StoreError, match="behind a link"):
        await group.delete("g/deep")
    assert files(tree / "other") >= ALL | {"g/deep/zarr.json"}
    await store.erase_prefix("b/")
    assert not (tree / "dst.zarr/b").is_symlink()
    assert files(tree / "other") >= ALL


async def test_entries_say_how_much_of_their_key_lies_behind_a_link(tree: Path) -> None:
    (tree / "other/b.zarr/inner").symlink_to("../photos")
    store = LocalStore(tree / "dst.zarr")
    found = {entry.key: entry.below_link async for entry in store.scan()}
    assert found == {
        "zarr.json": 0,
        "b/zarr.json": 1,
        "b/c/0": 2,
        "b/c/1": 2,
        "b/inner/1.jpg": 2,
        "photos/1.jpg": 1,
    }
    assert {entry.below_link async for entry in PrefixStore(store, "b/").scan("c/")} == {2}


async def test_values_are_read_written_and_erased_behind_a_link(tree: Path) -> None:
    array = await aiozarr.open_array(tree / "dst.zarr", "b", mode="r+")
    await array[0:2].write(0)
    await array[3:4].write(7)
    assert (await array[...]).tolist() == [0, 0, 2, 7]
    assert files(tree / "other") == ALL - {"b.zarr/c/0"}


def test_a_mirror_keeps_what_lies_behind_a_link_beside_objects_of_the_source(tree: Path) -> None:
    z.create_group(tree / "src")
    z.create_array(tree / "src/b", data=np.arange(4), chunks=(4,))
    z.copy(tree / "src", tree / "dst.zarr", delete=True)
    assert files(tree / "other") == ALL
    assert z.open_array(tree / "dst.zarr/b")[:].tolist() == [0, 1, 2, 3]
    assert not (tree / "dst.zarr/photos").is_symlink()


@pytest.mark.parametrize(
    "target", [".", "..", "/", "~", "{tree}", "{tree}/other/..", "file://{tree}", "FILE://{tree}", "local://{tree}"]
)
def test_rm_refuses_the_working_and_the_home_directory_and_what_is_above(
    tree: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tree / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tree / "src.zarr")
    result = invoke("rm", "-r", "--dry-run", target.format(tree=tree))
    assert (result.exit_code, "is the working directory, or contains it" in result.stderr) == (2, True) or (
        target == "~" and "is the home directory" in result.stderr
    )


def test_rm_and_a_mirror_refuse_what_has_no_node(tree: Path) -> None:
    other = tree / "other/photos"
    result = invoke("rm", "-r", other)
    assert (result.exit_code, "no array or group at or below" in result.stderr) == (3, True)
    result = invoke("sync", "--delete", tree / "src.zarr", other)
    assert (result.exit_code, "no Zarr node" in result.stderr) == (1, True)
    with pytest.raises(aiozarr.CopyError, match="no Zarr node"):
        z.copy(tree / "src.zarr", other, delete=True)
    (other / "b").symlink_to("../b.zarr")  # which would not be removed, and makes no tree of the folder
    assert invoke("rm", "-r", other).exit_code == 3
    with pytest.raises(aiozarr.CopyError, match="no Zarr node"):
        z.copy(tree / "src.zarr", other, delete=True)
    assert {each.name for each in other.iterdir()} == {"1.jpg", "b"}
    succeed("rm", "-r", "--force", other)
    assert not other.exists()
    assert files(tree / "other") == ALL - {"photos/1.jpg"}


def test_a_replaced_file_keeps_its_mode(tree: Path) -> None:
    array = z.open_array(tree / "src.zarr", mode="r+")
    for path in (tree / "src.zarr/zarr.json", tree / "src.zarr/c/0"):
        path.chmod(0o600)
    array[:] = 5
    array.update_attributes({"a": 1})
    assert {os.stat(tree / "src.zarr" / name).st_mode & 0o777 for name in ("zarr.json", "c/0")} == {0o600}


def test_an_empty_directory_is_no_group(tree: Path) -> None:
    (tree / "dst.zarr/empty/deeper").mkdir(parents=True)
    (tree / "dst.zarr/half").mkdir()
    (tree / "dst.zarr/half/.aiozarr-write~0-0-0").write_text("")
    root = group(tree)
    assert sorted(name for name, _ in root.members()) == ["b"]
    z.consolidate_metadata(tree / "dst.zarr")
    assert sorted(name for name, _ in group(tree).members(max_depth=None)) == ["b"]
    root.create_array("empty", data=[1])
    assert "empty" in group(tree)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("target", ["one/a", "two/p/q/a"])
@pytest.mark.parametrize("change", ["append", "attributes", "array at the link", "copy"])
async def test_a_change_through_a_link_is_in_the_consolidated_metadata_of_both_names(
    tmp_path: Path, zarr_format: int, target: str, change: str
) -> None:
    groups = [tmp_path / "one", tmp_path / "two"]
    for group in groups:
        await aiozarr.create_group(group, zarr_format=zarr_format)
    await aiozarr.create_array(tmp_path / target, data=[1, 2], zarr_format=zarr_format)
    (tmp_path / "one/link").symlink_to(tmp_path / target)
    handles = [await aiozarr.consolidate_metadata(group) for group in groups]
    if change == "append":
        array = await handles[0].open("link")
        assert isinstance(array, aiozarr.Array)
        await array.append([3])
    elif change == "attributes":
        await (await aiozarr.open_array(tmp_path / "one", "link", mode="r+")).update_attributes({"x": 1})
    elif change == "array at the link":
        await (await aiozarr.open_array(tmp_path / "one/link", mode="r+")).resize(9)
    else:
        await aiozarr.copy(await _source(zarr_format), tmp_path / "one/link", overwrite=True)
    for handle, group in zip(handles, groups, strict=True):
        assert handle.metadata.consolidated is not None
        shown = [
            {name: (getattr(node, "shape", None), dict(node.attrs)) async for name, node in each.members(None)}
            for each in (
                handle,
                await aiozarr.open_group(group, use_consolidated=True),
                await aiozarr.open_group(group, use_consolidated=False),
            )
        ]
        assert shown[0] == shown[1] == shown[2]


async def test_a_change_through_a_link_outside_of_any_group_is_in_the_consolidated_metadata(tmp_path: Path) -> None:
    await aiozarr.create_group(tmp_path / "one")
    await aiozarr.create_array(tmp_path / "one/a", data=[1, 2])
    await aiozarr.consolidate_metadata(tmp_path / "one")
    (tmp_path / "link").symlink_to("one/a")
    await (await aiozarr.open_array(tmp_path / "link", mode="r+")).append([3])
    array = await (await aiozarr.open_group(tmp_path / "one", use_consolidated=True)).open("a")
    assert isinstance(array, aiozarr.Array)
    assert array.shape == (3,)


async def _source(zarr_format: int) -> MemoryStore:
    store = MemoryStore()
    await aiozarr.create_array(store, data=[1.5, 2, 3, 4], zarr_format=zarr_format)
    return store
