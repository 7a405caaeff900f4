"""`verify` and `validate` as functions; tests/unit/cli tests what they find."""

from __future__ import annotations

import math

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import MemoryStore, PrefixStore


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
