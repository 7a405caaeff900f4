"""The error of a missing node, with what is there in its place: a file, or a sibling of nearly the same name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from urllib.request import url2pathname

from aiozarr.errors import AiozarrError, NodeNotFoundError
from aiozarr.hierarchy.node_access import NodeAccess, NodeMetadata, node_not_found_error
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.local.store import LocalStore

MODES = ("r", "r+", "a", "w", "w-", "x")


def check_no_mode(path: object) -> None:
    """Refuse a path that can only be meant as a mode. `"a"` and `"w"` are names, too.

    Raises:
        TypeError: it is such a path.
    """
    if path in ("r+", "w-", "rb", "r+b"):
        raise TypeError(f"the second argument is a path, and {path!r} looks like a mode: write mode={path!r}")


async def missing_node_error(
    access: NodeAccess,
    zarr_format: int | None = None,
    siblings: Iterable[str] | None = None,
    other: NodeMetadata | None = None,
) -> NodeNotFoundError:
    """Return the error of the missing node at a path.

    Args:
        access: the access to the path.
        zarr_format: the format that was asked for.
        siblings: the names of the nodes beside it; None: the store is listed if it can be.
        other: the node of another format at the path.
    """
    error = node_not_found_error(access.store, access.path, zarr_format, other)
    if other is not None:
        return error
    hints = []
    file = await in_thread(lambda: _file_in_the_way(access))
    if file is not None:
        hints.append(f"{file}, and a node is a directory")
    parent, _, name = access.path.rpartition("/")
    beside: NodeAccess | None = access.sibling(parent)
    if not access.path:
        beside, name = _beside_root(access)
    if name and file is None:
        names = siblings
        if names is None:
            names = [] if beside is None else await _names_below(beside)
        nearest = get_close_matches(name, sorted(set(names)), n=1)
        if nearest:
            hints.append(f"did you mean {nearest[0]!r}?")
        if name in MODES and access.path and not parent:
            hints.append(f"{name!r} is a path here: a mode is given as mode={name!r}")
    if not hints and not access.path and isinstance(access.store, LocalStore):
        root = Path(access.store.root)
        if not await in_thread(root.exists):
            hints.append("the directory does not exist")
    if hints:
        error = NodeNotFoundError("; ".join([error.message, *hints]), url=error.url, path=error.path)
    return error


def _file_in_the_way(access: NodeAccess) -> str | None:
    """Return what a message says of a file at the path of a node in a local store, or above it; None: there is none."""
    if not isinstance(access.store, LocalStore):
        return None
    place = Path(url2pathname(access.url.removeprefix("file://")))
    if place.is_file():
        return "there is a file of this name"
    above = next((each for each in place.parents if each.is_file()), None)
    return None if above is None else f"{str(above)!r} is a file"


def _beside_root(access: NodeAccess) -> tuple[NodeAccess | None, str]:
    """Return the access to the directory with the store's root, and the name of the root in it.

    The root of a bucket, or of the local disk, may have any number of names, and is not listed.
    """
    parent = access.store.parent_store()
    if parent is None or parent[0].parent_store() is None:
        return None, ""
    return replace(access, store=parent[0], path=""), parent[1]


async def _names_below(access: NodeAccess) -> list[str]:
    """Return the names directly below a path; none if they cannot be listed."""
    if not access.store.supports.listable:
        return []
    try:
        _, prefixes = await access.scheduled.list_dir(access.prefix)
    except AiozarrError:
        # Another error would hide that the node is missing.
        return []
    return [prefix[len(access.prefix) :].removesuffix("/") for prefix in prefixes]
