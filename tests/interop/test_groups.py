"""zarr-python and aiozarr see the same hierarchy, whoever made it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import aiozarr
import aiozarr.sync
from tests.support.peer_cases import examples

# zarr-python warns that consolidated metadata is no part of the specification, and of what it finds among nodes.
pytestmark = pytest.mark.filterwarnings("ignore")

Tree: TypeAlias = "dict[str, Tree | None]"
"""Groups are dicts of their children, arrays are None."""
Seen: TypeAlias = dict[str, tuple[str, dict[str, Any], tuple[int, ...] | None]]
"""By path: the kind of node, its attributes, the shape of an array."""

# zarr-python takes a backslash for a slash; the others are no names by the specification, or not here.
NAMES = (
    st.text(st.characters(exclude_characters="/\\\0", exclude_categories=["Cs"]), min_size=1, max_size=6)
    | st.sampled_from(["a", "b", "c", "0", "a b", "Ü", "%20", "a.b", "c.zarr", "..a"])
).filter(lambda name: name.strip(".") and not name.startswith("__"))
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.dictionaries(NAMES, st.none(), max_size=3),
    lambda inner: st.dictionaries(NAMES, st.none() | inner, max_size=3),
    max_leaves=5,
)


def attributes_of(path: str) -> dict[str, Any]:
    return {"path": path, "nested": [1, None, {"é": 2.5}]}


def expected(tree: Tree, path: str = "") -> Seen:
    """What is to be seen of the tree."""
    seen: Seen = {}
    for name, inner in tree.items():
        below = f"{path}/{name}".lstrip("/")
        kind, shape = ("array", (2, 3)) if inner is None else ("group", None)
        seen[below] = kind, attributes_of(below), shape
        seen |= expected(inner or {}, below)
    return seen


async def create_ours(group: aiozarr.Group, tree: Tree, path: str = "") -> None:
    for name, inner in tree.items():
        below = f"{path}/{name}".lstrip("/")
        if inner is None:
            await group.create_array(name, shape=(2, 3), dtype="int16", attributes=attributes_of(below))
        else:
            await create_ours(await group.create_group(name, attributes=attributes_of(below)), inner, below)


def create_theirs(group: zarr.Group, tree: Tree, path: str = "") -> None:
    for name, inner in tree.items():
        below = f"{path}/{name}".lstrip("/")
        if inner is None:
            group.create_array(name, shape=(2, 3), dtype="int16", attributes=attributes_of(below))
        else:
            create_theirs(group.create_group(name, attributes=attributes_of(below)), inner, below)


async def seen_by_us(folder: Path) -> Seen:
    group = await aiozarr.open_group(folder)
    return {
        name: ("array", dict(node.attrs), node.shape)
        if isinstance(node, aiozarr.Array)
        else ("group", dict(node.attrs), None)
        async for name, node in group.members(max_depth=None)
    }


def seen_by_them(folder: Path, **options: Any) -> Seen:
    return {
        name: ("array", node.attrs.asdict(), node.shape)
        if isinstance(node, zarr.Array)
        else ("group", node.attrs.asdict(), None)
        for name, node in zarr.open_group(folder, mode="r", **options).members(max_depth=None)
    }


@given(TREES, st.booleans(), st.sampled_from([2, 3]))
@examples(20)
async def test_zarr_python_lists_what_aiozarr_made(tree: Tree, consolidated: bool, zarr_format: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name, "root.zarr")
        await create_ours(await aiozarr.create_group(folder, zarr_format=zarr_format), tree)
        if consolidated:
            await aiozarr.consolidate_metadata(folder)
            assert seen_by_them(folder, use_consolidated=True) == expected(tree)
        assert seen_by_them(folder) == expected(tree)
        assert await seen_by_us(folder) == expected(tree)


@given(TREES, st.booleans(), st.sampled_from([2, 3]))
@examples(20)
async def test_aiozarr_lists_what_zarr_python_made(tree: Tree, consolidated: bool, zarr_format: int) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name, "root.zarr")
        create_theirs(zarr.create_group(folder, zarr_format=zarr_format), tree)
        if consolidated:
            zarr.consolidate_metadata(folder)
        assert await seen_by_us(folder) == expected(tree) == seen_by_them(folder)
        group = aiozarr.sync.open_group(folder)
        assert sorted(group) == sorted(tree)
        assert all(path in group for path in expected(tree))
        assert {path: group[path].attrs["path"] for path in expected(tree)} == {path: path for path in expected(tree)}


@pytest.fixture(params=[2, 3])
def consolidated(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A group of zarr-python that holds the metadata of its descendants."""
    root = zarr.create_group(tmp_path, attributes={"title": "old"}, zarr_format=request.param)
    create_theirs(root, {"a": None, "g": {"b": None}})
    zarr.consolidate_metadata(tmp_path)
    document = tmp_path / ("zarr.json" if request.param == 3 else ".zmetadata")
    assert "g/b" in document.read_text("utf-8")
    return tmp_path


async def test_changing_a_consolidated_group_leaves_no_stale_metadata(consolidated: Path) -> None:
    """Both see the change, and zarr-python, which trusts what is consolidated, sees all children."""
    group = await aiozarr.open_group(consolidated, mode="r+")
    await group.create_array("new", shape=4, dtype="int8", attributes=attributes_of("new"))
    await group.update_attributes({"title": "new"})
    await group.move("g/b", "g/c")
    await (await group.open("a")).update_attributes({"n": 1})
    for use_consolidated in (True, False):
        theirs = zarr.open_group(consolidated, mode="r", use_consolidated=use_consolidated)
        assert theirs.attrs.asdict() == {"title": "new"}
        seen = seen_by_them(consolidated, use_consolidated=use_consolidated)
        assert seen == await seen_by_us(consolidated)
        assert sorted(seen) == ["a", "g", "g/c", "new"]
        assert seen["a"][1]["n"] == 1


async def test_other_files_are_no_nodes_to_either_implementation(tmp_path: Path) -> None:
    """Files, hidden folders and version 2 documents beside those of version 3."""
    group = await aiozarr.create_group(tmp_path)
    await (await group.create_array("a", shape=2, dtype="int16"))[...].write(np.arange(2))
    (tmp_path / ".zgroup").write_text('{"zarr_format": 2}')
    (tmp_path / "a" / ".zarray").write_text("{")
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "._a").write_text("nothing")
    assert set(await seen_by_us(tmp_path)) == {"a"} == set(seen_by_them(tmp_path, zarr_format=3))
    assert (await aiozarr.open_array(tmp_path, "a")).zarr_format == 3


async def test_folders_without_documents_are_groups_here_and_nothing_there(tmp_path: Path) -> None:
    """The specification knows implicit groups; zarr-python lists explicit ones only, and opens what lies below."""
    await aiozarr.create_group(tmp_path)
    zarr.create_array(tmp_path / "x" / "y", shape=(2, 3), dtype="int16")
    assert {path: kind for path, (kind, _, _) in (await seen_by_us(tmp_path)).items()} == {
        "x": "group",
        "x/y": "array",
    }
    assert seen_by_them(tmp_path) == {}
