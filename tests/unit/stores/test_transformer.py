"""Storage transformers are found by name, refused if unknown, and apply to chunks only."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any

import numpy as np
import pytest

import aiozarr
import aiozarr.sync
from aiozarr.errors import InvalidMetadataError, StoreError, UnsupportedMetadataError
from aiozarr.model import Entry, Range, Value, Version
from aiozarr.stores import CachingTransformer, MemoryStore, StorageTransformer, Store, register_storage_transformer
from aiozarr.stores import transformer as module


class Flipped(Store):
    """A store whose bytes are stored with all bits flipped."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.supports = store.supports
        self.keys: list[str] = []

    @property
    def url(self) -> str:
        return self.store.url

    async def fetch(self, key: str, range: Any = None, *, if_match: Any = None) -> Value | None:
        self.keys.append(key)
        value = await self.store.fetch(key, range, if_match=if_match)
        if value is None:
            return None
        return Value((~np.frombuffer(bytes(value.data), np.uint8)).tobytes(), value.version, value.size)

    async def set(self, key: str, value: Any, *, precondition: Any = None) -> Any:
        self.keys.append(key)
        return await self.store.set(key, (~np.frombuffer(value, np.uint8)).tobytes(), precondition=precondition)

    async def erase(self, key: str) -> None:
        await self.store.erase(key)

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        return self.store.scan(prefix)


