"""Metadata documents are stored all or none, and only over the version that was read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import MemoryStore, Store


async def put(store: Store, key: str, value: Any) -> None:
    await store.set(key, json.dumps(value).encode())


async def test_a_change_stores_only_the_changed_document(remote: Any) -> None:
    await put(remote, ".zgroup", {"zarr_format": 2})
    array = await aiozarr.create_array(remote, "a", shape=3, dtype="i4", zarr_format=2)
    # As another program would have spelt it.
    await remote.held.set("a/.zarray", json.dumps(json.loads(bytes(await remote.get("a/.zarray")))).encode())

    def writes() -> list[str]:
        done = [key for operation, key in remote.calls if operation == "set"]
        remote.calls.clear()
        return done

    writes()
    await array.update_attributes({"a": 1})
    assert writes() == ["a/.zattrs"]
    await array.resize((5,))
    assert writes() == ["a/.zarray"]


async def test_stored_attributes_with_nan_remain(memory: MemoryStore) -> None:
    await aiozarr.create_array(memory, shape=3, dtype="i4", zarr_format=2)
    await memory.set(".zattrs", b'{"limit": NaN}')
    array = await aiozarr.open_array(memory, mode="r+")
    await array.update_attributes({"a": 1})
    assert np.isnan((await aiozarr.open_array(memory)).attrs["limit"])


async def test_in_format_3_stored_nan_survives_changes_and_new_nan_is_refused(memory: MemoryStore) -> None:
    await aiozarr.create_array(memory, "a", shape=2, dtype="f8", attributes={"limit": 1})
    text = bytes(await memory.get("a/zarr.json") or b"").replace(b'"limit": 1', b'"limit": NaN')
    await memory.set("a/zarr.json", text)
    await aiozarr.consolidate_metadata(memory)
    array = await aiozarr.open_array(memory, "a", mode="r+")
    await array.append(np.ones(1))
    await array.update_attributes({"units": "K"})
    for change in (array.update_attributes, array.replace_attributes):
        with pytest.raises(aiozarr.InvalidMetadataError, match=r"attributes\.new"):
            await change({"new": float("nan")})
    with pytest.raises(aiozarr.InvalidMetadataError, match=r"attributes\.new"):
        await aiozarr.create_group(memory, "g", attributes={"new": float("inf")})

    group = await aiozarr.open_group(memory)
    assert group.metadata.consolidated is not None
    for read in (await group.open("a"), await aiozarr.open_array(memory, "a")):
        assert isinstance(read, aiozarr.Array)
        assert (read.shape, str(read.attrs["limit"]), read.attrs["units"]) == ((3,), "nan", "K")
    await array.replace_attributes({"a": 1})
    assert (await aiozarr.open_array(memory, "a")).attrs == {"a": 1}


@pytest.mark.parametrize("zarr_format", [1, 2])
async def test_an_overtaken_creation_leaves_no_documents(remote: Any, zarr_format: int) -> None:
    main = {1: "meta", 2: ".zarray"}[zarr_format]
    other = MemoryStore()
    await aiozarr.create_array(other, shape=9, dtype="i4", zarr_format=zarr_format)

    def overtake(operation: str, key: str) -> None:
        if (operation, key) == ("set", main):
            value = other.fetch_now(main)
            assert value is not None
            remote.held.set_now(main, value.data)

    remote.hook = overtake
    with pytest.raises(aiozarr.NodeExistsError):
        await aiozarr.create_array(remote, shape=3, dtype="i4", attributes={"mine": 1}, zarr_format=zarr_format)
    found = await aiozarr.open_array(remote)
    assert (found.shape, found.attrs) == ((9,), {})


async def test_an_overtaken_update_is_applied_to_the_metadata_of_the_other_process(remote: Any) -> None:
    group = await aiozarr.create_group(remote, attributes={"a": 1})
    times = 0

    def overtake(operation: str, key: str) -> None:
        nonlocal times
        if operation == "set" and times < 3:
            times += 1
            document = json.loads(bytes(remote.held.fetch_now("zarr.json").data))
            document["attributes"][f"theirs{times}"] = times
            remote.held.set_now("zarr.json", json.dumps(document).encode())

    remote.hook = overtake
    await group.update_attributes({"mine": 0})
    expected = {"a": 1, "theirs1": 1, "theirs2": 2, "theirs3": 3, "mine": 0}
    assert group.attrs == expected
    assert (await aiozarr.open_group(remote)).attrs == expected


@pytest.mark.parametrize("conditional", [False, None])
async def test_without_conditions_the_updates_of_one_process_survive(
    remote_with: Callable[..., Any], conditional: bool | None
) -> None:
    remote = remote_with(conditional_writes=conditional)
    group = await aiozarr.create_group(remote)
    await asyncio.gather(*[group.update_attributes({f"a{n}": n}) for n in range(8)])
    assert len((await aiozarr.open_group(remote)).attrs) == 8


async def test_unknown_members_survive_an_update(memory: MemoryStore) -> None:
    await aiozarr.create_group(memory)
    document = json.loads(bytes(await memory.get("zarr.json") or b""))
    document["vendor"] = {"must_understand": False, "x": [1]}
    await memory.set("zarr.json", json.dumps(document).encode())
    group = await aiozarr.open_group(memory, mode="r+")
    await group.update_attributes({"a": 1})
    assert json.loads(bytes(await memory.get("zarr.json") or b""))["vendor"] == document["vendor"]


async def test_endless_conflicts_raise_the_error_of_the_store(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiozarr.hierarchy.node_changes.MAX_UPDATES", 3)
    group = await aiozarr.create_group(remote)

    def overtake(operation: str, key: str) -> None:
        if operation == "set":
            remote.held.set_now(key, bytes(remote.held.fetch_now(key).data))

    remote.hook = overtake
    with pytest.raises(aiozarr.PreconditionFailedError):
        await group.update_attributes({"a": 1})
