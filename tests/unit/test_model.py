"""Records of all layers: ranges, versions, keys and prefixes."""

from __future__ import annotations

from typing import Any

import pytest

from aiozarr.errors import InvalidKeyError
from aiozarr.model import MAX_KEY_BYTES, Range, Suffix, Version, check_key, check_prefix, resolve_range


@pytest.mark.parametrize(
    ("byte_range", "resolved", "text"),
    [
        (Range(2, 3), (2, 5), "bytes 2+3"),
        (Range(2), (2, 10), "bytes 2-"),
        (Range(8, 5), (8, 10), "bytes 8+5"),
        (Range(12, 5), (10, 10), "bytes 12+5"),
        (Suffix(4), (6, 10), "the last 4 bytes"),
        (Suffix(40), (0, 10), "the last 40 bytes"),
    ],
)
def test_ranges_are_clipped_to_the_value(byte_range: Range | Suffix, resolved: tuple[int, int], text: str) -> None:
    assert resolve_range(10, byte_range) == resolved
    assert resolve_range(10, None) == (0, 10)
    assert str(byte_range) == text


def test_negative_ranges_and_empty_versions_are_value_errors() -> None:
    for make in (lambda: Range(-1), lambda: Range(0, -1), lambda: Suffix(-1), Version):
        with pytest.raises(ValueError, match="needs"):
            make()


def test_a_weak_etag_without_generation_is_a_weak_version() -> None:
    assert Version('W/"a"').weak
    assert not Version('"a"').weak
    assert not Version('W/"a"', generation="1").weak


@pytest.mark.parametrize("key", ["zarr.json", "a/c/0/1", ".zarray", "a/.hidden", "ä/b", "~a-b_c", "a" * MAX_KEY_BYTES])
def test_valid_keys_are_returned(key: str) -> None:
    assert check_key(key) == key
    assert check_prefix(f"{key}/") == f"{key}/"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "empty"),
        ("a" * (MAX_KEY_BYTES + 1), "1025 bytes"),
        ("ä" * MAX_KEY_BYTES, "2048 bytes"),
        ("a\0", "NUL"),
        ("/a", "empty segment"),
        ("a//b", "empty segment"),
        ("a/", "empty segment"),
        ("a/../b", "segment"),
        (".", "segment"),
        ("\ud800", "surrogate"),
    ],
)
def test_invalid_keys_are_rejected_with_the_reason(key: str, reason: str) -> None:
    with pytest.raises(InvalidKeyError, match=reason) as caught:
        check_key(key, store="memory://")
    assert (caught.value.key, caught.value.store) == (key, "memory://")


def test_other_values_than_strings_are_type_errors() -> None:
    given: Any = b"a"
    with pytest.raises(TypeError, match="bytes"):
        check_key(given)
    with pytest.raises(TypeError, match="bytes"):
        check_prefix(given)


def test_a_prefix_is_empty_or_ends_with_a_slash() -> None:
    assert check_prefix("") == ""
    for prefix in ("a", "/", "a//"):
        with pytest.raises(InvalidKeyError, match="not a valid prefix"):
            check_prefix(prefix)
