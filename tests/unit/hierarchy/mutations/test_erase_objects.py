"""Erasing chosen objects: which nodes that removes, and what consolidated metadata then have."""

from __future__ import annotations

import pytest

import aiozarr
from aiozarr.hierarchy.erase import erase_objects, erased_nodes
from aiozarr.hierarchy.node_access import NodeAccess, implicit_group, run_at_target
from aiozarr.stores import MemoryStore


@pytest.mark.parametrize(
    ("erased", "kept", "changes"),
    [
        (["a/zarr.json"], ["zarr.json"], {"a": None}),
        (["a/zarr.json", "a/b/zarr.json"], ["ab/zarr.json"], {"a": None}),
        (["a/zarr.json", "a/b/zarr.json"], ["a/c/zarr.json"], {"a": implicit_group(), "a/b": None}),
        (["zarr.json"], ["a/zarr.json"], {"": implicit_group()}),
        (["a/.zattrs", ".zmetadata"], ["a/.zarray"], {}),
    ],
)
def test_a_node_is_removed_with_its_document_and_stays_as_a_folder_of_kept_nodes(
    erased: list[str], kept: list[str], changes: dict[str, object]
) -> None:
    assert dict(erased_nodes(3, erased, kept)) == changes


async def test_documents_of_one_format_leave_consolidated_metadata_of_the_other() -> None:
    store = MemoryStore()
    for zarr_format in (2, 3):
        other = MemoryStore()
        group = await aiozarr.create_group(other, zarr_format=zarr_format)
        for name in ("a", "b"):
            await group.create_array(name, shape=1, dtype="i4")
        await aiozarr.consolidate_metadata(other)
        for key in await other.list():
            await store.set(key, await other.get(key) or b"")

    async def erase(access: NodeAccess, _: bool) -> None:
        await erase_objects(access, ["a/.zarray", "a/.zattrs"], ["zarr.json", "a/zarr.json", "b/zarr.json"])

    await run_at_target(erase, store, "", zarr_format=None, storage_options=None, settings=None)
    paths = {}
    for zarr_format in (2, 3):
        consolidated = (await aiozarr.open_group(store, zarr_format=zarr_format)).metadata.consolidated
        assert consolidated is not None
        paths[zarr_format] = sorted(consolidated.nodes)
    assert paths == {2: ["b"], 3: ["a", "b"]}
