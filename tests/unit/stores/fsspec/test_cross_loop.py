"""A file system is called on its own loop, and a cancelled call ends there too."""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fsspec.asyn import get_loop
from fsspec.implementations.memory import MemoryFileSystem

from aiozarr.errors import StoreError
from aiozarr.stores.fsspec.file_system_calls import run_on_loop
from aiozarr.stores.fsspec.store import FsspecStore
from tests.support.child_process import run_script
from tests.support.fsspec_file_systems import AsyncFiles, Tree
from tests.support.servers.moto import LocalS3


async def on_loop() -> tuple[asyncio.AbstractEventLoop, str]:
    return asyncio.get_running_loop(), threading.current_thread().name


async def test_a_coroutine_runs_on_the_loop_of_the_file_system() -> None:
    assert await run_on_loop(get_loop(), on_loop) == (get_loop(), "fsspecIO")
    assert (await run_on_loop(asyncio.get_running_loop(), on_loop))[0] is asyncio.get_running_loop()


async def test_an_error_crosses_as_it_is() -> None:
    async def fail() -> None:
        raise ZeroDivisionError("it")

    with pytest.raises(ZeroDivisionError, match="it"):
        await run_on_loop(get_loop(), fail)


async def test_a_cancellation_is_raised_once_the_work_there_has_ended() -> None:
    events: list[str] = []
    begun = threading.Event()

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            events.append("cancelled")
            await asyncio.sleep(0.02)
            events.append("ended")

    task = asyncio.create_task(run_on_loop(get_loop(), work))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # a second one does not interrupt the wait
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == ["cancelled", "ended"]


async def test_cancelled_work_does_not_cancel_its_caller() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(StoreError, match="cancelled"):
        await run_on_loop(get_loop(), work)


async def test_a_loop_that_has_ended_is_a_store_error() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(StoreError, match="ended"):
        await run_on_loop(loop, on_loop)


async def test_a_cancelled_request_leaves_nothing_under_way() -> None:
    fs = AsyncFiles(space="cancelled")
    store = FsspecStore(fs)
    await store.set("a", b"1")
    tasks = [asyncio.create_task(store.get("a")) for _ in range(50)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert fs.under_way == 0
    assert fs.loops == {get_loop()}


@pytest.mark.parametrize("kind", [AsyncFiles, Tree])
def test_sixteen_tasks_on_three_loops_in_three_threads_and_a_second_run_share_one_file_system(kind: Any) -> None:
    store = FsspecStore(kind(space=uuid.uuid4().hex), path="top")

    async def work(number: int) -> None:
        async def one(task: int) -> None:
            key = f"{number}/{task}"
            for step in range(3):
                await store.set(key, b"%d" % step)
                assert await store.get(key) == b"%d" % step

        await asyncio.gather(*(one(task) for task in range(16)))

    asyncio.run(work(9))
    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(asyncio.run, work(number)) for number in range(3)]:
            done.result()
    asyncio.run(work(9))
    assert len(asyncio.run(store.list())) == 64


async def test_a_listing_is_not_stale_though_the_file_system_keeps_listings(s3_server: LocalS3) -> None:
    s3_server.create_bucket("fresh")
    options = s3_server.storage_options
    store, other = FsspecStore("s3://fresh/x", **options), FsspecStore("s3://fresh/x", **options, max_concurrency=3)
    await other.set("a/b", b"1")
    assert await store.list_dir("a/") == (["a/b"], [])
    await other.set("a/c", b"22")
    assert await store.list_dir("a/") == (["a/b", "a/c"], [])
    await other.set("a/b", b"333")
    await other.erase("a/c")
    entry = await store.stat("a/b")
    assert entry is not None
    assert entry.size == 3
    assert await store.stat("a/c") is None
    assert await store.list() == ["a/b"]


async def test_directory_markers_and_invalid_keys_are_not_listed(s3_server: LocalS3) -> None:
    s3_server.create_bucket("markers")
    store = FsspecStore("s3://markers/x", **s3_server.storage_options)
    for key in ("x/", "x/a/", "x/a//b", "x/a/b", "xx/no"):
        await asyncio.to_thread(store.fs.call_s3, "put_object", Bucket="markers", Key=key, Body=b"")
    assert await store.list() == ["a/b"]
    assert await store.list_dir("") == ([], ["a/"])
    assert await store.list_dir("a/") == (["a/b"], [])
    assert await store.get("a") is None


async def test_a_missing_bucket_is_an_error_and_no_missing_value(s3_server: LocalS3) -> None:
    store = FsspecStore("s3://not-there/x", **s3_server.storage_options)
    for operation in (store.get("a"), store.set("a", b"1"), store.list()):
        with pytest.raises(StoreError, match="bucket does not exist") as caught:
            await operation
        assert caught.value.status == 404


FORK = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks in processes with threads
from aiozarr.stores.fsspec.store import FsspecStore

async def work():
    await store.set("a/b", b"1")
    return bytes(memoryview(await store.get("a/b")))

store = FsspecStore(sys.argv[1], **eval(sys.argv[2]))
print(asyncio.run(work()))
sys.stdout.flush()
pid = os.fork()
if pid == 0:
    try:
        print("child", asyncio.run(work()))
        sys.stdout.flush()
    finally:
        os._exit(0)
os.waitpid(pid, 0)
print(asyncio.run(work()))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("where", ["s3", "memory", "file"])
def test_a_forked_child_makes_the_file_system_again_and_no_exit_leaves_a_warning(
    where: str, s3_server: LocalS3, tmp_path: Any
) -> None:
    s3_server.create_bucket("forked")
    url = {"s3": "s3://forked/x", "memory": "memory://x", "file": f"file://{tmp_path}"}[where]
    options = s3_server.storage_options if where == "s3" else {}
    assert run_script(FORK, url, repr(options)).splitlines() == ["b'1'", "child b'1'", "b'1'"]


async def test_a_memory_file_system_that_shares_nothing_is_itself_only() -> None:
    try:
        one, other = (MemoryFileSystem(global_store=False, skip_instance_cache=True) for _ in range(2))
    except TypeError:
        pytest.skip("this fsspec has none")
    await FsspecStore(one).set("a", b"1")
    assert await FsspecStore(one).get("a") == b"1"
    assert await FsspecStore(other).get("a") is None
    assert FsspecStore(one) == FsspecStore(one)
    assert FsspecStore(one) != FsspecStore(other)


async def test_a_call_is_cancelled_also_where_the_other_loop_has_ended_meanwhile() -> None:
    class Ended:
        posted = 0

        def call_soon_threadsafe(self, call: Any) -> None:
            self.posted += 1
            if self.posted > 1:
                raise RuntimeError("Event loop is closed")

    there: Any = Ended()
    call: asyncio.Task[None] = asyncio.create_task(run_on_loop(there, lambda: asyncio.sleep(0)))
    while not there.posted:
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert there.posted == 2


def test_where_the_loop_that_was_given_has_ended_a_twin_serves() -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    store = FsspecStore(AsyncFiles("ended", loop=loop, skip_instance_cache=True))

    async def use() -> bytes:
        async with asyncio.timeout(10):
            await store.set("k", b"1")
            return bytes(await store.get("k") or b"")

    assert asyncio.run(use()) == b"1"
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    try:
        assert asyncio.run(use()) == b"1"
    finally:
        loop.close()