class Flip(StorageTransformer):
    name = "test.flip"

    def __init__(self) -> None:
        self.prefixes: list[str] = []

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any]) -> Flip:
        if configuration:
            raise InvalidMetadataError("flipping has no parameters", member="configuration")
        return cls()

    def to_json(self) -> dict[str, Any]:
        return {}

    def wrap(self, store: Store, prefix: str) -> Store:
        self.prefixes.append(prefix)
        return Flipped(store)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transformer of this module, known by its name."""
    monkeypatch.setattr(module, "_known", dict(module._known))
    register_storage_transformer(Flip)


async def with_transformers(store: MemoryStore, *transformers: dict[str, Any]) -> None:
    array = await aiozarr.create_array(store, "a", shape=4, dtype="u1", chunks=2, codecs=["bytes"])
    await array[...].write([1, 2, 3, 4])
    document = json.loads(bytes(await store.get("a/zarr.json") or b""))
    document["storage_transformers"] = list(transformers)
    await store.set("a/zarr.json", json.dumps(document).encode())


async def test_a_transformer_that_documents_name_is_met_by_the_chunks(registered: None) -> None:
    store = MemoryStore()
    await with_transformers(store, {"name": "test.flip"})
    array = await aiozarr.open_array(store, "a", mode="r+")
    assert (await array[...]).tolist() == [254, 253, 252, 251]
    await array[:2].write(7)
    assert bytes(await store.get("a/c/0") or b"") == bytes([248, 248])
    await array.update_attributes({"n": 1})
    document = json.loads(bytes(await store.get("a/zarr.json") or b""))
    assert document["storage_transformers"] == [{"name": "test.flip"}]
    assert (await aiozarr.open_array(store, "a")).attrs == {"n": 1}


async def test_two_that_undo_each_other_change_nothing(registered: None) -> None:
    store = MemoryStore()
    await with_transformers(store, {"name": "test.flip"}, {"name": "test.flip", "configuration": {}})
    assert (await (await aiozarr.open_array(store, "a"))[...]).tolist() == [1, 2, 3, 4]


async def test_an_unknown_transformer_is_refused_with_how_to_register_it() -> None:
    store = MemoryStore()
    await with_transformers(store, {"name": "test.unknown"})
    with pytest.raises(UnsupportedMetadataError, match="register_storage_transformer") as caught:
        await aiozarr.open_array(store, "a")
    error = caught.value
    assert (error.point, error.name, error.member) == ("storage_transformer", "test.unknown", "storage_transformers[0]")
    assert error.node == f"{store.url}/a"


async def test_one_that_may_be_ignored_is() -> None:
    store = MemoryStore()
    await with_transformers(store, {"name": "test.unknown", "must_understand": False})
    assert (await (await aiozarr.open_array(store, "a"))[...]).tolist() == [1, 2, 3, 4]


async def test_an_invalid_configuration_is_an_error(registered: None) -> None:
    store = MemoryStore()
    await with_transformers(store, {"name": "test.flip", "configuration": {"a": 1}})
    with pytest.raises(InvalidMetadataError):
        await aiozarr.open_array(store, "a")


def test_only_concrete_classes_with_a_name_are_registered(registered: None) -> None:
    class Nameless(Flip):
        name = ""

    class Other(Flip):
        name = "test.flip"

    for wrong in (StorageTransformer, Nameless, object, Flip()):
        with pytest.raises(TypeError):
            register_storage_transformer(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="already"):
        register_storage_transformer(Other)
    assert register_storage_transformer(Flip) is Flip


async def test_at_run_time_one_holds_for_a_handle_and_is_recorded_nowhere() -> None:
    store = MemoryStore()
    array = await aiozarr.create_array(store, "a", shape=4, dtype="u1", chunks=2, codecs=["bytes"])
    flip = Flip()
    flipped = array.with_storage_transformer(flip)
    await flipped[...].write([1, 2, 3, 4])
    assert flip.prefixes[-1] == "a/"
    assert (await flipped[...]).tolist() == [1, 2, 3, 4]
    assert (await array[...]).tolist() == [254, 253, 252, 251]
    assert (await flipped[1:3][::-1]).tolist() == [3, 2]
    assert b"storage_transformers" not in bytes(await store.get("a/zarr.json") or b"")
    with pytest.raises(TypeError):
        array.with_storage_transformer(Flipped(store))  # type: ignore[arg-type]


async def test_at_run_time_one_follows_a_resize_and_an_append() -> None:
    store = MemoryStore()
    array = (
        await aiozarr.create_array(store, shape=4, dtype="u1", chunks=2, codecs=["bytes"])
    ).with_storage_transformer(Flip())
    await array[...].write([1, 2, 3, 4])
    await array.append([5])
    await array.resize(3)
    assert (await array[...]).tolist() == [1, 2, 3]


def test_a_handle_takes_its_transformers_along_when_it_is_pickled() -> None:
    store = MemoryStore()
    array = aiozarr.sync.create_array(store, shape=4, dtype="u1", chunks=2).with_storage_transformer(
        CachingTransformer(1000)
    )
    array[...] = 3
    loaded: aiozarr.sync.Array = pickle.loads(pickle.dumps(array))
    assert loaded[...].tolist() == [3] * 4
    (kept,) = loaded._async._runtime_transformers
    assert isinstance(kept, CachingTransformer)
    assert kept.max_bytes == 1000


@pytest.mark.parametrize(
    "given", ["test.flip", {"name": "test.flip"}, {"name": "test.flip", "configuration": {}}, Flip()]
)
async def test_new_arrays_are_created_with_transformers_of_every_spelling(registered: None, given: Any) -> None:
    store = MemoryStore()
    array = await aiozarr.create_array(store, "a", shape=2, dtype="u1", codecs=["bytes"], storage_transformers=[given])
    await array[...].write([1, 2])
    assert bytes(await store.get("a/c/0") or b"") == bytes([254, 253])
    opened = await aiozarr.open_array(store, "a")
    assert [each.name for each in opened.metadata.storage_transformers] == ["test.flip"]
    assert (await opened[...]).tolist() == [1, 2]
    root = await aiozarr.create_group(store, "g")
    assert (await root.create_array("b", shape=1, dtype="u1", storage_transformers=[given])).metadata == (
        await root.require_array("b", shape=1, dtype="u1", storage_transformers=[given])
    ).metadata
    made = await root.create_hierarchy({"c": {"shape": 1, "dtype": "u1", "storage_transformers": [given]}})
    assert made["c"].metadata.storage_transformers == opened.metadata.storage_transformers  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("test.flip", TypeError),
        ({"name": "test.flip"}, TypeError),
        ([3], TypeError),
        ([{"configuration": {}}], InvalidMetadataError),
        ([{"name": "test.flip", "configuration": 3}], InvalidMetadataError),
        (["test.unknown"], UnsupportedMetadataError),
    ],
)
async def test_new_arrays_take_no_transformers_that_could_not_be_read(
    registered: None, given: Any, error: type[Exception]
) -> None:
    store = MemoryStore()
    with pytest.raises(error):
        await aiozarr.create_array(store, "a", shape=2, dtype="u1", storage_transformers=given)
    assert await store.list() == []


@pytest.mark.parametrize("zarr_format", [1, 2])
async def test_older_formats_name_no_transformers(registered: None, zarr_format: int) -> None:
    with pytest.raises(TypeError, match="storage_transformers is an option of format 3"):
        await aiozarr.create_array(
            MemoryStore(), shape=2, dtype="u1", storage_transformers=["test.flip"], zarr_format=zarr_format
        )
    await aiozarr.create_array(MemoryStore(), shape=2, dtype="u1", storage_transformers=(), zarr_format=zarr_format)


class Counted(MemoryStore):
    """Counts what is fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.fails = False

    def fetch_now(self, key: str, range: Any = None, *, if_match: Any = None) -> Any:
        self.fetched.append(key)
        return super().fetch_now(key, range, if_match=if_match)

    def set_now(self, key: str, value: Any, *, precondition: Any = None) -> Version:
        version = super().set_now(key, value, precondition=precondition)
        if self.fails:
            raise StoreError("the answer was lost")
        return version


