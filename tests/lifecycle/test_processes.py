"""What happens to arrays and stores in forked and spawned processes."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiozarr
from aiozarr import sync
from tests.support.child_process import run_script
from tests.support.servers.http_server import FaultServer

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")

CHILD = """
import asyncio, os, sys, warnings
# 3.12 warns of forks in processes with threads, which is what this is about.
warnings.simplefilter("ignore", DeprecationWarning)
import aiozarr
from aiozarr import sync

def in_child(function):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            function()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

place = sys.argv[1]
if os.environ.get("ASYNCIO_ONLY"):
    sys.modules["uvloop"] = None
"""


@forking
@pytest.mark.parametrize("asyncio_only", ["", "yes"], ids=["uvloop", "asyncio"])
def test_a_forked_child_reads_open_and_newly_opened_arrays_over_its_own_connections(
    place: str, server: FaultServer, asyncio_only: str
) -> None:
    code = (
        CHILD
        + """
if place.startswith("memory"):
    array = sync.create_array(place, shape=20, dtype="i4", chunks=2, overwrite=True)
    array[...] = range(20)
array = sync.open_array(place)
assert array[...].sum() == 190

async def read(which):
    return (await which[...]).sum()

def child():
    print("child", array[...].sum())
    print("child", sync.open_array(place)[...].sum())
    print("child", asyncio.run(read(array._async)))

for _ in range(2):
    in_child(child)
    print("parent", array[...].sum())
"""
    )
    lines = run_script(code, place, ASYNCIO_ONLY=asyncio_only).splitlines()
    assert lines == ["child 190", "child 190", "child 190", "parent 190"] * 2
    if place == server.url:
        # The parent's connections are the parent's: nothing the children did has closed or used them.
        by_connection = [request.connection for request in server.requests]
        assert server.connections < len(by_connection)


@forking
def test_a_child_forked_from_the_midst_of_a_read_does_not_hang(server: FaultServer) -> None:
    code = (
        CHILD
        + """
import threading
array = sync.open_array(place)

def read_on():
    while not stop.is_set():
        assert array[...].sum() == 190

stop = threading.Event()
threads = [threading.Thread(target=read_on) for _ in range(4)]
for thread in threads:
    thread.start()
for _ in range(10):
    in_child(lambda: print("child", array[...].sum()))
stop.set()
for thread in threads:
    thread.join()
"""
    )
    assert run_script(code, server.url).splitlines() == ["child 190"] * 10


@forking
def test_a_fork_waits_for_a_module_that_another_thread_is_importing(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time; time.sleep(0.3); value = 1")
    run_script(
        CHILD
        + """
import signal, threading, time
sync.create_array("memory://lazy", data=[1])
sys.path.insert(0, sys.argv[1])
thread = threading.Thread(target=lambda: __import__("slow"))
thread.start()
while "slow" not in sys.modules:
    time.sleep(0.001)

def function():
    signal.alarm(10)  # ends a child that hangs
    import slow
    assert slow.value == 1

in_child(function)
thread.join()
""",
        str(tmp_path),
    )


@forking
def test_a_child_forked_inside_of_a_running_loop_reads_and_leaves_the_parents_loop_alone(
    server: FaultServer,
) -> None:
    code = (
        CHILD
        + """
async def main():
    array = await aiozarr.open_array(place)
    print((await array[...]).sum())
    blocking = sync.open_array(place)
    in_child(lambda: print("child", blocking[...].sum()))
    print((await array[...]).sum())

asyncio.run(main())
"""
    )
    assert run_script(code, server.url).splitlines() == ["190", "child 190", "190"]


@forking
def test_multiprocessing_by_fork_reads(server: FaultServer, folder: str) -> None:
    code = (
        CHILD
        + """
import multiprocessing

arrays = [sync.open_array(place) for place in sys.argv[1:]]

def total(number):
    return int(arrays[number % 2][...].sum())

if __name__ == "__main__":
    assert [total(n) for n in range(2)] == [190, 190]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(total, range(6)))
"""
    )
    assert run_script(code, server.url, folder) == f"{[190] * 6}\n"


@forking
def test_an_s3_store_written_to_before_a_fork_writes_in_the_child() -> None:
    code = (
        CHILD
        + """
from aiozarr.model import IfAbsent

store = aiozarr.stores.ObjectStore("s3://bucket", endpoint_url=place, key="k", secret="s")

async def fetch():
    return await store.fetch("a")

async def write(key):
    await store.set(key, b"y", precondition=IfAbsent())

asyncio.run(write("b"))

def child():
    assert asyncio.run(fetch()) is not None
    asyncio.run(write("c"))

in_child(child)
assert asyncio.run(fetch()) is not None
"""
    )
    with FaultServer({"bucket/a": b"x"}) as server:
        assert run_script(code, server.url) == ""
        assert server.keys() == ["bucket/a", "bucket/b", "bucket/c"]


# --- spawned processes ---------------------------------------------------------------------------------------------


@pytest.fixture
def pickled(place: str) -> Iterator[bytes]:
    with sync.open_array(place, settings=aiozarr.Settings(idle_timeout=7)) as array:
        array[0]
        yield pickle.dumps([array, array._async, array.view[2:4], array.store])


def test_arrays_views_and_stores_are_pickled_and_work_in_a_spawned_process(
    pickled: bytes, place: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("pickled") / "it"
    path.write_bytes(pickled)
    code = """
        import asyncio, pickle, sys

        with open(sys.argv[1], "rb") as file:
            array, later, view, store = pickle.load(file)

        async def read():
            return (await later[...]).sum()

        print(array.url, array.settings, array.store == store)
        if not array.url.startswith("memory"):
            print(array[...].sum(), view.read().tolist(), asyncio.run(read()))
    """
    lines = run_script(code, str(path)).splitlines()
    with sync.open_array(place) as array:
        assert lines[0] == f"{array.url} Settings(idle_timeout=7) True"
    # What is in memory is in the memory of one process.
    assert lines[1:] == ([] if place.startswith("memory") else ["190 [2, 3] 190"])


def test_arrays_are_read_by_a_spawned_pool(server: FaultServer) -> None:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    array = sync.open_array(server.url, zarr_format=3)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(type(array).__getitem__, array, 5).result(60) == 5
