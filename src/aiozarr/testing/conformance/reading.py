"""Reading and listing.

Values, ranges at every edge, missing values and unusual keys; which keys a prefix holds, one level or all, over many
pages, and erasing by prefix.
"""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from aiozarr.errors import LimitError, UnsupportedOperationError
from aiozarr.model import ByteRange, Range, Suffix
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store
from aiozarr.testing.conformance.base import INVALID_KEYS, INVALID_PREFIXES, Base, assert_refused, conforms, needs, read

DATA = bytes(range(100))
RANGES: tuple[tuple[ByteRange | None, bytes], ...] = (
    (None, DATA),
    (Range(0), DATA),
    (Range(0, 100), DATA),
    (Range(0, 1), DATA[:1]),
    (Range(0, 0), b""),
    (Range(10, 20), DATA[10:30]),
    (Range(10, 0), b""),
    (Range(10), DATA[10:]),
    (Range(99), DATA[99:]),
    (Range(99, 1), DATA[99:]),
    (Range(90, 11), DATA[90:]),
    (Range(90, 1 << 40), DATA[90:]),
    (Range(0, 101), DATA),
    (Range(100), b""),
    (Range(100, 1), b""),
    (Range(100, 0), b""),
    (Range(101), b""),
    (Range(5000, 10), b""),
    (Suffix(0), b""),
    (Suffix(1), DATA[-1:]),
    (Suffix(40), DATA[-40:]),
    (Suffix(100), DATA),
    (Suffix(101), DATA),
    (Suffix(1 << 40), DATA),
)


