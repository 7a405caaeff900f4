"""Reads of an object's end by its size."""

from __future__ import annotations

import asyncio

import pytest

from aiozarr.errors import ChangedError
from aiozarr.model import ByteRange, Entry, Range, Suffix, Value, Version
from aiozarr.stores.capabilities import MAX_TAIL_ATTEMPTS, fetch_tail

SUFFIX = Suffix(4)


class ChangingObject:
    """An object that is replaced `changes` times, each time after its size was looked up. It grows by a byte."""

    def __init__(self, changes: int = 0, *, size: int = 10, has_size: bool = True, has_versions: bool = True) -> None:
        self.changes = changes
        self.size = size
        self.has_size = has_size
        self.has_versions = has_versions
        self.calls: list[ByteRange | None] = []

    @property
    def version(self) -> Version | None:
        return Version(f'"{self.size}"') if self.has_versions else None

    async def stat(self) -> Entry:
        self.calls.append(None)
        entry = Entry("a", self.size if self.has_size else None, self.version)
        if self.changes:
            self.changes -= 1
            self.size += 1
        return entry

    async def fetch(self, byte_range: ByteRange, version: Version | None) -> Value:
        self.calls.append(byte_range)
        if version is not None and version != self.version:
            raise ChangedError("the object was replaced")
        start = byte_range.start if isinstance(byte_range, Range) else self.size - byte_range.length
        return Value(bytes(range(start, self.size)), self.version, self.size)

    def read(self, *, if_match: Version | None = None, known: Entry | None = None) -> bytes | None:
        value = asyncio.run(fetch_tail(SUFFIX, self.stat, self.fetch, if_match=if_match, known=known))
        return None if value is None else bytes(value.data)


def test_the_range_is_requested_of_the_version_that_had_the_size() -> None:
    stored = ChangingObject()
    assert stored.read() == bytes(range(6, 10))
    assert stored.calls == [None, Range(6, 4)]


def test_an_end_longer_than_the_object_is_the_object() -> None:
    assert ChangingObject(size=3).read() == bytes(range(3))


def test_an_empty_object_is_not_requested() -> None:
    stored = ChangingObject(size=0)
    assert stored.read() == b""
    assert stored.calls == [None]


def test_a_missing_object_is_none() -> None:
    async def stat() -> None:
        return None

    assert asyncio.run(fetch_tail(SUFFIX, stat, ChangingObject().fetch, if_match=None)) is None


def test_without_a_size_the_end_itself_is_requested() -> None:
    stored = ChangingObject(has_size=False)
    assert stored.read() == bytes(range(6, 10))
    assert stored.calls == [None, SUFFIX]


@pytest.mark.parametrize("has_versions", [True, False])
def test_the_size_is_looked_up_again_after_a_change(has_versions: bool) -> None:
    stored = ChangingObject(MAX_TAIL_ATTEMPTS - 1, has_versions=has_versions)
    assert stored.read() == bytes(range(stored.size - 4, stored.size))
    assert stored.calls.count(None) == MAX_TAIL_ATTEMPTS


@pytest.mark.parametrize("has_versions", [True, False])
def test_an_object_that_changes_again_and_again_is_an_error(has_versions: bool) -> None:
    stored = ChangingObject(100, has_versions=has_versions)
    with pytest.raises(ChangedError):
        stored.read()
    assert stored.calls.count(None) == MAX_TAIL_ATTEMPTS


def test_a_wanted_version_that_is_gone_is_an_error_at_once() -> None:
    stored = ChangingObject()
    with pytest.raises(ChangedError):
        stored.read(if_match=Version('"9"'))
    assert len(stored.calls) == 2


def test_a_known_size_saves_the_request_for_it() -> None:
    stored = ChangingObject()
    assert stored.read(known=Entry("a", 10, Version('"10"'))) == bytes(range(6, 10))
    assert stored.calls == [Range(6, 4)]


def test_a_known_size_that_is_out_of_date_is_no_attempt() -> None:
    stored = ChangingObject(MAX_TAIL_ATTEMPTS - 1)
    assert stored.read(known=Entry("a", 9, Version('"9"'))) == bytes(range(stored.size - 4, stored.size))
    assert stored.calls.count(None) == MAX_TAIL_ATTEMPTS


def test_a_known_size_of_zero_is_looked_up() -> None:
    assert ChangingObject().read(known=Entry("a", 0, Version('"0"'))) == bytes(range(6, 10))
