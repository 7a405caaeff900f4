"""Copying one object: decisions about fetched objects."""

from __future__ import annotations

from hashlib import md5
from typing import Any

import pytest

import aiozarr
from aiozarr.engine.copy.copy_route import (
    has_content_tag,
    is_replaced,
    same_version,
)
from aiozarr.model import Entry, Value, Version
from aiozarr.stores import MemoryStore
from aiozarr.testing.fakes import FakeStore

OLD, NEW = Version('"1"'), Version('"2"')


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (OLD, OLD, True),
        (OLD, NEW, False),
        (OLD, Version('W/"1"'), True),
        (OLD, None, None),
        (None, None, None),
        (Version('"1"', "7"), Version('"1"', "8"), False),
        (Version('"1"', "7"), OLD, True),
        (Version(generation="7"), OLD, None),
    ],
)
def test_versions_are_compared_by_the_parts_that_both_have(
    one: Version | None, other: Version | None, same: bool | None
) -> None:
    assert same_version(one, other) is same
    assert same_version(other, one) is same


@pytest.mark.parametrize(
    ("listed", "fetched", "previous_size", "replaced"),
    [
        (Entry("k", 3, OLD), Value(b"abc", OLD, 3), None, False),
        (Entry("k", 3), Value(b"abc", None, 3), None, False),
        (Entry("k", None), Value(b"abc", NEW, 3), None, False),
        (Entry("k", 3, OLD), Value(b"xyz", NEW, 3), None, True),
        (Entry("k", 3, OLD), Value(b"abcd", NEW, 4), None, True),
        # Truncated: fewer bytes than the response announces.
        (Entry("k", 3, OLD), Value(b"ab", OLD, 3), None, None),
        (Entry("k", 3, OLD), Value(b"ab", NEW, 3), 3, None),
        # One version cannot have two sizes, however often it is fetched.
        (Entry("k", 3, OLD), Value(b"ab", OLD, 2), None, None),
        (Entry("k", 3, OLD), Value(b"ab", OLD, 2), 2, None),
        # Without versions, two fetches must agree on the size.
        (Entry("k", 3), Value(b"ab", None, 2), None, None),
        (Entry("k", 3), Value(b"ab", None, 2), 1, None),
        (Entry("k", 3), Value(b"ab", None, 2), 2, True),
    ],
)
def test_decision_about_an_object(
    listed: Entry, fetched: Value, previous_size: int | None, replaced: bool | None
) -> None:
    assert is_replaced(listed, fetched, previous_size=previous_size, strict=True) is replaced


def test_without_verification_a_changed_size_is_accepted_but_a_truncated_response_never() -> None:
    assert is_replaced(Entry("k", 3), Value(b"ab", None, 2), previous_size=None, strict=False) is True
    assert is_replaced(Entry("k", 3), Value(b"ab", None, 3), previous_size=None, strict=False) is None


@pytest.mark.parametrize(
    ("etag", "expected"),
    [
        ('"900150983cd24fb0d6963f7d28e17f72"', True),
        ('"900150983cd24fb0d6963f7d28e17f72-2"', False),
        ('"900150983CD24FB0D6963F7D28E17F72"', False),
        ("17a-3-9", False),
    ],
)
def test_the_form_of_an_md5(etag: str, expected: bool) -> None:
    assert has_content_tag(Version(etag)) is expected
    assert not has_content_tag(Version(etag, "7"))


async def test_a_content_tag_saves_reading_back() -> None:
    class Tagging(FakeStore):
        async def set(self, key: str, value: Any, *, precondition: Any = None) -> Version:
            await super().set(key, value, precondition=precondition)
            return Version(f'"{md5(bytes(value) if key != "b" else b"damaged").hexdigest()}"')

    target = Tagging(latency=0)
    source = MemoryStore()
    for key in ("a", "b", "zarr.json"):
        await source.set(key, b"data")
    await aiozarr.copy(source, target, verify="checksum")
    assert [call.key for call in target.calls if call.operation == "fetch"] == ["b"]
