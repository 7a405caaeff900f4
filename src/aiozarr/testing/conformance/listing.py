"""Listing and erasing by prefix: which keys a prefix holds, one level or all, over many pages."""

from __future__ import annotations

from functools import partial

import pytest

from aiozarr.errors import UnsupportedOperationError
from aiozarr.stores.contract import Store
from aiozarr.testing.conformance.base import INVALID_PREFIXES, Base, assert_refused, conforms, read

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
        if store.supports.writeable:
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

    @conforms("listable", "writeable")
    async def test_erased_keys_are_not_listed_nor_are_prefixes_without_keys(self, store: Store) -> None:
        await self.put_all(store, TREE)
        for key in ("a/c/0/0", "a/c/0/1", "a/c/1/0", "ab/zarr.json"):
            await store.erase(key)
        assert await store.list_prefix("a/") == ["a/zarr.json"]
        assert await store.list_dir("a/") == (["a/zarr.json"], [])
        assert "ab/" not in (await store.list_dir(""))[1]

    @pytest.mark.parametrize("prefix", ["a/", "a/c/", "a/c/0/", "missing/", "a/zarr.json/", "é/", ""])
    @conforms("listable", "writeable")
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
            if store.supports.writeable:
                await assert_refused(prefix, partial(store.erase_prefix, prefix))
        assert sorted(await store.list()) == sorted(TREE)
