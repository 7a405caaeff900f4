"""Versions and preconditions, the basis of compare-and-swap and of reading parts of one version."""

from __future__ import annotations

import asyncio

import pytest

from aiozarr.errors import ChangedError, PreconditionFailedError
from aiozarr.model import IfAbsent, IfMatch, Range, Suffix, Version
from aiozarr.stores.contract import Store
from aiozarr.testing.conformance.base import Base, conforms, read


async def version_of(store: Store, key: str) -> Version:
    """Return the version of the value stored under `key`."""
    value = await store.fetch(key)
    assert value is not None
    assert value.version is not None
    return value.version


class Conditions(Base):
    """`Value.version`, `fetch(if_match=...)` and `set(precondition=...)`."""

    @conforms("conditional_reads")
    async def test_a_version_stays_while_the_value_does_and_changes_with_it(self, store: Store) -> None:
        await self.put(store, "a/b", b"first")
        before = await version_of(store, "a/b")
        part = await store.fetch("a/b", Range(1, 2))
        assert part is not None
        assert part.version == before == await version_of(store, "a/b")
        await self.put(store, "a/b", b"other")
        assert await version_of(store, "a/b") != before

    @conforms("conditional_reads")
    async def test_fetch_of_a_replaced_value_is_a_changed_error(self, store: Store) -> None:
        """A missing value has no version that could have changed: it is None, as without a condition."""
        await self.put(store, "a/b", b"first")
        version = await version_of(store, "a/b")
        for part in (None, Range(1, 2), Suffix(2)):
            value = await store.fetch("a/b", part, if_match=version)
            assert value is not None
            assert value.version == version
        await self.put(store, "a/b", b"other")
        for part in (None, Range(1, 2), Suffix(2)):
            with pytest.raises(ChangedError) as caught:
                await store.fetch("a/b", part, if_match=version)
            assert caught.value.key == "a/b"
        assert await store.fetch("a/missing", if_match=version) is None

    @conforms("writeable", "conditional_reads")
    async def test_set_returns_the_version_that_fetch_then_sees(self, store: Store) -> None:
        version = await store.set("a/b", b"1")
        assert version is None or version == await version_of(store, "a/b")

    @conforms("writeable", "conditional_writes")
    async def test_if_absent_creates_and_never_replaces(self, store: Store) -> None:
        await store.set("a/b", b"first", precondition=IfAbsent())
        with pytest.raises(PreconditionFailedError) as caught:
            await store.set("a/b", b"second", precondition=IfAbsent())
        assert caught.value.key == "a/b"
        assert await read(store, "a/b") == b"first"
        await store.erase("a/b")
        await store.set("a/b", b"third", precondition=IfAbsent())
        assert await read(store, "a/b") == b"third"

    @conforms("writeable", "conditional_writes")
    async def test_if_match_replaces_the_version_it_names_and_no_other(self, store: Store) -> None:
        await store.set("a/b", b"first")
        first = await version_of(store, "a/b")
        await store.set("a/b", b"second", precondition=IfMatch(first))
        with pytest.raises(PreconditionFailedError):
            await store.set("a/b", b"third", precondition=IfMatch(first))
        assert await read(store, "a/b") == b"second"
        second = await version_of(store, "a/b")
        await store.set("a/b", b"plain")
        with pytest.raises(PreconditionFailedError):
            await store.set("a/b", b"third", precondition=IfMatch(second))
        assert await read(store, "a/b") == b"plain"

    @conforms("writeable", "conditional_writes")
    async def test_if_match_fails_where_nothing_is_stored(self, store: Store) -> None:
        await store.set("a/b", b"first")
        version = await version_of(store, "a/b")
        await store.erase("a/b")
        for key in ("a/b", "never"):
            with pytest.raises(PreconditionFailedError):
                await store.set(key, b"x", precondition=IfMatch(version))
            assert await store.get(key) is None

    @conforms("writeable", "conditional_erases")
    async def test_erase_if_match_removes_the_version_it_names_and_no_other(self, store: Store) -> None:
        assert store.has_conditional_erases
        await store.set("a/b", b"first")
        first = await version_of(store, "a/b")
        await store.set("a/b", b"second")
        with pytest.raises(PreconditionFailedError) as caught:
            await store.erase_if_match("a/b", first)
        assert caught.value.key == "a/b"
        assert await read(store, "a/b") == b"second"
        second = await version_of(store, "a/b")
        await store.erase_if_match("a/b", second)
        assert await store.get("a/b") is None
        for key in ("a/b", "never"):
            with pytest.raises(PreconditionFailedError):
                await store.erase_if_match(key, second)

    @conforms("writeable", "conditional_writes")
    async def test_of_racing_creators_one_wins(self, store: Store) -> None:

        async def create(number: int) -> int | None:
            try:
                await store.set("new/zarr.json", b"%d" % number, precondition=IfAbsent())
            except PreconditionFailedError:
                return None
            return number

        winners = [number for number in await asyncio.gather(*(create(n) for n in range(16))) if number is not None]
        assert len(winners) == 1
        assert await read(store, "new/zarr.json") == b"%d" % winners[0]

    @conforms("writeable", "conditional_writes")
    async def test_racing_compare_and_swap_loses_no_update(self, store: Store) -> None:
        """Several tasks count in one value; every step arrives."""
        await store.set("counter", b"0000")

        async def count() -> None:
            done = 0
            while done < self.increments:
                value = await store.fetch("counter")
                assert value is not None
                assert value.version is not None
                following = b"%04d" % (int(bytes(memoryview(value.data))) + 1)
                try:
                    await store.set("counter", following, precondition=IfMatch(value.version))
                except PreconditionFailedError:
                    continue
                done += 1

        await asyncio.gather(*(count() for _ in range(self.writers)))
        assert await read(store, "counter") == b"%04d" % (self.writers * self.increments)
