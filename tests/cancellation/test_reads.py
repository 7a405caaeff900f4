"""A cancelled read leaves nothing under way, wherever it was when it was cancelled, and hurts nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import aiozarr
from tests.support.leaks import assert_no_leaks, cancelling, unfinished_on_io_thread, wait_for
from tests.support.remote_arrays import QUICK, RemoteArray, serve_array
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

PATIENT = replace(QUICK, idle_timeout=30, retry_seconds=30)
"""Nothing here ends by a time limit: what ends was cancelled."""

SOON = 5.0
"""Seconds in which a cancellation must have arrived: far more than it takes, far less than any time limit."""

Operation = Callable[[RemoteArray], Awaitable[Any]]


@pytest.fixture
def server() -> Iterator[FaultServer]:
    with FaultServer() as running:
        yield running


async def open_it(remote: RemoteArray) -> Any:
    return await aiozarr.open_array(remote.server.url, zarr_format=3, settings=PATIENT)


async def read_it(remote: RemoteArray) -> Any:
    return await remote.array[...]


async def plan_it(remote: RemoteArray) -> Any:
    return await remote.array[...].probe()


async def read_many(remote: RemoteArray) -> Any:
    return await aiozarr.read_many([remote.array[:5], remote.array[3:]])


async def stream_it(remote: RemoteArray) -> Any:
    async with aclosing(remote.array[...].stream(2)) as blocks:
        return [block async for _, block in blocks]


OPERATIONS: dict[str, Operation] = {
    "open": open_it,
    "read": read_it,
    "plan": plan_it,
    "read-many": read_many,
    "stream": stream_it,
}


async def cancelled(task: asyncio.Task[Any]) -> bool:
    """Whether `task` ends by its cancellation, soon."""
    done, _ = await asyncio.wait([task], timeout=SOON)
    assert done, "the cancellation did not arrive"
    return task.cancelled()


@pytest.mark.parametrize("inner", [None, (1,)], ids=["plain", "sharded"])
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
async def test_cancelled_at_any_request_it_leaves_nothing(
    server: FaultServer, operation: Operation, inner: tuple[int] | None
) -> None:
    settings = replace(PATIENT, index_cache_bytes=0)
    remote = await serve_array(server, inner=inner, settings=settings)
    server.latency = 0.02
    await operation(remote)
    count = len(server.requests) - remote.begun
    for number in range(1, count + 1):
        async with assert_no_leaks(server):
            begun = len(server.requests)
            task = asyncio.ensure_future(operation(remote))
            server.script = cancelling(task, begun + number)
            assert await cancelled(task)
            server.script = None
        await asyncio.sleep(0.03)
        assert len(server.requests) <= begun + count  # nobody has sent anything since
    assert np.array_equal(await remote.array[...], remote.values)


@pytest.mark.parametrize("inner", [None, (1,)], ids=["plain", "sharded"])
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
async def test_cancelled_after_any_number_of_steps_it_leaves_nothing(
    server: FaultServer, operation: Operation, inner: tuple[int] | None
) -> None:
    remote = await serve_array(server, inner=inner, settings=replace(PATIENT, index_cache_bytes=0))
    for steps in [0, 1, 2, 3, 5, 10, 20, 50, 100, 300, 1000]:
        async with assert_no_leaks(server):
            task = asyncio.ensure_future(operation(remote))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task], timeout=SOON)
            assert task.done()
            if not task.cancelled():
                task.result()  # it was through already
    assert np.array_equal(await remote.array[...], remote.values)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("fault", [spoil.no_answer, spoil.stalled(3)], ids=["no-answer", "in-the-body"])
async def test_a_stalled_server_does_not_hold_up_the_cancellation(
    server: FaultServer, operation: Operation, fault: spoil.Spoil
) -> None:
    remote = await serve_array(server, inner=(1,), settings=PATIENT)
    if fault is not spoil.no_answer and operation is plan_it:
        remote = await serve_array(server, settings=PATIENT)
        fault = spoil.no_answer  # a HEAD has no body
    server.script = spoil.always(fault)
    async with assert_no_leaks(server):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(SOON):
                async with asyncio.timeout(0.1):
                    await operation(remote)
    # Connections with half an answer are closed; idle ones may stay.
    assert await wait_for(lambda: server.open_connections <= 1)


async def test_connections_of_a_cancelled_read_are_closed_and_new_reads_get_new_ones(server: FaultServer) -> None:
    remote = await serve_array(server, shape=(64,), chunks=(1,), settings=PATIENT)
    server.script = spoil.always(spoil.no_answer)
    task = asyncio.ensure_future(read_it(remote))
    assert await wait_for(lambda: server.in_flight == 64)
    assert server.open_connections == 64
    task.cancel()
    assert await cancelled(task)
    assert await wait_for(lambda: server.open_connections == 0)
    server.script = None
    assert np.array_equal(await remote.array[...], remote.values)


@pytest.mark.parametrize("inner", [None, (1,)], ids=["plain", "sharded"])
async def test_a_cancelled_reader_does_not_hurt_another_one_of_the_same_chunks(
    server: FaultServer, inner: tuple[int] | None
) -> None:
    remote = await serve_array(server, inner=inner, settings=PATIENT)
    server.latency = 0.5  # longer than all of this takes on a busy machine
    async with assert_no_leaks(server):
        first = asyncio.ensure_future(read_it(remote))
        assert await wait_for(lambda: server.in_flight > 0)
        second = asyncio.ensure_future(read_it(remote))
        for _ in range(5):
            await unfinished_on_io_thread()  # rounds of that loop, in which the second one joins
        first.cancel()
        assert await cancelled(first)
        assert np.array_equal(await second, remote.values)
    assert len(remote.keys) == (4 if inner is None else 8)  # what the first had asked for served the second


async def test_a_cancellation_while_waiting_for_a_retry_is_immediate(server: FaultServer) -> None:
    remote = await serve_array(server, settings=PATIENT)
    server.script = spoil.always(spoil.status(503, Retry_After="20"))
    async with assert_no_leaks(server):
        task = asyncio.ensure_future(read_it(remote))
        assert await wait_for(lambda: len(remote.keys) == 4 and server.in_flight == 0)
        task.cancel()
        assert await cancelled(task)
    assert len(remote.keys) == 4


@pytest.mark.parametrize("inner", [None, (1,)], ids=["plain", "sharded"])
@pytest.mark.parametrize("operation", [read_it, read_many, stream_it])
async def test_the_first_error_ends_the_others_and_is_raised_alone(
    server: FaultServer, operation: Operation, inner: tuple[int] | None
) -> None:
    remote = await serve_array(server, shape=(128,), chunks=(2,), inner=inner, settings=PATIENT)

    def script(request: spoil.Request, reply: spoil.Reply) -> spoil.Reply:
        return spoil.status(403)(reply) if request.key == "c/1" else spoil.no_answer(reply)

    server.script = script
    async with assert_no_leaks(server):
        with pytest.raises(aiozarr.PermissionDeniedError) as raised:
            await operation(remote)
        assert raised.value.key == "c/1"
        assert raised.value.__context__ is None
    assert await wait_for(lambda: server.open_connections <= 1)


async def test_errors_of_many_chunks_at_once_are_one_error(server: FaultServer) -> None:
    remote = await serve_array(server, shape=(128,), chunks=(2,), settings=replace(PATIENT, retries=0))
    server.script = spoil.always(spoil.status(500))
    for _ in range(5):
        async with assert_no_leaks(server):
            with pytest.raises(aiozarr.StoreError):
                await read_it(remote)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
async def test_the_timeout_of_the_settings_is_a_store_timeout_error_and_leaves_nothing(
    server: FaultServer, operation: Operation
) -> None:
    remote = await serve_array(server, settings=PATIENT)
    limited = replace(PATIENT, timeout=0.1)
    server.script = spoil.when(lambda request: request.key != "zarr.json", spoil.no_answer)
    array = await aiozarr.open_array(server.url, zarr_format=3, settings=limited)
    server.script = spoil.always(spoil.no_answer)
    async with assert_no_leaks(server):
        with pytest.raises(aiozarr.StoreTimeoutError, match=r"0\.1 seconds") as raised:
            if operation is open_it:
                await aiozarr.open_array(server.url, zarr_format=3, settings=limited)
            else:
                await operation(RemoteArray(server, array, remote.values))
    assert isinstance(raised.value, TimeoutError)
    assert raised.value.elapsed == 0.1


async def test_leaving_a_stream_early_cancels_its_requests(server: FaultServer) -> None:
    remote = await serve_array(server, shape=(64,), chunks=(1,), settings=PATIENT)
    server.script = spoil.when(lambda request: request.key not in ("c/0", "zarr.json"), spoil.no_answer)
    async with assert_no_leaks(server), aclosing(remote.array[...].stream()) as blocks:
        async for region, block in blocks:
            assert (region, block.tolist()) == ((slice(0, 1),), [1])
            break
    assert await wait_for(lambda: server.open_connections <= 1)


@pytest.mark.parametrize("inner", [None, (1 << 16,)], ids=["plain", "sharded"])
async def test_cancelled_while_chunks_are_decoded_it_waits_for_the_threads_that_write_into_out(
    server: FaultServer, inner: tuple[int] | None
) -> None:
    gzip = [{"name": "bytes", "configuration": {"endian": "big"}}, {"name": "gzip", "configuration": {"level": 1}}]
    remote = await serve_array(server, shape=(1 << 21,), chunks=(1 << 18,), inner=inner, codecs=gzip, settings=PATIENT)
    for at in range(8 if inner is None else 32):
        out = np.zeros_like(remote.values)
        async with assert_no_leaks(server):
            tasks: list[asyncio.Task[Any]] = []

            def stop(progress: aiozarr.Progress, at: int = at, tasks: list[asyncio.Task[Any]] = tasks) -> None:
                if progress.done >= at:
                    tasks[0].cancel()

            tasks.append(asyncio.ensure_future(remote.array[...].read(out, progress=stop)))
            await asyncio.wait(tasks)
            after = out.copy()
        # Nobody writes into memory that the caller has back.
        assert np.array_equal(out, after)
        assert np.all((out == 0) | (out == remote.values))


async def test_a_task_group_of_reads_one_of_which_fails_leaves_nothing(server: FaultServer) -> None:
    remote = await serve_array(server, shape=(64,), chunks=(1,), settings=PATIENT)
    server.script = lambda request, reply: spoil.status(403)(reply) if request.key == "c/63" else spoil.no_answer(reply)
    async with assert_no_leaks(server):
        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.TaskGroup() as group:
                for start in range(64):
                    group.create_task(remote.array[start : start + 1].read())
        assert [type(error) for error in raised.value.exceptions] == [aiozarr.PermissionDeniedError]


async def test_a_second_cancellation_does_not_leave_the_first_ones_work_behind(server: FaultServer) -> None:
    remote = await serve_array(server, settings=PATIENT)
    server.script = spoil.always(spoil.no_answer)
    async with assert_no_leaks(server):
        task = asyncio.ensure_future(read_it(remote))
        assert await wait_for(lambda: server.in_flight == 4)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        assert await cancelled(task)