class Reading(Base):
    """`fetch`, `get`, `get_partial_values`, `exists` and `stat`."""

    @pytest.mark.parametrize(("range", "expected"), RANGES, ids=[str(part) for part, _ in RANGES])
    @conforms()
    async def test_fetch_gives_the_bytes_of_a_range(
        self, store: Store, range: ByteRange | None, expected: bytes
    ) -> None:
        """Ranges are cut at the end of the value, and the value's whole size comes with every part."""
        await self.put(store, "a/value", DATA)
        value = await store.fetch("a/value", range)
        assert value is not None
        assert bytes(memoryview(value.data)) == expected
        assert value.size in (len(DATA), None)
        assert value.size is not None or range is not None

    @pytest.mark.parametrize(("range", "expected"), RANGES, ids=[str(part) for part, _ in RANGES])
    @conforms()
    async def test_a_bounded_fetch_gives_the_bytes_or_raises_a_limit_error(
        self, store: Store, range: ByteRange | None, expected: bytes
    ) -> None:
        """The bound is on the bytes of the result, not on the size of the value."""
        needs(store, "bounded_reads")
        await self.put(store, "a/value", DATA)
        for max_bytes in (len(expected), len(expected) + 1, 1 << 30):
            value = await store.fetch("a/value", range, max_bytes=max_bytes)
            assert value is not None
            assert bytes(memoryview(value.data)) == expected
        for max_bytes in {0, len(expected) // 2, len(expected) - 1} - {-1, len(expected)}:
            with pytest.raises(LimitError) as caught:
                await store.fetch("a/value", range, max_bytes=max_bytes)
            assert (caught.value.store, caught.value.key, caught.value.range) == (store.url, "a/value", range)
            assert caught.value.allowed == max_bytes

    @conforms("bounded_reads")
    async def test_a_bounded_fetch_of_a_missing_or_empty_value_is_as_without_a_bound(self, store: Store) -> None:
        await self.put(store, "empty", b"")
        for part in (None, Range(0), Range(3, 5), Suffix(3)):
            assert await store.fetch("missing", part, max_bytes=0) is None
            value = await store.fetch("empty", part, max_bytes=0)
            assert value is not None
            assert bytes(memoryview(value.data)) == b""

    @conforms("bounded_reads")
    async def test_a_bounded_blocking_read_gives_the_bytes_or_raises_a_limit_error(self, store: Store) -> None:
        if not isinstance(store, BlockingStore):
            pytest.skip(f"{type(store).__name__} is not a BlockingStore")
        await self.put(store, "a/value", DATA)
        assert bytes(memoryview(store._read_now("a/value", max_bytes=100) or b"")) == DATA
        value = store.fetch_now("a/value", Range(10, 20), max_bytes=20)
        assert value is not None
        assert bytes(memoryview(value.data)) == DATA[10:30]
        for read_bounded in (
            lambda: store._read_now("a/value", max_bytes=99),
            lambda: store.fetch_now("a/value", Range(10, 20), max_bytes=19),
        ):
            with pytest.raises(LimitError) as caught:
                read_bounded()
            assert (caught.value.store, caught.value.key) == (store.url, "a/value")
        await self.put(store, "a/short", b"short")
        keys = ["a/short", "a/missing", "a/value", "a/short"]
        for room, found in ((104, [5, None]), (105, [5, None, 100]), (109, [5, None, 100]), (110, [5, None, 100, 5])):
            memory, sizes = bytearray(room), list[int | None]()
            store._read_values_now(keys, memoryview(memory), sizes)
            assert sizes == found
            assert bytes(memory[:5]) == b"short"
            assert room < 105 or bytes(memory[5:105]) == DATA

    @pytest.mark.parametrize(
        "range", [None, Range(0), Range(0, 5), Range(3), Range(3, 5), Suffix(0), Suffix(3)], ids=str
    )
    @conforms()
    async def test_every_range_of_an_empty_value_is_empty(self, store: Store, range: ByteRange | None) -> None:
        await self.put(store, "empty", b"")
        value = await store.fetch("empty", range)
        assert value is not None
        assert bytes(memoryview(value.data)) == b""
        assert value.size in (0, None)

    @pytest.mark.parametrize("range", [None, Range(0), Range(0, 0), Range(3, 5), Suffix(0), Suffix(3)], ids=str)
    @conforms()
    async def test_a_missing_key_is_none_whatever_range_is_asked_for(
        self, store: Store, range: ByteRange | None
    ) -> None:
        await self.put(store, "a/there", b"x")
        for key in ("missing", "a/missing", "a/there/below", "a"):
            assert await store.fetch(key, range) is None

    @conforms()
    async def test_get_exists_and_stat_agree_with_fetch(self, store: Store) -> None:
        await self.put(store, "a/b", b"12345")
        value = await store.fetch("a/b")
        assert value is not None
        assert await read(store, "a/b") == b"12345"
        assert await store.exists("a/b") is True
        entry = await store.stat("a/b")
        assert entry is not None
        assert (entry.key, entry.size) == ("a/b", 5)
        if entry.version is not None and value.version is not None:
            assert entry.version == value.version
        assert await store.get("a/c") is None
        assert await store.exists("a/c") is False
        assert await store.stat("a/c") is None
        assert await store.exists("a") is False
        assert await store.stat("a") is None

    @conforms()
    async def test_get_partial_values_keeps_order_and_duplicates(self, store: Store) -> None:
        await self.put(store, "x", b"0123456789")
        await self.put(store, "y", b"abcdef")
        wanted = [("y", (1, 2)), ("x", (8, None)), ("gone", (0, 1)), ("x", (0, 3)), ("y", (1, 2)), ("x", (9, 50))]
        values = await store.get_partial_values(wanted)
        assert [None if one is None else bytes(memoryview(one)) for one in values] == [
            b"bc", b"89", None, b"012", b"bc", b"9",
        ]  # fmt: skip
        assert await store.get_partial_values([]) == []

    @conforms("readable")
    async def test_reading_refuses_invalid_keys(self, store: Store) -> None:
        for key in INVALID_KEYS:
            await assert_refused(
                key,
                partial(store.fetch, key),
                partial(store.get, key),
                partial(store.exists, key),
                partial(store.stat, key),
                partial(store.fetch, key, Range(0, 1)),
                partial(store.get_partial_values, [(key, (0, 1))]),
            )

    @conforms()
    async def test_a_key_that_is_no_str_is_a_type_error(self, store: Store) -> None:
        with pytest.raises(TypeError):
            await store.fetch(b"a")  # type: ignore[arg-type]  # the mistake under test

    @conforms()
    async def test_odd_keys_are_kept_apart_and_come_back_as_they_are(self, store: Store) -> None:
        """Spaces, percent signs, Unicode in both normal forms: each key is its own, decoded exactly once."""
        values = {key: f"value of {key}".encode() for key in self.odd_keys}
        await self.put_all(store, values)
        for key, expected in values.items():
            assert await read(store, key) == expected
            assert await store.exists(key)
        if store.supports.listable:
            assert sorted(await store.list()) == sorted(values)
            sizes = {entry.key: entry.size async for entry in store.scan()}
            assert sizes == {key: len(data) for key, data in values.items()}

    @conforms()
    async def test_a_big_value_comes_back_whole_and_in_parts(self, store: Store) -> None:
        block = bytes(range(256)) * 256
        data = b"".join(number.to_bytes(4, "big") + block for number in range_to(self.big_bytes // len(block)))
        await self.put(store, "big", data)
        whole = await store.fetch("big")
        assert whole is not None
        assert whole.size == len(data)
        assert memoryview(whole.data) == data
        middle = await store.fetch("big", Range(len(data) // 2 - 7, len(data) // 4))
        assert middle is not None
        assert memoryview(middle.data) == memoryview(data)[len(data) // 2 - 7 :][: len(data) // 4]

    @conforms()
    async def test_many_reads_at_once_do_not_mix(self, store: Store) -> None:
        values = {f"c/{number}": number.to_bytes(4, "big") * (number + 1) for number in range_to(100)}
        await self.put_all(store, values)
        found = await asyncio.gather(*(store.fetch(key, Range(2, 6)) for key in values))
        for value, expected in zip(found, values.values(), strict=True):
            assert value is not None
            assert bytes(memoryview(value.data)) == expected[2:8]


def range_to(stop: int) -> list[int]:
    """`range` is a word of the contract here."""
    return list(range(stop))


TREE = {
    "zarr.json": b"root",
    "a/zarr.json": b"1",
    "a/c/0/0": b"22",
    "a/c/0/1": b"333",
    "a/c/1/0": b"",
    "ab/zarr.json": b"4",
    "a-b": b"5",
    "a.b/c": b"6",
    "é/ü%20+": b"7",
}


class Listing(Base):
    """`scan`, `list`, `list_prefix`, `list_dir` and `erase_prefix`."""

    @conforms()
    async def test_what_cannot_be_listed_says_so(self, store: Store) -> None:
        if store.supports.listable:
            pytest.skip(f"{type(store).__name__} can be listed")
        with pytest.raises(UnsupportedOperationError):
            [entry async for entry in store.scan()]
        for call in (store.list, lambda: store.list_prefix(""), lambda: store.list_dir("")):
            with pytest.raises(UnsupportedOperationError):
                await call()

    @conforms("listable")
    async def test_an_empty_store_lists_nothing(self, store: Store) -> None:
        assert [entry async for entry in store.scan()] == []
        assert await store.list() == []
        assert await store.list_prefix("a/") == []
        assert await store.list_dir("") == ([], [])
        assert await store.list_dir("a/b/") == ([], [])

    @conforms("listable")
    async def test_scan_gives_every_key_once_with_its_size(self, store: Store) -> None:
        await self.put_all(store, TREE)
        entries = [entry async for entry in store.scan()]
        assert sorted((entry.key, entry.size) for entry in entries) == sorted((k, len(v)) for k, v in TREE.items())
        assert sorted(await store.list()) == sorted(TREE)

    @conforms("listable", "conditional_reads")
    async def test_the_version_of_a_listed_entry_is_the_one_that_fetch_sees(self, store: Store) -> None:
        await self.put_all(store, TREE)
        async for entry in store.scan():
            value = await store.fetch(entry.key)
            assert value is not None
            assert entry.version is None or entry.version == value.version

    @pytest.mark.parametrize("prefix", ["a/", "a/c/", "a/c/0/", "ab/", "é/", "missing/", "a/zarr.json/", ""])
    @conforms("listable")
    async def test_a_prefix_holds_the_keys_that_start_with_it_and_no_others(self, store: Store, prefix: str) -> None:
        await self.put_all(store, TREE)
        expected = sorted(key for key in TREE if key.startswith(prefix))
        assert sorted(await store.list_prefix(prefix)) == expected
        assert sorted([entry.key async for entry in store.scan(prefix)]) == expected

    @pytest.mark.parametrize("prefix", ["", "a/", "a/c/", "a/c/0/", "é/", "missing/", "a/zarr.json/"])
    @conforms("listable")
    async def test_list_dir_gives_one_level(self, store: Store, prefix: str) -> None:
        """Keys directly below the prefix, and the prefixes one level below it; all of them whole, not relative."""
        await self.put_all(store, TREE)
        below = [key[len(prefix) :] for key in TREE if key.startswith(prefix)]
        keys, prefixes = await store.list_dir(prefix)
        assert sorted(keys) == sorted(prefix + name for name in below if "/" not in name)
        assert sorted(prefixes) == sorted({f"{prefix}{name.split('/')[0]}/" for name in below if "/" in name})

    @conforms("listable")
    async def test_more_keys_than_fit_a_page_are_all_listed_and_erased(self, store: Store) -> None:
        values = {f"many/c/{number}": b"x" for number in range(self.many_keys)} | {"other/c/0": b"y"}
        await self.put_all(store, values)
        found = [entry.key async for entry in store.scan()]
        assert len(found) == len(set(found))
        assert set(found) == set(values)
        keys, prefixes = await store.list_dir("many/c/")
        assert len(keys) == len(set(keys)) == self.many_keys
        assert list(prefixes) == []
        if store.supports.writable:
            await store.erase_prefix("many/")
            assert await store.list() == ["other/c/0"]

    @conforms("listable")
    async def test_a_listing_that_is_left_early_leaves_the_store_usable(self, store: Store) -> None:
        await self.put_all(store, TREE)
        entries = store.scan()
        async for _ in entries:
            break
        close = getattr(entries, "aclose", None)
        if close is not None:
            await close()
        assert sorted(await store.list()) == sorted(TREE)

    @conforms("listable", "writable")
    async def test_erased_keys_are_not_listed_nor_are_prefixes_without_keys(self, store: Store) -> None:
        await self.put_all(store, TREE)
        for key in ("a/c/0/0", "a/c/0/1", "a/c/1/0", "ab/zarr.json"):
            await store.erase(key)
        assert await store.list_prefix("a/") == ["a/zarr.json"]
        assert await store.list_dir("a/") == (["a/zarr.json"], [])
        assert "ab/" not in (await store.list_dir(""))[1]

    @pytest.mark.parametrize("prefix", ["a/", "a/c/", "a/c/0/", "missing/", "a/zarr.json/", "é/", ""])
    @conforms("listable", "writable")
    async def test_erase_prefix_removes_what_the_prefix_holds_and_nothing_else(self, store: Store, prefix: str) -> None:
        await self.put_all(store, TREE)
        await store.erase_prefix(prefix)
        expected = {key: value for key, value in TREE.items() if not key.startswith(prefix)}
        assert sorted(await store.list()) == sorted(expected)
        for key, value in expected.items():
            assert await read(store, key) == value
        await store.set("a/c/0/0", b"again")
        assert await read(store, "a/c/0/0") == b"again"

    @conforms("listable")
    async def test_invalid_prefixes_are_refused(self, store: Store) -> None:
        await self.put_all(store, TREE)

        async def scan(prefix: str) -> None:
            async for _ in store.scan(prefix):
                pass

        for prefix in INVALID_PREFIXES:
            await assert_refused(
                prefix, partial(scan, prefix), partial(store.list_prefix, prefix), partial(store.list_dir, prefix)
            )
            if store.supports.writable:
                await assert_refused(prefix, partial(store.erase_prefix, prefix))
        assert sorted(await store.list()) == sorted(TREE)
