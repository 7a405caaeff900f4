"""Copies from and to a local disk: names that are no keys, links that lead nowhere, and files in the way."""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import LocalStore, MemoryStore
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import on_operation
from tests.support.copies import contents, copied

# Two layouts of one array whose chunk keys cannot be on one disk at the same time.
LAYOUTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"zarr_format": 2, "shape": (4, 4), "chunks": (2, 2), "dimension_separator": "/"},
        {"zarr_format": 2, "shape": (4,), "chunks": (2,)},
    ),
    ({"shape": (4, 4), "chunks": (2, 2)}, {"shape": (4,), "chunks": (2,)}),
    ({"shape": (4,), "chunks": (2,)}, {"shape": (), "chunks": ()}),
    (
        {"shape": (4, 4), "chunks": (2, 2), "chunk_key_encoding": {"name": "v2", "separator": "/"}},
        {"shape": (), "chunks": (), "chunk_key_encoding": {"name": "v2"}},
    ),
]
MODES: list[dict[str, Any]] = [{"delete": True}, {"overwrite": True}, {"overwrite": True, "skip_equal": True}]


async def filled(store: LocalStore, path: str, layout: dict[str, Any]) -> np.ndarray[Any, Any]:
    if path:
        await aiozarr.create_group(store, zarr_format=layout.get("zarr_format", 3))
    array = await aiozarr.create_array(store, path, dtype="i4", fill_value=0, **layout)
    values = np.arange(1, array.size + 1).reshape(array.shape)
    await array[...].write(values)
    return values


@pytest.mark.parametrize("how", MODES, ids=str)
@pytest.mark.parametrize("path", ["", "x"])
async def test_chunks_replace_files_and_directories_of_an_older_layout(
    tmp_path: Path, how: dict[str, Any], path: str
) -> None:
    for number, (pair, turn) in enumerate(product(LAYOUTS, (1, -1))):
        folder = tmp_path / str(number)
        old, new, mirror = [LocalStore(folder / name) for name in ("old", "new", "mirror")]
        before, after = pair[::turn]
        await filled(old, path, before)
        values = await filled(new, path, after)
        await aiozarr.copy(old, mirror)
        (folder / "mirror" / "notes").mkdir()
        (folder / "mirror" / "notes" / "7").write_bytes(b"kept")
        await aiozarr.copy(new, mirror, **how)
        array = await aiozarr.open_array(mirror, path)
        assert np.array_equal(await array[...], values)
        assert (folder / "mirror" / "notes" / "7").exists() == ("delete" not in how)


async def test_an_interrupted_copy_that_is_resumed_replaces_them_too(tmp_path: Path) -> None:
    old, mirror = LocalStore(tmp_path / "old"), LocalStore(tmp_path / "mirror")
    await filled(old, "x", LAYOUTS[0][1])
    new = LocalStore(tmp_path / "new")
    values = await filled(new, "x", LAYOUTS[0][0])
    await aiozarr.copy(old, mirror)

    def stop(state: aiozarr.Progress) -> None:
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        await aiozarr.copy(new, mirror, overwrite=True, progress=stop)
    await aiozarr.copy(new, mirror, overwrite=True, resume=True)
    array = await aiozarr.open_array(mirror, "x")
    assert np.array_equal(await array[...], values)


async def test_files_of_others_in_the_way_are_kept_unless_the_copy_mirrors(tmp_path: Path) -> None:
    source, mirror = MemoryStore(), LocalStore(tmp_path / "mirror")
    await aiozarr.create_group(source)
    await aiozarr.create_array(source, "readme", data=[1, 2])
    await aiozarr.create_group(mirror)
    await mirror.set("readme", b"mine")
    with pytest.raises(aiozarr.CopyError, match="a value is stored where a directory is needed"):
        await aiozarr.copy(source, mirror, overwrite=True)
    assert await mirror.get("readme") == b"mine"
    with pytest.raises(aiozarr.CopyError):
        await aiozarr.copy(source, mirror, delete=True, exclude="readme")
    assert await mirror.get("readme") == b"mine"
    await aiozarr.copy(source, mirror, delete=True)
    assert await (await aiozarr.open_array(mirror, "readme"))[1] == 2


