"""The N-th failure, for every N: whatever call of a store fails in an operation, the repetition completes it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import aiozarr
from aiozarr.errors import NodeExistsError, NodeNotFoundError
from aiozarr.stores import PrefixStore, Store
from tests.support.leaks import assert_no_leaks
from tests.support.nth_failure import (
    FAULTS,
    S3,
    Disk,
    Failure,
    Place,
    Scenario,
    Workers,
    Zip,
    cases,
    run_with_fault,
    run_without_fault,
)
from tests.support.servers.moto import LocalS3, local_s3

pytestmark = pytest.mark.filterwarnings("ignore::aiozarr.StaleDataWarning", "ignore::aiozarr.UnsafeWriteWarning")

IS_COMPLETE = settings().max_examples > 100
"""Whether each call meets each fault, as in `make test-long`."""

# --- stores to begin with --------------------------------------------------------------------------------------------


async def tree(store: Store, zarr_format: int = 3, *, is_consolidated: bool = True) -> None:
    """Store a group with the arrays `a` and `g/b`."""
    root = await aiozarr.create_group(store, zarr_format=zarr_format, attributes={"title": "t"})
    group = await root.create_group("g", attributes={"level": 1})
    for parent, name in ((root, "a"), (group, "b")):
        array = await parent.create_array(name, shape=4, chunks=2, dtype="i4", attributes={"n": 1})
        await array[...].write([1, 2, 3, 4])
    if is_consolidated:
        await aiozarr.consolidate_metadata(store)


async def array_1(store: Store) -> None:
    """Store an array of format 1."""
    array = await aiozarr.create_array(store, shape=4, chunks=2, dtype="i4", zarr_format=1, attributes={"n": 1})
    await array[...].write([1, 2, 3, 4])


async def long_array(store: Store, zarr_format: int = 3, *, is_stale: bool = False, **options: Any) -> None:
    """Store 14 elements in chunks of 4. `is_stale`: the array has 5 of them, and the others lie behind its end."""
    array = await aiozarr.create_array(store, shape=14, dtype="i4", chunks=4, zarr_format=zarr_format, **options)
    await array[...].write(np.arange(1, 15))
    if is_stale:
        await array.resize(5, delete_chunks=False)


async def sharded_array(store: Store) -> None:
    """Store 14 elements in shards of 8."""
    await long_array(store, shards=8)


async def nothing(store: Store) -> None:
    """Store nothing."""


async def tree_below(store: Store, zarr_format: int = 3) -> None:
    """Store the tree below `src`."""
    await tree(PrefixStore(store, "src"), zarr_format)


async def tree_and_other_tree(store: Store) -> None:
    """Store the tree below `src`, and another one below `dst`."""
    await tree(PrefixStore(store, "src"), is_consolidated=False)
    other = await aiozarr.create_group(store, "dst", attributes={"title": "u"})
    for name in ("a", "h/c"):
        array = await other.create_array(name, shape=6, chunks=2, dtype="i4", attributes={"n": 2})
        await array[...].write(7)


# --- operations ------------------------------------------------------------------------------------------------------


async def root_of(store: Store) -> aiozarr.Group:
    return await aiozarr.open_group(store, mode="r+")


async def array_of(store: Store) -> aiozarr.Array:
    return await aiozarr.open_array(store, mode="r+")


def on_root(change: Callable[[aiozarr.Group], Awaitable[object]]) -> Callable[[Store], Awaitable[None]]:
    """The operation that opens the group and changes it."""

    async def act(store: Store) -> None:
        await change(await root_of(store))

    return act


def on_array(change: Callable[[aiozarr.Array], Awaitable[object]]) -> Callable[[Store], Awaitable[None]]:
    """The operation that opens the array and changes it."""

    async def act(store: Store) -> None:
        await change(await array_of(store))

    return act


async def read_tree(store: Store) -> list[Any]:
    root = await aiozarr.open_group(store)
    return [
        (name, (await node[...]).tolist() if isinstance(node, aiozarr.Array) else None, dict(node.attrs))
        async for name, node in root.members(None)
    ]


async def read_values(store: Store) -> Any:
    return (await (await aiozarr.open_array(store))[1:13]).tolist()


async def read_points(store: Store) -> Any:
    return (await (await aiozarr.open_array(store)).vindex[[0, 5, 13, 6]]).tolist()


async def change_child(group: aiozarr.Group, *, is_update: bool) -> None:
    node = await group.open("g/b")
    await (node.update_attributes({"m": 2}) if is_update else node.replace_attributes({"m": 2}))


ADDED = np.arange(100, 107, dtype="i4")


async def append_again(store: Store) -> None:
    """Append, or write what was appended: the caller of a failed call knows from the shape whether it has grown."""
    array = await array_of(store)
    if array.shape == (21,):
        await array[14:].write(ADDED)
    else:
        await array.append(ADDED)


async def copy(store: Store, path: str = "dst", **options: Any) -> None:
    await aiozarr.copy(PrefixStore(store, "src"), PrefixStore(store, path), **options)


async def convert(store: Store, **options: Any) -> None:
    await aiozarr.convert(PrefixStore(store, "src"), PrefixStore(store, "dst"), **options)


async def consolidate(store: Store) -> None:
    await aiozarr.consolidate_metadata(store)


async def create_array(store: Store, **options: Any) -> None:
    await (await root_of(store)).create_array("x/y", shape=4, chunks=2, dtype="i4", data=[5, 6, 7, 8], **options)


def resized(shape: int, **options: Any) -> Callable[[Store], Awaitable[None]]:
    return on_array(lambda array: array.resize(shape, **options))


STALE = partial(long_array, is_stale=True)
SCENARIOS = [
    Scenario("read an array", long_array, read_values),
    Scenario("read shards", sharded_array, read_points),
    Scenario("write chunks", long_array, on_array(lambda array: array[...].write(9))),
    Scenario("write parts of chunks", long_array, on_array(lambda array: array[1:11].write(9))),
    Scenario("write shards", sharded_array, on_array(lambda array: array[...].write(9))),
    Scenario("write parts of shards", sharded_array, on_array(lambda array: array[1:11].write(9))),
    Scenario("write points", sharded_array, on_array(lambda array: array.vindex[[1, 9, 13]].write([7, 8, 9]))),
    Scenario("write the fill value", long_array, on_array(lambda array: array[2:].write(0))),
    Scenario("grow", long_array, resized(21)),
    Scenario("grow over stale values", STALE, resized(16)),
    Scenario("grow and clear", STALE, resized(16, clear=True)),
    Scenario("shrink", long_array, resized(3)),
    Scenario("shrink and keep chunks", long_array, resized(3, delete_chunks=False)),
    Scenario("shrink shards", sharded_array, resized(3)),
    Scenario("append", long_array, on_array(lambda array: array.append(ADDED)), append_again),
    Scenario("append to shards", sharded_array, on_array(lambda array: array.append(ADDED)), append_again),
    Scenario("create with values", tree, create_array, partial(create_array, overwrite=True), gap="x"),
    Scenario(
        "create a root",
        nothing,
        lambda store: _none(aiozarr.create_group(store, attributes={"n": 1})),
        done=(NodeExistsError,),
    ),
    *(
        Scenario(
            f"{name} (format {zarr_format})", partial(tree, zarr_format=zarr_format), act, **dict[str, Any](options)
        )
        for zarr_format in (2, 3)
        for name, act, options in (
            ("read a tree", read_tree, {}),
            (
                "create a group",
                on_root(lambda root: root.create_group("x/y", attributes={"n": 1})),
                {"done": (NodeExistsError,)},
            ),
            (
                "require a group",
                on_root(lambda root: root.require_group("x/y")),
                {},
            ),
            (
                "create over a group",
                on_root(lambda root: root.create_array("g", shape=3, dtype="u1", overwrite=True)),
                {"gap": "g"},
            ),
            (
                "create over a root",
                lambda store, zarr_format=zarr_format: _none(
                    aiozarr.create_group(store, zarr_format=zarr_format, attributes={"n": 1}, overwrite=True)
                ),
                {"gap": ""},
            ),
            ("delete a group", on_root(lambda root: root.delete("g")), {"done": (NodeNotFoundError,)}),
            ("delete an array", on_root(lambda root: root.delete("g/b")), {"done": (NodeNotFoundError,)}),
            ("move a group", on_root(lambda root: root.move("g", "x/y")), {"done": (NodeNotFoundError,)}),
            ("move an array", on_root(lambda root: root.move("g/b", "c")), {"done": (NodeNotFoundError,)}),
            ("update attributes", on_root(partial(change_child, is_update=True)), {}),
            ("replace attributes", on_root(partial(change_child, is_update=False)), {}),
            ("update the root's attributes", on_root(lambda root: root.update_attributes({"m": 2})), {}),
            ("consolidate", consolidate, {}),
        )
    ),
    Scenario("consolidate for the first time", partial(tree, is_consolidated=False), consolidate),
    *(
        Scenario(name, prepare, act, repeat, roots=("src", "dst"), **dict[str, Any](options))
        for name, prepare, act, repeat, options in (
            ("copy", tree_below, copy, partial(copy, resume=True), {}),
            ("copy of format 2", partial(tree_below, zarr_format=2), copy, partial(copy, resume=True), {}),
            ("copy over a tree", tree_and_other_tree, partial(copy, overwrite=True), None, {"gap": "dst"}),
            ("mirror", tree_and_other_tree, partial(copy, delete=True), None, {"gap": "dst"}),
            (
                "convert",
                tree_below,
                partial(convert, chunks=3),
                partial(convert, chunks=3, resume=True),
                {"done": (NodeExistsError,)},
            ),
            (
                "convert to shards",
                partial(tree_below, zarr_format=2),
                partial(convert, chunks=1, shards=4, zarr_format=3),
                partial(convert, chunks=1, shards=4, zarr_format=3, resume=True),
                {"done": (NodeExistsError,)},
            ),
            ("convert over a tree", tree_and_other_tree, partial(convert, overwrite=True), None, {"gap": "dst"}),
        )
    ),
]


async def _none(awaitable: Awaitable[object]) -> None:
    await awaitable


# --- runs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KnownException:
    """Failures that are known.

    Attributes:
        reason: why they are left.
        scenarios, faults, message: patterns of the names and of the failure's message.
    """

    reason: str
    scenarios: str
    faults: str
    message: str

    def covers(self, scenario: Scenario) -> bool:
        """Return whether failures of a scenario are known."""
        return re.fullmatch(self.scenarios, scenario.name) is not None

    def matches(self, failure: Failure) -> bool:
        """Return whether a failure is a known one."""
        return bool(re.fullmatch(self.faults, failure.fault.name) and re.search(self.message, str(failure)))


WITHOUT_CONSOLIDATED = r"objects differ: without consolidated metadata \[[^]]*\]$"
KNOWN_EXCEPTIONS: tuple[KnownException, ...] = (
    KnownException(
        "a process that is gone has removed the consolidated metadata, and another one cannot know of them",
        r"(delete|move|create over|create a group|update attributes|replace attributes|create with).*",
        "process gone .*",
        WITHOUT_CONSOLIDATED,
    ),
    KnownException(
        "the group is complete, so no call completes the consolidated metadata above it",
        "require a group .*",
        ".*",
        WITHOUT_CONSOLIDATED,
    ),
    KnownException(
        "chunks are replaced before documents, so that an array of another shape is shown with chunks of both",
        "copy over a tree|mirror",
        ".*",
        r"'dst/a' has values that are neither old nor new",
    ),
    KnownException(
        "a cancelled conversion saves its journal first, and repeats a request that fails",
        "convert.*",
        "busy and cancelled",
        r"requests are repeated after the cancellation: \['[a-z/]*__aiozarr__/conversion.json'\]$",
    ),
    KnownException(
        "a cancelled append cuts the array first, and repeats a request that fails",
        "append.*",
        "busy and cancelled",
        r"requests are repeated after the cancellation: \['zarr.json'\]$",
    ),
)


async def fail_each_call(place: Place, scenario: Scenario, limit: int | None) -> None:
    """Run a scenario with faults, and raise its failures, and known exceptions that have not shown."""
    failures: list[Failure] = []
    known = {each: 0 for each in KNOWN_EXCEPTIONS if each.covers(scenario)}
    async with assert_no_leaks():
        expected = await run_without_fault(place, scenario)
        for fault, number in cases(place, scenario, expected.calls, limit):
            failure = await run_with_fault(place, scenario, expected, fault, number)
            exception = next((each for each in known if failure is not None and each.matches(failure)), None)
            if exception is not None:
                known[exception] += 1
            elif failure is not None:
                failures.append(failure)
    if failures:
        raise failures[0] if len(failures) == 1 else AssertionError("\n".join(str(each) for each in failures))
    if limit is None:
        gone = [each.reason for each, count in known.items() if not count]
        assert not gone, f"{scenario.name} in {place.name} has known exceptions that no longer fail: {gone}"


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_in_memory(scenario: Scenario) -> None:
    await fail_each_call(Place(), scenario, None if IS_COMPLETE else 4)


@pytest.mark.parametrize(
    ("place", "scenario"),
    [
        pytest.param(place, scenario, id=f"{place.name}-{scenario.name}")
        for number, place in enumerate((Workers(), Disk(), Zip()))
        for scenario in (SCENARIOS if IS_COMPLETE else SCENARIOS[number::3])
    ],
)
async def test_in_blocking_stores(place: Place, scenario: Scenario) -> None:
    await fail_each_call(place, scenario, None if IS_COMPLETE else 2)


@pytest.mark.parametrize("scenario", SCENARIOS if IS_COMPLETE else SCENARIOS[::18], ids=lambda scenario: scenario.name)
async def test_in_a_bucket(s3_server: LocalS3, scenario: Scenario) -> None:
    await fail_each_call(S3(s3_server), scenario, 100 if IS_COMPLETE else 1)


def again(place: str, scenario: str, fault: str, number: int) -> None:
    """Repeat one run, and print what is wrong with it."""

    async def run(where: Place, what: Scenario) -> None:
        expected = await run_without_fault(where, what)
        failure = await run_with_fault(where, what, expected, FAULTS[fault], number)
        if failure is not None:
            raise failure

    [what] = [each for each in SCENARIOS if each.name == scenario]
    if place == S3.name:
        with local_s3() as server:
            asyncio.run(run(S3(server), what))
    else:
        asyncio.run(run({each.name: each for each in (Place(), Workers(), Disk(), Zip())}[place], what))
