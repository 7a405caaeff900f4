"""A validating cache returns stored values after any changes of the store, through the cache or not."""

from __future__ import annotations

import asyncio
import math
import random
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiozarr.errors import ChangedError
from aiozarr.model import ByteRange, Range, Suffix, Value
from aiozarr.stores import CacheStore, MemoryStore, PrefixStore, Store
from aiozarr.stores.wrapper_store import StoreOperation
from aiozarr.testing import LatencyStore
from aiozarr.testing.virtual_time import run_virtual

T = TypeVar("T")

KEYS = ("a", "p/a", "p/b", "pp/a")


@dataclass(frozen=True)
class Read:
    key: str
    part: ByteRange | None
    pinned: bool  # ask for the version that is stored


@dataclass(frozen=True)
class Write:
    key: str
    data: bytes
    behind: bool  # behind the cache's back


@dataclass(frozen=True)
class Patch:
    key: str
    start: int
    data: bytes


@dataclass(frozen=True)
class Erase:
    key: str
    behind: bool


@dataclass(frozen=True)
class EraseMany:
    keys: tuple[str, ...]
    prefix: str | None
    behind: bool


Step: TypeAlias = Read | Write | Patch | Erase | EraseMany

keys = st.sampled_from(KEYS)
data = st.binary(max_size=30)
small = st.integers(0, 40)
ranges: st.SearchStrategy[ByteRange] = st.builds(Range, small, st.none() | small) | st.builds(Suffix, small)
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(Read, keys, st.none() | ranges, st.booleans()),
    st.builds(Write, keys, data, st.booleans()),
    st.builds(Patch, keys, small, data),
    st.builds(Erase, keys, st.booleans()),
    st.builds(EraseMany, st.lists(keys, max_size=3).map(tuple), st.none() | st.sampled_from(["", "p/"]), st.booleans()),
)


async def carry_out(step: Step, cache: Store, inner: MemoryStore, model: MemoryStore) -> None:
    """Do one step to the cache and to the model, which is a plain store; both answer alike."""
    match step:
        case Read(key, part, pinned):
            stored, expected = await inner.fetch(key), await model.fetch(key, part)
            version = stored.version if stored is not None and pinned else None
            assert plain(await cache.fetch(key, part, if_match=version)) == plain(expected)
        case Write(key, value, behind):
            for store in (inner if behind else cache, model):
                await store.set(key, value)
        case Patch(key, start, value):
            for store in (cache, model):
                await store.set_partial_values([(key, start, value)])
        case Erase(key, behind):
            for store in (inner if behind else cache, model):
                await store.erase(key)
        case EraseMany(several, prefix, behind):
            for store in (inner if behind else cache, model):
                await (store.erase_values(several) if prefix is None else store.erase_prefix(prefix))


def plain(value: Value | None) -> tuple[bytes, int | None] | None:
    return None if value is None else (bytes(value.data), value.size)


@pytest.mark.parametrize("max_bytes", [150, 10_000])
@pytest.mark.parametrize("on_disk", [False, True])
@given(st.lists(steps, max_size=25))
def test_a_validating_cache_never_returns_outdated_values(on_disk: bool, max_bytes: int, done: list[Step]) -> None:
    async def main(directory: str | None) -> None:
        inner, model = MemoryStore(), MemoryStore()
        cache = CacheStore(inner, max_bytes + (300 if on_disk else 0), directory)
        for step in done:
            await carry_out(step, cache, inner, model)
            assert cache.nbytes <= max_bytes + 300
        assert sorted(await cache.list()) == sorted(await model.list())

    if on_disk:
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(main(directory))
    else:
        asyncio.run(main(None))


