"""The store of virtual references: what it reads, what it refuses, and which errors name the objects."""

from __future__ import annotations

import base64
import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.errors import ChangedError, DanglingReferenceError, LimitError, PermissionDeniedError, StoreError
from aiozarr.stores import LocalStore, MemoryStore, Range, Store, Suffix, from_references, from_url
from tests.support.servers.http_replies import Reply
from tests.support.servers.http_server import FaultServer

VALUES = np.arange(10_000, dtype="i4").reshape(100, 100)


async def packed(**options: Any) -> tuple[dict[str, Any], bytes]:
    """Return the references of an array to one object at `@`, and the bytes of the object."""
    source = MemoryStore()
    await aiozarr.create_array(source, "t2m", data=VALUES, **({"chunks": (10, 10)} | options))
    references: dict[str, Any] = {}
    blob = bytearray(b"before")
    for key in sorted(await source.list()):
        data = bytes(memoryview(await source.get(key) or b""))
        if key.endswith(("json", ".zarray", ".zattrs", ".zgroup")):
            references[key] = data.decode()
        else:
            references[key] = ["@", len(blob), len(data)]
            blob += data
    return references, bytes(blob) + b"after"


def named(references: dict[str, Any], url: str) -> dict[str, Any]:
    """Return references to `url`."""
    return {key: [url, *each[1:]] if isinstance(each, list) else each for key, each in references.items()}


async def write(folder: Path, **options: Any) -> Path:
    references, blob = await packed(**options)
    (folder / "blob").write_bytes(blob)
    path = folder / "refs.json"
    path.write_text(json.dumps({"version": 1, "refs": named(references, f"file://{folder}/blob")}))
    return path


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"zarr_format": 2},
        {"shards": (50, 50)},
        {"codecs": []},
        {"shards": (50, 50), "codecs": []},
        {"chunks": (100, 100)},
    ],
    ids=str,
)
async def test_arrays_are_read_where_references_point(tmp_path: Path, options: dict[str, Any]) -> None:
    path = await write(tmp_path, **options)
    for target in (path, str(path), path.as_uri(), json.loads(path.read_text())):
        resolve = {f"file://{tmp_path}/": {}} if isinstance(target, dict) else None
        array = await aiozarr.open_array(from_references(target, resolve=resolve), "t2m")
        assert (await array[...] == VALUES).all()
        assert (await array[3:60:7, 5] == VALUES[3:60:7, 5]).all()


async def test_the_url_of_a_node_opens_it_with_the_references(tmp_path: Path) -> None:
    path = await write(tmp_path)
    group = await aiozarr.open_group(f"reference::{path.as_uri()}")
    array = await group.open("t2m")
    assert isinstance(array, aiozarr.Array)
    assert array.url == f"reference::{path.as_uri()}!/t2m"
    again = await aiozarr.open_array(array.url)
    assert (await again[...] == VALUES).all()
    inside = await aiozarr.open_array("reference://t2m", storage_options={"fo": str(path)})
    assert (await inside[7, 7]).item() == VALUES[7, 7]


async def test_inlined_values_are_read_in_ranges(tmp_path: Path) -> None:
    references = {
        "small": "base64:" + base64.b64encode(b"0123456789").decode(),
        "text": "é",
        "a/zarr.json": {"zarr_format": 3},
        "empty": "",
    }
    store = from_references({"version": 1, "refs": references})
    cases = {None: b"0123456789", Range(2, 3): b"234", Range(8, 9): b"89", Range(50, 1): b"", Suffix(3): b"789"}
    for part, expected in cases.items():
        value = await store.fetch("small", part)
        assert value is not None
        assert (bytes(memoryview(value.data)), value.size) == (expected, 10)
    assert bytes(memoryview(await store.get("text") or b"")) == "é".encode()
    assert json.loads(bytes(memoryview(await store.get("a/zarr.json") or b""))) == {"zarr_format": 3}
    assert await store.get("missing") is None
    assert sorted(await store.list()) == sorted(references)
    assert await store.list_dir("") == (["empty", "small", "text"], ["a/"])
    with pytest.raises(StoreError):
        await store.set("x", b"")


async def test_a_reference_to_a_whole_object_has_its_size() -> None:
    with FaultServer({"a b.nc": b"all of it"}) as server:
        server.put("refs.json", json.dumps({"c/0": [f"{server.url}/a%20b.nc"], "c/1": ["{{u}}/x", 1, 2]}).encode())
        store = from_references(f"{server.url}/refs.json")
        assert bytes(memoryview(await store.get("c/0") or b"")) == b"all of it"
        assert sorted(await store.list()) == ["c/0", "c/1"]
        entry = await store.stat("c/0")
        assert entry is not None
        assert entry.size == 9
        value = await store.fetch("c/0", Suffix(2))
        assert value is not None
        assert (bytes(memoryview(value.data)), value.size) == (b"it", 9)
        with pytest.raises(PermissionDeniedError):
            await store.get("c/1")  # a document of version 0 has no templates: this is a path


async def test_no_byte_beyond_a_reference_is_requested() -> None:
    references, blob = await packed(shards=(50, 50))
    with FaultServer({"blob": blob}) as server:
        server.put("refs.json", json.dumps(named(references, f"{server.url}/blob")).encode())
        array = await aiozarr.open_array(f"reference::{server.url}/refs.json", "t2m")
        assert (await array[...] == VALUES).all()
        assert (await array[12, 3:80] == VALUES[12, 3:80]).all()
        ends = {each[1] + each[2] for each in references.values() if isinstance(each, list)}
        starts = {each[1] for each in references.values() if isinstance(each, list)}
        ranges = [each.headers["range"].removeprefix("bytes=") for each in server.requests if each.key == "blob"]
        assert ranges
        for start, stop in [tuple(map(int, each.split("-"))) for each in ranges]:
            assert min(starts) <= start <= stop < max(ends)


