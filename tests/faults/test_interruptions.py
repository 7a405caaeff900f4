"""Whatever was interrupted is completed by repeating it: at each call of the store, by each kind of fault."""

from __future__ import annotations

import asyncio
from functools import cache, partial
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import NodeExistsError, NodeNotFoundError
from aiozarr.stores.wrappers.prefix_store import PrefixStore
from aiozarr.testing.fakes import FakeStore
from tests.support.interruptions import Operation, interruptions, objects, undisturbed

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


@cache
def tree(zarr_format: int, *, is_consolidated: bool = True) -> dict[str, bytes]:
    """The objects of a group with the arrays `a` and `g/b`."""
    store = FakeStore(latency=0)

    async def make() -> None:
        root = await aiozarr.create_group(store, zarr_format=zarr_format, attributes={"title": "t"})
        group = await root.create_group("g", attributes={"level": 1})
        for parent, name in ((root, "a"), (group, "b")):
            array = await parent.create_array(name, shape=4, chunks=2, dtype="i4", attributes={"n": 1})
            await array[...].write([1, 2, 3, 4])
        if is_consolidated:
            await aiozarr.consolidate_metadata(store)

    asyncio.run(make())
    return objects(store)


async def root_of(store: FakeStore, **options: Any) -> aiozarr.Group:
    return await aiozarr.open_group(store, mode="r+", **options)


async def look(store: FakeStore) -> dict[str, Any]:
    """Return values and attributes of all arrays, which must be equal with and without consolidated metadata."""
    seen: list[dict[str, Any]] = []
    for options in ({}, {"use_consolidated": False}):
        root = await root_of(store, **options)
        arrays = {name: node async for name, node in root.members(None) if isinstance(node, aiozarr.Array)}
        seen.append({name: ((await each[...]).tolist(), dict(each.attrs)) for name, each in arrays.items()})
    assert seen[0] == seen[1]
    return seen[0]


async def move(store: FakeStore) -> None:
    await (await root_of(store)).move("g", "x/y")


async def move_array(store: FakeStore) -> None:
    await (await root_of(store)).move("g/b", "c")


async def delete(store: FakeStore) -> None:
    await (await root_of(store)).delete("g")


async def change_attributes(store: FakeStore) -> None:
    node = await (await root_of(store)).open("g/b")
    await node.update_attributes({"n": 2})


async def change_root_attributes(store: FakeStore) -> None:
    await (await root_of(store)).update_attributes({"n": 2})


async def overwrite(store: FakeStore) -> None:
    await (await root_of(store)).create_array("g", shape=3, dtype="u1", overwrite=True)


async def consolidate(store: FakeStore) -> None:
    await aiozarr.consolidate_metadata(store)


CHANGES = [move, move_array, delete, change_attributes, change_root_attributes, overwrite, consolidate]


@FORMATS
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_was_interrupted_is_completed_by_repeating_it(zarr_format: int, change: Operation) -> None:
    begin = tree(zarr_format)
    end, _ = undisturbed(begin, change)
    old, new = (asyncio.run(look(FakeStore(state, latency=0))) for state in (begin, end))
    for each in interruptions(begin, change, look=look):
        # Nothing is left to move or delete if only the response was lost.
        is_done = isinstance(each.error, NodeNotFoundError) and each.between == end
        assert each.error is None or is_done, each
        assert each.after == end, each
        assert all(array in (old.get(name), new.get(name)) for name, array in each.seen.items()), each


async def migrate(store: FakeStore, **options: Any) -> None:
    await aiozarr.migrate(store, **options)


@pytest.mark.parametrize("erase_old", [False, True])
def test_a_migration_that_was_interrupted_is_completed_by_resuming_it(*, erase_old: bool) -> None:
    begin = tree(2)

    async def begin_migration(store: FakeStore) -> None:
        await migrate(store, erase_old=erase_old)

    async def resume(store: FakeStore) -> None:
        await migrate(store, erase_old=erase_old, resume=True)

    end, _ = undisturbed(begin, begin_migration)
    for each in interruptions(begin, begin_migration, resume):
        is_done = isinstance(each.error, NodeNotFoundError) and each.between == end
        assert each.error is None or is_done, each
        assert each.after == end, each


@cache
def source(zarr_format: int = 3) -> FakeStore:
    return FakeStore(tree(zarr_format), latency=0)


async def convert(store: FakeStore, **options: Any) -> None:
    await aiozarr.convert(source(), store, chunks=3, **options)


def test_a_conversion_that_was_interrupted_is_completed_by_resuming_it() -> None:
    end, _ = undisturbed({}, convert)
    for each in interruptions({}, convert, partial(convert, resume=True)):
        # The journal goes last: without it the destination holds the complete result.
        is_done = isinstance(each.error, NodeExistsError) and each.between == end
        assert each.error is None or is_done, each
        assert each.after == end, each


async def copy(store: FakeStore, **options: Any) -> None:
    await aiozarr.copy(source(), store, **options)


async def copy_into_group(store: FakeStore, zarr_format: int = 3, **options: Any) -> None:
    await aiozarr.copy(source(zarr_format), PrefixStore(store, "g/copy"), **options)


@pytest.mark.parametrize(
    ("operation", "begin"), [(copy, {}), (copy_into_group, tree(3)), (partial(copy_into_group, zarr_format=2), tree(2))]
)
def test_a_copy_that_was_interrupted_is_completed_by_resuming_it(operation: Operation, begin: dict[str, bytes]) -> None:
    end, _ = undisturbed(begin, operation)
    for each in interruptions(begin, operation, partial(operation, resume=True)):
        assert each.error is None, each
        assert each.after == end, each
