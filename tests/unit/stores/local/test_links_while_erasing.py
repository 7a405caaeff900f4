"""Whoever replaces a directory by a link while a tree is erased has nothing outside the tree erased."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import aiozarr.sync
from aiozarr.errors import AiozarrError, StoreError
from aiozarr.stores import LocalStore

CALLS = ("open", "scandir", "unlink", "rmdir", "stat", "lstat")
TEMPORARY = ".aiozarr-write~0123456789abcdef"
NAMES = {"zarr.json", "keep", TEMPORARY}


def make_tree(top: Path) -> Path:
    """Make a tree, and a directory outside with the same names and an empty directory; return the tree."""
    tree = top / "tree"
    aiozarr.sync.create_group(tree)
    aiozarr.sync.create_group(tree / "g")
    aiozarr.sync.create_array(tree / "g" / "a", data=[1, 2, 3, 4], chunks=(2,))
    for directory in (tree / "g" / "a", top / "outside"):
        (directory / "empty").mkdir(parents=True)
        for name in NAMES:
            if not (directory / name).exists():
                (directory / name).write_bytes(b"x")
        os.utime(directory / TEMPORARY, (0, 0))
    return tree


class Attack:
    """Replaces the directory `g/a` of a tree by a link, before a numbered call of the system below the tree."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tree: Path, number: int) -> None:
        self.count = 0
        self._tree, self._number = tree, number
        self._lock = threading.Lock()
        for name in CALLS:
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **keywords: Any) -> Any:
            with self._lock:
                self.count += 1
                if self.count == self._number:
                    with suppress(FileNotFoundError):
                        os.rename(self._tree / "g" / "a", self._tree / "moved")
                        os.symlink(self._tree.parent / "outside", self._tree / "g" / "a")
            return call(*args, **keywords)

        return counted


def copy_an_empty_group_onto(tree: Path) -> None:
    aiozarr.sync.create_group(tree.parent / "source")
    aiozarr.sync.copy(tree.parent / "source", tree, delete=True)


ERASURES: dict[str, Callable[[Path], object]] = {
    "erase_prefix": lambda tree: asyncio.run(LocalStore(tree).erase_prefix("g/")),
    "erase_values": lambda tree: asyncio.run(LocalStore(tree).erase_values(["g/a/keep", "g/a/zarr.json"])),
    "sweep": lambda tree: asyncio.run(LocalStore(tree)._sweep(None)),
    "delete": lambda tree: aiozarr.sync.open_group(tree, mode="r+").delete("g"),
    "overwrite": lambda tree: aiozarr.sync.create_group(tree / "g", overwrite=True),
    "move": lambda tree: aiozarr.sync.open_group(tree, mode="r+").move("g", "h"),
    "clean": lambda tree: aiozarr.sync.clean(tree, delete=True),
    "copy": copy_an_empty_group_onto,
}


@pytest.mark.parametrize("name", ERASURES)
def test_a_link_that_appears_while_a_tree_is_erased_is_not_followed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, count = 0, 1
    while number <= count:
        top = tmp_path / str(number)
        tree = make_tree(top)
        with monkeypatch.context() as patch:
            attack = Attack(patch, tree, number)
            with suppress(AiozarrError):
                ERASURES[name](tree)
        assert {path.name for path in (top / "outside").iterdir()} == {*NAMES, "empty"}, f"at call {number}"
        count = attack.count
        number += max(1, count // 40)


async def test_keys_behind_a_link_are_not_erased_with_others(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(b"1")
    store = LocalStore(tmp_path / "root")
    await store.set("a", b"1")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreError, match="nothing behind a link is erased") as caught:
        await store.erase_values(["a", "link/x"])
    assert caught.value.key == "link/x"
    await store.erase("link/x")
    assert not list((tmp_path / "outside").iterdir())