def dangling(folder: Path) -> None:
    (folder / "a" / "c" / "1").unlink()
    (folder / "a" / "c" / "1").symlink_to("nowhere")


def loop(folder: Path) -> None:
    (folder / "loop").symlink_to("loop")


def back(folder: Path) -> None:
    (folder / "back").symlink_to(".")


def unmounted(folder: Path) -> None:
    (folder / "a").rename(folder.parent / "mounted")
    (folder / "a").symlink_to(folder.parent / "unmounted")


def latin(folder: Path) -> None:
    os.rename(folder / "a", os.fsencode(folder) + b"/a\xe4")


FAULTS = pytest.mark.parametrize("spoil", [dangling, loop, back, unmounted, latin])


async def spoilt(tmp_path: Path, spoil: Any) -> tuple[Path, Path]:
    source, mirror = tmp_path / "source", tmp_path / "mirror"
    await aiozarr.create_group(source)
    await aiozarr.create_array(source, "a", data=[1, 2, 3, 4], chunks=(2,))
    await aiozarr.copy(source, mirror)
    spoil(source)
    return source, mirror


@FAULTS
async def test_nothing_is_removed_for_what_cannot_be_followed_or_named(tmp_path: Path, spoil: Any) -> None:
    source, mirror = await spoilt(tmp_path, spoil)
    before = contents_of(mirror)
    with pytest.raises(aiozarr.CopyError, match=r"link|UTF-8"):
        await aiozarr.copy(source, mirror, delete=True)
    report = await aiozarr.copy(source, mirror, delete=True, on_error="continue")
    assert report.failed
    assert report.deleted == 0
    assert before == contents_of(mirror)
    with pytest.raises(aiozarr.CopyError, match=r"link|UTF-8"):
        await aiozarr.copy(source, tmp_path / "new")
    with pytest.raises(aiozarr.CopyError):
        await aiozarr.copy(source, mirror, resume=True)


def contents_of(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and ".aiozarr" not in str(path)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


async def test_what_is_not_selected_may_be_unreadable(tmp_path: Path) -> None:
    source, _ = await spoilt(tmp_path, unmounted)
    await aiozarr.create_array(source, "b", data=[1, 2])
    report = await aiozarr.copy(source, tmp_path / "one", exclude="a/*")
    assert (report.objects, report.failed) == (3, ())
    assert (await aiozarr.copy(source, tmp_path / "two", include="b/*")).objects == 2
    with pytest.raises(aiozarr.CopyError):
        await aiozarr.copy(source, tmp_path / "three", include="a/c/*")


def undocumented(folder: Path) -> None:
    (folder / "a" / "zarr.json").unlink()
    (folder / "a" / "zarr.json").symlink_to("nowhere")


@pytest.mark.parametrize("spoil", [loop, unmounted, undocumented])
async def test_a_tree_shows_a_node_behind_a_broken_link_and_is_not_consolidated(tmp_path: Path, spoil: Any) -> None:
    source, _ = await spoilt(tmp_path, spoil)
    group = await aiozarr.open_group(source, mode="r+")
    assert "cannot be read" in str(await group.tree())
    with pytest.raises(aiozarr.StoreError):
        await aiozarr.consolidate_metadata(source)


async def test_a_dangling_chunk_is_bad_and_not_missing(tmp_path: Path) -> None:
    source, _ = await spoilt(tmp_path, dangling)
    report = await aiozarr.verify(source)
    assert [(bad.key, bad.problem) for bad in report.bad] == [("a/c/1", "store")]
    assert report.missing == 0


def test_a_listing_that_fails_removes_nothing() -> None:
    error = aiozarr.PermissionDeniedError("listing failed: Permission denied [EACCES]")
    source = FakeStore({"zarr.json": b"{}"}, faults=on_operation("list", error))
    destination = FakeStore({"zarr.json": b"{}", "c/0": b"x"})
    with pytest.raises(aiozarr.CopyError, match="could not be listed"):
        copied(source, destination, delete=True)
    assert contents(destination) == {"zarr.json": b"{}", "c/0": b"x"}