@pytest.mark.parametrize("change", ["missing", "shorter"])
async def test_a_dead_target_is_an_error_and_not_the_fill_value(tmp_path: Path, change: str) -> None:
    path = await write(tmp_path)
    array = await aiozarr.open_array(from_references(path), "t2m")
    if change == "missing":
        (tmp_path / "blob").unlink()
    else:
        os.truncate(tmp_path / "blob", 100)
    with pytest.raises(DanglingReferenceError) as raised:
        await array[...]
    assert raised.value.target == f"file://{tmp_path}/blob"
    assert raised.value.key is not None
    assert raised.value.key.startswith("t2m/c/")
    assert f"reference to file://{tmp_path}/blob" in str(raised.value)


@pytest.mark.parametrize("status", [403, 404])
async def test_no_setting_reads_a_dead_target_as_missing(status: int) -> None:
    references, _ = await packed()
    with FaultServer() as server:
        server.put("refs.json", json.dumps(named(references, f"{server.url}/blob")).encode())
        server.script = lambda request, reply: Reply(status) if request.key == "blob" else reply
        settings = aiozarr.Settings(missing_status=(403,), retries=0)
        array = await aiozarr.open_array(f"reference::{server.url}/refs.json", "t2m", settings=settings)
        with pytest.raises(DanglingReferenceError if status == 404 else PermissionDeniedError) as raised:
            await array[0, 0]
        assert raised.value.target == f"{server.url}/blob"


async def test_an_absent_reference_is_the_fill_value(tmp_path: Path) -> None:
    path = await write(tmp_path)
    document = json.loads(path.read_text())
    del document["refs"]["t2m/c/1/1"]
    path.write_text(json.dumps(document))
    array = await aiozarr.open_array(from_references(path), "t2m")
    expected = VALUES.copy()
    expected[10:20, 10:20] = 0
    assert (await array[...] == expected).all()


async def test_a_replaced_target_is_an_error(tmp_path: Path) -> None:
    path = await write(tmp_path)
    array = await aiozarr.open_array(from_references(path), "t2m")
    assert (await array[0]).tolist() == VALUES[0].tolist()
    blob = (tmp_path / "blob").read_bytes()
    (tmp_path / "new").write_bytes(blob)
    (tmp_path / "new").replace(tmp_path / "blob")
    with pytest.raises(ChangedError) as raised:
        await array[50]
    assert raised.value.target == f"file://{tmp_path}/blob"
    again = await aiozarr.open_array(from_references(path), "t2m")
    assert (await again[50]).tolist() == VALUES[50].tolist()


async def test_a_store_is_given_for_a_prefix() -> None:
    references, blob = await packed()
    store = MemoryStore()
    await store.set("data/blob", blob)
    table = named(references, "s3://archive/2026/data/blob")
    with pytest.raises(PermissionDeniedError, match="'s3://archive/2026/data/blob', which is outside the origin"):
        await from_references(table).get("t2m/c/0/0")
    array = await aiozarr.open_array(from_references(table, resolve={"s3://archive/2026/": store}), "t2m")
    assert (await array[...] == VALUES).all()
    assert await store.exists("data/blob")  # it was not closed with the array


async def test_a_pickled_store_reads_the_same(tmp_path: Path) -> None:
    path = await write(tmp_path)
    for store in (from_references(path), from_references(json.loads(path.read_text()), resolve={f"{tmp_path}/": None})):
        first = bytes(memoryview(await store.get("t2m/c/0/0") or b""))
        again: Store = pickle.loads(pickle.dumps(store))
        assert again == store
        assert bytes(memoryview(await again.get("t2m/c/0/0") or b"")) == first


@pytest.mark.parametrize("document", [[], 7, None])
def test_references_are_a_url_a_path_or_a_mapping(document: Any) -> None:
    with pytest.raises(TypeError, match="references must be a URL, a path or a mapping"):
        from_references(document)


@pytest.mark.parametrize("resolve", ["s3://bucket/", ["s3://bucket/"], {"s3://bucket/": 3}, {3: {}}])
def test_resolve_maps_prefixes_to_options_or_stores(resolve: Any) -> None:
    with pytest.raises(TypeError, match="resolve must map URL prefixes to storage options"):
        from_references({}, resolve=resolve)


async def test_a_missing_document_is_an_error(tmp_path: Path) -> None:
    for target in (tmp_path / "none.json", tmp_path / "none.parquet"):
        with pytest.raises(StoreError, match="there is no document of references"):
            await from_references(target).get("zarr.json")


async def test_values_are_within_the_limit_of_the_caller(tmp_path: Path) -> None:
    store = from_references(await write(tmp_path))
    with pytest.raises(LimitError):
        await store.fetch("t2m/c/0/0", max_bytes=3)
    with pytest.raises(LimitError):
        await store.fetch("t2m/zarr.json", max_bytes=3)


async def test_a_copy_of_a_virtual_store_is_a_store_of_its_own(tmp_path: Path) -> None:
    path = await write(tmp_path, chunks=(50, 50))
    copy = LocalStore(tmp_path / "copy.zarr")
    await aiozarr.copy(from_references(path), copy)
    (tmp_path / "blob").unlink()
    array = await aiozarr.open_array(copy, "t2m")
    assert (await array[...] == VALUES).all()


def test_the_url_of_references_needs_a_document() -> None:
    for url in ("reference://", "reference://x", "reference::"):
        with pytest.raises(TypeError, match="'fo'"):
            from_url(url)
