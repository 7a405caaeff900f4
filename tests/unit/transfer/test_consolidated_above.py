"""Copies below groups with consolidated metadata: found in few requests, and current after every copy."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.engine import Engine, InlinePool
from aiozarr.errors import CopyError, PermissionDeniedError, StoreError, UnauthenticatedError
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores import LocalStore, MemoryStore, ObjectStore, PrefixStore, Store
from aiozarr.testing.fakes import FakeStore
from aiozarr.testing.virtual_time import run_virtual
from aiozarr.transfer.journal import checksum_of, is_journal_key
from aiozarr.transfer.replaced_nodes import has_consolidated_above
from aiozarr.transfer.sync_record import RECORD_KEY
from tests.support.consolidated_trees import COPIES, FORMATS, TREE, consolidated_tree, copies
from tests.support.servers.moto import LocalS3

VALUES = np.arange(12, dtype="f4").reshape(3, 4)
ABOVE = ["zarr.json", ".zmetadata"]


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore()


async def new_array(zarr_format: int) -> Store:
    """An array that differs from `g/b` in shape, chunks and data type."""
    source = MemoryStore()
    await aiozarr.create_array(source, data=VALUES, chunks=(2, 2), zarr_format=zarr_format)
    return source


async def old_tree(store: Store, zarr_format: int) -> Store:
    """A consolidated tree, of which `g` is consolidated, too, and `g/b` has values."""
    root = await consolidated_tree(store, zarr_format)
    old = await root.open("g/b")
    assert isinstance(old, aiozarr.Array)
    await old[...].write(np.ones((2, 3)))
    if zarr_format == 3:
        # Consolidating the root keeps no copies of copies, so the group below comes last.
        await aiozarr.consolidate_metadata(store, "g")
    return store


def below(store: Store, path: str) -> Store:
    return store.child_store(path) or PrefixStore(store, path)


async def values_below(store: Store, path: str) -> Any:
    """The values as a reader of the consolidated group sees them."""
    group = await aiozarr.open_group(store)
    array = await group.open(path)
    assert isinstance(array, aiozarr.Array)
    return await array[...]


def looked_above(store: FakeStore) -> list[str]:
    return [call.key for call in store.calls if not call.key.startswith("x/")]


def found_above(values: dict[str, bytes], root: str, **options: Any) -> tuple[bool, FakeStore]:
    store = FakeStore(values, **options)

    async def find() -> bool:
        engine = Engine(asyncio.get_running_loop(), InlinePool())
        return await has_consolidated_above(engine, PrefixStore(store, root), Settings(), Report())

    return run_virtual(find()), store


GROUP = b'{"zarr_format": 3, "node_type": "group"}'
CONSOLIDATED = b'{"zarr_format": 3, "node_type": "group", "consolidated_metadata": {"metadata": {}}}'
SENTINEL = b'{"zarr_format": 3, "node_type": "group", "consolidated_metadata": null}'
ARRAY = b'{"zarr_format": 3, "node_type": "array", "consolidated_metadata": {}}'


# --- the search ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "root", "found"),
    [
        ({}, "a/b/c", False),
        ({"a/b/zarr.json": b"no JSON", "a/zarr.json": ARRAY}, "a/b/c", False),
        ({"zarr.json": CONSOLIDATED}, "a", True),
        ({"zarr.json": SENTINEL}, "a", True),
        ({"zarr.json": CONSOLIDATED}, "a/b", True),  # without a document between
        ({"zarr.json": CONSOLIDATED, "a/zarr.json": GROUP}, "a/b", True),
        ({".zgroup": b"{}"}, "a", False),
        ({".zgroup": b"{}", ".zmetadata": b"{}"}, "a", True),
        ({".zgroup": b"{}", ".zmetadata": b"{}"}, "a/b/c", True),
    ],
)
def test_two_documents_of_each_level_above_are_looked_at_in_one_round_trip(
    values: dict[str, bytes], root: str, found: bool
) -> None:
    result, store = found_above(values, root)
    assert (result, store.count, store.rounds) == (found, 2 * len(root.split("/")), 1)


@pytest.mark.parametrize("error", [PermissionDeniedError("no"), UnauthenticatedError("no")])
def test_what_may_not_be_read_counts_as_none(error: Exception) -> None:
    assert not found_above({"zarr.json": CONSOLIDATED}, "a", faults=lambda call: error)[0]
    values = {".zgroup": b"{}", ".zmetadata": b"{}"}
    assert not found_above(values, "a", faults=lambda call: error if call.operation == "stat" else None)[0]


def test_a_document_above_that_fails_is_an_error_because_it_may_become_wrong() -> None:
    with pytest.raises(StoreError, match="no"):
        found_above({"zarr.json": CONSOLIDATED}, "a", faults=lambda call: StoreError("no"))


# --- what an ordinary copy costs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("overwrite", [False, True])
async def test_an_ordinary_copy_looks_at_two_documents_while_it_lists_the_destination(overwrite: bool) -> None:
    source = await new_array(3)
    store = FakeStore()
    report = await aiozarr.copy(source, PrefixStore(store, "x"), overwrite=overwrite)
    assert report.objects == 5
    assert sorted(looked_above(store)) == sorted(ABOVE)
    listing, *others = [call for call in store.calls if call.operation == "scan" or call.key in ABOVE]
    assert max(call.started for call in others[:2]) < (listing.ended or 0)
    store.reset()
    await aiozarr.copy(source, PrefixStore(store, "x"), overwrite=True, dry_run=True)
    assert not looked_above(store)


@pytest.mark.parametrize("document", [None, GROUP], ids=["folder", "group"])
def test_without_consolidated_metadata_above_a_copy_imports_no_numpy(tmp_path: Path, document: bytes | None) -> None:
    source = LocalStore(tmp_path / "from")
    source.set_now("zarr.json", b"{}")
    if document is not None:
        LocalStore(tmp_path).set_now("zarr.json", document)
    script = "import aiozarr, asyncio, sys; asyncio.run(aiozarr.copy('from', 'to')); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "False\n", done.stderr


# --- copies below consolidated groups --------------------------------------------------------------------------------


@FORMATS
@pytest.mark.parametrize("kind", ["memory", "local", "fake", "s3"])
@pytest.mark.parametrize("options", [{"overwrite": True}, {"delete": True}], ids=["overwrite", "delete"])
async def test_a_copied_array_is_in_the_consolidated_metadata_above(
    tmp_path: Path, s3_server: LocalS3, zarr_format: int, kind: str, options: dict[str, bool]
) -> None:
    bucket = f"above-{zarr_format}-{'-'.join(options)}"
    if kind == "s3":
        s3_server.create_bucket(bucket)
    stores: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "local": lambda: LocalStore(tmp_path),
        "fake": FakeStore,
        "s3": lambda: ObjectStore(f"s3://{bucket}", **s3_server.storage_options),
    }
    async with stores[kind]() as store:
        await old_tree(store, zarr_format)
        opened = await aiozarr.open_group(store)
        await aiozarr.copy(await new_array(zarr_format), below(store, "g/b"), **options)
        assert await copies(store, zarr_format) == TREE | {"g/b": [3, 4]}
        if zarr_format == 3:
            assert await copies(store, zarr_format, "g") == {"b": [3, 4], "h": None}
        assert np.array_equal(await values_below(store, "g/b"), VALUES)
        # A group of this process that was opened before sees it, too.
        reopened = await opened.open("g/b")
        assert isinstance(reopened, aiozarr.Array)
        assert np.array_equal(await reopened[...], VALUES)
        assert not [key for key in await store.list() if is_journal_key(key) and not key.endswith(RECORD_KEY)]


@FORMATS
async def test_a_copied_group_takes_the_place_of_the_older_one(memory: MemoryStore, zarr_format: int) -> None:
    await consolidated_tree(memory, zarr_format)
    source = MemoryStore()
    group = await aiozarr.create_group(source, zarr_format=zarr_format)
    await group.create_array("b", data=VALUES)
    await group.create_array("k/l", data=VALUES)
    new = {"g/b": [3, 4], "g/k": None, "g/k/l": [3, 4]}
    await aiozarr.copy(source, below(memory, "g"), overwrite=True)
    assert await copies(memory, zarr_format) == TREE | new
    await aiozarr.copy(source, below(memory, "g"), delete=True)
    assert await copies(memory, zarr_format) == {"a": [4], "g": None} | new
    await aiozarr.copy(source, below(memory, "m"), include="k/*")
    between = {"m": None, "m/k": None, "m/k/l": [3, 4]}
    assert await copies(memory, zarr_format) == {"a": [4], "g": None} | between | new


async def test_a_mirror_that_is_up_to_date_leaves_the_group_alone(tmp_path: Path) -> None:
    store = await consolidated_tree(LocalStore(tmp_path), 3)
    source = MemoryStore()
    group = await aiozarr.create_group(source)
    await group.create_array("b", data=VALUES)
    await aiozarr.copy(source, tmp_path / "g", delete=True)
    document = tmp_path / "zarr.json"
    before = document.stat()
    report = await aiozarr.copy(source, tmp_path / "g", delete=True)
    assert (report.objects, document.stat()) == (0, before)
    # A mirror that only deletes changes it.
    await store.create_group("g/h")
    report = await aiozarr.copy(source, tmp_path / "g", delete=True)
    assert (report.objects, report.deleted) == (0, 1)
    assert await copies(LocalStore(tmp_path), 3) == {"a": [4], "g": None, "g/b": [3, 4]}


async def test_a_node_of_another_format_leaves_the_consolidated_metadata(memory: MemoryStore) -> None:
    await consolidated_tree(memory, 2)
    await aiozarr.copy(await new_array(3), below(memory, "g/b"), delete=True)
    assert await copies(memory, 2) == {name: shape for name, shape in TREE.items() if name != "g/b"}


async def test_copies_into_one_consolidated_group_are_all_in_its_metadata(memory: MemoryStore) -> None:
    await consolidated_tree(memory, 3)
    source = await new_array(3)
    names = [f"g/n{n}" for n in range(4)]
    async with asyncio.timeout(60):
        await asyncio.gather(
            *[aiozarr.copy(source, below(memory, name)) for name in names],
            aiozarr.create_array(memory, "new", shape=1, dtype="u1"),
        )
    assert await copies(memory, 3) == TREE | {"new": [1]} | {name: [3, 4] for name in names}


async def test_a_store_with_its_own_consolidated_metadata_is_copied_as_it_is(memory: MemoryStore) -> None:
    source, target = await old_tree(MemoryStore(), 3), FakeStore()
    await aiozarr.copy(source, PrefixStore(target, "x"))
    assert bytes(await target.memory.get("x/zarr.json") or b"") == bytes(await source.get("zarr.json") or b"")
    assert [call.key for call in target.calls if call.operation == "set"][-1] == "x/zarr.json"


# --- copies that stop ------------------------------------------------------------------------------------------------


async def interrupted(zarr_format: int, stops: Callable[[Any], bool], **options: Any) -> tuple[FakeStore, Store]:
    """A tree, and the source of a copy to `g/b` that stopped where `stops` was true of a call."""
    store = FakeStore(latency=0)
    await old_tree(store, zarr_format)
    source = await new_array(zarr_format)
    store.faults = lambda call: PermissionDeniedError("no") if stops(call) else None
    with pytest.raises(CopyError):
        await aiozarr.copy(source, PrefixStore(store, "g/b"), **options)
    store.faults = None
    return store, source


def at_data(call: Any) -> bool:
    return bool(call.operation == "set" and call.key in ("g/b/c/1/1", "g/b/1.1"))


def at_document(call: Any) -> bool:
    return bool(call.operation == "set" and call.key in ("g/b/zarr.json", "g/b/.zarray"))


class AtRewriting:
    """True of the calls that store consolidated metadata anew: in format 3 the second one for each group."""

    def __init__(self, zarr_format: int) -> None:
        self._allowed = 0 if zarr_format == 2 else 1
        self._keys: list[str] = []

    def __call__(self, call: Any) -> bool:
        if call.operation != "set" or call.key not in (".zmetadata", "zarr.json", "g/zarr.json"):
            return False
        self._keys.append(call.key)
        return self._keys.count(call.key) > self._allowed


@FORMATS
@pytest.mark.parametrize("stop", ["data", "document", "rewriting"])
@pytest.mark.parametrize("then", ["resume", "overwrite"])
async def test_an_interrupted_copy_leaves_none_and_the_next_one_completes_them(
    zarr_format: int, stop: str, then: str
) -> None:
    stops = {"data": at_data, "document": at_document, "rewriting": AtRewriting(zarr_format)}[stop]
    store, source = await interrupted(zarr_format, stops, overwrite=True)
    assert await copies(store, zarr_format) is None
    # Readers read the nodes themselves; the copied one is there whole or not at all.
    group = await aiozarr.open_group(store)
    assert sorted([name async for name, _ in group.members()]) == ["a", "g"]
    if stop != "rewriting":
        with pytest.raises(aiozarr.NodeNotFoundError):
            await group.open("g/b")
    for _ in range(2):  # the second one has nothing to do
        await aiozarr.copy(source, PrefixStore(store, "g/b"), overwrite=True, resume=then == "resume")
        assert await copies(store, zarr_format) == TREE | {"g/b": [3, 4]}
        assert np.array_equal(await values_below(store, "g/b"), VALUES)
    if zarr_format == 3:
        assert await copies(store, zarr_format, "g") == {"b": [3, 4], "h": None}
    assert not [key for key in await store.memory.list() if is_journal_key(key) and not key.endswith(RECORD_KEY)]


@FORMATS
async def test_a_killed_copy_is_completed_by_a_resumed_one(tmp_path: Path, zarr_format: int) -> None:
    store = LocalStore(tmp_path / "tree")
    await old_tree(store, zarr_format)
    source = await new_array(zarr_format)
    await aiozarr.copy(source, tmp_path / "from")
    script = """
