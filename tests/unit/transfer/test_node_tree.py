"""Copies from web servers, which list nothing: by the metadata of the arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import LocalStore, MemoryStore, Store
from tests.support.servers.http_server import FaultServer

VALUES = np.arange(50 * 20, dtype="i4").reshape(50, 20)


async def weather(store: Store, zarr_format: int = 3) -> Store:
    """A group with coordinates, two fields and consolidated metadata."""
    await aiozarr.create_group(store, attributes={"title": "weather"}, zarr_format=zarr_format)

    async def make(name: str, data: Any, dims: tuple[str, ...], chunks: Any, **more: Any) -> None:
        names: dict[str, Any] = {"dimension_names": dims}
        if zarr_format == 2:
            names = {"attributes": {"_ARRAY_DIMENSIONS": list(dims), **more.pop("attributes", {})}}
        await aiozarr.create_array(store, name, data=data, chunks=chunks, zarr_format=zarr_format, **names, **more)

    units = {"attributes": {"units": "hours since 2020-01-01"}}
    await make("time", np.arange(50) * 6, ("time",), (10,), **units)
    await make("lat", np.linspace(95, -95, 20), ("lat",), (20,))
    await make("t2m", VALUES, ("time", "lat"), (10, 5))
    await make("scale", np.float64(3.0), (), ())
    await aiozarr.consolidate_metadata(store)
    return store


async def stored(store: Store) -> dict[str, bytes]:
    return {key: bytes(value) for key in await store.list() if (value := await store.get(key)) is not None}


async def served(source: MemoryStore) -> FaultServer:
    server = FaultServer()
    for key, data in (await stored(source)).items():
        server.put(f"w.zarr/{key}", data)
    return server


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_all_objects_of_a_consolidated_hierarchy_are_copied(tmp_path: Path, zarr_format: int) -> None:
    source: Any = await weather(MemoryStore(), zarr_format)
    missing = "t2m/c/1/1" if zarr_format == 3 else "t2m/1.1"
    await source.erase(missing)
    expected = await stored(source)
    with await served(source) as server:
        for target in (LocalStore(tmp_path / "copy"), MemoryStore()):
            report = await aiozarr.copy(f"{server.url}/w.zarr", target)
            assert await stored(target) == expected
            assert (report.missing_chunks, report.objects, report.failed) == (1, len(expected), ())
            assert report.bytes == sum(map(len, expected.values()))
        again = await aiozarr.copy(f"{server.url}/w.zarr", tmp_path / "copy", dry_run=True, overwrite=True)
        assert again.objects == len(expected) + 1


async def test_a_node_is_copied_by_the_metadata_of_a_group_above(tmp_path: Path) -> None:
    source: Any = MemoryStore()
    await aiozarr.create_group(source)
    await aiozarr.create_array(source, "a/b/x", data=VALUES, chunks=(10, 5))
    await aiozarr.consolidate_metadata(source)
    with await served(source) as server:
        for number, (url, path, copied) in enumerate(
            [("w.zarr/a/b", "", "x"), ("w.zarr", "a", "b/x"), ("w.zarr/a/b/x", "", "")]
        ):
            target = tmp_path / f"{number}"
            await aiozarr.copy(f"{server.url}/{url}", target, path=path)
            assert np.array_equal(await (await aiozarr.open_array(target, copied))[...], VALUES)


async def test_a_group_without_consolidated_metadata_cannot_be_copied_from_a_web_server(tmp_path: Path) -> None:
    source: Any = MemoryStore()
    await aiozarr.create_group(source)
    await aiozarr.create_array(source, "x", data=VALUES)
    with await served(source) as server:
        with pytest.raises(aiozarr.UnsupportedOperationError, match="no consolidated metadata"):
            await aiozarr.copy(f"{server.url}/w.zarr", tmp_path / "x")
        with pytest.raises(aiozarr.NodeNotFoundError):
            await aiozarr.copy(f"{server.url}/other.zarr", tmp_path / "x")
    assert not (tmp_path / "x").exists()


async def test_a_document_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    source: Any = await weather(MemoryStore())
    with await served(source) as server:
        server.remove("w.zarr/lat/zarr.json")
        report = await aiozarr.copy(f"{server.url}/w.zarr", tmp_path / "x", on_error="continue")
    assert {key for key, _ in report.failed} == {"lat/zarr.json", "zarr.json"}
    assert not (tmp_path / "x" / "zarr.json").exists()


async def test_an_interrupted_copy_from_a_web_server_is_resumed(tmp_path: Path) -> None:
    source: Any = await weather(MemoryStore())
    with await served(source) as server:
        server.remove("w.zarr/lat/zarr.json")
        with pytest.raises(aiozarr.CopyError):
            await aiozarr.copy(f"{server.url}/w.zarr", tmp_path / "x")
        server.put("w.zarr/lat/zarr.json", (await stored(source))["lat/zarr.json"])
        report = await aiozarr.copy(f"{server.url}/w.zarr", tmp_path / "x", resume=True)
        assert report.skipped > 20
    assert await stored(LocalStore(tmp_path / "x")) == await stored(source)


@pytest.mark.parametrize("zarr_format", [2, 3])
async def test_a_repeated_copy_from_a_web_server_finds_nothing_left_to_do(tmp_path: Path, zarr_format: int) -> None:
    source: Any = await weather(MemoryStore(), zarr_format)
    chunk = "t2m/c/1/1" if zarr_format == 3 else "t2m/1.1"
    await source.erase(chunk)
    with await served(source) as server:
        url, target = f"{server.url}/w.zarr", tmp_path / "w.zarr"
        first = await aiozarr.copy(url, target)
        for options in ({"resume": True}, {"delete": True}, {"overwrite": True, "skip_equal": True}):
            again = await aiozarr.copy(url, target, **options)  # type: ignore[arg-type]
            assert (again.objects, again.skipped, again.deleted) == (0, first.objects, 0)
        server.put(f"w.zarr/{chunk}", b"new")
        with pytest.raises(aiozarr.CopyError, match="no journal"):
            await aiozarr.copy(url, target, resume=True)
        changed = next(key for key in await stored(source) if key.startswith("t2m/") and key[-1].isdigit())
        stale = target / changed
        stale.write_bytes(bytes(stale.stat().st_size))
        again = await aiozarr.copy(url, target, delete=True)
        assert (again.objects, again.skipped, again.deleted) == (2, first.objects - 1, 0)
        assert (target / chunk).read_bytes() == b"new"
        assert stale.read_bytes() != bytes(stale.stat().st_size)
