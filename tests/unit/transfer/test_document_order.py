"""Metadata documents of every format, folder markers, and the order in which documents are stored."""

from __future__ import annotations

import pytest

from aiozarr.model import Entry
from aiozarr.transfer.copy_rules import document_levels, is_document, is_folder_marker, node_of


@pytest.mark.parametrize("name", ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "meta", "attrs"])
@pytest.mark.parametrize("path", ["", "a/", "a/b/"])
def test_documents_of_every_format_are_recognised_at_any_depth(path: str, name: str) -> None:
    assert is_document(path + name)


@pytest.mark.parametrize("key", ["c/0/0", "0.0", "a/zarr.json.bak", "zarr.json/c/0", "a/meta/0", "xattrs"])
def test_keys_that_resemble_documents_are_data(key: str) -> None:
    assert not is_document(key)


def test_documents_are_written_deepest_first_and_attributes_before_their_node() -> None:
    keys = [".zmetadata", ".zgroup", "a/.zarray", "a/.zattrs", "a/b/.zarray", "c/.zgroup", "zarr.json", ".zattrs"]
    levels = [{entry.key for entry in level} for level in document_levels(Entry(key, 1) for key in keys)]
    assert levels == [
        {"a/b/.zarray"},
        {"a/.zattrs"},
        {"a/.zarray", "c/.zgroup"},
        {".zattrs"},
        {".zgroup", "zarr.json"},
        {".zmetadata"},
    ]


def test_levels_of_no_documents() -> None:
    assert list(document_levels([])) == []


def test_a_folder_marker_is_empty_and_ends_with_a_slash() -> None:
    assert is_folder_marker(Entry("a/b/", 0))
    assert not is_folder_marker(Entry("a/b/", 3))
    assert not is_folder_marker(Entry("a/b", 0))


def test_the_node_of_a_document() -> None:
    assert node_of("a/b/zarr.json") == "a/b"
    assert node_of("zarr.json") == ""
