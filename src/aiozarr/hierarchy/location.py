"""Where a node lies: its path inside the hierarchy, the prefix of its keys in the store, and its URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.metadata import check_path

if TYPE_CHECKING:
    from aiozarr.stores.contract import Store


def join_path(path: str, name: str, zarr_format: int | None = 3) -> str:
    """Return the path of the node `name`, such as `"a/b"`, below the node at `path`, as this format has paths.

    Raises:
        InvalidKeyError: `name` holds something that no node may be called.
    """
    name = check_path(name, zarr_format)
    return f"{path}/{name}" if path and name else path or name


def child_path(path: str, name: str, zarr_format: int) -> str:
    """Return the path of a node below the node at `path`, as `join_path` does.

    Raises:
        InvalidKeyError: `name` holds something that no node may be called.
        ValueError: `name` is empty.
    """
    child = join_path(path, name, zarr_format)
    if child == path:
        raise ValueError("the name of the node is empty")
    return child


def key_prefix(path: str) -> str:
    """Return the prefix of all keys of the node at `path`."""
    return f"{path}/" if path else ""


def node_url(store: Store, path: str) -> str:
    """Return the canonical URL of the node at `path`: opening it opens the same node."""
    return store.url_of(path)


def ancestors(path: str) -> list[str]:
    """Return the paths of all nodes above `path`, the root first; the root itself has none."""
    parts = path.split("/") if path else []
    return ["/".join(parts[:count]) for count in range(len(parts))]
