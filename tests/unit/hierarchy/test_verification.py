"""`verify` and `validate` as functions; tests/unit/cli tests what they find."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.model import Value
from aiozarr.stores import MemoryStore, PrefixStore
from aiozarr.stores.wrapper_store import WrapperStore


@pytest.fixture
async def tree() -> MemoryStore:
    store = MemoryStore()
    group = await aiozarr.create_group(store)
    await group.create_array("a", data=np.arange(4.0), chunks=(2,), codecs=["zstd"])
    await group.create_array("b", data=np.arange(3), chunks=(2,))
    await store.set("a/c/1", b"garbage")
    return store


async def test_verify_names_bad_objects_and_counts_the_others(tree: MemoryStore) -> None:
    seen: list[aiozarr.Progress] = []
    report = await aiozarr.verify(tree, progress=seen.append)
    assert [(bad.array, bad.key, bad.problem) for bad in report.bad] == [("a", "a/c/1", "chunk")]
    assert (report.arrays, report.objects, report.missing, report.outside) == (2, 4, 0, [])
    assert seen[-1].done <= 4
    assert (await aiozarr.verify(tree, "b")).bad == []
    blocking = aiozarr.sync.verify(tree)
    assert (blocking.bad, blocking.bytes) == (report.bad, report.bytes)


async def test_validate_has_a_finding_for_each_fault(tree: MemoryStore) -> None:
    assert (await aiozarr.validate(tree)).findings == []
    await tree.set("b/zarr.json", b"{")
    report = await aiozarr.validate(tree)
    assert [(finding.severity, finding.path) for finding in report.findings] == [("error", "b")]
    assert (report.nodes, report.count("error"), report.count("note")) == (3, 1, 0)
    assert aiozarr.sync.validate(tree) == report


async def test_validate_names_what_other_readers_do_not_find(memory: MemoryStore) -> None:
    await aiozarr.create_group(memory)
    for path in ("old", "folder/old", "plate/0"):
        await aiozarr.create_array(PrefixStore(memory, path), shape=2, dtype="i4", zarr_format=2)
    await memory.set("plate/.zattrs", b'{"multiscales": [1]}')
    assert [(found.severity, found.rule, found.path) for found in (await aiozarr.validate(memory)).findings] == [
        ("note", "implicit", "folder"),
        ("warning", "formats", "folder"),
        ("warning", "formats", "old"),
        ("note", "implicit", "plate"),
        ("warning", "formats", "plate"),
    ]
    [note] = (await aiozarr.validate(memory, "plate")).findings
    assert note.message.startswith("a group of attributes without a document")


async def test_what_is_not_there_or_takes_too_long_is_an_error(tree: MemoryStore) -> None:
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.verify(tree, "none")
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.validate(tree, "none")

    def fail(progress: aiozarr.Progress) -> None:
        raise ArithmeticError(math.inf)

    with pytest.raises(ArithmeticError):
        await aiozarr.verify(tree, progress=fail)


class GhostStore(WrapperStore):
    """A store whose listing names an object that it does not have any more."""

    async def fetch(self, key: str, *args: Any, **options: Any) -> Value | None:
        return None if key.endswith("c/1") else await super().fetch(key, *args, **options)


@pytest.mark.parametrize("shards", [None, (4,)])
async def test_an_object_that_is_listed_and_gone_is_bad(shards: tuple[int, ...] | None) -> None:
    store = GhostStore(MemoryStore())
    await aiozarr.create_array(store, data=np.arange(1, 9), chunks=(2,), shards=shards)
    report = await aiozarr.verify(store)
    assert [(bad.key, bad.problem) for bad in report.bad] == [("c/1", "store")]
    assert "says that it is not stored" in report.bad[0].error
    assert report.objects == (3 if shards is None else 1)


async def test_inner_chunks_that_are_not_stored_are_not_bad() -> None:
    store = MemoryStore()
    array = await aiozarr.create_array(store, shape=(8,), dtype="i4", chunks=(2,), shards=(4,))
    await array[:2].write(1)
    report = await aiozarr.verify(store)
    assert (report.bad, report.objects, report.missing) == ([], 1, 1)
