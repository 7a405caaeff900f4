"""A store of aiozarr as zarr-python's. Its own suite of stores runs in tests/interop/test_zarr_store.py."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.core.buffer import cpu

import aiozarr
from aiozarr import stores
from aiozarr.integrations.zarr import Store
from aiozarr.integrations.zarr.store import range_of
from aiozarr.model import Range, Suffix
from aiozarr.testing.fakes import FakeStore


def buffer(data: bytes) -> cpu.Buffer:
    return cpu.Buffer.from_bytes(data)


@pytest.mark.parametrize(
    "pipeline", ["aiozarr.integrations.zarr.CodecPipeline", "zarr.core.codec_pipeline.BatchedCodecPipeline"]
)
def test_a_hierarchy_is_written_and_read(pipeline: str, tmp_path: Path) -> None:
    with zarr.config.set({"codec_pipeline.path": pipeline}):
        store = Store(stores.LocalStore(tmp_path))
        group = zarr.create_group(store)
        group.create_array("a/b", shape=(5,), chunks=(2,), dtype="i4")[...] = np.arange(5)
        found = zarr.open_group(Store(stores.LocalStore(tmp_path)), mode="r")
        assert found["a/b"][...].tolist() == [0, 1, 2, 3, 4]
        assert [name for name, _ in found.members(max_depth=None)] == ["a", "a/b"]


async def test_requests_are_repeated_and_recorded() -> None:
    inner = FakeStore(latency=0)
    store = Store(inner)
    with aiozarr.record() as report:
        await store.set("a", buffer(b"12345"))
        found = await store.get("a", cpu.buffer_prototype)
    assert found is not None
    assert found.to_bytes() == b"12345"
    assert report.requests == 2


async def test_several_ranges_are_read_at_once() -> None:
    store = Store(stores.MemoryStore())
    await store.set("a", buffer(b"0123456789"))
    wanted = [
        ("a", RangeByteRequest(1, 3)),
        ("a", OffsetByteRequest(8)),
        ("b", None),
        ("a", SuffixByteRequest(1)),
        ("", None),
    ]
    found = await store.get_partial_values(cpu.buffer_prototype, wanted)
    assert [None if each is None else each.to_bytes() for each in found] == [b"12", b"89", None, b"9", None]


async def test_sizes() -> None:
    store = Store(stores.MemoryStore())
    await store.set("a/b", buffer(b"0123"))
    await store.set("a/c", buffer(b"01"))
    assert await store.getsize("a/b") == 4
    assert await store.getsize_prefix("a") == 6
    assert await store.is_empty("b")
    assert not await store.is_empty("a")
    for key in ("missing", "", "a//b"):
        with pytest.raises(FileNotFoundError):
            await store.getsize(key)
        assert not await store.exists(key)


@pytest.mark.parametrize("conditional", [True, False])
async def test_a_value_is_set_only_if_there_is_none(conditional: bool) -> None:
    from dataclasses import replace

    inner = stores.MemoryStore()
    inner.supports = replace(inner.supports, conditional_writes=conditional)
    store = Store(inner)
    for data in (b"first", b"second"):
        await store.set_if_not_exists("a", buffer(data))
    assert bytes(await inner.get("a") or b"") == b"first"


def test_blocking_operations() -> None:
    store = Store(stores.MemoryStore())
    store.set_sync("a", buffer(b"0123"))
    found = store.get_sync("a", byte_range=RangeByteRequest(1, 3))
    assert found is not None
    assert found.to_bytes() == b"12"
    store.delete_sync("a")
    assert store.get_sync("a") is None


async def test_a_read_only_store_refuses_changes() -> None:
    store = Store(stores.MemoryStore()).with_read_only(True)
    changes: list[Any] = [
        store.set("a", buffer(b"")),
        store.delete("a"),
        store.delete_dir("a"),
        store.set_if_not_exists("a", buffer(b"")),
    ]
    for change in changes:
        with pytest.raises(ValueError, match="read-only"):
            await change


def test_equality_text_and_pickles(tmp_path: Path) -> None:
    store = Store(stores.LocalStore(tmp_path))
    assert pickle.loads(pickle.dumps(store)) == store
    assert store != Store(stores.LocalStore(tmp_path), read_only=True)
    assert store != Store(stores.LocalStore(tmp_path / "a"))
    assert str(store) == f"file://{tmp_path}"
    assert repr(store) == f"Store(LocalStore({str(tmp_path)!r}))"
    assert (store.supports_writes, store.supports_listing, store.supports_deletes) == (True, True, True)


async def test_wrong_arguments_are_type_errors() -> None:
    with pytest.raises(TypeError, match="an aiozarr store"):
        Store("memory://a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a zarr-python Buffer"):
        await Store(stores.MemoryStore()).set("a", b"bytes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Unexpected byte_range"):
        range_of((1, 2))  # type: ignore[arg-type]
    assert range_of(SuffixByteRequest(3)) == Suffix(3)
    assert range_of(OffsetByteRequest(3)) == Range(3, None)