import asyncio, os, signal, aiozarr
killed = lambda progress: os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(aiozarr.copy("from", "tree/g/b", overwrite=True, progress=killed))
"""
    command = [sys.executable, "-c", script]
    done = await asyncio.to_thread(subprocess.run, command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    assert await copies(store, zarr_format) is None
    await aiozarr.copy(tmp_path / "from", tmp_path / "tree/g/b", overwrite=True, resume=True)
    assert await copies(store, zarr_format) == TREE | {"g/b": [3, 4]}
    assert np.array_equal(await values_below(store, "g/b"), VALUES)


async def test_a_copy_that_changes_nothing_invalidates_nothing() -> None:
    store = FakeStore(latency=0)
    await old_tree(store, 3)
    before = await store.memory.fetch("zarr.json")
    with pytest.raises(aiozarr.NodeNotFoundError):
        await aiozarr.copy(MemoryStore(), PrefixStore(store, "g/b"), overwrite=True)
    with pytest.raises(CopyError, match="already contains"):
        await aiozarr.copy(await new_array(3), PrefixStore(store, "g/b"))
    await aiozarr.copy(await new_array(3), PrefixStore(store, "g/b"), delete=True, dry_run=True)
    assert await store.memory.fetch("zarr.json") == before


@FORMATS
async def test_objects_that_failed_leave_the_groups_to_a_resumed_copy(zarr_format: int) -> None:
    store = FakeStore(latency=0)
    await old_tree(store, zarr_format)
    source = await new_array(zarr_format)
    store.faults = lambda call: PermissionDeniedError("no") if at_data(call) else None
    report = await aiozarr.copy(source, PrefixStore(store, "g/b"), overwrite=True, on_error="continue")
    assert report.failed
    assert await copies(store, zarr_format) is None
    store.faults = None
    await aiozarr.copy(source, PrefixStore(store, "g/b"), resume=True)
    assert await copies(store, zarr_format) == TREE | {"g/b": [3, 4]}


@FORMATS
async def test_groups_that_may_not_be_changed_stop_the_copy_before_its_first_object(zarr_format: int) -> None:
    store, _ = await interrupted(
        zarr_format,
        lambda call: call.operation in ("set", "erase") and call.key == COPIES[zarr_format],
        overwrite=True,
    )
    assert await copies(store, zarr_format) == TREE
    assert np.array_equal(await values_below(store, "g/b"), np.ones((2, 3)))


async def test_a_damaged_record_of_groups_is_ignored() -> None:
    store, source = await interrupted(3, at_data, overwrite=True)
    key = "g/b/.aiozarr-copy~/copy.json"
    header = json.loads(bytes(await store.memory.get(key) or b""))
    assert header["invalidated"] == [[1, 3], [2, 3]]
    header["invalidated"] = [[1], "x", [0, 3], [1, 7], [99, 3], [2, 3]]
    del header["checksum"]
    header["checksum"] = checksum_of(header)
    await store.memory.set(key, json.dumps(header).encode())
    await aiozarr.copy(source, PrefixStore(store, "g/b"), resume=True)
    assert await copies(store, 3) == TREE | {"g/b": [3, 4]}
