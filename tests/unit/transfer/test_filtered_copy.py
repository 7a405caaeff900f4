"""Consolidated metadata of a filtered copy name the nodes that are there."""

from __future__ import annotations

from typing import Any

import pytest

import aiozarr
from aiozarr.stores import MemoryStore
from tests.support.consolidated_trees import COPIES, FORMATS, consolidated_tree, copies

ALL = {"a": [4], "g": None, "g/b": [2, 3], "g/h": None}


@FORMATS
@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"exclude": "a/*"}, "g g/b g/h"),
        ({"exclude": ["g/*"]}, "a"),
        ({"exclude": "g/b/*"}, "a g g/h"),
        ({"include": ["z*", ".z*", "g/b/*"]}, "g g/b"),
        ({"include": "*"}, "a g g/b g/h"),
        ({"exclude": "*/c/*"}, "a g g/b g/h"),
    ],
    ids=str,
)
async def test_only_copied_nodes_are_named(zarr_format: int, options: dict[str, Any], names: str) -> None:
    source, destination = MemoryStore(), MemoryStore()
    await consolidated_tree(source, zarr_format)
    for _ in range(2):  # the second time nothing is left to copy
        report = await aiozarr.copy(source, destination, overwrite=True, skip_equal=True, **options)
        found = await copies(destination, zarr_format)
        assert found == {name: shape for name, shape in ALL.items() if name in names.split()}
    assert (report.objects, report.failed) == (0, ())
    group = await aiozarr.open_group(destination, zarr_format=zarr_format)
    assert {name async for name, _ in group.members(max_depth=None)} == set(names.split())
    if set(names.split()) == set(ALL):
        document = COPIES[zarr_format]
        assert await destination.get(document) == await source.get(document)
    resumed = await aiozarr.copy(source, destination, resume=True, **options)
    assert resumed.objects == 0


@FORMATS
async def test_nodes_that_the_destination_keeps_are_named_as_they_are_there(zarr_format: int) -> None:
    source, destination = MemoryStore(), MemoryStore()
    await consolidated_tree(source, zarr_format)
    await aiozarr.copy(source, destination)
    array = await aiozarr.open_array(source, "a", mode="r+")
    await array.resize((9,))
    await aiozarr.consolidate_metadata(source)
    await aiozarr.copy(source, destination, delete=True, exclude="a/*")
    assert await copies(destination, zarr_format) == ALL
    await aiozarr.copy(source, destination, delete=True)
    assert await copies(destination, zarr_format) == {**ALL, "a": [9]}


@FORMATS
async def test_a_part_of_the_source_has_its_own_consolidated_metadata(zarr_format: int) -> None:
    source, destination = MemoryStore(), MemoryStore()
    await consolidated_tree(source, zarr_format)
    await aiozarr.consolidate_metadata(source, "g")
    await aiozarr.copy(source, destination, path="g", exclude="h/*")
    assert await copies(destination, zarr_format) == {"b": [2, 3]}


@FORMATS
async def test_a_failed_copy_onto_other_arrays_names_none_of_them(zarr_format: int) -> None:
    source, destination = MemoryStore(), MemoryStore()
    await consolidated_tree(source, zarr_format)
    await aiozarr.copy(source, destination)
    await aiozarr.create_array(source, "a", data=[1.0, 2.0], zarr_format=zarr_format, overwrite=True)

    class Failing(MemoryStore):
        def fetch_now(self, key: str, *args: Any, **options: Any) -> Any:
            if key.startswith("a/") and ".z" not in key and "zarr" not in key:
                raise OSError("unreadable")
            return super().fetch_now(key, *args, **options)

    failing = Failing()
    for key in await source.list():
        await failing.set(key, bytes(await source.get(key) or b""))
    report = await aiozarr.copy(failing, destination, overwrite=True, on_error="continue")
    assert report.failed
    found = await copies(destination, zarr_format)
    assert found is None or set(found) == {"g", "g/b", "g/h"}
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open_array(destination, "a")
