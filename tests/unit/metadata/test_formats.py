"""The format of a node with documents of several formats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aiozarr.errors import InvalidMetadataError, LimitError, MetadataError, UnsupportedMetadataError
from aiozarr.metadata.formats import DOCUMENT_KEYS, PROBE_KEYS, parse_node, probe_keys, render_node
from aiozarr.metadata.records import ArrayMetadata, GroupMetadata, NamedConfig
from aiozarr.settings import Settings
from tests.support.array_documents import V2

V1 = V2 | {"zarr_format": 1, "compression": "none", "compression_opts": None}
V3 = b'{"zarr_format": 3, "node_type": "group"}'
ALL = {
    "zarr.json": V3,
    ".zarray": json.dumps(V2).encode(),
    ".zgroup": b'{"zarr_format": 2}',
    ".zattrs": b'{"a": 1}',
    "meta": json.dumps(V1).encode(),
    "attrs": b"{}",
}


def without(*keys: str) -> dict[str, bytes]:
    return {key: data for key, data in ALL.items() if key not in keys}


def test_the_newest_format_wins_and_an_array_wins_over_a_group() -> None:
    node: dict[str, Any] = {"node": "memory://x"}
    assert parse_node(ALL, **node) == GroupMetadata(3)
    found = parse_node(without("zarr.json"), **node)
    assert isinstance(found, ArrayMetadata)
    assert (found.zarr_format, found.attributes) == (2, {"a": 1})
    assert parse_node(without("zarr.json", ".zarray"), **node) == GroupMetadata(2, {"a": 1})
    found = parse_node(without("zarr.json", ".zarray", ".zgroup"), **node)
    assert found is not None
    assert (found.zarr_format, found.attributes) == (1, {})
    assert parse_node({".zattrs": b"{}", "attrs": b"{}"}, **node) is None


@pytest.mark.parametrize("zarr_format", [1, 2, 3])
def test_a_requested_format_is_the_only_one(zarr_format: int) -> None:
    found = parse_node(ALL, node="memory://x", zarr_format=zarr_format)
    assert found is not None
    assert found.zarr_format == zarr_format
    others = without(*DOCUMENT_KEYS[zarr_format])
    assert parse_node(others, node="memory://x", zarr_format=zarr_format) is None


def test_a_damaged_document_does_not_bring_back_an_older_node() -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        parse_node(ALL | {"zarr.json": b"<html>"}, node="memory://x")
    assert (caught.value.node, caught.value.key) == ("memory://x", "zarr.json")


@pytest.mark.parametrize("key", [".zarray", ".zgroup", ".zattrs", ".zmetadata", "meta", "attrs"])
@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"\xef\xbb\xbf{}", b'{"a":' * 100_000])
def test_a_document_that_is_not_a_json_object_is_rejected_by_key(key: str, data: bytes) -> None:
    zarr_format = next(number for number, keys in DOCUMENT_KEYS.items() if key in keys)
    documents = {name: ALL[name] for name in DOCUMENT_KEYS[zarr_format] if name in ALL}
    if key in (".zgroup", ".zmetadata"):
        del documents[".zarray"]
    with pytest.raises(MetadataError) as caught:
        parse_node(documents | {key: data}, node="memory://x", settings=Settings(strict=True))
    assert caught.value.key == key


def test_a_document_has_a_size_limit() -> None:
    with pytest.raises(LimitError, match="attrs"):
        parse_node(
            without("zarr.json") | {".zattrs": b" " * 3000 + b"{}"},
            node="x",
            settings=Settings(max_metadata_bytes=2000),
        )


def test_keys_of_documents_are_known_by_format() -> None:
    assert probe_keys() == PROBE_KEYS == ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "meta", "attrs")
    assert (probe_keys(3), probe_keys(1)) == (("zarr.json",), ("meta", "attrs"))


def test_an_unknown_storage_transformer_is_rejected() -> None:
    members = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [],
        "data_type": "int8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": []}},
        "chunk_key_encoding": "default",
        "fill_value": 0,
        "codecs": ["bytes"],
        "storage_transformers": [{"name": "cache", "configuration": {"size": 1}}],
    }
    documents = {"zarr.json": json.dumps(members).encode()}
    with pytest.raises(UnsupportedMetadataError) as caught:
        parse_node(documents, node="memory://x")
    assert (caught.value.point, caught.value.name) == ("storage_transformer", "cache")
    assert (caught.value.key, caught.value.member) == ("zarr.json", "storage_transformers[0]")
    found = parse_node(documents, node="memory://x", storage_transformers={"cache"})
    assert isinstance(found, ArrayMetadata)
    assert found.storage_transformers == (NamedConfig("cache", {"size": 1}),)
    assert json.loads(render_node(found)["zarr.json"])["storage_transformers"] == members["storage_transformers"]


@pytest.mark.parametrize("name", ["pickle", "numcodecs.pickle", "NumCodecs.Pickle", "v2_elements"])
def test_pickle_and_codecs_of_v2_are_rejected_in_v3(name: str) -> None:
    members = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [],
        "data_type": "int8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": []}},
        "chunk_key_encoding": "default",
        "fill_value": 0,
        "codecs": ["bytes", name],
    }
    with pytest.raises(MetadataError) as caught:
        parse_node({"zarr.json": json.dumps(members).encode()}, node="memory://x")
    assert caught.value.member == "codecs[1]"
