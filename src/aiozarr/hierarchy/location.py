"""Paths of nodes: joining, ancestors, and the prefix of a node's keys in its store."""

from __future__ import annotations

from aiozarr.metadata import check_path


def join_path(path: str, name: str, zarr_format: int | None = 3) -> str:
    """Return the path of the node `name`, such as `"a/b"`, below the node at `path`, by the rules of this format.

    Raises:
        InvalidKeyError: `name` is not a valid node name.
    """
    name = check_path(name, zarr_format)
    return f"{path}/{name}" if path and name else path or name


def child_path(path: str, name: str, zarr_format: int) -> str:
    """Return the path of a node below the node at `path`, as `join_path` does.

    Raises:
        InvalidKeyError: `name` is not a valid node name.
        ValueError: `name` is empty.
    """
    child = join_path(path, name, zarr_format)
    if child == path:
        raise ValueError("the name of the node is empty")
    return child


def relative_name(path: str, ancestor: str) -> str:
    """Return the name of the node at `path` relative to the node at `ancestor`, which is above it or the same."""
    return path[len(ancestor) + 1 :] if ancestor else path


def key_prefix(path: str) -> str:
    """Return the prefix of all keys of the node at `path`."""
    return f"{path}/" if path else ""


def ancestors(path: str) -> list[str]:
    """Return the paths of all nodes above `path`, the root first. The root itself has none."""
    parts = path.split("/") if path else []
    return ["/".join(parts[:count]) for count in range(len(parts))]
