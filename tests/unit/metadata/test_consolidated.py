"""Consolidated metadata: parsed, accessed node by node, and rendered."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import pytest

from aiozarr.errors import InvalidMetadataError, MetadataError, UnsupportedMetadataError
from aiozarr.metadata.formats import consolidate, consolidated_node, parse_node, render_node
from aiozarr.metadata.records import ArrayMetadata, Consolidated, GroupMetadata
from aiozarr.settings import Settings
from tests.support.array_documents import V2, V3

V2_ARRAY = {**V2, "dimension_separator": "."}
V3_ARRAY: dict[str, Any] = {**V3, "attributes": {}}
V3_GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}
V2_GROUP = {"zarr_format": 2}


def parse_v2(copies: Any, **own: Any) -> Any:
    document = {"zarr_consolidated_format": 1, "metadata": copies}
    documents = {".zgroup": json.dumps(V2_GROUP).encode(), ".zmetadata": json.dumps(document).encode()}
    return parse_node(documents | {key: json.dumps(value).encode() for key, value in own.items()}, node="memory://x")


def parse_v3(copies: Any, **members: Any) -> Any:
    inline = {"kind": "inline", "must_understand": False, "metadata": copies} | members
    document = V3_GROUP | {"consolidated_metadata": inline}
    return parse_node({"zarr.json": json.dumps(document).encode()}, node="memory://x")


def look_up(group: Any, path: str, settings: Settings | None = None) -> Any:
    return consolidated_node(group.consolidated, path, node=f"memory://x/{path}", settings=settings or Settings())


COPIES: dict[int, Any] = {
    2: {
        ".zgroup": V2_GROUP,
        ".zattrs": {"stale": True},
        "a/.zarray": V2_ARRAY,
        "a/.zattrs": {"n": 1},
        "g/.zgroup": V2_GROUP | {"consolidated_metadata": {"kind": "inline", "metadata": {}}},
        "g/b/.zarray": V2_ARRAY,
        "g-h/.zgroup": V2_GROUP,
        "g/.nczgroup": {"dims": {}},
        ".zmetadata": {},
    },
    3: {
        "a": V3_ARRAY | {"attributes": {"n": 1}},
        "g": V3_GROUP | {"consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": {}}},
        "g/b": V3_ARRAY,
        "g-h": V3_GROUP,
    },
}
PARSE = {2: parse_v2, 3: parse_v3}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_group_has_copies_of_all_nodes_below_it(zarr_format: int) -> None:
    group = PARSE[zarr_format](COPIES[zarr_format])
    assert set(group.consolidated.nodes) == {"a", "g", "g/b", "g-h"}
    assert group.attributes == {}
    array = look_up(group, "a")
    assert isinstance(array, ArrayMetadata)
    assert (array.zarr_format, array.shape, array.attributes) == (zarr_format, (4,), {"n": 1})
    below = look_up(group, "g")
    assert isinstance(below, GroupMetadata)
    assert below.extra == {}
    assert below.consolidated is not None
    assert set(below.consolidated.nodes) == {"b"}
    assert look_up(below, "b") == look_up(group, "g/b")
    assert look_up(group, "none") is None


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_consolidated_metadata_are_rendered_as_they_were_parsed(zarr_format: int) -> None:
    group = PARSE[zarr_format](COPIES[zarr_format])
    nodes = {path: look_up(group, path) for path in group.consolidated.nodes}
    written = GroupMetadata(zarr_format, {"t": 1}, consolidated=consolidate(zarr_format, nodes))
    again = parse_node(render_node(written), node="memory://x")
    assert again == written
    for path in ("a", "g/b"):
        assert look_up(again, path) == nodes[path]
    assert pickle.loads(pickle.dumps(again)) == again


def test_a_v3_group_has_inline_copies_and_its_copied_groups_have_none() -> None:
    nodes = {"g": GroupMetadata(3), "g/a": look_up(parse_v3(COPIES[3]), "a")}
    document = json.loads(render_node(GroupMetadata(3, consolidated=consolidate(3, nodes)))["zarr.json"])
    empty = {"kind": "inline", "must_understand": False, "metadata": {}}
    copies = document["consolidated_metadata"]
    assert copies == {
        "kind": "inline",
        "must_understand": False,
        "metadata": {"g": V3_GROUP | {"consolidated_metadata": empty}, "g/a": COPIES[3]["a"]},
    }
    assert "consolidated_metadata" not in json.loads(render_node(GroupMetadata(3))["zarr.json"])


def test_a_v2_group_has_a_zmetadata_with_copies_of_its_own_documents() -> None:
    nodes = {"a": look_up(parse_v2(COPIES[2]), "a")}
    documents = render_node(GroupMetadata(2, {"t": math.nan}, consolidated=consolidate(2, nodes)))
    assert set(documents) == {".zgroup", ".zattrs", ".zmetadata"}
    copies = json.loads(documents[".zmetadata"])
    assert copies["zarr_consolidated_format"] == 1
    assert set(copies["metadata"]) == {".zgroup", ".zattrs", "a/.zarray", "a/.zattrs"}
    assert copies["metadata"]["a/.zarray"] == V2_ARRAY


def test_a_group_may_be_its_zmetadata_alone() -> None:
    document = {"zarr_consolidated_format": 1, "metadata": COPIES[2]}
    group = parse_node({".zmetadata": json.dumps(document).encode()}, node="memory://x")
    assert isinstance(group, GroupMetadata)
    assert group.attributes == {"stale": True}
    nothing = {"zarr_consolidated_format": 1, "metadata": {"a/.zarray": V2_ARRAY}}
    assert parse_node({".zmetadata": json.dumps(nothing).encode()}, node="memory://x") is None


def test_a_copy_is_parsed_on_access_and_errors_name_its_node() -> None:
    group = parse_v2({"a/.zarray": V2_ARRAY | {"shape": [-1]}, "b/.zarray": V2_ARRAY})
    assert look_up(group, "b") is not None
    with pytest.raises(InvalidMetadataError) as caught:
        look_up(group, "a")
    assert (caught.value.node, caught.value.key, caught.value.member) == ("memory://x/a", ".zarray", "shape[0]")
    with pytest.raises(MetadataError):
        look_up(parse_v3({"a": V3_ARRAY | {"zarr_format": 2}}), "a")


def test_duplicate_members_of_a_copy_are_rejected_and_those_of_attributes_are_not() -> None:
    text = json.dumps({"zarr_consolidated_format": 1, "metadata": {"a/.zarray": V2_ARRAY, "a/.zattrs": {"k": "X"}}})
    documents = {".zgroup": b'{"zarr_format": 2}'}
    attributes = text.replace('"k": "X"', '"k": 1, "k": 2').encode()
    group = parse_node(documents | {".zmetadata": attributes}, node="memory://x")
    assert look_up(group, "a").attributes == {"k": 2}
    with pytest.raises(InvalidMetadataError):
        look_up(group, "a", Settings(strict=True))
    members = text.replace('"shape": [4]', '"shape": [4], "shape": [5]').encode()
    with pytest.raises(InvalidMetadataError):
        parse_node(documents | {".zmetadata": members}, node="memory://x")


BAD_PATHS = ["/a", "a/", "a//b", "..", "a/../b", ".", "./a", "a\0b", "x" * 1025, "é" * 600, "/"]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_path_outside_the_group_is_rejected(path: str) -> None:
    for copies, parse in (({path: V3_ARRAY}, parse_v3), ({f"{path}/.zarray": V2_ARRAY}, parse_v2)):
        with pytest.raises(InvalidMetadataError) as caught:
            parse(copies)
        assert "metadata" in str(caught.value.member)
        assert len(str(caught.value)) < 1000


def test_a_backslash_is_part_of_a_name_in_v3_and_refused_in_v2() -> None:
    assert set(parse_v3({"a\\b": V3_ARRAY}).consolidated.nodes) == {"a\\b"}
    for key in ("a\\b/.zarray", "a\\.zarray", "a/b\\.zattrs", "\\.zgroup"):
        with pytest.raises(InvalidMetadataError, match="use_consolidated=False"):
            parse_v2({key: V2_ARRAY})


@pytest.mark.parametrize("path", ["zarr.json", "a/zarr.json", "zarr.json/a", "...", "a/..../b"])
def test_a_path_with_a_name_that_no_node_has_is_rejected(path: str) -> None:
    with pytest.raises(InvalidMetadataError, match="use_consolidated=False"):
        parse_v3({path: V3_ARRAY})


def test_names_of_documents_of_another_format_and_longer_ones_are_names() -> None:
    assert set(parse_v3({".zarray": V3_ARRAY, "xzarr.json": V3_ARRAY}).consolidated.nodes) == {".zarray", "xzarr.json"}
    assert set(parse_v2({".../.zarray": V2_ARRAY, ".zarrays/.zarray": V2_ARRAY}).consolidated.nodes) == {
        "...",
        ".zarrays",
    }
    with pytest.raises(InvalidMetadataError):
        parse_v2({"a/.zgroup/.zarray": V2_ARRAY})


def test_the_empty_path_is_the_group_itself() -> None:
    assert set(parse_v3({"": {"zarr_format": 3, "node_type": "group"}, "a": V3_ARRAY}).consolidated.nodes) == {"a"}


@pytest.mark.parametrize("path", ["a", "a.b", "..a", "a..", "雪/ x", "a/b/c"])
def test_a_path_below_the_group_is_accepted_and_the_paths_above_it_are_groups(path: str) -> None:
    names = path.split("/")
    paths = {"/".join(names[:count]) for count in range(1, len(names) + 1)}
    for group in (parse_v3({path: V3_ARRAY}), parse_v2({f"{path}/.zarray": V2_ARRAY})):
        assert set(group.consolidated.nodes) == paths
        for above in paths - {path}:
            assert isinstance(look_up(group, above), GroupMetadata)


def test_a_group_between_keeps_the_attributes_that_are_copied_without_its_document() -> None:
    group = parse_v2({"s/0/.zarray": V2_ARRAY, "s/.zattrs": {"multiscales": [1]}, "t/.zattrs": {"x": 1}})
    assert look_up(group, "s").attributes == {"multiscales": [1]}
    assert set(group.consolidated.nodes) == {"s", "s/0"}  # attributes alone do not make a node


def test_groups_between_count_as_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.metadata.consolidated.MAX_NODES", 5)
    assert len(parse_v3({"a/b/c/d/e": V3_ARRAY}).consolidated.nodes) == 5
    for parse, key in ((parse_v3, "a/b/c/d/e/f"), (parse_v2, "a/b/c/d/e/f/.zarray")):
        with pytest.raises(UnsupportedMetadataError):
            parse({key: V3_ARRAY if parse is parse_v3 else V2_ARRAY})


@pytest.mark.parametrize("copies", [None, [], "x", {"a": None}, {"a": []}, {"a/.zarray": 1, "a": 1}])
def test_copies_are_objects(copies: Any) -> None:
    for parse in (parse_v2, parse_v3):
        if parse is parse_v2 and isinstance(copies, dict) and "a/.zarray" not in copies:
            continue
        with pytest.raises(InvalidMetadataError):
            parse(copies)


@pytest.mark.parametrize("version", [None, 2, "2", 1.5, True])
def test_an_invalid_zmetadata_is_rejected(version: Any) -> None:
    document = {"zarr_consolidated_format": version, "metadata": {}}
    with pytest.raises(InvalidMetadataError) as caught:
        parse_node({".zgroup": b'{"zarr_format": 2}', ".zmetadata": json.dumps(document).encode()}, node="x")
    assert (caught.value.key, caught.value.member) == (".zmetadata", "zarr_consolidated_format")


def test_an_unknown_kind_that_must_be_understood_is_rejected() -> None:
    with pytest.raises(UnsupportedMetadataError):
        parse_v3({}, kind="elsewhere", must_understand=True)
    assert parse_v3({}, kind="elsewhere").consolidated is None


def test_the_number_of_nodes_is_bounded() -> None:
    copies = ",".join(f'"{i}":{{"zarr_format":3}}' for i in range(1_000_000))
    text = (
        f'{{"zarr_format":3,"node_type":"group","consolidated_metadata":{{"kind":"inline","metadata":{{{copies}}}}}}}'
    )
    with pytest.raises(UnsupportedMetadataError, match="nodes"):
        parse_node({"zarr.json": text.encode()}, node="memory://x")
    copies = ",".join(f'"{i}/.zgroup":{{"zarr_format":2}}' for i in range(1_000_000))
    text = f'{{"zarr_consolidated_format":1,"metadata":{{{copies}}}}}'
    with pytest.raises(UnsupportedMetadataError, match="nodes"):
        parse_node({".zgroup": b'{"zarr_format":2}', ".zmetadata": text.encode()}, node="memory://x")
    with pytest.raises(UnsupportedMetadataError, match="nodes"):
        parse_v3({str(i): {} for i in range((1 << 17) + 1)})


def test_nodes_of_another_format_are_not_consolidated() -> None:
    with pytest.raises(ValueError, match="format"):
        consolidate(2, {"g": GroupMetadata(3)})
    assert consolidate(3, {}) == Consolidated(3, {})
    assert hash(consolidate(3, {})) == hash(Consolidated(3, {}))
