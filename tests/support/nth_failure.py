"""The N-th failure: an operation meets a fault at each of its calls of a store, and is then repeated.

After the fault the store must be readable, each value old or new, and nothing under way. The repetition must leave what
a run without a fault leaves, byte for byte. Everything is seen through the public contracts of stores and arrays.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import tempfile
import zipfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import aiozarr
from aiozarr.errors import AiozarrError, NodeNotFoundError, NodeTypeError, StoreError, ThrottledError
from aiozarr.stores import BlockingStore, LocalStore, MemoryStore, ObjectStore, Store, ZipStore
from aiozarr.testing.fakes import FaultyStore
from aiozarr.testing.faults import Action, Call, Hang, LoseResponse, Plan, nth, since
from aiozarr.transfer.sync_record import RECORD_KEY
from tests.support.faulty_blocking_store import FaultyBlockingStore
from tests.support.leaks import unfinished_on_io_thread
from tests.support.servers.moto import LocalS3

Act: TypeAlias = Callable[[Store], Awaitable[Any]]
Objects: TypeAlias = dict[str, bytes]
NODE_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", "meta")
DOCUMENTS = (*NODE_DOCUMENTS, ".zattrs", ".zmetadata", "attrs")
SECONDS = 60.0
"""An operation that has not ended after these seconds never ends."""

# --- faults ----------------------------------------------------------------------------------------------------------

BROKEN = StoreError("the store is broken")
BUSY = ThrottledError("the store is busy")
BUSY_FOR_LONG = ThrottledError("the store is busy", retry_after=0.5)
REPEATED = StoreError("a request is repeated although the operation is cancelled")


@dataclass(frozen=True)
class Fault:
    """A kind of fault.

    Attributes:
        name: its name.
        plan: returns the plan of faults for the number of a call and the function that cancels the operation.
        ends_process: whether the process is gone: the repetition is another process's.
        is_retried: whether the operation succeeds in spite of the fault.
        needs_effect: whether it comes after the effect of a call: a read has none.
    """

    name: str
    plan: Callable[[int, Callable[[], object]], Plan]
    ends_process: bool = False
    is_retried: bool = False
    needs_effect: bool = False


def _gone_after(number: int) -> Plan:
    def plan(call: Call) -> Action:
        if call.number == number:
            return LoseResponse(BROKEN)
        return BROKEN if call.number > number else None

    return plan


def _busy_and_cancelled(number: int, cancel: Callable[[], object]) -> Plan:
    """The operation is cancelled when a call fails, and waits before the call is repeated."""
    calls: Counter[tuple[str, str]] = Counter()

    def plan(call: Call) -> Action:
        if call.number < number:
            return None
        if call.number == number:
            cancel()
        calls[call.operation, call.key] += 1
        # A third call is two pauses after the cancellation.
        return BUSY_FOR_LONG if calls[call.operation, call.key] < 3 else REPEATED

    return plan


def _hanging(number: int, cancel: Callable[[], object], *, takes_effect: bool) -> Plan:
    """Calls hang until the operation is cancelled. Later ones fail: each real store limits how long a call may last."""
    is_cancelled = False

    def hang() -> None:
        nonlocal is_cancelled
        is_cancelled = True
        cancel()

    def plan(call: Call) -> Action:
        if call.number < number:
            return None
        return BROKEN if is_cancelled else Hang(hang, takes_effect)

    return plan


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("error", lambda number, _: nth(number, BROKEN)),
        Fault("lasting error", lambda number, _: since(number, BROKEN)),
        Fault("lost response", lambda number, _: nth(number, LoseResponse(BROKEN)), needs_effect=True),
        Fault("lasting loss of responses", lambda number, _: since(number, LoseResponse(BROKEN)), needs_effect=True),
        Fault("hang", lambda number, cancel: nth(number, Hang(cancel))),
        Fault("lasting hang", partial(_hanging, takes_effect=False)),
        Fault(
            "hang after effect", lambda number, cancel: nth(number, Hang(cancel, takes_effect=True)), needs_effect=True
        ),
        Fault("lasting hang after effect", partial(_hanging, takes_effect=True), needs_effect=True),
        Fault("process gone before", lambda number, _: since(number, BROKEN), ends_process=True),
        Fault("process gone after", lambda number, _: _gone_after(number), ends_process=True, needs_effect=True),
        Fault("busy", lambda number, _: nth(number, BUSY), is_retried=True),
        Fault(
            "busy after effect", lambda number, _: nth(number, LoseResponse(BUSY)), is_retried=True, needs_effect=True
        ),
        Fault("busy and cancelled", _busy_and_cancelled),
    )
}

_numbers = itertools.count()

# --- stores ----------------------------------------------------------------------------------------------------------


class Place:
    """A kind of store in which operations are interrupted: here, memory."""

    name = "memory"
    survives_process = True
    """Whether an operation's changes are seen by other processes at once."""

    @asynccontextmanager
    async def store(self, objects: Mapping[str, bytes]) -> AsyncIterator[Store]:
        """Open a new store that holds these objects."""
        store = MemoryStore()
        for key, data in objects.items():
            store.set_now(key, data)
        yield store

    def faulty(self, store: Store) -> FaultyStore | FaultyBlockingStore:
        """Return the store as a process that has just begun sees it."""
        return FaultyStore(store)

    async def objects(self, store: Store) -> Objects:
        """Return everything that is stored, temporary objects included."""
        return {
            entry.key: _unmarked(entry.key, bytes(await store.get(entry.key) or b"")) async for entry in store.scan()
        }


