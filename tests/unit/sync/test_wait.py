"""A blocking call waits for the I/O thread: in any thread, inside a loop, and until its cancelled work has ended."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import aiozarr
from aiozarr import sync
from aiozarr.stores import MemoryStore


def stored(chunks: int = 2) -> sync.Array:
    array = sync.create_array(MemoryStore(), shape=20, dtype="i4", chunks=chunks)
    array[...] = np.arange(20)
    return array


async def test_blocking_names_work_inside_a_running_loop() -> None:
    array = stored()
    assert array[3:5].tolist() == [3, 4]
    assert (await (await aiozarr.open_array(array.store))[3:5]).tolist() == [3, 4]


def test_blocking_names_work_after_several_event_loops() -> None:
    array = stored()

    async def read() -> Any:
        return await (await aiozarr.open_array(array.store))[0]

    for _ in range(2):
        assert asyncio.run(read()) == 0
        assert array[1] == 1


def test_blocking_names_work_in_many_threads_at_once() -> None:
    array = stored()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: int(array[n % 20]), range(100)))
    assert found == [n % 20 for n in range(100)]


def test_a_record_counts_its_own_thread() -> None:
    array = stored()
    barrier = threading.Barrier(4)

    def count(n: int) -> tuple[int, int]:
        barrier.wait()
        if n == 0:
            array[...]
            return 0, 0
        with sync.record() as report:
            array[: 2 * n]
        return n, report.requests

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(count, range(4)))
    assert all(expected == requests for expected, requests in found)


def test_progress_is_called_in_the_thread_that_waits() -> None:
    array, threads, seen = stored(), set(), []

    def note(progress: aiozarr.Progress) -> None:
        threads.add(threading.get_ident())
        seen.append(progress)

    array.view.read(progress=note)
    assert seen[-1] == (10, 10, 80, 80)
    array.view.write(0, progress=note)
    assert seen[-1].done == 10
    assert threads == {threading.get_ident()}


def test_an_error_in_progress_ends_the_read_and_is_raised() -> None:
    array = stored()

    def fail(progress: aiozarr.Progress) -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        array.view.read(progress=fail)
    assert array[0] == 0


_INTERRUPTED = """
    import asyncio, threading, os, signal, sys
    import aiozarr
    from aiozarr import sync
    from aiozarr.stores import MemoryStore, Store, Supports

    class Slow(Store):
        supports = Supports(readable=True)
        url = "slow://"

        async def fetch(self, key, range=None, *, if_match=None):
            sys.stdout.write("begun\\n"); sys.stdout.flush()
            try:
                await asyncio.sleep(60)
            finally:
                sys.stdout.write("ended\\n"); sys.stdout.flush()

    try:
        sync.open(Slow(), zarr_format=3)
    except KeyboardInterrupt:
        print("interrupted")
    print(sync.create_array(MemoryStore(), shape=2, dtype="i4")[...].tolist())
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs POSIX signals")
def test_ctrl_c_cancels_the_work_waits_for_its_end_and_leaves_the_rest_working() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_INTERRUPTED)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert out.splitlines() == ["ended", "interrupted", "[0, 0]"], err
    assert process.returncode == 0


_LEFT_OPEN = """
    import threading, asyncio
    from aiozarr import sync
    from aiozarr.stores import MemoryStore

    array = sync.create_array(MemoryStore(), shape=20, dtype="i4", chunks=1)
    blocks = array.view.stream(1)
    next(iter(blocks))
    print("done")
"""


def test_the_interpreter_exits_though_a_stream_is_open() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(_LEFT_OPEN)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
