"""Finding and reading the documents of a node: the requests, the formats, and the errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import PermissionDeniedError
from aiozarr.stores import MemoryStore, Store

V3, V2, V1 = ["zarr.json"], [".zarray", ".zgroup", ".zattrs", ".zmetadata"], ["meta", "attrs"]


async def put(store: Store, key: str, value: Any) -> None:
    await store.set(key, json.dumps(value).encode())


@pytest.mark.parametrize(("zarr_format", "keys"), [(None, V3 + V2 + V1), (3, V3), (2, V2), (1, V1)])
async def test_opening_requests_all_documents_concurrently_and_no_others(
    remote: Any, zarr_format: int | None, keys: list[str]
) -> None:
    await aiozarr.create_array(remote, "a", shape=3, dtype="i4", zarr_format=zarr_format or 2)
    remote.calls.clear()
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
