"""Keys: which are metadata documents, in which order those are written, which nodes a key lies below."""

from __future__ import annotations

import pytest

from aiozarr.model import Entry
from aiozarr.transfer.keys import is_folder_marker, is_metadata, metadata_levels, node_of, paths_above


@pytest.mark.parametrize("name", ["zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata", "meta", "attrs"])
@pytest.mark.parametrize("path", ["", "a/", "a/b/"])
def test_documents_of_every_format_are_known_at_any_depth(path: str, name: str) -> None:
    assert is_metadata(path + name)


@pytest.mark.parametrize("key", ["c/0/0", "0.0", "a/zarr.json.bak", "zarr.json/c/0", "a/meta/0", "xattrs"])
def test_what_only_looks_like_a_document_is_data(key: str) -> None:
    assert not is_metadata(key)


def test_documents_are_written_deepest_first_and_attributes_before_the_node_that_has_them() -> None:
    keys = [".zmetadata", ".zgroup", "a/.zarray", "a/.zattrs", "a/b/.zarray", "c/.zgroup", "zarr.json", ".zattrs"]
    levels = [{entry.key for entry in level} for level in metadata_levels(Entry(key, 1) for key in keys)]
    assert levels == [
        {"a/b/.zarray"},
        {"a/.zattrs"},
        {"a/.zarray", "c/.zgroup"},
        {".zattrs"},
        {".zgroup", "zarr.json"},
        {".zmetadata"},
    ]


def test_no_documents_make_no_levels() -> None:
    assert list(metadata_levels([])) == []


def test_a_key_lies_below_all_paths_above_it_and_below_the_root() -> None:
    assert list(paths_above("a/b/c/0")) == ["a/b/c", "a/b", "a", ""]
    assert list(paths_above("zarr.json")) == [""]
    assert node_of("a/b/zarr.json") == "a/b"
    assert node_of("zarr.json") == ""


def test_a_folder_marker_is_empty_and_ends_with_a_slash() -> None:
    assert is_folder_marker(Entry("a/b/", 0))
    assert not is_folder_marker(Entry("a/b/", 3))
    assert not is_folder_marker(Entry("a/b", 0))
