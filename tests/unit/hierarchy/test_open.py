"""Opening finds stored nodes, reports missing ones, and closes the stores that it made."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.errors import InvalidMetadataError, NodeNotFoundError, PermissionDeniedError
from aiozarr.settings import Settings
from aiozarr.stores import LocalStore, MemoryStore, Store
from aiozarr.testing.fakes import FakeStore


async def test_open_returns_arrays_and_groups(store: Store) -> None:
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


async def test_unknown_codecs_are_an_error_of_opening(memory: MemoryStore) -> None:
    await aiozarr.create_array(memory, shape=3, dtype="i4")
    document = json.loads(bytes(await memory.get("zarr.json") or b""))
    document["codecs"][1]["name"] = "no_such_codec"
    await memory.set("zarr.json", json.dumps(document).encode())
    with pytest.raises(aiozarr.UnsupportedMetadataError, match="no_such_codec") as caught:
        await aiozarr.open(memory)
    assert caught.value.node == memory.url


@pytest.mark.parametrize("zarr_format", [None, 3, 2, 1])
@pytest.mark.parametrize("path", ["..", "a/../b", "a\0b", "x" * 2000])
async def test_an_invalid_path_is_refused_before_any_request(remote: Any, path: str, zarr_format: int | None) -> None:
    with pytest.raises(aiozarr.InvalidKeyError):
        await aiozarr.open(remote, path, zarr_format=zarr_format)
    assert remote.calls == []


@pytest.mark.parametrize("path", ["a//b", "a//"])
async def test_a_path_that_is_invalid_in_format_3_is_refused(remote: Any, path: str) -> None:
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


async def test_a_memory_url_is_one_store_of_the_process() -> None:
    array = await aiozarr.create_array("memory://test_open", "a", shape=3, dtype="i4", overwrite=True)
    await array[...].write(7)
    assert (await (await aiozarr.open_array(array.url))[...]).tolist() == [7, 7, 7]


async def test_a_relative_path_is_one_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    await aiozarr.create_group("here")
    monkeypatch.chdir("/")
    assert isinstance(await aiozarr.open(tmp_path / "here"), aiozarr.Group)


@pytest.mark.parametrize("target", [3, None, b"bytes", ["a"]])
async def test_a_target_of_another_type_is_a_type_error(target: Any) -> None:
    with pytest.raises(TypeError, match="target"):
        await aiozarr.open(target)


async def test_a_spec_is_a_target_of_open_only() -> None:
    spec: Any = {"driver": "zarr3"}
    with pytest.raises(aiozarr.InvalidSpecError, match="kvstore"):
        await aiozarr.open(spec)
    with pytest.raises(TypeError, match="target"):
        await aiozarr.open_array(spec)


async def test_an_unknown_scheme_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(aiozarr.UnknownSchemeError, match="s3://"):
        await aiozarr.open("nosuch://bucket/key")


async def test_options_go_with_urls(memory: MemoryStore) -> None:
    with pytest.raises(TypeError, match="storage_options"):
        await aiozarr.open(memory, storage_options={"anon": True})


async def test_durable_settings_reach_the_local_store(tmp_path: Path) -> None:
    settings = aiozarr.Settings(fsync=True)
    for target in (tmp_path, (tmp_path / "b").as_uri()):
        array = await aiozarr.create_array(target, "a", shape=1, dtype="i4", settings=settings)
        assert isinstance(array.store, LocalStore)
        assert array.store.fsync


@pytest.mark.parametrize("failing", [aiozarr.open, aiozarr.open_array])
async def test_a_store_is_closed_when_opening_fails(failing: Any, remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.engine.open_store.from_url", lambda url, **options: remote)
    with pytest.raises(aiozarr.NodeNotFoundError):
        await failing("any://url")
    assert remote.closed == 1


async def test_a_store_is_closed_when_opening_is_cancelled(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.engine.open_store.from_url", lambda url, **options: remote)
    remote.delay = 30
    task = asyncio.ensure_future(aiozarr.open("any://url"))
    await asyncio.to_thread(remote.begun.wait, 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert remote.closed == 1


async def test_missing_status_of_settings_means_no_node() -> None:
    store = FakeStore(latency=0, faults=lambda call: PermissionDeniedError("no", status=403))
    store.supports = replace(store.supports, listable=False)
    with pytest.raises(PermissionDeniedError):
        await aiozarr.open(store, "a")
    with pytest.raises(NodeNotFoundError):
        await aiozarr.open(store, "a", settings=Settings(missing_status=(404, 403)))


async def test_a_timeout_of_opening_has_store_and_key(remote: Any) -> None:
    remote.delay = 30
    with pytest.raises(aiozarr.StoreTimeoutError) as caught:
        await aiozarr.open(remote, "a/b", settings=Settings(timeout=0.1))
    assert (caught.value.store, caught.value.key) == (remote.url, "a/b")


async def test_use_consolidated_false_opens_a_group_with_damaged_consolidated_metadata() -> None:
    old = MemoryStore()
    await old.set(".zgroup", b'{"zarr_format": 2}')
    await old.set(".zmetadata", b"{damaged")
    new = MemoryStore()
    document = b'{"zarr_format": 3, "node_type": "group", "consolidated_metadata": {"kind": "inline", "metadata": 7}}'
    await new.set("zarr.json", document)
    for store in (old, new):
        with pytest.raises(InvalidMetadataError):
            await aiozarr.open_group(store)
        group = await aiozarr.open_group(store, use_consolidated=False)
        assert group.metadata.consolidated is None


async def test_consolidated_metadata_without_the_number_of_their_format_are_read() -> None:
    store = MemoryStore()
    await store.set(".zmetadata", b'{"metadata": {".zgroup": {"zarr_format": 2}}, "record_size": 1000}')
    group = await aiozarr.open_group(store)
    assert group.metadata.consolidated is not None
