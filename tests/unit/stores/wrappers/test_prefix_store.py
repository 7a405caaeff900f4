"""A prefix store has only the keys below its prefix."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from aiozarr.errors import ChangedError, EraseError, InvalidKeyError, PreconditionFailedError, StoreError
from aiozarr.model import IfAbsent
from aiozarr.stores import HTTPStore, LocalStore, MemoryStore, ObjectStore, PrefixStore, Store
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.faults import on_operation


@pytest.mark.parametrize("given", ["a/b", "a/b/"])
async def test_a_prefix_has_a_slash_at_its_end_or_not(given: str) -> None:
    inner = MemoryStore()
    store = PrefixStore(inner, given)
    await store.set("k", b"1")
    assert await inner.list() == ["a/b/k"]
    assert store.prefix == "a/b/"
    assert store == PrefixStore(inner, "a/b")


async def test_keys_beside_the_prefix_are_not_seen() -> None:
    inner = MemoryStore()
    for key in ("a/b/k", "a/bc/k", "a/b", "k", "a/b/b/k"):
        await inner.set(key, key.encode())
    store = PrefixStore(inner, "a/b")
    assert sorted(await store.list()) == ["b/k", "k"]
    assert await store.list_dir("") == (["k"], ["b/"])
    assert await store.list_dir("b/") == (["b/k"], [])
    assert [entry.key async for entry in store.scan("b/")] == ["b/k"]
    await store.erase_prefix("")
    assert sorted(await inner.list()) == ["a/b", "a/bc/k", "k"]


@pytest.mark.parametrize("given", ["/", "/a", "a//b", "../a", "a/..", "a\0", "k" * 1025])
def test_invalid_prefixes_are_refused(given: str) -> None:
    with pytest.raises(InvalidKeyError):
        PrefixStore(MemoryStore(), given)
    with pytest.raises(TypeError):
        PrefixStore(MemoryStore(), 5)  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.parametrize("key", ["../k", "..", "./k", "/k"])
async def test_no_key_leads_out_of_the_prefix(key: str) -> None:
    store = PrefixStore(MemoryStore(), "a")
    with pytest.raises(InvalidKeyError) as caught:
        await store.set(key, b"1")
    assert caught.value.key == key
    with pytest.raises(InvalidKeyError):
        await store.erase_values([key])


async def test_the_bytes_of_the_prefix_count() -> None:
    store = PrefixStore(MemoryStore(), "p" * 1000)
    await store.set("k" * 23, b"1")
    for operation in (store.fetch, store.erase, store.stat, store.exists):
        with pytest.raises(InvalidKeyError):
            await operation("k" * 24)
    with pytest.raises(InvalidKeyError):
        await store.list_prefix("k" * 24 + "/")


async def test_errors_speak_of_this_store_and_its_keys() -> None:
    store = PrefixStore(PrefixStore(MemoryStore.named("errors"), "a"), "a")
    version = await store.set("a/k", b"1")
    await store.set("a/k", b"2")
    with pytest.raises(ChangedError) as changed:
        await store.fetch("a/k", if_match=version)
    with pytest.raises(PreconditionFailedError) as failed:
        await store.set("a/k", b"3", precondition=IfAbsent())
    for caught in (changed, failed):
        assert (caught.value.store, caught.value.key) == ("memory://errors/a/a", "a/k")
    with pytest.raises(InvalidKeyError) as invalid:
        await store.erase_values(["a//b"])
    assert invalid.value.key == "a//b"


async def test_errors_of_listings_and_of_many_keys_do_too() -> None:
    inner = FakeStore({"a/k": b"1"}, latency=0, faults=on_operation({"list", "fetch"}, StoreError("no", key="a/k")))
    store = PrefixStore(inner, "a")
    calls: Any = [lambda: store.get_partial_values([("k", (0, 1))]), lambda: anext(aiter(store.scan()))]
    for call in calls:
        with pytest.raises(StoreError) as caught:
            await call()
        assert (caught.value.store, caught.value.key) == (store.url, "k")


async def test_keys_that_could_not_be_removed_are_named_as_they_are_here() -> None:
    class Stubborn(MemoryStore):
        async def erase_values(self, keys: Iterable[str]) -> None:
            failures = {key: StoreError("no", store=self.url, key=key) for key in keys}
            raise EraseError.from_failures(failures, self.url)

    store = PrefixStore(Stubborn(), "a")
    with pytest.raises(EraseError, match="first 'a/k'") as caught:
        await store.erase_values(["a/k", "b"])
    assert (caught.value.store, caught.value.key) == (store.url, "a/k")
    assert [(key, error.key, error.store) for key, error in caught.value.failures.items()] == [
        ("a/k", "a/k", store.url),
        ("b", "b", store.url),
    ]


@pytest.mark.parametrize(
    ("make", "url"),
    [
        (lambda: MemoryStore.named("n"), "memory://n/a%20b/c"),
        (lambda: LocalStore("/some/where"), "file:///some/where/a%20b/c"),
        (lambda: HTTPStore("http://host/base?token=secret"), "http://host/base/a%20b/c"),
        (lambda: ObjectStore("s3://bucket/root", anon=True), "s3://bucket/root/a b/c"),
    ],
)
def test_the_url_is_the_inner_one_and_the_prefix(make: Callable[[], Store], url: str) -> None:
    inner = make()
    store = PrefixStore(inner, "a b/c")
    assert store.url == url
    assert store.origin == inner.origin
    assert "secret" not in repr(store)
    assert PrefixStore(inner, "").url == inner.url


def test_the_stores_above_end_at_the_top_of_the_inner_ones() -> None:
    inner = MemoryStore.named("top", "x/")
    names, at = [], PrefixStore(inner, "a/b").parent_store()
    stores = []
    while at is not None:
        stores.append(at[0])
        names.append(at[1])
        at = at[0].parent_store()
    assert names == ["b", "a", "x"]
    assert stores == [PrefixStore(inner, "a"), inner, MemoryStore.named("top")]
    assert PrefixStore(inner, "").parent_store() == inner.parent_store()