class Workers(Place):
    """Memory whose requests run in the worker threads."""

    name = "workers"

    def faulty(self, store: Store) -> FaultyStore | FaultyBlockingStore:
        assert isinstance(store, BlockingStore)
        return FaultyBlockingStore(store)


class Disk(Workers):
    """A folder of the local disk."""

    name = "disk"

    @asynccontextmanager
    async def store(self, objects: Mapping[str, bytes]) -> AsyncIterator[Store]:
        with tempfile.TemporaryDirectory() as folder:
            store = LocalStore(Path(folder, "root"))
            for key, data in objects.items():
                store.set_now(key, data)
            yield store

    async def objects(self, store: Store) -> Objects:
        assert isinstance(store, LocalStore)
        return _files(Path(store.root))


class Zip(Workers):
    """An archive on the local disk. Other processes see changes once it is closed."""

    name = "zip"
    survives_process = False

    @asynccontextmanager
    async def store(self, objects: Mapping[str, bytes]) -> AsyncIterator[Store]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.zip")
            with zipfile.ZipFile(path, "w") as archive:
                for key, data in objects.items():
                    archive.writestr(key, data)
            store = ZipStore(path, "a")
            try:
                yield store
                changed = await self.objects(store)
            finally:
                await store.aclose()
            with zipfile.ZipFile(path) as archive:
                members = {name: _unmarked(name, archive.read(name)) for name in archive.namelist()}
            assert members == changed, "the archive differs"
            assert list(_files(Path(folder))) == ["a.zip"], "files are left beside the archive"


async def _objects(place: Place, store: Store) -> Objects:
    """Return everything that is stored but the records of mirrors, which name versions: these differ between runs."""
    return {key: data for key, data in (await place.objects(store)).items() if not key.endswith(RECORD_KEY)}


def _files(root: Path) -> Objects:
    paths = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {key: _unmarked(key, path.read_bytes()) for key, path in paths.items()}


def _unmarked(key: str, data: bytes) -> bytes:
    """Return an object without the random white space that each append leaves at the end of a document."""
    return data.rstrip(b" \n") if key.rpartition("/")[2] in DOCUMENTS else data


class S3(Place):
    """A folder of a bucket."""

    name = "s3"

    def __init__(self, server: LocalS3) -> None:
        self._server = server
        server.create_bucket("faults")

    @asynccontextmanager
    async def store(self, objects: Mapping[str, bytes]) -> AsyncIterator[Store]:
        async with ObjectStore(f"s3://faults/{next(_numbers)}/", **self._server.storage_options) as store:
            await asyncio.gather(*(store.set(key, data) for key, data in objects.items()))
            yield store


# --- what a store holds ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """A node as a reader sees it; `values` and `fill_value` are None for a group."""

    attributes: str
    values: NDArray[Any] | None = None
    fill_value: Any = None


Nodes: TypeAlias = dict[str, Node]


async def look(store: Store, roots: Sequence[str], objects: Objects) -> Nodes:
    """Read all nodes at and below `roots`. Consolidated metadata must show the same nodes as the documents.

    A folder without a document is listed as a group, too, and is none of these nodes.
    """
    paths = {key.rpartition("/")[0] for key in objects if key.rpartition("/")[2] in NODE_DOCUMENTS}
    every = await _look(store, roots, use_consolidated=False)
    plain = {path: node for path, node in every.items() if path in paths}
    if not any(key.endswith(".zmetadata") or b"consolidated_metadata" in data for key, data in objects.items()):
        return plain
    consolidated = {path: node for path, node in (await _look(store, roots)).items() if path in paths}
    assert {path: node.attributes for path, node in plain.items()} == {
        path: node.attributes for path, node in consolidated.items()
    }, "consolidated metadata differ from the documents"
    return plain


