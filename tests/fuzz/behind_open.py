"""What follows `open`: every way to look at a node, to read a bounded part of it, and to change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from random import Random
from typing import Any

import numpy as np
from typing_extensions import Buffer

import aiozarr
from aiozarr.stores import MemoryStore, Precondition, Version
from tests.fuzz.watchdog import allowed

SETTINGS = aiozarr.Settings(
    max_chunk_bytes=4 << 20,
    max_index_bytes=1 << 20,
    max_chunks=20_000,
    retries=1,
    retry_seconds=0.5,
    idle_timeout=2.0,
)
ELEMENTS = 4096
"""Elements that a read may ask for: a document may announce an array of any size, all of it the fill value."""
MEMBERS = 30


class SealedStore(MemoryStore):
    """A store that is only read: writing to it is no error of the store but a finding."""

    def __init__(self, values: Mapping[str, bytes]) -> None:
        super().__init__()
        for key, data in values.items():
            super().set_now(key, data)

    def set_now(self, key: str, value: Buffer, *, precondition: Precondition | None = None) -> Version:
        raise AssertionError(f"{key} was written while reading")

    def erase_now(self, key: str) -> None:
        raise AssertionError(f"{key} was erased while reading")


def filled(values: Mapping[str, bytes]) -> MemoryStore:
    """Return a store with these values."""
    store = MemoryStore()
    for key, data in values.items():
        store.set_now(key, data)
    return store


async def values_of(store: MemoryStore) -> dict[str, bytes]:
    """Return what a store holds."""
    values = {entry.key: store.fetch_now(entry.key) async for entry in store.scan()}
    return {key: bytes(value.data) for key, value in values.items() if value is not None}


async def open_and_use(values: Mapping[str, bytes], ways: Random, path: str = "") -> None:
    """Open a node of a store with these values, and look at it or change it; `ways` chooses how."""
    if ways.randrange(3):
        node = await allowed(aiozarr.open(SealedStore(values), path, settings=SETTINGS))
        if isinstance(node, aiozarr.Array | aiozarr.Group):
            await look(node, ways)
    else:
        node = await allowed(aiozarr.open(filled(values), path, mode="r+", settings=SETTINGS))
        if isinstance(node, aiozarr.Array | aiozarr.Group):
            await change(node)


async def look(node: aiozarr.Array | aiozarr.Group, ways: Random) -> None:
    """Use a node in some of the ways that do not write."""
    assert str(node)
    assert repr(node)
    assert isinstance(node.url, str)
    assert isinstance(dict(node.attrs), dict)
    match ways.randrange(8):
        case 0:
            assert str(await allowed(node.info()))
        case 1:
            await allowed(node.refresh())
        case _ if isinstance(node, aiozarr.Array):
            await look_at_array(node, ways)
        case _:
            await look_at_group(node, ways)


async def look_at_group(group: aiozarr.Group, ways: Random) -> None:
    """List a group, and open its members."""
    names: list[str] = []

    async def members(depth: int | None) -> None:
        async for name, member in group.members(depth):
            names.append(name)
            assert repr(member)
            if len(names) > MEMBERS:
                return

    if ways.randrange(3):
        await allowed(members(ways.choice([0, None])))
    else:
        assert str(await allowed(group.tree(3)))
    for name in ways.sample([*names, "a", "g/b", "absent/b"], 2):
        await allowed(group.contains(name))
        member = await allowed(group.open(name))
        if isinstance(member, aiozarr.Array):
            await look_at_array(member, ways)


async def look_at_array(array: aiozarr.Array, ways: Random) -> None:
    """Plan an array, and read some of it in two ways."""
    for fact in (array.dtype, array.fill_value, array.chunks, array.shards, array.order, array.dimension_names):
        assert repr(fact)
    assert array.nbytes >= 0
    assert array.nchunks >= 0
    whole = array[...]
    assert repr(whole)
    assert str(await allowed(called(whole.plan)))
    view, last = array[region(array)], tuple(max(0, length - 1) for length in array.shape)

    async def stream() -> None:
        async for _ in view.stream():
            pass

    got = await allowed(view.read())
    if isinstance(got, np.ndarray):
        assert (got.shape, got.dtype) == (view.shape, view.dtype)
    match ways.randrange(5) if array.size else 5:
        case 0:
            await allowed(whole.probe())
        case 1:
            await allowed(stream())
        case 2:
            await allowed(array[last].read())
        case 3:
            await allowed(array.oindex[tuple(np.array([0, each]) for each in last)].read())
        case 4:
            await allowed(array.vindex[tuple(np.array([each, 0]) for each in last)].read())


async def called(function: Any, *arguments: Any) -> Any:
    """Call a function that is no coroutine, so that `allowed` can await it."""
    return function(*arguments)


def region(array: aiozarr.Array) -> tuple[slice, ...]:
    """Return a selection from the start of each dimension that has few elements, and touches few chunks."""
    counts = list(array.shape)
    while prod(counts) > ELEMENTS:
        widest = counts.index(max(counts))
        counts[widest] = max(1, counts[widest] // 2)
    return tuple(slice(0, count) for count in counts)


async def change(node: aiozarr.Array | aiozarr.Group) -> None:
    """Call everything that writes."""
    await allowed(node.update_attributes({"fuzz": [1, None]}))
    if isinstance(node, aiozarr.Array):
        await change_array(node)
        return
    await allowed(node.create_array("fuzz/new", shape=3, dtype="i2", chunks=2))
    await allowed(aiozarr.consolidate_metadata(node.store, node.path))
    await allowed(node.delete("a"))
    await allowed(node.move("fuzz", "moved"))


async def change_array(array: aiozarr.Array) -> None:
    """Write what was read, resize, and append."""
    part = array[region(array)]
    got = await allowed(part.read())
    if not isinstance(got, BaseException):
        # A value that was read may not be writable, such as a string that is too long for the codec.
        await allowed(part.write(got))
    if array.ndim and prod(array.shape) <= ELEMENTS:
        longer = tuple(length + 1 for length in array.shape)
        await allowed(array.resize(longer))
        await allowed(array.resize(tuple(max(0, length - 3) for length in longer)))


def documents_in(values: Mapping[str, bytes], names: Iterable[str]) -> list[str]:
    """Return the keys whose last part is one of `names`."""
    chosen = set(names)
    return [key for key in values if key.rpartition("/")[2] in chosen]
