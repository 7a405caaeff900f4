"""Opening finds what is stored, says what is missing, and closes what it made."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import NodeNotFoundError, PermissionDeniedError
from aiozarr.settings import Settings
from aiozarr.stores import LocalStore, MemoryStore, Store
from aiozarr.testing.fakes import FakeStore


async def test_open_gives_what_is_there(store: Store) -> None:
    await aiozarr.create_array(store, "g/a", shape=3, dtype="i4")
    assert isinstance(await aiozarr.open(store, "g/a"), aiozarr.Array)
    assert isinstance(await aiozarr.open(store, "/g"), aiozarr.Group)
    assert isinstance(await aiozarr.open(store), aiozarr.Group)


async def test_a_missing_node_is_an_error_with_its_url(store: Store) -> None:
    await aiozarr.create_group(store)
    with pytest.raises(aiozarr.NodeNotFoundError) as caught:
        await aiozarr.open(store, "no/such")
    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.url == f"{store.url}/no/such"
    assert caught.value.url in str(caught.value)
    assert caught.value.path == "no/such"


async def test_the_wrong_kind_is_a_type_error_of_nodes(store: Store) -> None:
    await aiozarr.create_array(store, "a", shape=3, dtype="i4")
    with pytest.raises(aiozarr.NodeTypeError, match="is an array, not a group"):
        await aiozarr.open_group(store, "a")
    with pytest.raises(aiozarr.NodeTypeError, match="is a group, not an array"):
        await aiozarr.open_array(store)


async def test_keys_without_a_document_above_them_make_an_implicit_group(store: Store) -> None:
    await aiozarr.create_array(store, "g/h/a", shape=3, dtype="i4")
    await store.erase("g/h/zarr.json")
    group = await aiozarr.open_group(store, "g/h", mode="r+")
    assert group.attrs == {}
    assert [name async for name, _ in group.members()] == ["a"]
    await group.update_attributes({"now": "explicit"})
    assert (await aiozarr.open_group(store, "g/h")).attrs == {"now": "explicit"}


async def test_the_keys_of_an_arrays_chunks_are_no_group(store: Store) -> None:
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


async def test_a_listing_that_is_refused_shows_nothing(remote: Any) -> None:
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
async def test_a_document_that_cannot_be_read_is_an_error_that_names_node_and_key(
    memory: MemoryStore, document: bytes, error: type[aiozarr.MetadataError]
) -> None:
    await memory.set("a/zarr.json", document)
    with pytest.raises(error) as caught:
        await aiozarr.open(memory, "a")
    assert caught.value.node == f"{memory.url}/a"
    assert caught.value.key == "zarr.json"


async def test_codecs_that_are_not_known_are_found_when_the_array_is_opened(memory: MemoryStore) -> None:
    await aiozarr.create_array(memory, shape=3, dtype="i4")
    document = json.loads(bytes(await memory.get("zarr.json") or b""))
    document["codecs"][1]["name"] = "no_such_codec"
    await memory.set("zarr.json", json.dumps(document).encode())
    with pytest.raises(aiozarr.UnsupportedMetadataError, match="no_such_codec") as caught:
        await aiozarr.open(memory)
    assert caught.value.node == memory.url


async def test_a_document_beyond_the_limit_is_a_limit_error(memory: MemoryStore) -> None:
    await memory.set("zarr.json", b" " * 2000)
    with pytest.raises(aiozarr.LimitError) as caught:
        await aiozarr.open(memory, settings=aiozarr.Settings(max_metadata_bytes=1000))
    assert caught.value.limit == "max_metadata_bytes"


@pytest.mark.parametrize("zarr_format", [None, 3, 2, 1])
@pytest.mark.parametrize("path", ["..", "a/../b", "a\0b", "x" * 2000])
async def test_a_path_that_no_node_can_have_is_refused_before_any_request(
    remote: Any, path: str, zarr_format: int | None
) -> None:
    with pytest.raises(aiozarr.InvalidKeyError):
        await aiozarr.open(remote, path, zarr_format=zarr_format)
    assert remote.calls == []


@pytest.mark.parametrize("path", ["a//b", "__a", "a/"])
async def test_a_path_that_format_3_does_not_have_is_refused_there(remote: Any, path: str) -> None:
    with pytest.raises(aiozarr.InvalidKeyError):
        await aiozarr.open(remote, path, zarr_format=3)
    assert remote.calls == []


@pytest.mark.parametrize("changes", [{"mode": "w"}, {"zarr_format": 4}])
async def test_arguments_out_of_range_are_a_value_error(memory: MemoryStore, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"mode|zarr_format"):
        await aiozarr.open(memory, **changes)


async def test_a_target_may_be_a_path_a_string_or_a_url(tmp_path: Path) -> None:
    place = tmp_path / "a store #1"
    array = await aiozarr.create_array(place, "g/b c", shape=3, dtype="i4")
    await array[...].write([1, 2, 3])
    for target in (place, os.fspath(place), (await aiozarr.open(place)).url, LocalStore(place)):
        assert (await (await aiozarr.open_array(target, "g/b c"))[...]).tolist() == [1, 2, 3]
    again = await aiozarr.open_array(array.url)
    assert again.path == ""
    assert (await again[...]).tolist() == [1, 2, 3]


async def test_a_memory_url_names_one_store_of_the_process() -> None:
    array = await aiozarr.create_array("memory://test_open", "a", shape=3, dtype="i4", overwrite=True)
    await array[...].write(7)
    assert (await (await aiozarr.open_array(array.url))[...]).tolist() == [7, 7, 7]


async def test_a_relative_path_is_one_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    await aiozarr.create_group("here")
    monkeypatch.chdir("/")
    assert isinstance(await aiozarr.open(tmp_path / "here"), aiozarr.Group)


@pytest.mark.parametrize("target", [{"driver": "zarr3"}, 3, None, b"bytes", ["a"]])
async def test_a_target_of_another_type_is_a_type_error(target: Any) -> None:
    with pytest.raises(TypeError, match="target"):
        await aiozarr.open(target)


async def test_a_url_that_no_store_opens_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(aiozarr.UnknownSchemeError, match="s3://"):
        await aiozarr.open("nosuch://bucket/key")


async def test_options_go_with_urls(memory: MemoryStore) -> None:
    with pytest.raises(TypeError, match="storage_options"):
        await aiozarr.open(memory, storage_options={"anon": True})


async def test_durable_settings_reach_the_local_store(tmp_path: Path) -> None:
    settings = aiozarr.Settings(durable=True)
    for target in (tmp_path, (tmp_path / "b").as_uri()):
        array = await aiozarr.create_array(target, "a", shape=1, dtype="i4", settings=settings)
        assert isinstance(array.store, LocalStore)
        assert array.store.durable


async def test_a_node_closes_the_store_it_made_and_no_other(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await aiozarr.create_array(remote, "a", shape=3, dtype="i4")
    async with await aiozarr.open(remote, "a"):
        pass
    assert remote.closed == 0
    monkeypatch.setattr("aiozarr.engine.target.from_url", lambda url, **options: remote)
    async with await aiozarr.open_group("any://url") as group:
        child = await group.open("a")
        await child.aclose()
        assert remote.closed == 0
    assert remote.closed == 1


@pytest.mark.parametrize("failing", [aiozarr.open, aiozarr.open_array])
async def test_a_store_is_closed_when_opening_fails(failing: Any, remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.engine.target.from_url", lambda url, **options: remote)
    with pytest.raises(aiozarr.NodeNotFoundError):
        await failing("any://url")
    assert remote.closed == 1


async def test_a_store_is_closed_when_opening_is_cancelled(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.engine.target.from_url", lambda url, **options: remote)
    remote.delay = 30
    task = asyncio.ensure_future(aiozarr.open("any://url"))
    await asyncio.to_thread(remote.begun.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert remote.closed == 1


def test_a_node_works_on_one_event_loop_after_another(tmp_path: Path) -> None:
    async def create() -> aiozarr.Array:
        array = await aiozarr.create_array(tmp_path, "a", shape=3, dtype="i4")
        await array[...].write([1, 2, 3])
        return array

    array = asyncio.run(create())

    async def read() -> Any:
        return await array[...]

    assert asyncio.run(read()).tolist() == [1, 2, 3]
    assert asyncio.run(read()).tolist() == [1, 2, 3]


async def test_pickled_nodes_are_the_same_nodes(tmp_path: Path) -> None:
    settings = aiozarr.Settings(retries=1)
    array = await aiozarr.create_array(
        tmp_path,
        "g/a",
        shape=(4, 4),
        dtype=">f4",
        chunks=2,
        shards=4,
        fill_value="NaN",
        attributes={"n": [1]},
        settings=settings,
    )
    await array[:2].write(1)
    group = await aiozarr.open_group(tmp_path, "g")
    array2, group2 = pickle.loads(pickle.dumps((array, group)))
    assert array2.metadata == array.metadata
    assert (array2.url, array2.settings, array2.read_only) == (array.url, settings, False)
    assert (group2.url, group2.read_only) == (group.url, True)
    assert np.array_equal(await array2[...], await array[...], equal_nan=True)


async def test_attributes_that_are_read_though_no_json_has_them_are_pickled_too(memory: MemoryStore) -> None:
    await memory.set("zarr.json", b'{"zarr_format": 3, "node_type": "group", "attributes": {"fill": NaN}}')
    group = pickle.loads(pickle.dumps(await aiozarr.open_group(memory)))
    assert np.isnan(group.attrs["fill"])


async def test_a_status_that_settings_call_missing_means_that_there_is_no_node() -> None:
    store = FakeStore(latency=0, faults=lambda call: PermissionDeniedError("no", status=403))
    store.supports = replace(store.supports, listable=False)
    with pytest.raises(PermissionDeniedError):
        await aiozarr.open(store, "a")
    with pytest.raises(NodeNotFoundError):
        await aiozarr.open(store, "a", settings=Settings(missing_status=(404, 403)))


async def test_opening_that_takes_too_long_names_where(remote: Any) -> None:
    remote.delay = 30
    with pytest.raises(aiozarr.StoreTimeoutError) as caught:
        await aiozarr.open(remote, "a/b", settings=Settings(timeout=0.1))
    assert (caught.value.store, caught.value.key) == (remote.url, "a/b")
