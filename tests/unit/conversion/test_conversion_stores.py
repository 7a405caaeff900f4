from __future__ import annotations

import pytest

import aiozarr
from aiozarr.conversion.conversion import check_executor, source_nodes
from aiozarr.settings import Settings
from aiozarr.stores import MemoryStore


async def test_the_nodes_of_a_source_are_the_root_and_everything_below() -> None:
    store = MemoryStore()
    group = await aiozarr.create_group(store)
    await group.create_array("a/b", shape=3, dtype="i1")
    assert list(await source_nodes(store, Settings())) == ["", "a", "a/b"]
    assert list(await source_nodes(group.store, Settings(), 3)) == ["", "a", "a/b"]
    with pytest.raises(aiozarr.NodeNotFoundError):
        await source_nodes(store, Settings(), 2)


def test_an_executor_has_submit() -> None:
    check_executor(None)
    with pytest.raises(TypeError, match="not int"):
        check_executor(4)
