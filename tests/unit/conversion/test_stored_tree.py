from __future__ import annotations

import pytest

import aiozarr
from aiozarr.conversion.conversion_run import check_free, store_tree
from aiozarr.engine import Engine, run
from aiozarr.hierarchy.new_metadata import new_array_metadata, new_group_metadata
from aiozarr.hierarchy.node_access import NodeAccess
from aiozarr.settings import Settings
from aiozarr.testing.fakes import FakeStore


async def test_documents_are_stored_with_the_root_last() -> None:
    store = FakeStore(latency=0)
    group, array = new_group_metadata(3, {}), new_array_metadata(3, {"shape": 3, "dtype": "i1"})

    async def check(engine: Engine) -> None:
        access = NodeAccess(engine, store, "", Settings())
        await check_free(access, 3)
        await store_tree(access, {"": group, "a": group, "a/b": array})
        with pytest.raises(aiozarr.NodeExistsError):
            await check_free(access, 3)

    await run(check)
    written = [key for key, _ in store.log("set")]
    assert written == ["a/b/zarr.json", "a/zarr.json", "zarr.json"]
