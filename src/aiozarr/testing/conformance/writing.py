"""Writing: whole values, buffers of every kind, parts, erasing, refusals, versions and preconditions.

Preconditions are the basis of compare-and-swap, and versions that of reading parts of one object.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import numpy as np
import pytest

from aiozarr.errors import ChangedError, PreconditionFailedError, UnsupportedOperationError
from aiozarr.model import IfAbsent, IfMatch, Range, Suffix, Version
from aiozarr.stores.blocking import BlockingStore
from aiozarr.stores.contract import Store
from aiozarr.testing.conformance.base import INVALID_KEYS, Base, assert_refused, conforms, read

BUFFERS: dict[str, Any] = {
    "bytes": b"abc\0def",
    "empty bytes": b"",
    "bytearray": bytearray(b"abc"),
    "memoryview": memoryview(b"abcdef")[2:5],
    "memoryview of items": memoryview(b"12345678").cast("i"),
    "float array": np.linspace(0, 1, 7, dtype="f4"),
    "big-endian array": np.arange(5, dtype=">i4"),
    "complex array": np.arange(6, dtype="c16").reshape(2, 3),
    "half array": np.arange(3, dtype="f2"),
    "zero-length array": np.zeros((0, 3), dtype="f8"),
    "zero-dimensional array": np.array(7, dtype="i8"),
    "read-only array": np.frombuffer(b"12345678", dtype="i4"),
}


class Writing(Base):
    """`set`, `set_partial_values`, `erase`, `erase_values` and `erase_prefix`."""

    @conforms()
    async def test_what_cannot_be_written_says_so(self, store: Store) -> None:
        if store.supports.writable:
            pytest.skip(f"{type(store).__name__} can be written to")
        await self.put(store, "a/b", b"x")
        calls: tuple[Callable[[], Coroutine[Any, Any, Any]], ...] = (
            lambda: store.set("a/b", b"y"),
            lambda: store.set("a/new", b"y", precondition=IfAbsent()),
            lambda: store.erase("a/b"),
            lambda: store.set_partial_values([("a/b", 0, b"y")]),
            lambda: store.erase_values(["a/b"]),
            lambda: store.erase_prefix("a/"),
        )
        for call in calls:
            with pytest.raises(UnsupportedOperationError):
                await call()
        assert await read(store, "a/b") == b"x"

    @conforms("writable")
    async def test_values_that_are_stored_together_are_stored_each_under_its_key(self, store: Store) -> None:
        if not isinstance(store, BlockingStore):
            pytest.skip(f"{type(store).__name__} is not a BlockingStore")
        store.set_now("a/1", b"old")
        values = {"a/1": b"new", "a/2": b"", "b/c/1": b"123", "a/3": b"x" * 1000, "d": b"4"}
        store._set_values_now(list(values.items()))
        assert {key: await read(store, key) for key in values} == values
        store._set_values_now([])

    @pytest.mark.parametrize("kind", BUFFERS)
    @conforms("writable")
    async def test_set_takes_any_contiguous_buffer(self, store: Store, kind: str) -> None:
        await store.set("a/b", BUFFERS[kind])
        assert await read(store, "a/b") == memoryview(BUFFERS[kind]).tobytes()

    @pytest.mark.parametrize("value", ["text", 5, None, np.arange(6)[::2], np.ones((3, 3), order="F").T[::2]], ids=repr)
    @conforms("writable")
    async def test_what_is_no_flat_buffer_is_a_type_error(self, store: Store, value: Any) -> None:
        with pytest.raises(TypeError):
            await store.set("a/b", value)
        assert not await store.exists("a/b")

    @conforms("writable")
    async def test_what_the_caller_does_to_its_buffer_afterwards_changes_nothing(self, store: Store) -> None:
        buffer = bytearray(b"before")
        await store.set("a", buffer)
        buffer[:] = b"after!"
        assert await read(store, "a") == b"before"

    @conforms("writable")
    async def test_what_was_read_does_not_change_when_the_value_does(self, store: Store) -> None:
        await store.set("a", b"old value")
        data = await store.get("a")
        assert data is not None
        await store.set("a", b"new")
        await store.erase("a")
        assert bytes(memoryview(data)) == b"old value"

    @pytest.mark.parametrize("size", [0, 1, 3, 1000])
    @conforms("writable")
    async def test_set_replaces_the_whole_value(self, store: Store, size: int) -> None:
        await store.set("a/b", b"0123456789")
        await store.set("a/b", b"z" * size)
        assert await read(store, "a/b") == b"z" * size

    @conforms("writable")
    async def test_writers_of_one_key_never_mix_their_values(self, store: Store) -> None:
        values = [bytes([number]) * (1000 + 100 * number) for number in range(12)]
        await asyncio.gather(*(store.set("c/0", value) for value in values))
        assert await read(store, "c/0") in values

    @conforms("writable")
    async def test_erase_removes_and_does_not_mind_what_is_missing(self, store: Store) -> None:
        await store.set("a/b", b"1")
        await store.set("a/c", b"2")
        await store.erase("a/b")
        await store.erase("a/b")
        await store.erase("never/was/here")
        await store.erase("a")
        assert await store.get("a/b") is None
        assert await read(store, "a/c") == b"2"
        await store.set("a/b", b"3")
        assert await read(store, "a/b") == b"3"

    @conforms("writable")
    async def test_erase_values_removes_all_of_them(self, store: Store) -> None:
        for key in ("a", "b/1", "b/2", "c"):
            await store.set(key, b"x")
        await store.erase_values(["a", "missing", "b/2", "a"])
        assert [await store.exists(key) for key in ("a", "b/1", "b/2", "c")] == [False, True, False, True]
        await store.erase_values([])

    @conforms("writable")
    async def test_set_partial_values_writes_inside_at_the_end_and_past_it(self, store: Store) -> None:
        """The bytes between the old end and a part that begins after it become zero."""
        await store.set("inside", b"0123456789")
        await store.set("gap", b"abc")
        await store.set_partial_values(
            [("inside", 2, b"xy"), ("gap", 5, b"!"), ("new", 2, b"n"), ("inside", 4, b"z"), ("inside", 9, b"AB")]
        )
        assert await read(store, "inside") == b"01xyz5678AB"
        assert await read(store, "gap") == b"abc\0\0!"
        assert await read(store, "new") == b"\0\0n"
        array: Any = np.arange(2, dtype="<u2")
        await store.set_partial_values([("array", 4, array)])
        assert await read(store, "array") == b"\0\0\0\0\0\0\1\0"

    @conforms("writable")
    async def test_overlapping_parts_of_one_key_are_refused_before_anything_is_written(self, store: Store) -> None:
        await store.set("a", b"0123456789")
        for parts in (
            [("b", 0, b"x"), ("a", 0, b"xxx"), ("a", 2, b"yy")],
            [("b", 0, b"x"), ("a", 4, b"xx"), ("a", 3, b"yy")],
            [("b", 0, b"x"), ("a", -1, b"xx")],
        ):
            with pytest.raises(ValueError, match=r"overlap|at least 0"):
                await store.set_partial_values(parts)
        assert await read(store, "a") == b"0123456789"
        assert await store.get("b") is None

    @conforms("writable")
    async def test_writing_refuses_invalid_keys(self, store: Store) -> None:
        for key in INVALID_KEYS:
            await assert_refused(
                key,
                partial(store.set, key, b"x"),
                partial(store.set, key, b"x", precondition=IfAbsent()),
                partial(store.set_partial_values, [("valid", 0, b"x"), (key, 0, b"x")]),
                partial(store.erase, key),
                partial(store.erase_values, [key]),
            )
        assert await store.get("valid") is None
        if store.supports.listable:
            assert await store.list() == []

    @conforms("writable")
    async def test_concurrent_operations_of_all_kinds_end_as_each_task_left_its_keys(self, store: Store) -> None:
        """Tasks create, replace, read and erase under one common prefix, so that directories come and go."""

        async def work(seed: int) -> dict[str, bytes | None]:
            chance = random.Random(seed)
            mine: dict[str, bytes | None] = {f"deep/{number % 3}/er/{seed}-{number}": None for number in range(4)}
            for step in range(12):
                key = chance.choice(list(mine))
                if chance.random() < 0.4:
                    await store.erase(key)
                    mine[key] = None
                else:
                    mine[key] = f"{seed} {step}".encode() * chance.randrange(1, 50)
                    await store.set(key, mine[key] or b"")
                assert await read(store, key) == mine[key]
            return mine

        for mine in await asyncio.gather(*(work(seed) for seed in range(8))):
            for key, expected in mine.items():
                assert await read(store, key) == expected


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

    @conforms("writable", "conditional_reads")
    async def test_set_returns_the_version_that_fetch_then_sees(self, store: Store) -> None:
        version = await store.set("a/b", b"1")
        assert version is None or version == await version_of(store, "a/b")

    @conforms("writable", "conditional_writes")
    async def test_if_absent_creates_and_never_replaces(self, store: Store) -> None:
        await store.set("a/b", b"first", precondition=IfAbsent())
        with pytest.raises(PreconditionFailedError) as caught:
            await store.set("a/b", b"second", precondition=IfAbsent())
        assert caught.value.key == "a/b"
        assert await read(store, "a/b") == b"first"
        await store.erase("a/b")
        await store.set("a/b", b"third", precondition=IfAbsent())
        assert await read(store, "a/b") == b"third"

    @conforms("writable", "conditional_writes")
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

    @conforms("writable", "conditional_writes")
    async def test_if_match_fails_where_nothing_is_stored(self, store: Store) -> None:
        await store.set("a/b", b"first")
        version = await version_of(store, "a/b")
        await store.erase("a/b")
        for key in ("a/b", "never"):
            with pytest.raises(PreconditionFailedError):
                await store.set(key, b"x", precondition=IfMatch(version))
            assert await store.get(key) is None

    @conforms("writable", "conditional_erases")
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

    @conforms("writable", "conditional_writes")
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

    @conforms("writable", "conditional_writes")
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
