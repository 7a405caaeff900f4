"""Changes of a small tree on the local disk, and what must hold of the tree whenever one has been interrupted.

A folder holds the tree `x.zarr` and what a change makes beside it. A change is a coroutine over the folder. It can be
repeated after an interruption at any moment, and then leaves the same files as a run without one.
"""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import aiozarr
from aiozarr.errors import NodeExistsError, NodeNotFoundError
from aiozarr.stores import LocalStore

Work: TypeAlias = Callable[[Path, aiozarr.Settings], Awaitable[Any]]
TEMPORARY = ".aiozarr-"
OLD, NEW = 1, 2
ITEMS = 16
"""Elements of the array `a`, and of each row of `g/b`."""


@dataclass(frozen=True)
class Change:
    """A change.

    Attributes:
        name: its name.
        run: makes the change.
        repetition: how it is repeated, if not by itself.
        may_show_fill: whether an array is seen before its new elements are stored.
    """

    name: str
    run: Work
    repetition: Work | None = None
    may_show_fill: bool = False

    async def repeat(self, folder: Path, settings: aiozarr.Settings) -> None:
        """Complete the change after an interruption. Nothing is left to delete or move if it was interrupted late."""
        with suppress(NodeNotFoundError):
            await (self.repetition or self.run)(folder, settings)


async def make(folder: Path, zarr_format: int) -> None:
    """Make the tree: the arrays `a` and `g/b` and the group `g/h`, consolidated."""
    root = await aiozarr.create_group(folder / "x.zarr", zarr_format=zarr_format, attributes={"title": "t"})
    await root.create_array("a", data=np.full(ITEMS, OLD, "i4"), chunks=2, attributes={"n": OLD})
    shards: dict[str, Any] = {"shards": (2, 8)} if zarr_format == 3 else {}
    await root.create_array("g/b", data=np.full((4, ITEMS), OLD, "i4"), chunks=(1, 4), **shards)
    await root.create_group("g/h", attributes={"n": OLD})
    await aiozarr.consolidate_metadata(folder / "x.zarr")


async def _root(folder: Path, settings: aiozarr.Settings) -> aiozarr.Group:
    return await aiozarr.open_group(folder / "x.zarr", mode="r+", settings=settings)


async def _array(folder: Path, settings: aiozarr.Settings, name: str) -> aiozarr.Array:
    return await aiozarr.open_array(folder / "x.zarr", name, mode="r+", settings=settings)


async def _create(folder: Path, settings: aiozarr.Settings, *, overwrite: bool = False) -> None:
    root = await _root(folder, settings)
    await root.create_array("k/n", data=np.full(ITEMS, NEW, "i4"), chunks=4, overwrite=overwrite)


async def _recreate(folder: Path, settings: aiozarr.Settings) -> None:
    await _create(folder, settings, overwrite=True)


async def _delete(folder: Path, settings: aiozarr.Settings) -> None:
    await (await _root(folder, settings)).delete("g")


async def _move(folder: Path, settings: aiozarr.Settings) -> None:
    await (await _root(folder, settings)).move("g", "k/m")


async def _overwrite(folder: Path, settings: aiozarr.Settings) -> None:
    await (await _root(folder, settings)).create_array("g", shape=3, dtype="u1", overwrite=True)


async def _attributes(folder: Path, settings: aiozarr.Settings) -> None:
    await (await _array(folder, settings, "a")).update_attributes({"n": NEW})


async def _group_attributes(folder: Path, settings: aiozarr.Settings) -> None:
    await (await (await _root(folder, settings)).open("g/h")).update_attributes({"n": NEW})


async def _consolidate(folder: Path, settings: aiozarr.Settings) -> None:
    await aiozarr.consolidate_metadata(folder / "x.zarr", settings=settings)


async def _shrink(folder: Path, settings: aiozarr.Settings) -> None:
    await (await _array(folder, settings, "a")).resize((5,))


async def _append(folder: Path, settings: aiozarr.Settings) -> None:
    await (await _array(folder, settings, "a")).append(np.full(5, NEW, "i4"))