async def _look(store: Store, roots: Sequence[str], **options: Any) -> Nodes:
    seen: Nodes = {}
    for root in roots:
        try:
            group = await aiozarr.open_group(store, root, **options)
        except NodeNotFoundError:
            continue
        except NodeTypeError:
            seen[root] = await _node(await aiozarr.open_array(store, root))
            continue
        seen[root] = await _node(group)
        async for name, node in group.members(None):
            seen[f"{root}/{name}".lstrip("/")] = await _node(node)
    return seen


async def _node(node: aiozarr.Array | aiozarr.Group) -> Node:
    attributes = json.dumps(dict(node.attrs), sort_keys=True)
    if isinstance(node, aiozarr.Group):
        return Node(attributes)
    return Node(attributes, np.asarray(await node[...]), node.fill_value)


def check_nodes(seen: Nodes, old: Nodes, new: Nodes, gap: str | None) -> None:
    """Check that each node is the old or the new one. Nodes at and below `gap` may be missing meanwhile."""
    missing = {path for path in (old.keys() & new.keys()) - seen.keys() if gap is None or not is_below(path, gap)}
    assert not missing, f"{sorted(missing)} cannot be found"
    for path, node in seen.items():
        known = [nodes[path] for nodes in (old, new) if path in nodes]
        assert known, f"{path!r} is neither an old nor a new node"
        assert node.attributes in [each.attributes for each in known], f"{path!r} has the attributes {node.attributes}"
        assert (node.values is None) in [each.values is None for each in known], f"{path!r} is of another kind"
        if node.values is not None:
            _check_values(path, node, node.values, old.get(path), new.get(path))


def is_below(path: str, root: str) -> bool:
    """Return whether a path is at or below another one."""
    return f"{path}/".startswith(f"{root}/" if root else "")


def _check_values(path: str, node: Node, values: NDArray[Any], old: Node | None, new: Node | None) -> None:
    known = [each.values for each in (old, new) if each is not None and each.values is not None]
    same = [each for each in known if (each.dtype, each.ndim) == (values.dtype, values.ndim)]
    assert values.shape in [each.shape for each in same], f"{path!r} has the shape {values.shape}"
    # What no reader has seen before may be the fill value until it is written.
    allowed = values == node.fill_value
    if old is not None and old.values is not None and old.values.dtype == values.dtype:
        allowed[tuple([slice(0, length) for length in old.values.shape])] = False
    for each in same:
        common = tuple([slice(0, min(pair)) for pair in zip(values.shape, each.shape, strict=True)])
        allowed[common] |= values[common] == each[common]
    assert allowed.all(), f"{path!r} has values that are neither old nor new: {values.tolist()}"


def check_objects(stored: Objects, old: Objects, new: Objects) -> None:
    """Check that each stored chunk is an old or a new one."""
    for key, data in stored.items():
        known = [objects[key] for objects in (old, new) if key in objects]
        is_document = key.rpartition("/")[2] in DOCUMENTS
        assert is_document or not known or data in known, f"the object {key!r} is neither the old nor the new one"


# --- runs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scenario:
    """An operation.

    Attributes:
        name: its name.
        prepare: stores the nodes that it begins with.
        act: the operation. A result is compared with that of a run without a fault.
        repeat: how a failed operation is repeated, if not by itself.
        done: errors of a repetition that finds nothing left to do.
        gap: nodes at and below this path may be missing meanwhile.
        roots: the roots of the trees that are looked at.
    """

    name: str
    prepare: Act
    act: Act
    repeat: Act | None = None
    done: tuple[type[Exception], ...] = ()
    gap: str | None = None
    roots: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class Expected:
    """The run of a scenario without a fault."""

    old: Objects
    new: Objects
    old_nodes: Nodes
    new_nodes: Nodes
    calls: list[Call]
    result: Any


async def run_without_fault(place: Place, scenario: Scenario) -> Expected:
    """Run the scenario, and return what it leaves."""
    memory = MemoryStore()
    await scenario.prepare(memory)
    async with place.store(await Place().objects(memory)) as inner:
        old = await _objects(place, inner)
        old_nodes = await look(inner, scenario.roots, old)
        store = place.faulty(inner)
        result = await scenario.act(store)
        calls, new = [*store.calls], await _objects(place, inner)
        return Expected(old, new, old_nodes, await look(inner, scenario.roots, new), calls, result)


class Failure(AssertionError):
    """A run with a fault that has left what it may not leave."""

    def __init__(self, message: str, fault: Fault) -> None:
        super().__init__(message)
        self.fault = fault


