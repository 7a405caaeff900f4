"""The error of a missing node, with what is there in its place: a file, or a sibling of nearly the same name."""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import get_close_matches
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
    local = access.url.removeprefix("file://") if isinstance(access.store, LocalStore) else None
    if local is not None and await in_thread(lambda: os.path.isfile(url2pathname(local))):
        hints.append("there is a file of this name, and a node is a directory")
    parent, _, name = access.path.rpartition("/")
    if name:
        names = await _names_below(access.sibling(parent)) if siblings is None else siblings
        nearest = get_close_matches(name, sorted(set(names)), n=1)
        if nearest:
            hints.append(f"did you mean {nearest[0]!r}?")
        if name in MODES and not parent:
            hints.append(f"{name!r} is a path here: a mode is given as mode={name!r}")
    if hints:
        error = NodeNotFoundError("; ".join([error.message, *hints]), url=error.url, path=error.path)
    return error


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
