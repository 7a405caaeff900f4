"""A tree of a few arrays and groups."""

import aiozarr
from aiozarr.stores import Store


async def filled(store: Store) -> aiozarr.Group:
    """Create the arrays `a`, `g/b` and `z/deep`, and the groups `g`, `g/h`, `g/h/i` and `z`."""
    root = await aiozarr.create_group(store)
    await root.create_array("a", shape=(10, 10), dtype="f4")
    group = await root.create_group("g", attributes={"level": 1})
    await group.create_array("b", shape=3, dtype="i8")
    await group.create_group("h/i")
    await root.create_array("z/deep", shape=(), dtype="u1")
    return root