async def test_a_cached_value_is_not_fetched_again() -> None:
    store, cache = Counted(), CachingTransformer(1 << 20)
    array = await aiozarr.create_array(store, shape=(40, 3), dtype="i4", chunks=(2, 3), shards=(20, 3))
    await array[...].write(np.arange(120).reshape(40, 3))
    cached = array.with_storage_transformer(cache)
    first = await cached[:30]
    store.fetched.clear()
    np.testing.assert_array_equal(await cached[:30], first)
    assert store.fetched == []
    assert cache.nbytes > 0
    assert (await cached[39]).tolist() == [117, 118, 119]


async def test_own_writes_are_seen_and_so_are_those_that_seem_to_fail() -> None:
    store, cache = Counted(), CachingTransformer()
    array = (await aiozarr.create_array(store, shape=4, dtype="i4", chunks=2, fill_value=9)).with_storage_transformer(
        cache
    )
    await array[...].write([1, 2, 3, 4])
    assert (await array[...]).tolist() == [1, 2, 3, 4]
    await array[1:3].write(7)
    assert (await array[...]).tolist() == [1, 7, 7, 4]
    await array.resize(2)
    await array.resize(4)
    assert (await array[...]).tolist() == [1, 7, 9, 9]
    store.fails = True
    wrapped = array._chunk_store
    with pytest.raises(StoreError):
        await wrapped.set("c/0", b"new")
    store.fails = False
    assert bytes(await wrapped.get("c/0") or b"") == b"new"
    await wrapped.erase_prefix("c/")
    assert await wrapped.get("c/0") is None


async def test_the_bytes_are_bounded_and_evicted_by_least_recent_use() -> None:
    store, cache = Counted(), CachingTransformer(250)
    wrapped = cache.wrap(store, "")
    for key in "abc":
        await store.set(key, bytes(100))
    for key in ("a", "b", "a", "c", "a"):
        await wrapped.get(key)
    assert cache.nbytes == 200
    assert store.fetched == ["a", "b", "c"]
    await store.set("large", bytes(1000))
    await wrapped.get("large")
    assert cache.nbytes == 200
    cache.forget()
    assert cache.nbytes == 0


async def test_a_definite_version_is_never_answered_with_another_one() -> None:
    store, cache = Counted(), CachingTransformer()
    wrapped = cache.wrap(store, "")
    old = await store.set("a", b"old")
    assert bytes((await wrapped.get("a")) or b"") == b"old"
    new = await store.set("a", b"new!")
    assert bytes((await wrapped.fetch("a", if_match=new)).data) == b"new!"  # type: ignore[union-attr]
    with pytest.raises(aiozarr.ChangedError):
        await wrapped.fetch("a", Range(0, 1), if_match=old)


async def test_a_fetch_that_a_write_overtakes_is_not_kept() -> None:
    gate = threading.Event()

    class Slow(Counted):
        async def fetch(self, key: str, range: Any = None, *, if_match: Any = None) -> Any:
            value = self.fetch_now(key, range)
            while not gate.is_set():
                await asyncio.sleep(0)
            return value

    store, cache = Slow(), CachingTransformer()
    wrapped = cache.wrap(store, "")
    await wrapped.set("a", b"old")
    reading = asyncio.create_task(wrapped.fetch("a"))
    await asyncio.sleep(0)
    await wrapped.set("a", b"new")
    gate.set()
    await reading
    assert bytes((await wrapped.get("a")) or b"") == b"new"


@pytest.mark.parametrize(("given", "error"), [(0, ValueError), ("1", TypeError), (True, TypeError)])
def test_an_invalid_size_is_an_error(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        CachingTransformer(given)
    with pytest.raises(aiozarr.InvalidMetadataError):
        CachingTransformer.from_json({"max_bytes": given})
    assert CachingTransformer.from_json({"max_bytes": 5}).to_json() == {"max_bytes": 5}
