"""A cancelled write or copy leaves every object old or new, and nothing under way."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr.stores import LocalStore, MemoryStore, ObjectStore, Store
from tests.support.leaks import assert_no_leaks, cancelling, wait_for
from tests.support.remote_arrays import CHECKED, document
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_replies import Reply, Request
from tests.support.servers.http_server import FaultServer

SOON = 10.0


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


@pytest.fixture
async def bucket(server: FaultServer) -> AsyncIterator[ObjectStore]:
    """A store whose objects are written by PUT, on the server under `bucket/`."""
    with warnings.catch_warnings():
        store = ObjectStore("s3://bucket/", endpoint_url=server.url, anon=True)
    yield store
    await store.aclose()


async def ended(task: asyncio.Task[Any]) -> None:
    done, _ = await asyncio.wait([task], timeout=SOON)
    assert done, "the cancellation did not arrive"
    if not task.cancelled():
        task.result()


async def old_array(store: Store, **described: Any) -> aiozarr.Array:
    import json

    await store.set("zarr.json", json.dumps(document(shape=(64,), chunks=(8,), **described)).encode())
    array = await aiozarr.open_array(store, mode="r+")
    await array[...].write(1)
    return array


async def assert_old_or_new(array: aiozarr.Array) -> None:
    values = (await array[...]).reshape(8, 8)
    for chunk in values:
        assert chunk.tolist() in ([1] * 8, [2] * 8), "a chunk is half written"


def unknown_files(root: Path) -> list[Path]:
    known = {"zarr.json", *(str(number) for number in range(8))}
    return [path for path in root.rglob("*") if path.is_file() and path.name not in known]


@pytest.mark.parametrize("inner", [None, (2,)], ids=["plain", "sharded"])
@pytest.mark.parametrize("kind", ["memory", "local"])
async def test_a_write_cancelled_after_any_number_of_steps_leaves_each_chunk_old_or_new(
    tmp_path: Path, kind: str, inner: tuple[int] | None
) -> None:
    store = MemoryStore() if kind == "memory" else LocalStore(tmp_path / "a.zarr")
    array = await old_array(store, inner=inner)
    for steps in [0, 1, 2, 3, 5, 10, 20, 50, 100, 300]:
        async with assert_no_leaks():
            task = asyncio.ensure_future(array[...].write(2))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await ended(task)
            before = await array[...]
        await assert_old_or_new(array)
        # What the write had not come to is not written behind the caller's back.
        await asyncio.sleep(0.01)
        assert np.array_equal(await array[...], before)
        await array[...].write(1)
    assert not unknown_files(tmp_path)


@pytest.mark.parametrize("inner", [None, (2,)], ids=["plain", "sharded"])
async def test_a_write_cancelled_at_any_request_leaves_each_chunk_old_or_new(
    server: FaultServer, bucket: ObjectStore, inner: tuple[int] | None
) -> None:
    array = await old_array(bucket, inner=inner)
    for number in range(1, 9):
        begun = len(server.requests)
        server.latency = 0.02
        async with assert_no_leaks(server):
            task = asyncio.ensure_future(array[...].write(2))
            server.script = cancelling(task, begun + number)
            await ended(task)
            assert task.cancelled()
        server.script = None
        server.latency = 0
        await assert_old_or_new(array)
        await array[...].write(1)


async def test_a_stalled_server_does_not_hold_up_the_cancellation_of_a_write(
    server: FaultServer, bucket: ObjectStore
) -> None:
    array = await old_array(bucket)
    server.script = spoil.always(spoil.no_answer)
    async with assert_no_leaks(server):
        task = asyncio.ensure_future(array[...].write(2))
        assert await wait_for(lambda: server.in_flight == 8)
        task.cancel()
        await ended(task)
        assert task.cancelled()


async def test_a_cancelled_partial_write_gives_the_turn_to_the_next_one(
    server: FaultServer, bucket: ObjectStore
) -> None:
    array = await old_array(bucket)
    await array[0].write(1)  # from now on it is known that the server heeds conditions
    server.script = spoil.when(lambda request: request.method == "PUT", spoil.no_answer)
    async with assert_no_leaks(server):
        begun = len(server.requests)
        first = asyncio.ensure_future(array[0:2].write(5))
        assert await wait_for(lambda: any(each.method == "PUT" for each in server.requests[begun:]))
        second = asyncio.ensure_future(array[2:4].write(6))
        await asyncio.sleep(0.05)
        server.script = None
        first.cancel()
        await ended(first)
        await asyncio.wait_for(second, SOON)
    assert (await array[0:4]).tolist() in ([1, 1, 6, 6], [5, 5, 6, 6])


# --- creating and copying ------------------------------------------------------------------------------------------


async def test_a_creation_cancelled_after_any_number_of_steps_leaves_a_whole_node_or_none(
    server: FaultServer, bucket: ObjectStore
) -> None:
    for steps in [0, 1, 3, 10, 30, 100, 300, 1000]:
        async with assert_no_leaks(server):
            task = asyncio.ensure_future(
                aiozarr.create_array(bucket, f"a{steps}", shape=(4,), dtype="i4", attributes={"x": 1})
            )
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=SOON)
            assert done
        if server.get(f"bucket/a{steps}/zarr.json") is not None:
            assert (await aiozarr.open_array(bucket, f"a{steps}")).attrs == {"x": 1}


def refuse_listings(request: Request, reply: Reply) -> Reply:
    """Answer as a bucket whose credentials may write and not list: the server cannot list."""
    return spoil.status(403)(reply) if "list-type" in request.target else reply


def stall_objects(request: Request, reply: Reply) -> Reply:
    """Answer no request but listings and those of the journal."""
    if "list-type" in request.target or ".aiozarr-copy~" in request.key:
        return refuse_listings(request, reply)
    return spoil.no_answer(reply)


@pytest.mark.parametrize("to", ["local", "bucket"])
async def test_a_copy_cancelled_at_any_progress_leaves_whole_objects_and_no_document_before_its_data(
    server: FaultServer, bucket: ObjectStore, tmp_path: Path, to: str
) -> None:
    source = MemoryStore()
    array = await old_array(source, codecs=CHECKED)
    await array[...].write(np.arange(64))
    kept = {key: bytes(await source.get(key) or b"") for key in await source.list()}
    server.script = refuse_listings
    for at in range(len(kept) + 1):
        tasks: list[asyncio.Task[Any]] = []
        target: Store = LocalStore(tmp_path / f"{at}") if to == "local" else bucket

        def stop(progress: aiozarr.Progress, at: int = at, tasks: list[asyncio.Task[Any]] = tasks) -> None:
            if progress.done >= at:
                tasks[0].cancel()

        async with assert_no_leaks(server):
            tasks.append(asyncio.ensure_future(aiozarr.copy(source, target, overwrite=True, progress=stop)))
            await ended(tasks[0])
        if to == "local":
            stored = {key: bytes(await target.get(key) or b"") for key in await target.list()}
        else:
            stored = {key.removeprefix("bucket/"): server.get(key) or b"" for key in list(server.keys())}
        # The journal of an interrupted copy stays, so that it can be resumed.
        stored = {key: value for key, value in stored.items() if not key.startswith(".aiozarr-copy~/")}
        assert stored.items() <= kept.items()
        assert "zarr.json" not in stored or stored.keys() == kept.keys()
        for key in list(server.keys()):
            server.remove(key)


async def test_a_copy_to_a_stalled_server_is_cancelled_soon(server: FaultServer, bucket: ObjectStore) -> None:
    source = MemoryStore()
    await old_array(source)
    server.script = stall_objects
    async with assert_no_leaks(server):
        task = asyncio.ensure_future(aiozarr.copy(source, bucket, overwrite=True))
        assert await wait_for(lambda: server.in_flight == 8)
        task.cancel()
        await ended(task)
        assert task.cancelled()
