"""A tree of a few arrays and groups, and nodes whose formats this process has not seen in their store."""

from __future__ import annotations

from collections.abc import Iterable

import aiozarr
from aiozarr.stores import MemoryStore, Store


async def filled(store: Store) -> aiozarr.Group:
    """Create the arrays `a`, `g/b` and `z/deep`, and the groups `g`, `g/h`, `g/h/i` and `z`."""
    root = await aiozarr.create_group(store)
    await root.create_array("a", shape=(10, 10), dtype="f4")
    group = await root.create_group("g", attributes={"level": 1})
    await group.create_array("b", shape=3, dtype="i8")
    await group.create_group("h/i")
    await root.create_array("z/deep", shape=(), dtype="u1")
    return root


async def copy_objects(source: Store, target: Store) -> None:
    """Store every object of `source` in `target`, where no handle has created a node."""
    for key in await source.list():
        await target.set(key, bytes(await source.get(key) or b""))


async def store_arrays(target: Store, zarr_format: int, names: Iterable[str]) -> None:
    """Store a group with arrays of these names in `target`, where no handle has created them."""
    source = MemoryStore()
    root = await aiozarr.create_group(source, zarr_format=zarr_format)
    await root.create_hierarchy({name: {"shape": 1, "dtype": "i1"} for name in names})
    await copy_objects(source, target)