@pytest.mark.parametrize("on_disk", [False, True])
@given(st.lists(steps, max_size=25))
def test_a_cache_without_validation_returns_values_written_through_it(on_disk: bool, done: list[Step]) -> None:
    async def main(directory: str | None) -> None:
        inner, model = MemoryStore(), MemoryStore()
        cache = CacheStore(inner, 10_000, directory, max_age=math.inf)
        for step in done:
            if not getattr(step, "behind", False):
                await carry_out(step, cache, inner, model)

    if on_disk:
        with tempfile.TemporaryDirectory() as directory:
            asyncio.run(main(directory))
    else:
        asyncio.run(main(None))


@given(st.lists(st.tuples(st.integers(0, 2), steps), max_size=25))
def test_caches_of_one_directory_above_one_store_agree(done: list[tuple[int, Step]]) -> None:
    async def main(directory: str) -> None:
        inner, model = MemoryStore(), MemoryStore()
        caches: list[Store] = [
            CacheStore(inner, 10_000, directory),
            CacheStore(inner, 2_000, directory),
            CacheStore(PrefixStore(inner, ""), 10_000, directory),
        ]
        for number, step in done:
            await carry_out(step, caches[number], inner, model)

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(directory))


@given(st.lists(st.tuples(keys, data), min_size=1, max_size=10))
def test_a_version_that_was_replaced_is_never_given_again(writes: list[tuple[str, bytes]]) -> None:
    async def main() -> None:
        inner = MemoryStore()
        cache = CacheStore(inner, 10_000)
        for key, value in writes:
            before = await cache.fetch(key)
            await inner.set(key, value)
            if before is not None:
                with pytest.raises(ChangedError):
                    await cache.fetch(key, Range(0, 1), if_match=before.version)

    asyncio.run(main())


class Jittery(LatencyStore):
    """Each request takes its time on the way there, and again on the way back."""

    def __init__(self, store: Store, seed: int) -> None:
        super().__init__(store, 0)
        self._random = random.Random(seed)

    async def _around(self, operation: StoreOperation, call: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(self._random.choice([0, 0.1, 1, 5]))
        result = await call()
        await asyncio.sleep(self._random.choice([0, 0.1, 1, 5]))
        return result


@pytest.mark.parametrize("max_age", [0, math.inf])
@pytest.mark.parametrize("on_disk", [False, True])
@given(seed=st.integers(0, 1 << 30))
@settings(max_examples=40)
def test_a_read_after_a_write_through_the_cache_sees_it_or_a_later_one(
    on_disk: bool, max_age: float, seed: int
) -> None:
    """One writer counts up in each of two keys, several readers read, and some of them give up."""

    async def main(directory: str | None) -> None:
        choose = random.Random(seed)
        cache = CacheStore(Jittery(MemoryStore(), seed), 10_000, directory, max_age=max_age)
        written = dict.fromkeys(("p/a", "p/b"), 0)

        async def write(key: str) -> None:
            for number in range(1, 9):
                if number % 4 == 3:
                    await cache.set_partial_values([(key, 0, b"%04d" % number)])
                else:
                    await cache.set(key, b"%04d" % number)
                written[key] = number
                await asyncio.sleep(choose.choice([0, 2, 20]))

        async def read() -> None:
            for _ in range(25):
                key, part = choose.choice(list(written)), choose.choice([None, Range(0, 4), Suffix(4)])
                least = written[key]
                try:
                    async with asyncio.timeout(choose.choice([0.5, 100])):
                        value = await cache.fetch(key, part)
                except TimeoutError:
                    continue
                assert (0 if value is None else int(bytes(value.data))) >= least
                await asyncio.sleep(choose.choice([0, 0.3, 3]))

        await asyncio.gather(*(write(key) for key in written), *(read() for _ in range(4)))
        for key in written:
            value = await cache.fetch(key)
            assert value is not None
            assert int(bytes(value.data)) == 8
        assert len(asyncio.all_tasks()) == 1

    if on_disk:
        with tempfile.TemporaryDirectory() as directory:
            run_virtual(main(directory))
    else:
        run_virtual(main(None))
