"""Valid and invalid node names and paths."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.errors import InvalidKeyError
from aiozarr.metadata.format_rules import (
    ancestors,
    check_new_path,
    check_node_name,
    check_path,
    child_path,
    join_path,
    key_prefix,
    normalize_path,
    relative_name,
)

GOOD = [
    "a",
    "a.b",
    ".a",
    "a.",
    "..a",
    "_a",
    "a__",
    "c",
    "CON",
    "\u00c5",
    "A\u030a",
    "雪",
    " ",
    "a b",
    "%2e%2e",
    "\\",
    "x" * 300,
]
BAD = ["", ".", "..", "...", "a\0b", "\ud800", "zarr.json", "x" * 1025]


@pytest.mark.parametrize("name", GOOD)
def test_a_valid_name_keeps_its_code_points(name: str) -> None:
    assert check_node_name(name) == name
    assert check_path(f"/a/{name}/b") == f"a/{name}/b"


@pytest.mark.parametrize("name", [*BAD, "a/b", "/"])
def test_an_invalid_name_is_rejected(name: str) -> None:
    with pytest.raises(InvalidKeyError) as caught:
        check_node_name(name)
    assert caught.value.key == name


@pytest.mark.parametrize(
    ("path", "normal"), [("", ""), ("/", ""), ("/a", "a"), ("a", "a"), ("a/", "a"), ("/a/b/", "a/b"), ("a/b", "a/b")]
)
def test_a_path_has_one_form(path: str, normal: str) -> None:
    assert check_path(path) == normal


@pytest.mark.parametrize(
    "path", ["//", "//a", "a//b", "a//", "/a//", "a/../b", "../a", "./a", *(f"a/{name}" for name in BAD if name)]
)
def test_a_path_with_an_invalid_name_is_rejected(path: str) -> None:
    with pytest.raises(InvalidKeyError) as caught:
        check_path(path)
    assert caught.value.key is not None


@pytest.mark.parametrize("value", [None, 1, b"a", ["a"]])
def test_other_values_than_strings_are_type_errors(value: Any) -> None:
    for check in (check_new_path, check_node_name, check_path):
        with pytest.raises(TypeError):
            check(value)


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("", ""),
        ("/", ""),
        ("\\", ""),
        ("foo/bar", "foo/bar"),
        ("\\foo\\bar\\", "foo/bar"),
        ("///foo//bar///", "foo/bar"),
        ("foo\\/bar", "foo/bar"),
        ("__a/...", "__a/..."),
    ],
)
def test_a_logical_path_of_v2_is_normalised_as_specified(path: str, normal: str) -> None:
    assert normalize_path(path) == normal
    assert check_path(path, 2) == check_path(path, 1) == normal


@pytest.mark.parametrize("path", ["..", "a/..", "a\\..\\b", "./a", "a//."])
def test_a_logical_path_of_v2_has_no_dots_as_names(path: str) -> None:
    with pytest.raises(InvalidKeyError):
        normalize_path(path)
    with pytest.raises(InvalidKeyError):
        check_path(path, 2)


@pytest.mark.parametrize(
    ("zarr_format", "name"),
    [(2, ".zarray"), (2, ".zgroup"), (2, ".zattrs"), (2, ".zmetadata"), (1, "meta"), (1, "attrs"), (2, "a\\b")],
)
def test_document_keys_are_invalid_node_names_of_their_format(zarr_format: int, name: str) -> None:
    with pytest.raises(InvalidKeyError):
        check_node_name(name, zarr_format)
    assert check_node_name(name, 3) == name


def test_a_path_of_an_unknown_format_may_be_valid_in_any_format() -> None:
    assert check_path("a\\b", None) == "a\\b"
    assert check_path("a//b/", None) == "a/b"
    assert check_path("__a", None) == "__a"
    assert check_node_name("__a", 2) == "__a"


@pytest.mark.parametrize("path", ["__", "__x", "a/__x"])
def test_a_reserved_name_is_read_and_not_created(path: str) -> None:
    assert check_path(path) == path
    with pytest.raises(InvalidKeyError, match="names that begin with '__' are reserved"):
        check_new_path(path, 3)
    assert check_new_path(path, 2) == path
    assert check_new_path(f"{path}/a", 3) == f"{path}/a"


SEGMENTS = st.lists(st.sampled_from(["a", "b1", "c.d", "zarr", "ä"]), min_size=1, max_size=4)


@given(st.lists(st.sampled_from(["a", "b"]), max_size=3), SEGMENTS)
def test_a_joined_name_is_the_name_relative_to_the_node_above(above: list[str], name: list[str]) -> None:
    base, below = "/".join(above), "/".join(name)
    path = join_path(base, below)
    assert path == "/".join([*above, *name])
    assert relative_name(path, base) == below
    assert key_prefix(path) == f"{path}/"
    assert ancestors(path) == ["/".join([*above, *name][:count]) for count in range(len(above) + len(name))]


def test_the_root_has_no_ancestors_and_an_empty_prefix() -> None:
    assert ancestors("") == []
    assert key_prefix("") == ""
    assert join_path("", "") == ""


@pytest.mark.parametrize("name", ["..", "a//b", "a/../b"])
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidKeyError):
        join_path("g", name)


def test_a_child_has_a_name() -> None:
    assert child_path("g", "a/b", 3) == "g/a/b"
    with pytest.raises(ValueError, match="empty"):
        child_path("g", "", 3)
