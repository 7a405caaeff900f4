"""Arrays outlive event loops, and serve several loops and threads at once; what is recorded stays with its task."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr import sync
from aiozarr.stores import MemoryStore
from tests.support.child_process import run_script
from tests.support.leaks import assert_no_leaks
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

VALUES = np.arange(20)


def test_an_array_is_read_by_one_asyncio_run_after_another(place: str) -> None:
    async def use(array: aiozarr.Array | None) -> aiozarr.Array:
        array = array or await aiozarr.open_array(place)
        assert np.array_equal(await array[...], VALUES)
        async with aclosing(array[:6].stream(1)) as blocks:
            async for _ in blocks:
                break
        return array

    array = None
    for _ in range(3):
        array = asyncio.run(use(array))
    assert sync.open_array(place)[3] == 3


def test_a_store_used_directly_has_connections_of_each_loop_and_closes_them_with_it(server: FaultServer) -> None:
    store = aiozarr.stores.HTTPStore(server.url)

    async def fetch() -> None:
        assert bytes(await store.get("c/0") or b"") == server.get("c/0")

    for number in range(1, 4):
        asyncio.run(fetch())
        assert server.connections == number
    for _ in range(100):
        if server.open_connections == 0:
            break
        threading.Event().wait(0.02)
    assert server.open_connections == 0


def test_one_array_serves_sixteen_tasks_on_three_loops_in_three_threads(place: str) -> None:
    array = sync.open_array(place)._async
    barrier = threading.Barrier(3)

    async def read(number: int) -> None:
        for start in range(number % 5, 20, 5):
            part = slice(start, start + 5)
            assert np.array_equal(await array[part], VALUES[part])

    async def sixteen() -> None:
        barrier.wait()
        async with asyncio.TaskGroup() as group:
            for number in range(16):
                group.create_task(read(number))

    with ThreadPoolExecutor(3) as pool:
        for ended in [pool.submit(asyncio.run, sixteen()) for _ in range(3)]:
            ended.result()


def test_the_blocking_names_work_beside_loops_and_in_threads(place: str) -> None:
    array = sync.open_array(place)

    def read(number: int) -> bool:
        return np.array_equal(array[number : number + 4], VALUES[number : number + 4])

    async def beside_a_loop() -> None:
        assert read(3)  # as in a notebook: the loop waits, and nothing hangs
        assert all(await asyncio.gather(*(asyncio.to_thread(read, number) for number in range(16))))

    assert read(0)
    asyncio.run(beside_a_loop())
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(read, range(16)))


async def test_all_loops_share_one_budget(server: FaultServer) -> None:
    settings = aiozarr.Settings(max_requests=3)
    server.latency = 0.02
    array = await aiozarr.open_array(server.url, zarr_format=3, settings=settings)
    other = await aiozarr.open_array(server.url, zarr_format=3, settings=settings)

    async def read(which: aiozarr.Array) -> Any:
        return await which[...]

    found = await asyncio.gather(
        read(array), *(asyncio.to_thread(asyncio.run, read(which)) for which in (array, other, other))
    )
    assert all(np.array_equal(values, VALUES) for values in found)
    assert server.max_in_flight <= 3


# --- contexts ------------------------------------------------------------------------------------------------------


async def test_records_of_concurrent_tasks_do_not_mix() -> None:
    array = (await asyncio.to_thread(sync.create_array, MemoryStore(), shape=64, dtype="i4", chunks=1))._async
    writable = await aiozarr.open_array(array.store, mode="r+")
    await writable[...].write(np.arange(64))

    async def count(number: int) -> tuple[int, int]:
        with aiozarr.record() as report:
            for _ in range(number % 7):
                await array[number : number + 3]
                await asyncio.sleep(0)
        return 3 * (number % 7), report.chunks

    for expected, found in await asyncio.gather(*(count(number) for number in range(40))):
        assert found == expected


async def test_a_store_sees_the_context_of_the_caller_that_opens_with_it() -> None:
    who: ContextVar[str] = ContextVar("who", default="nobody")
    seen: list[tuple[str, str]] = []

    class Looking(MemoryStore):
        async def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
            return await super().list_dir(prefix)

        async def aclose(self) -> None:
            seen.append((self.name_of_opener, who.get()))

        name_of_opener = ""

    async def close(name: str) -> None:
        store = Looking()
        store.name_of_opener = name
        who.set(name)
        array = await aiozarr.create_array(store, shape=2, dtype="i4")
        array._options = array._options._replace(owns_store=True)
        await array.aclose()

    await asyncio.gather(*(close(f"caller {number}") for number in range(20)))
    assert len(seen) == 20
    assert all(opener == context for opener, context in seen)


# --- callbacks -----------------------------------------------------------------------------------------------------


async def test_progress_sees_the_context_of_its_caller_and_of_no_other(place: str) -> None:
    who: ContextVar[int] = ContextVar("who", default=-1)
    seen: list[tuple[int, int]] = []
    array = await aiozarr.open_array(place)

    async def read(number: int) -> None:
        who.set(number)
        await array[...].read(progress=lambda _: seen.append((number, who.get())))

    await asyncio.gather(*map(read, range(20)))
    assert {number for number, _ in seen} == set(range(20))
    assert all(number == context for number, context in seen)


async def test_progress_is_called_on_the_callers_loop_and_ends_with_the_total(place: str) -> None:
    array = await aiozarr.open_array(place)
    loop, thread = asyncio.get_running_loop(), threading.get_ident()
    seen: list[aiozarr.Progress] = []

    def note(progress: aiozarr.Progress) -> None:
        assert asyncio.get_running_loop() is loop
        assert threading.get_ident() == thread
        seen.append(progress)

    await array[...].read(progress=note)
    assert seen[-1] == (10, 10, 80, 80)
    assert [each.done for each in seen] == sorted({each.done for each in seen})


@pytest.mark.parametrize("operation", ["read", "write", "copy"])
async def test_an_error_of_progress_ends_the_operation_and_leaves_nothing_unfinished(operation: str) -> None:
    store = MemoryStore()
    array = await aiozarr.create_array(store, shape=20, dtype="i4", chunks=1)
    await array[...].write(VALUES)

    def fail(progress: aiozarr.Progress) -> None:
        raise RuntimeError("mine")

    async with assert_no_leaks():
        with pytest.raises(RuntimeError, match="mine"):
            if operation == "read":
                await array[...].read(progress=fail)
            elif operation == "write":
                await array[...].write(1, progress=fail)
            else:
                await aiozarr.copy(store, MemoryStore(), progress=fail)
    assert (await array[...]).shape == (20,)


async def test_an_error_of_progress_cancels_stalled_requests(server: FaultServer) -> None:
    array = await aiozarr.open_array(server.url, zarr_format=3)
    server.script = spoil.when(lambda request: request.key != "c/0", spoil.no_answer)

    def fail(progress: aiozarr.Progress) -> None:
        raise RuntimeError("mine")

    async with assert_no_leaks(server):
        with pytest.raises(RuntimeError, match="mine"):
            await array[...].read(progress=fail)


async def test_an_error_of_an_observer_is_logged_and_does_not_end_the_read(
    server: FaultServer, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: object) -> None:
        raise RuntimeError("mine")

    array = await aiozarr.open_array(server.url, zarr_format=3, settings=aiozarr.Settings(on_event=fail))
    assert np.array_equal(await array[...], VALUES)
    assert {record.name for record in caplog.records} == {"aiozarr"}
    assert len(caplog.records) == 11


# --- asyncio's own checks ------------------------------------------------------------------------------------------


def test_asyncio_debug_mode_reports_nothing(server: FaultServer, folder: str) -> None:
    code = """
        import asyncio, logging, sys
        import aiozarr
        from aiozarr import sync

        class Complaints(logging.Handler):
            def emit(self, record):
                # A machine may be busy for longer than a callback may take: that is no mistake of the callback.
                if not record.getMessage().startswith("Executing"):
                    print(record.getMessage())

        logging.getLogger("asyncio").addHandler(Complaints())
        logging.getLogger("asyncio").propagate = False

        async def main(place):
            async with await aiozarr.open_array(place) as array:
                for _ in range(3):
                    assert (await array[...]).sum() == 190
                async for region, block in array[...].stream(2):
                    pass
                try:
                    async with asyncio.timeout(0.001):
                        while True:
                            await array[...]
                except TimeoutError:
                    pass
            return array

        for place in sys.argv[1:]:
            array = asyncio.run(main(place))
            assert sync.open_array(place)[...].sum() == 190
            asyncio.run(aiozarr.copy(sys.argv[2], "memory://copied", overwrite=True))
    """
    assert run_script(code, server.url, folder, PYTHONASYNCIODEBUG="1") == ""
