"""A wrapper forwards all primitive operations, and derives the others."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import AsyncIterator, Callable, Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import UnsupportedOperationError
from aiozarr.model import Entry, Supports, Version
from aiozarr.stores import (
    CacheStore,
    LatencyStore,
    LocalStore,
    MemoryStore,
    PrefixStore,
    ReadOnlyStore,
    Store,
    StoreEvent,
    TraceStore,
    WrapperStore,
)
from aiozarr.testing.fakes import FakeStore

PUBLIC = sorted(name for name in vars(Store) if not name.startswith("_"))
METHODS = [name for name in PUBLIC if inspect.isfunction(vars(Store)[name]) and name not in ("child_store", "url_of")]
# Derived operations call primitive ones.
DERIVED = {
    "get": ["fetch"],
    "get_partial_values": ["fetch"],
    "exists": ["stat"],
    "list": ["scan"],
    "list_prefix": ["scan"],
    "set_partial_values": ["fetch", "set"],
}
# Wrappers with their own way of them: an event per operation, no stale cached value, no request for a refused write.
OWN_DERIVED = {(TraceStore, name) for name in DERIVED} | {
    (CacheStore, "set_partial_values"),
    (ReadOnlyStore, "set_partial_values"),
}
WRITES = {
    "set",
    "set_partial_values",
    "erase",
    "erase_if_match",
    "erase_values",
    "erase_prefix",
    "probe_conditional_writes",
}
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "fetch": ("k",),
    "get": ("k",),
    "get_partial_values": ([("k", (0, 1))],),
    "exists": ("k",),
    "stat": ("k",),
    "set": ("k", b"1"),
    "set_partial_values": ([("k", 0, b"1")],),
    "erase": ("k",),
    "erase_if_match": ("k", Version("1")),
    "erase_values": (["k"],),
    "erase_prefix": ("p/",),
    "list_prefix": ("p/",),
    "list_dir": ("p/",),
    "object_identity": ("k",),
}
ANSWERS: dict[str, Any] = {"get_partial_values": [None], "list": [], "list_prefix": [], "list_dir": ([], [])}


class Spy(Store):
    """Records which of its methods are called."""

    supports = Supports(writable=True, listable=True, conditional_writes=None)

    def __init__(self) -> None:
        self.called: list[str] = []

    @property
    def url(self) -> str:
        return "spy://"

    def url_of(self, path: str) -> str:
        return f"spy: {path}"

    async def fetch(self, *_: Any, **__: Any) -> Any:
        self.called.append("fetch")

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        self.called.append("scan")
        return self._nothing()

    async def _nothing(self) -> AsyncIterator[Entry]:
        for entry in ():
            yield entry

    def parent_store(self) -> tuple[Store, str] | None:
        self.called.append("parent_store")
        return None

    def object_identity(self, key: str) -> Hashable:
        self.called.append("object_identity")
        return None


def _noting(name: str) -> Callable[..., Any]:
    async def method(self: Spy, *_: Any, **__: Any) -> Any:
        self.called.append(name)
        return ANSWERS.get(name)

    return method


for _name in METHODS:
    if _name not in vars(Spy):
        setattr(Spy, _name, _noting(_name))


def ignore(event: StoreEvent) -> None:
    """Observe nothing."""


def other(event: StoreEvent) -> None:
    """Observe nothing either."""


MAKERS: dict[str, Callable[[Store], Store]] = {
    "base": WrapperStore,
    "prefix": lambda store: PrefixStore(store, "below"),
    "read-only": ReadOnlyStore,
    "trace": lambda store: TraceStore(store, ignore),
    "latency": lambda store: LatencyStore(store, 0),
    "cache": lambda store: CacheStore(store, 100),
}


def test_every_public_name_of_the_contract_is_forwarded_or_derived() -> None:
    forwarded = {name for name in vars(WrapperStore) if not name.startswith("_")}
    # They follow `supports`. A child of the inner store would have no wrapper around it.
    following = {"supports", "has_bounded_reads", "has_conditional_erases", "child_store"}
    missing = set(PUBLIC) - following - set(DERIVED) - forwarded
    assert not missing, f"forward these in WrapperStore, or derive them: {sorted(missing)}"
    assert not forwarded & set(DERIVED)
    assert isinstance(vars(WrapperStore)["supports"], property)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", MAKERS)
async def test_every_primitive_operation_calls_the_same_one_of_the_inner_store(kind: str, method: str) -> None:
    spy = Spy()
    store = MAKERS[kind](spy)
    if kind == "read-only" and method in WRITES:
        return
    if kind == "prefix" and method == "parent_store":
        return
    result = getattr(store, method)(*ARGUMENTS.get(method, ()))
    if inspect.isawaitable(result):
        await result
    elif method == "scan":
        assert [entry async for entry in result] == []
    is_derived = method in DERIVED and (type(store), method) not in OWN_DERIVED
    assert spy.called == (DERIVED[method] if is_derived else [method])


class OldSignature(WrapperStore):
    """A wrapper from before the keyword `max_bytes`."""

    async def fetch(self, key: str, range: Any = None, *, if_match: Any = None) -> Any:
        return await super().fetch(key, range, if_match=if_match)


class OldMemory(MemoryStore):
    """A store from before the keyword `max_bytes`."""

    def fetch_now(self, key: str, range: Any = None, *, if_match: Any = None) -> Any:
        return super().fetch_now(key, range, if_match=if_match)


def test_a_subclass_without_the_keyword_has_no_bounded_reads() -> None:
    assert MemoryStore.supports.bounded_reads
    assert not OldMemory.supports.bounded_reads
    assert WrapperStore(MemoryStore()).supports.bounded_reads
    assert not OldSignature(MemoryStore()).supports.bounded_reads
    assert not WrapperStore(OldSignature(MemoryStore())).supports.bounded_reads
    assert not CacheStore(OldMemory(), 100).supports.bounded_reads


@pytest.mark.parametrize("kind", MAKERS)
def test_urls_are_those_of_the_inner_store(kind: str) -> None:
    assert MAKERS[kind](Spy()).url_of("a b") == ("spy: below/a b" if kind == "prefix" else "spy: a b")


@pytest.mark.parametrize("kind", MAKERS)
def test_capabilities_that_the_inner_store_discovers_are_seen(kind: str) -> None:
    spy = Spy()
    store = MAKERS[kind](spy)
    assert store.supports.partial_reads
    spy.supports = Supports(partial_reads=False, writable=True, conditional_writes=True)
    assert not store.supports.partial_reads
    assert not store.supports.listable
    assert store.supports.conditional_writes is (kind != "read-only")
    assert store.origin == spy.origin


@pytest.mark.parametrize("kind", MAKERS)
def test_wrappers_are_equal_where_they_wrap_equal_stores_alike(kind: str) -> None:
    inner = MemoryStore()
    store, same, elsewhere = MAKERS[kind](inner), MAKERS[kind](inner), MAKERS[kind](MemoryStore())
    assert store == same
    assert hash(store) == hash(same)
    assert store != elsewhere
    assert store != inner
    assert inner != store
    assert all(store != make(inner) for name, make in MAKERS.items() if name != kind)
    assert repr(inner) in repr(store)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda s: PrefixStore(s, "a"), lambda s: PrefixStore(s, "b")),
        (lambda s: TraceStore(s, ignore), lambda s: TraceStore(s, other)),
        (lambda s: LatencyStore(s, 0), lambda s: LatencyStore(s, 1)),
        (lambda s: LatencyStore(s, 0), lambda s: LatencyStore(s, 0, bytes_per_second=1)),
        (lambda s: CacheStore(s, 1), lambda s: CacheStore(s, 2)),
        (lambda s: CacheStore(s, 1), lambda s: CacheStore(s, 1, "there")),
        (lambda s: CacheStore(s, 1), lambda s: CacheStore(s, 1, max_age=1)),
    ],
)
def test_other_settings_make_another_store(first: Callable[[Store], Store], second: Callable[[Store], Store]) -> None:
    store = MemoryStore()
    assert first(store) == first(store)
    assert first(store) != second(store)


def test_stores_of_the_same_values_share_their_identity_and_others_do_not() -> None:
    store = MemoryStore()
    assert TraceStore(ReadOnlyStore(LatencyStore(CacheStore(store, 1), 0)), ignore).identity == store.identity
    assert CacheStore(store, 1, max_age=1).identity != store.identity
    assert PrefixStore(store, "a/b").identity == PrefixStore(PrefixStore(store, "a"), "b/").identity
    assert PrefixStore(store, "a").identity != store.identity
    assert PrefixStore(store, "").identity == store.identity


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind != "base"])
async def test_closing_a_wrapper_closes_the_inner_store(kind: str) -> None:
    spy = Spy()
    async with MAKERS[kind](spy):
        pass
    assert spy.called == ["aclose"]


@pytest.mark.parametrize("given", ["memory://x", None, MemoryStore])
def test_other_objects_than_stores_cannot_be_wrapped(given: Any) -> None:
    for make in MAKERS.values():
        with pytest.raises(TypeError, match="wraps a Store"):
            make(given)


def test_the_store_above_is_wrapped_alike(tmp_path: Path) -> None:
    for inner in (MemoryStore.named("above", "a/b/"), LocalStore(tmp_path / "a" / "b")):
        for kind, make in MAKERS.items():
            if kind == "prefix":
                continue
            store = make(inner)
            above = store.parent_store()
            assert above is not None
            assert type(above[0]) is type(store)
            assert above[1] == "b"
            beyond = inner.parent_store()
            assert beyond is not None
            assert above[0] == make(beyond[0])


def test_nested_wrappers_pickle_in_any_order(tmp_path: Path) -> None:
    inner = MemoryStore()
    store: Store = inner
    for make in (*MAKERS.values(), lambda store: CacheStore(store, 10, tmp_path, max_age=2), *MAKERS.values()):
        store = make(store)
    clone = pickle.loads(pickle.dumps(store))
    assert clone == store
    assert repr(clone) == repr(store)


def test_the_error_of_an_unpicklable_trace_names_the_callback() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(TraceStore(MemoryStore(), lambda event: None))


async def test_no_write_reaches_the_inner_store() -> None:
    inner = FakeStore({"a/k": b"1"}, latency=0)
    store = ReadOnlyStore(inner)
    calls: Any = [
        lambda: store.set("a/k", b"2"),
        lambda: store.set_partial_values([("a/k", 0, b"2")]),
        lambda: store.erase("a/k"),
        lambda: store.erase_values(["a/k"]),
        lambda: store.erase_prefix("a/"),
    ]
    for call in calls:
        with pytest.raises(UnsupportedOperationError, match="read-only") as caught:
            await call()
        assert caught.value.store == store.url
    assert await store.probe_conditional_writes() is False
    assert inner.count == 0
    assert bytes(await store.get("a/k") or b"") == b"1"
    assert (store.supports.writable, store.supports.conditional_writes) == (False, False)
    assert store.supports.listable


async def test_arrays_on_it_are_read_and_refuse_to_be_written() -> None:
    inner = MemoryStore()
    array = await aiozarr.create_array(inner, shape=4, dtype="i4", chunks=2)
    await array[...].write([1, 2, 3, 4])
    same = await aiozarr.open_array(ReadOnlyStore(inner), mode="r+")
    np.testing.assert_array_equal(await same[...], [1, 2, 3, 4])
    with pytest.raises(UnsupportedOperationError):
        await same[0].write(9)
    with pytest.raises(UnsupportedOperationError):
        await aiozarr.create_array(ReadOnlyStore(inner), "b", shape=4, dtype="i4")
