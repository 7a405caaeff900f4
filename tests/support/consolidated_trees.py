"""A consolidated tree of a few nodes, and what its stored copies of metadata hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

import aiozarr
from aiozarr.stores import Store

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])
COPIES = {2: ".zmetadata", 3: "zarr.json"}


async def consolidated_tree(store: Store, zarr_format: int) -> aiozarr.Group:
    """A consolidated tree: `a`, `g` with `b` and `h`."""
    root = await aiozarr.create_group(store, zarr_format=zarr_format, attributes={"title": "t"})
    await root.create_array("a", shape=4, dtype="i4", chunks=2, attributes={"n": 1})
    await root.create_group("g", attributes={"level": 1})
    await root.create_array("g/b", shape=(2, 3), dtype="f8")
    await root.create_group("g/h")
    return await aiozarr.consolidate_metadata(store)


async def copies(store: Store, zarr_format: int, path: str = "") -> dict[str, Any] | None:
    """The paths that the stored copies are of, with the array's shape or None; None where there are no copies."""
    data = await store.get(f"{path}/{COPIES[zarr_format]}".lstrip("/"))
    if data is None:
        return None
    document = json.loads(bytes(data))
    if zarr_format == 3:
        held = document.get("consolidated_metadata")
        return None if held is None else {name: node.get("shape") for name, node in held["metadata"].items()}
    found = {}
    for key, members in document["metadata"].items():
        name, _, kind = key.rpartition("/")
        if kind in (".zarray", ".zgroup"):
            found[name] = members.get("shape")
    del found[""]
    return found


TREE = {"a": [4], "g": None, "g/b": [2, 3], "g/h": None}
