"""Finding and reading the documents of a node: the requests, the formats, and the errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import PermissionDeniedError
from aiozarr.hierarchy import node_access
from aiozarr.hierarchy.node_access import FormatMemory
from aiozarr.model import CONVERSION_JOURNAL_KEY, JOURNAL_HEADER_KEY
from aiozarr.stores import MemoryStore, PrefixStore, Store
from aiozarr.testing.fakes import FakeStore
from tests.support.small_tree import copy_objects

V3, V2, V1 = ["zarr.json"], [".zarray", ".zgroup", ".zattrs", ".zmetadata"], ["meta", "attrs"]


async def put(store: Store, key: str, value: Any) -> None:
    await store.set(key, json.dumps(value).encode())


async def unseen_array(remote: Any, path: str, zarr_format: int) -> None:
    """Store an array whose format this process has not seen in `remote`."""
    source = MemoryStore()
    await aiozarr.create_array(source, path, shape=3, dtype="i4", zarr_format=zarr_format)
    await copy_objects(source, remote.held)
    remote.calls.clear()


@pytest.mark.parametrize(("zarr_format", "keys"), [(None, V3 + V2 + V1), (3, V3), (2, V2), (1, V1)])
async def test_opening_requests_all_documents_concurrently_and_no_others(
    remote: Any, zarr_format: int | None, keys: list[str]
) -> None:
    await unseen_array(remote, "a", zarr_format or 2)
    under_way: list[str] = []
    together: list[int] = []
    before = remote._before

    async def count(operation: str, key: str) -> None:
        under_way.append(key)
        await before(operation, key)
        together.append(len(under_way))

    remote._before = count
    remote.delay = 0.01
    array = await aiozarr.open(remote, "a", zarr_format=zarr_format)
    assert array.zarr_format == (zarr_format or 2)
    assert sorted(remote.calls) == sorted(("fetch", f"a/{key}") for key in keys)
    assert together[0] == len(keys)


async def test_of_several_formats_the_newest_is_opened(memory: MemoryStore) -> None:
    for zarr_format in (1, 2, 3):
        source = MemoryStore()
        await aiozarr.create_array(source, shape=zarr_format, dtype="i4", zarr_format=zarr_format)
        for key in await source.list():
            await memory.set(key, bytes(await source.get(key) or b""))
        assert (await aiozarr.open_array(memory)).shape == (zarr_format,)
    assert [(await aiozarr.open_array(memory, zarr_format=n)).shape for n in (1, 2, 3)] == [(1,), (2,), (3,)]


async def test_a_missing_format_is_an_error_with_the_existing_one(memory: MemoryStore) -> None:
    await aiozarr.create_array(memory, "a", shape=3, dtype="i4", zarr_format=2)
    with pytest.raises(aiozarr.NodeNotFoundError, match=r"nothing of Zarr format 3 .* an array of 2"):
        await aiozarr.open(memory, "a", zarr_format=3)
    with pytest.raises(aiozarr.NodeNotFoundError, match=r"nothing of Zarr format 1 "):
        await aiozarr.open(memory, "a", zarr_format=1)


async def test_a_refused_probe_is_ignored_if_another_succeeds(remote: Any) -> None:
    await aiozarr.create_array(remote, "a", shape=3, dtype="i4", zarr_format=2)

    def refuse(operation: str, key: str) -> None:
        if key != "a/.zarray":
            raise PermissionDeniedError("no", key=key)

    remote.hook = refuse
    assert (await aiozarr.open_array(remote, "a")).shape == (3,)
    with pytest.raises(PermissionDeniedError):
        await aiozarr.open(remote, "b")


async def test_the_chunks_of_an_array_of_format_2_are_not_a_group(store: Store) -> None:
    array = await aiozarr.create_array(
        store, "a", shape=(4, 4), dtype="i4", chunks=2, zarr_format=2, dimension_separator="/"
    )
    await array[...].write(1)
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open(store, "a/0")


async def test_documents_of_netcdf_are_ignored(memory: MemoryStore) -> None:
    await aiozarr.create_array(memory, "a", shape=3, dtype="i4", zarr_format=2)
    await put(memory, ".nczgroup", {"dims": {}})
    await put(memory, "a/.nczarray", {"dimrefs": []})
    await put(memory, "a/.zattrs", {"_ARRAY_DIMENSIONS": ["x"], "_NCZARR_ATTR": {"types": {}}})
    array = await aiozarr.open_array(memory, "a")
    assert (array.shape, array.dimension_names) == ((3,), ("x",))
    assert (await array.info()).objects_stored == 0


async def test_a_store_that_cannot_list_opens_documented_nodes(remote_with: Callable[..., Any]) -> None:
    remote = remote_with(listable=False)
    await aiozarr.create_array(remote, "g/a", shape=3, dtype="i4", zarr_format=2)
    group = await aiozarr.open_group(remote)
    assert (await group.open("g/a")).zarr_format == 2
    assert not await group.contains("g/b")


async def test_keys_without_documents_above_make_an_implicit_group(store: Store) -> None:
    await aiozarr.create_array(store, "g/h/a", shape=3, dtype="i4")
    await store.erase("g/h/zarr.json")
    group = await aiozarr.open_group(store, "g/h", mode="r+")
    assert group.attrs == {}
    assert [name async for name, _ in group.members()] == ["a"]
    await group.update_attributes({"now": "explicit"})
    assert (await aiozarr.open_group(store, "g/h")).attrs == {"now": "explicit"}


async def test_files_without_a_node_and_unfinished_copies_and_conversions_are_no_group(store: Store) -> None:
    await store.set("folder/notes.txt", b"x")
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open(store)
    await aiozarr.create_array(store, "folder/a", shape=3, dtype="i4")
    for key in ("zarr.json", "folder/zarr.json"):
        await store.erase(key)
    assert isinstance(await aiozarr.open(store), aiozarr.Group)
    for key in (JOURNAL_HEADER_KEY, CONVERSION_JOURNAL_KEY):
        await store.set(key, b"{}")
        with pytest.raises(aiozarr.NodeNotFoundError):
            await aiozarr.open(store)
        await store.erase(key)


async def test_a_search_for_a_node_below_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_access, "MAX_SEARCHED_OBJECTS", 20)
    monkeypatch.setattr(node_access, "LISTED_OBJECTS", 10)
    files = {f"flat/{number:03}": b"" for number in range(500)}
    deep = {f"deep/{number:03}/{name}": b"" for number in range(40) for name in range(30)}
    remote = FakeStore({**files, **deep, "flat/z/zarr.json": b"{}", "deep/040/a/zarr.json": b"{}"}, page_size=10)
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open(remote, "flat")
    # A page to see whether there is any key, two pages of the search, and the names beside for the error.
    assert len(remote.log("list")) == 4
    assert isinstance(await aiozarr.open(remote, "deep"), aiozarr.Group)
    monkeypatch.setattr(node_access, "MAX_SEARCHED_PREFIXES", 10)
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open(remote, "deep")


async def test_the_chunks_of_an_array_are_not_a_group(store: Store) -> None:
    array = await aiozarr.create_array(store, "a", shape=(3, 3), dtype="i4", chunks=1)
    await array[...].write(1)
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open(store, "a/c")


async def test_a_store_that_cannot_list_has_no_implicit_groups(remote_with: Callable[..., Any]) -> None:
    remote = remote_with(listable=False)
    await aiozarr.create_array(remote, "g/a", shape=3, dtype="i4")
    await remote.erase("g/zarr.json")
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open(remote, "g")
    assert (await aiozarr.open_array(remote, "g/a")).shape == (3,)


async def test_a_refused_listing_counts_as_empty(remote: Any) -> None:
    await aiozarr.create_array(remote, "g/a", shape=3, dtype="i4")
    await remote.erase("g/zarr.json")

    def refuse(operation: str, key: str) -> None:
        if operation == "scan":
            raise PermissionDeniedError("no listing", key=key)

    remote.hook = refuse
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.open(remote, "g")


async def test_a_refused_document_is_an_error_and_not_a_missing_node(remote: Any) -> None:
    def refuse(operation: str, key: str) -> None:
        raise PermissionDeniedError("no", key=key)

    remote.hook = refuse
    with pytest.raises(aiozarr.PermissionDeniedError):
        await aiozarr.open(remote)


async def test_a_document_is_one_request(remote: Any) -> None:
    await aiozarr.create_array(remote, "a", shape=3, dtype="i4")
    remote.calls.clear()
    with aiozarr.record() as report:
        await aiozarr.open(remote, "a", zarr_format=3)
    assert remote.calls == [("fetch", "a/zarr.json")]
    assert report.requests == 1


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (b"{", aiozarr.InvalidMetadataError),
        (b'{"zarr_format": 3, "node_type": "group", "attributes": 3}', aiozarr.InvalidMetadataError),
        (b'{"zarr_format": 3, "node_type": "group", "new": 3}', aiozarr.UnsupportedMetadataError),
    ],
)
async def test_an_unreadable_document_is_an_error_with_node_and_key(
    memory: MemoryStore, document: bytes, error: type[aiozarr.MetadataError]
) -> None:
    await memory.set("a/zarr.json", document)
    with pytest.raises(error) as caught:
        await aiozarr.open(memory, "a")
    assert caught.value.node == f"{memory.url}/a"
    assert caught.value.key == "zarr.json"


async def test_a_document_beyond_the_limit_is_a_limit_error(memory: MemoryStore) -> None:
    await memory.set("zarr.json", b" " * 2000)
    with pytest.raises(aiozarr.LimitError) as caught:
        await aiozarr.open(memory, settings=aiozarr.Settings(max_metadata_bytes=1000))
    assert caught.value.limit == "max_metadata_bytes"


async def calls_of(remote: Any, opening: Any) -> list[str]:
    remote.calls.clear()
    await opening
    return [f"{operation} {key}" for operation, key in remote.calls]


@pytest.mark.parametrize(("zarr_format", "keys"), [(3, V3), (2, V3 + V2), (1, V3 + V2 + V1)])
async def test_where_a_format_was_seen_its_documents_and_those_of_newer_formats_are_requested(
    remote: Any, zarr_format: int, keys: list[str]
) -> None:
    await unseen_array(remote, "g/a", zarr_format)
    await unseen_array(remote, "g/b", zarr_format)
    assert len(await calls_of(remote, aiozarr.open_array(remote, "g/a"))) == 7
    wanted = sorted(f"fetch g/b/{key}" for key in keys)
    assert sorted(await calls_of(remote, aiozarr.open_array(remote, "g/b"))) == wanted
    assert await calls_of(remote, aiozarr.open_array(remote, "g/b", zarr_format=zarr_format)) != []


async def test_a_node_below_one_of_a_known_format_is_one_request_by_its_url_too() -> None:
    url = f"memory://{test_a_node_below_one_of_a_known_format_is_one_request_by_its_url_too.__name__}"
    await aiozarr.create_array(url, "g/a", shape=3, dtype="i4")
    with aiozarr.record() as report:
        await aiozarr.open_array(f"{url}/g/a")
    assert report.requests == 1


async def test_what_was_replaced_by_another_format_is_found_all_the_same(remote: Any) -> None:
    await unseen_array(remote, "a", 3)
    await aiozarr.open_array(remote, "a")
    await remote.held.erase("a/zarr.json")
    await unseen_array(remote, "a", 2)
    assert (await aiozarr.open_array(remote, "a")).zarr_format == 2
    # The newest format wins, whatever was seen last.
    await unseen_array(remote, "a", 3)
    assert (await aiozarr.open_array(remote, "a")).zarr_format == 3


async def test_a_refusal_of_the_likely_document_has_the_others_requested(remote: Any) -> None:
    await unseen_array(remote, "a", 3)
    await aiozarr.open_array(remote, "a")
    await remote.held.erase("a/zarr.json")
    await unseen_array(remote, "a", 2)

    def refuse(operation: str, key: str) -> None:
        if key.endswith("zarr.json"):
            raise PermissionDeniedError("no", key=key)

    remote.hook = refuse
    assert (await aiozarr.open_array(remote, "a")).zarr_format == 2


async def test_a_missing_node_is_a_listing_and_one_of_its_siblings(remote: Any) -> None:
    async def miss(opening: Any) -> None:
        with pytest.raises(aiozarr.NodeNotFoundError):
            await opening

    await unseen_array(remote, "g/a", 3)
    assert len(await calls_of(remote, miss(aiozarr.open(remote, "g/b")))) == 9
    await aiozarr.open(remote, "g/a")
    wanted = ["fetch g/b/zarr.json", "scan g/b/", "scan g/"]
    assert await calls_of(remote, miss(aiozarr.open(remote, "g/b"))) == wanted
    assert await calls_of(remote, miss(aiozarr.open(remote, "g/b", zarr_format=3))) == wanted
    group = await aiozarr.open_group(remote, zarr_format=None)
    assert await calls_of(remote, miss(group.open("g/b"))) == wanted


async def test_an_implicit_group_reads_the_documents_that_arrays_above_it_would_have(remote: Any) -> None:
    await unseen_array(remote, "g/h/a", 3)
    await remote.held.erase("g/h/zarr.json")
    await aiozarr.open(remote, "g")
    calls = await calls_of(remote, aiozarr.open_group(remote, "g/h"))
    assert calls[:2] == ["fetch g/h/zarr.json", "scan g/h/"]
    # The other documents, two journals, the documents of arrays above, a listing of what is below, and its own again.
    assert len(calls) == 2 + 6 + 2 + 2 * 3 + 2


async def test_creating_in_an_empty_store_is_ten_requests_and_beside_others_seven(remote: Any) -> None:
    calls = await calls_of(remote, aiozarr.create_array(remote, "a/b", shape=3, dtype="i4"))
    assert len(calls) == 10
    assert calls[-3:] == ["set zarr.json", "set a/zarr.json", "set a/b/zarr.json"]
    assert len(await calls_of(remote, aiozarr.create_array(remote, "a/c", shape=3, dtype="i4"))) == 7
    assert await calls_of(remote, aiozarr.open_array(remote, "a/b")) == ["fetch a/b/zarr.json"]


def test_the_nearest_place_says_the_format() -> None:
    memory, store = FormatMemory(), MemoryStore()
    assert memory.find(store, "a/b") is None
    memory.record(store, "a", 3)
    memory.record(store, "a/c/d", 2)
    assert [memory.find(store, path) for path in ("a", "a/c", "a/c/d", "a/c/d/e")] == [3, 3, 2, 2]
    assert memory.find(store, "other") == 2  # the last one of the store
    assert memory.find(PrefixStore(store, "a/"), "x") == 3
    assert memory.find(MemoryStore(), "a") is None


def test_the_places_are_bounded_and_the_last_used_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_access, "MAX_PLACES", 3)
    memory, store = FormatMemory(), MemoryStore()
    memory.record(store, "a", 2)
    memory.record(store, "b", 3)
    assert memory.find(store, "a") == 2
    memory.record(store, "c", 3)
    assert memory.find(store, "a") == 2
    assert memory.find(store, "b") == 3  # by its store