async def _append_again(folder: Path, settings: aiozarr.Settings) -> None:
    await (await _array(folder, settings, "a")).resize((ITEMS,))
    await _append(folder, settings)


async def _write(folder: Path, settings: aiozarr.Settings) -> None:
    await (await _array(folder, settings, "a"))[...].write(NEW)


async def _write_parts(folder: Path, settings: aiozarr.Settings) -> None:
    await (await _array(folder, settings, "g/b"))[1:3, 2:14].write(NEW)


async def _copy(folder: Path, settings: aiozarr.Settings) -> None:
    await aiozarr.copy(folder / "x.zarr", folder / "y.zarr", resume=True, settings=settings)


async def _copy_into_tree(folder: Path, settings: aiozarr.Settings) -> None:
    await aiozarr.copy(folder / "x.zarr" / "a", folder / "x.zarr" / "g" / "c", resume=True, settings=settings)


async def _convert(folder: Path, settings: aiozarr.Settings, *, resume: bool = False) -> None:
    await aiozarr.convert(
        folder / "x.zarr", folder / "y.zarr", chunks=3, shards=False, resume=resume, settings=settings
    )


async def _convert_again(folder: Path, settings: aiozarr.Settings) -> None:
    # The journal goes last: without it the destination holds the complete result.
    with suppress(NodeExistsError):
        await _convert(folder, settings, resume=True)


CHANGES = {
    change.name: change
    for change in [
        Change("create", _create, _recreate, may_show_fill=True),
        Change("delete", _delete),
        Change("move", _move),
        Change("overwrite", _overwrite),
        Change("attributes", _attributes),
        Change("group attributes", _group_attributes),
        Change("consolidate", _consolidate),
        Change("shrink", _shrink),
        Change("append", _append, _append_again, may_show_fill=True),
        Change("write", _write),
        Change("write parts", _write_parts),
        Change("copy", _copy),
        Change("copy into tree", _copy_into_tree),
        Change("convert", _convert, _convert_again),
    ]
}


# --- what must hold ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """What a reader sees of a node: attributes, and the values of an array, None for a group."""

    attributes: dict[str, Any]
    values: np.ndarray[Any, Any] | None

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.attributes == other.attributes and self.has_values(other.values)

    def has_values(self, values: np.ndarray[Any, Any] | None) -> bool:
        """Return whether these are the values, or both are groups."""
        if self.values is None or values is None:
            return self.values is values
        return np.array_equal(self.values, values)

    def is_between(self, old: Node | None, new: Node | None, *, may_be_fill: bool) -> bool:
        """Return whether this is the old or the new node, with some elements of the one and some of the other.

        Elements that only the new one has may have the fill value, 0, if `may_be_fill`.
        """
        if self.attributes not in [each.attributes for each in (old, new) if each is not None]:
            return False
        if any(each is not None and self.has_values(each.values) for each in (old, new)):
            return True
        if self.values is None or new is None or new.values is None or new.values.shape != self.values.shape:
            return False
        before = np.zeros_like(self.values) if may_be_fill else new.values.copy()
        if old is not None and old.values is not None:
            common = tuple(map(slice, np.minimum(old.values.shape, before.shape)))
            before[common] = old.values[common]
        return bool(((self.values == before) | (self.values == new.values)).all())


