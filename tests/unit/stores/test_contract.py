"""Operations that the store contract derives from the few that a store implements."""

from __future__ import annotations

from collections.abc import AsyncIterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiozarr.errors import InvalidKeyError, UnsupportedOperationError
from aiozarr.model import ByteRange, Entry, Range, Supports, Value, Version, check_key, resolve_range
from aiozarr.stores import Store, byte_view


class OnlyReads(Store):
    """The least a store can be."""

    supports = Supports()

    def __init__(self, values: dict[str, bytes]) -> None:
        self.values = values
        self.fetched: list[str] = []

    @property
    def url(self) -> str:
        return "least://store"

    async def fetch(self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None) -> Value | None:
        self.fetched.append(check_key(key))
        if key not in self.values:
            return None
        start, stop = resolve_range(len(self.values[key]), range)
        return Value(self.values[key][start:stop], None, len(self.values[key]))


class ReadsWritesAndScans(OnlyReads):
    """A store with all four operations, and no better way for any of the others."""

    supports = Supports(writable=True, listable=True)

    async def set(self, key: str, value: object, *, precondition: object = None) -> None:
        self.values[check_key(key)] = bytes(value)  # type: ignore[call-overload]

    async def erase(self, key: str) -> None:
        self.values.pop(check_key(key), None)

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        for key in list(self.values):
            if key.startswith(prefix):
                yield Entry(key, len(self.values[key]))


async def test_reading_follows_from_fetch() -> None:
    store = OnlyReads({"a": b"0123"})
    assert await store.get("a") == b"0123"
    assert await store.exists("a")
    assert not await store.exists("b")
    assert await store.stat("a") == Entry("a", 4)
    assert await store.get_partial_values([("a", (1, 2)), ("b", (0, None)), ("a", (2, None))]) == [b"12", None, b"23"]


async def test_missing_methods_raise_unsupported_operation() -> None:
    store = OnlyReads({"a": b"1"})
    for call in (
        lambda: store.set("a", b""),
        lambda: store.erase("a"),
        store.list,
        lambda: store.list_dir(""),
    ):
        with pytest.raises(UnsupportedOperationError, match="OnlyReads cannot") as caught:
            await call()
        assert caught.value.store == "least://store"


async def test_listing_and_erasing_follow_from_scan() -> None:
    store = ReadsWritesAndScans({"x": b"1", "a/y": b"2", "a/b/z": b"3", "ab": b"4"})
    assert sorted(await store.list()) == ["a/b/z", "a/y", "ab", "x"]
    assert await store.list_dir("") == (["ab", "x"], ["a/"])
    assert await store.list_dir("a/") == (["a/y"], ["a/b/"])
    await store.erase_prefix("a/")
    assert sorted(store.values) == ["ab", "x"]


async def test_stores_are_themselves_unless_they_know_better() -> None:
    first, second = OnlyReads({}), OnlyReads({})
    assert first == first
    assert first != second
    assert len({first, second, first}) == 2


Parts = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 12), st.binary(max_size=5)), max_size=5)


def test_stores_at_one_memory_address_are_not_equal() -> None:
    seen: set[object] = set()
    addresses: set[int] = set()
    for _ in range(50):
        store = OnlyReads({})
        assert store.identity == store.identity
        assert hash(store.identity) == hash(store.identity)
        assert store.identity not in seen
        seen.add(store.identity)
        addresses.add(id(store))
        del store
    # Addresses are used again; whatever is kept of a store that is gone must not be taken for another's.
    assert len(seen) == 50 > len(addresses)


@given(old=st.binary(max_size=10), parts=Parts)
async def test_partial_values_are_all_written_or_none(old: bytes, parts: list[tuple[str, int, bytes]]) -> None:
    """Against bytes written one by one: every part arrives, gaps are zero, an overlap leaves everything as it was."""
    store = ReadsWritesAndScans({"a": old})
    before = dict(store.values)
    taken: dict[str, dict[int, int]] = {}
    overlap = False
    for key, start, data in parts:
        for position, byte in enumerate(data, start):
            overlap |= position in taken.setdefault(key, {})
            taken[key][position] = byte
    inside = any(
        not data and any(start < own < start + len(more) for other, start, more in parts if other == key)
        for key, own, data in parts
    )
    if overlap:
        with pytest.raises(ValueError, match="overlap"):
            await store.set_partial_values(parts)
        assert store.values == before
        return
    if inside:  # an empty part inside another writes nothing; it may count as an overlap
        return
    await store.set_partial_values(parts)
    for key in {key for key, _, _ in parts}:
        end = max([len(before.get(key, b"")), *(start + len(data) for other, start, data in parts if other == key)])
        expected = bytearray(before.get(key, b"").ljust(end, b"\0"))
        for position, byte in taken.get(key, {}).items():
            expected[position] = byte
        assert store.values[key] == expected


async def test_partial_values_check_keys_before_they_write() -> None:
    store = ReadsWritesAndScans({})
    with pytest.raises(InvalidKeyError):
        await store.set_partial_values([("fine", 0, b"1"), ("../no", 0, b"2")])
    assert store.values == {}


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.arange(3, dtype="c8"),
        np.zeros((0, 4)),
        np.array(1.5),
        np.zeros(2, dtype=[("a", "<i2"), ("b", "S3")]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_byte_view_gives_the_memory_of_any_array_without_a_copy(array: np.ndarray) -> None:
    view = byte_view(array.data)
    assert (view.format, view.ndim) == ("B", 1)
    assert view.tobytes() == array.tobytes()
    if array.nbytes:
        assert np.shares_memory(np.frombuffer(view, np.uint8), array)


@pytest.mark.parametrize("value", [np.arange(6)[::2], np.ones((3, 2)).T, "text", 7])
def test_byte_view_refuses_memory_that_is_not_flat(value: object) -> None:
    with pytest.raises(TypeError):
        byte_view(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [Range, lambda start, length: Range(0, start)])
def test_ranges_do_not_begin_or_end_before_zero(bad: object) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        bad(-1, 1)  # type: ignore[operator]


@given(st.text("ab0._-~/\\ é\0%", max_size=9))
def test_a_key_is_valid_where_each_of_its_segments_is(key: str) -> None:
    if "\0" not in key and not {"", ".", ".."} & set(key.split("/")):
        assert check_key(key) == key
    else:
        with pytest.raises(InvalidKeyError):
            check_key(key)


@pytest.mark.parametrize("letter", ["a", "é", "a/"])
def test_a_key_has_at_most_1024_bytes(letter: str) -> None:
    most = (letter * 1024)[: 1024 // len(letter.replace("/", "").encode())].rstrip("/")
    assert check_key(most) == most
    with pytest.raises(InvalidKeyError, match="1024"):
        check_key(most + "aa")