async def run_with_fault(
    place: Place, scenario: Scenario, expected: Expected, fault: Fault, number: int
) -> Failure | None:
    """Run the scenario with a fault at the call `number`, repeat it, and return what is wrong, or None."""
    store: FaultyStore | FaultyBlockingStore | None = None
    try:
        async with place.store(expected.old) as inner:
            store = place.faulty(inner)
            await _run_with_fault(place, scenario, expected, fault, number, inner, store)
    except Exception as error:
        calls = [] if store is None else store.calls
        call = calls[number - 1] if len(calls) >= number else None
        at = f"{call.operation} {call.key!r}" if call else "no call"
        again = f"again({place.name!r}, {scenario.name!r}, {fault.name!r}, {number})"
        message = (
            f'python -c "from tests.faults.test_nth_failure import again; {again}" repeats this run:\n'
            f"  {scenario.name}, {fault.name} at call {number} of {len(expected.calls)} ({at}), {place.name}: "
            f"{type(error).__name__}: {error}"
        )
        failure = Failure(message, fault)
        failure.__cause__ = error
        return failure
    return None


async def _run_with_fault(
    place: Place,
    scenario: Scenario,
    expected: Expected,
    fault: Fault,
    number: int,
    inner: Store,
    store: FaultyStore | FaultyBlockingStore,
) -> None:
    task: asyncio.Task[Any] = asyncio.ensure_future(_awaited(scenario.act(store)))
    loop = asyncio.get_running_loop()
    store.faults = fault.plan(number, lambda: loop.call_soon_threadsafe(task.cancel))
    await asyncio.wait([task], timeout=SECONDS)
    if not task.done():
        store.faults = None
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=1)
        raise AssertionError(f"the operation has not ended after {SECONDS} s")
    unfinished = [call for call in store.calls if call.ended is None and call.operation != "fetch"]
    assert not unfinished, f"requests have not ended: {unfinished}"
    store.faults = None
    if not (has_failed := task.cancelled() or task.exception() is not None):
        assert task.result() == expected.result, f"the result is {task.result()}"
    elif fault.is_retried:
        task.result()
    elif not task.cancelled():
        error = task.exception()
        assert isinstance(error, AiozarrError), f"the error is {error!r}"
    repeated = sorted({call.key for call in store.calls if getattr(call.error, "message", "") == REPEATED.message})
    assert not repeated, f"requests are repeated after the cancellation: {repeated}"
    left = await unfinished_on_io_thread()
    assert not left, f"work has not ended: {left}"

    between = await _objects(place, inner)
    seen = await look(inner, scenario.roots, between)
    check_nodes(seen, expected.old_nodes, expected.new_nodes, scenario.gap)
    check_objects(between, expected.old, expected.new)
    if has_failed:
        repeat = scenario.repeat or scenario.act
        try:
            result = await repeat(place.faulty(inner) if fault.ends_process else store)
            assert result == expected.result, f"the result of the repetition is {result}"
        except scenario.done as error:
            if between != expected.new:
                raise AssertionError(f"the repetition fails, and {differences(between, expected)}") from error
    after = await _objects(place, inner)
    assert after == expected.new, f"after the repetition, {differences(after, expected)}"


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def differences(stored: Objects, expected: Expected) -> str:
    """Name the objects that differ from those of a run without a fault."""
    new = expected.new
    differing = sorted(key for key in new.keys() | stored.keys() if new.get(key) != stored.get(key))
    kinds: dict[str, list[str]] = {}
    for key in differing:
        if _unconsolidated(key, new.get(key)) == _unconsolidated(key, stored.get(key)):
            kind = "without consolidated metadata"
        else:
            kind = "missing" if key not in stored else "left" if key not in new else "other"
        kinds.setdefault(kind, []).append(key)
    return "objects differ: " + ", ".join([f"{kind} {keys}" for kind, keys in kinds.items()])


def _unconsolidated(key: str, document: bytes | None) -> Any:
    """Return the document of a node without consolidated metadata; None for the document of those alone."""
    if document is None or key.endswith(".zmetadata"):
        return None
    if not key.endswith("zarr.json"):
        return document
    members = json.loads(document)
    members.pop("consolidated_metadata", None)
    return members


def cases(place: Place, scenario: Scenario, calls: list[Call], limit: int | None = None) -> Iterator[tuple[Fault, int]]:
    """Yield the faults and the numbers of calls of the runs of a scenario.

    Args:
        place: the kind of store.
        scenario: the scenario.
        calls: its calls.
        limit: at most so many runs, each with a fault that a fixed seed draws, at calls at equal distances. None: each
            call meets each fault.
    """
    draw = random.Random(f"{place.name}/{scenario.name}")
    step = 1 if limit is None else max(1, -(-len(calls) // limit))
    for call in calls[draw.randrange(step) :: step]:
        faults = [
            fault
            for fault in FAULTS.values()
            if (place.survives_process or not fault.ends_process)
            and (call.operation in ("set", "erase") or not fault.needs_effect)
        ]
        if limit is not None:
            # Retries wait for a tenth of a second.
            faults = draw.choices(faults, [1 if fault.is_retried else 6 for fault in faults])
        yield from ((fault, call.number) for fault in faults)