async def look(folder: Path, *, is_consolidated: bool = True, is_copied_alone: bool = True) -> dict[str, Node]:
    """Return the nodes of all trees in the folder by path, and check that all ways to them agree.

    Of each tree, the listing, `contains`, `open` and the consolidated metadata, if there are any, name the same nodes;
    without `is_consolidated` the latter are not compared. Without `is_copied_alone`, others have changed `x.zarr` while
    it was copied: the copy may have nodes of before the change below an array of after it, which are not listed.
    """
    seen: dict[str, Node] = {}
    for name in ("x.zarr", "y.zarr"):
        try:
            root = await aiozarr.open_group(folder / name, use_consolidated=False)
        except NodeNotFoundError:
            continue
        seen[name] = Node(dict(root.attrs), None)
        below = {path: await _node(node) async for path, node in root.members(None)}
        for path, node in below.items():
            assert await root.contains(path), f"{name}/{path} is listed, and not contained"
            assert await _node(await root.open(path)) == node, f"{name}/{path} is opened as another node"
        absent = {"a", "g", "g/b", "g/h", "g/c", "k", "k/n", "k/m", "k/m/b", "k/m/h"} - below.keys()
        for path in absent if name == "x.zarr" or is_copied_alone else ():
            assert not await root.contains(path), f"{name}/{path} is contained, and not listed"
            with suppress(NodeNotFoundError):
                raise AssertionError(f"{name}/{path} is opened, and not listed: {await root.open(path)}")
        consolidated = await aiozarr.open_group(folder / name, use_consolidated=None if is_consolidated else False)
        stored = {path: await _node(node) async for path, node in consolidated.members(None)}
        assert stored == below, f"{name} lists {sorted(below)}, its consolidated metadata name {sorted(stored)}"
        seen |= {f"{name}/{path}": node for path, node in below.items()}
    return seen


async def _node(node: aiozarr.Array | aiozarr.Group) -> Node:
    return Node(dict(node.attrs), await node[...] if isinstance(node, aiozarr.Array) else None)


def files(folder: Path) -> dict[str, bytes]:
    """Return the files below, without temporary ones, the records of unfinished work, and the marks of appends."""
    found = (path for path in folder.rglob("*") if path.is_file() and TEMPORARY not in str(path))
    # An append leaves random white space at the end of a document.
    return {
        str(path.relative_to(folder)): path.read_bytes().rstrip(b" \n")
        if path.name in ("zarr.json", ".zarray")
        else path.read_bytes()
        for path in found
    }


def leftovers(folder: Path) -> list[str]:
    """Return the temporary files below, and the records of unfinished work."""
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and TEMPORARY in str(path)]


@dataclass(frozen=True)
class Template:
    """A tree before a change and after an undisturbed one, from which folders are copied."""

    change: Change
    begin: Path
    old: dict[str, Node]
    new: dict[str, Node]
    end: dict[str, bytes]

    @classmethod
    async def of(cls, change: Change, zarr_format: int, folder: Path) -> Template:
        """Make the tree in `folder`, which does not exist, and its changed copy."""
        begin, end = folder / "begin", folder / "end"
        await make(begin, zarr_format)
        shutil.copytree(begin, end)
        await change.run(end, aiozarr.Settings())
        await aiozarr.consolidate_metadata(end / "x.zarr")
        return cls(change, begin, await look(begin), await look(end), files(end))

    def copied(self, folder: Path) -> Path:
        """Return a new folder with the tree as it is before the change."""
        return shutil.copytree(self.begin, folder)

    async def check(self, folder: Path, where: str) -> None:
        """Check a tree that an interrupted change has left, complete the change, and check the tree again."""
        for path, node in (await look(folder)).items():
            if node.values is None and not any((folder / path / name).exists() for name in ("zarr.json", ".zgroup")):
                continue  # In format 3 chunks that remain of a deleted array make a group without a document.
            before, after, may_be_fill = self.old.get(path), self.new.get(path), self.change.may_show_fill
            assert node.is_between(before, after, may_be_fill=may_be_fill), f"{where}: {path} is {node}"
        await self.change.repeat(folder, aiozarr.Settings())
        # A process that repeats the change of a killed one does not know of consolidated metadata that are gone.
        await aiozarr.consolidate_metadata(folder / "x.zarr")
        seen = await look(folder)
        assert seen == self.new, f"{where}, and repeated: {seen}"
        left = files(folder)
        differing = [name for name in left.keys() | self.end.keys() if left.get(name) != self.end.get(name)]
        assert not differing, f"{where}, and repeated: {differing} are not as in an undisturbed run"
        await LocalStore(folder)._sweep(older_than=-1.0)
        assert not leftovers(folder), f"{where}, and repeated: {leftovers(folder)} are left"
