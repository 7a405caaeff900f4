"""Processes end: soon, quietly, and whatever is open or under way; Ctrl-C ends a wait, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests.support.child_process import run_script
from tests.support.servers import http_replies as spoil
from tests.support.servers.http_server import FaultServer

EXIT_SECONDS = 1.5
"""How long the end of a process may take: a bound on waiting for others, with room for a busy machine."""

PARTS = {
    "open array": "array = sync.open_array(sys.argv[1]); array[...]",
    "array in an async script": "array = asyncio.run(opened()); asyncio.run(read(array))",
    "open stream": "blocks = sync.open_array(sys.argv[1]).view.stream(1); next(blocks)",
    "open streams in a cycle": "a = [sync.open_array(sys.argv[1]).view.stream(1)]; a.append(a); next(a[0])",
    "open async stream": "blocks = asyncio.run(one_block())",
    "stalled read in a daemon thread": """
threading.Thread(target=lambda: sync.open_array(sys.argv[2])[...], daemon=True).start()
time.sleep(0.3)
""",
    "stalled read of a loop in a daemon thread": """
async def stalled():
    await read(await aiozarr.open_array(sys.argv[2]))

threading.Thread(target=lambda: asyncio.run(stalled()), daemon=True).start()
time.sleep(0.3)
""",
    "stalled stream in a daemon thread": """
threading.Thread(target=lambda: list(sync.open_array(sys.argv[2]).view.stream()), daemon=True).start()
time.sleep(0.3)
""",
    "name that does not resolve in a daemon thread": """
import socket
socket.getaddrinfo = lambda *arguments, **options: time.sleep(60)
threading.Thread(target=lambda: sync.open_array("http://name.invalid/a.zarr"), daemon=True).start()
time.sleep(0.3)
""",
    "abandoned loop": """
loop = asyncio.new_event_loop()
array = loop.run_until_complete(opened())
loop.run_until_complete(read(array))
loop.close()
""",
    "many connections": "arrays = [sync.open_array(sys.argv[1]) for _ in range(20)]; [array[...] for array in arrays]",
}

PRELUDE = """
import asyncio, os, sys, threading, time
if os.environ.get("ASYNCIO_ONLY"):
    sys.modules["uvloop"] = None
import aiozarr
from aiozarr import sync

async def opened():
    return await aiozarr.open_array(sys.argv[1])

async def read(array):
    return await array[...]

async def one_block():
    blocks = (await opened())[...].stream(1)
    await anext(blocks)
    return blocks

"""


@pytest.mark.parametrize("asyncio_only", ["", "yes"], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("part", PARTS.values(), ids=[name.replace(" ", "-") for name in PARTS])
def test_a_process_exits_soon_and_silently_with_anything_open(
    server: FaultServer, part: str, asyncio_only: str
) -> None:
    with FaultServer({"zarr.json": server.get("zarr.json") or b""}) as stalled:
        stalled.script = spoil.when(lambda request: request.key != "zarr.json", spoil.no_answer)
        code = PRELUDE + part + "\nprint(time.time())"
        begun = float(run_script(code, server.url, stalled.url, ASYNCIO_ONLY=asyncio_only))
        assert time.time() - begun < EXIT_SECONDS


def test_reading_at_exit_and_in_finalizers_works_before_and_after_our_own_exit_handler(
    server: FaultServer, folder: str
) -> None:
    code = """
        import atexit, sys

        def read(name, array=None):
            import numpy
            from aiozarr import sync

            for place in sys.argv[1:]:
                values = sync.open_array(place)[...]
                print(name, int(values.sum()))

        atexit.register(read, "after ours")

        from aiozarr import sync

        class Owner:
            def __init__(self, place):
                self.array = sync.open_array(place)

            def __del__(self):
                print("finalizer", int(self.array[...].sum()))

        def also_reopens():
            read("before ours")

        atexit.register(also_reopens)
        for place in sys.argv[1:]:
            owner = Owner(place)
            cycle = [owner]
            cycle.append(cycle)
            del owner, cycle
            import gc
            gc.collect()
        read("plain")
    """
    lines = run_script(code, server.url, folder).splitlines()
    assert lines == [
        f"{name} 190" for name in ["finalizer"] * 2 + ["plain"] * 2 + ["before ours"] * 2 + ["after ours"] * 2
    ]


def test_an_io_thread_started_after_our_exit_handler_uses_asyncio(folder: str) -> None:
    """Nobody stops it any more, and uvloop crashes the process when the interpreter does."""
    code = """
        import atexit, sys

        def late():
            from aiozarr import sync
            from aiozarr.engine.private_thread import io_thread

            sync.open_array(sys.argv[1])[...]
            print(type(io_thread().loop).__module__.split(".")[0])

        atexit.register(late)

        from aiozarr import sync

        sync.open_array(sys.argv[1])[...]
    """
    assert run_script(code, folder) == "asyncio\n"


def test_a_finalizer_that_runs_when_the_interpreter_is_gone_gets_an_error_and_no_thread(server: FaultServer) -> None:
    code = """
        import sys
        from aiozarr import sync

        class Owner:
            def __init__(self):
                self.array = sync.open_array(sys.argv[1])
                self.array[0]

            def __del__(self):
                try:
                    self.array[...]
                except RuntimeError as error:
                    sys.__stdout__.write("exiting\\n" if "exiting" in str(error) else repr(error))
                    sys.__stdout__.flush()

        sys.owner = Owner()  # lives until the modules are taken down
    """
    assert run_script(code, server.url) in ("exiting\n", "")


INTERRUPTED = """
    import sys, threading, time
    from aiozarr import sync

    array = sync.open_array(sys.argv[1], zarr_format=3)
    print("ready", flush=True)
    try:
        if sys.argv[2] == "read":
            array[...]
        elif sys.argv[2] == "open":
            sync.open_array(sys.argv[1] + "/c", zarr_format=3)
        else:
            list(array.view.stream())
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    assert sys.stdin.readline() == "mended\\n"
    print(int(array[...].sum()), flush=True)
    if sys.argv[3] == "again":
        array[...]
        sys.stdin.readline()
        raise KeyboardInterrupt
"""


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize("operation", ["read", "open", "stream"])
def test_ctrl_c_ends_a_blocking_call_to_a_stalled_server_and_the_process_continues(
    server: FaultServer, operation: str
) -> None:
    stall = spoil.when(lambda request: request.key != "zarr.json", spoil.no_answer)
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(INTERRUPTED), server.url, operation, "no"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdin is not None
        server.script = stall
        assert process.stdout.readline() == "ready\n"
        # Not `in_flight`: the server may still be about to finish what was answered before.
        wait_until(lambda: any(request.key != "zarr.json" for request in server.requests))
        begun = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        line = process.stdout.readline()
        assert line == "interrupted\n", line or process.communicate()
        assert time.monotonic() - begun < 1
        wait_until(lambda: server.in_flight == 0)
        server.script = None
        out, err = process.communicate("mended\n", timeout=30)
    finally:
        process.kill()
        process.wait()
    assert (out, err, process.returncode) == ("190\n", "", 0)


UNCAUGHT = {
    "sync": """
from aiozarr import sync
array = sync.open_array(sys.argv[1], zarr_format=3)
print('ready', flush=True)
array[...]
""",
    "asyncio": """
import asyncio, aiozarr
async def main():
    array = await aiozarr.open_array(sys.argv[1], zarr_format=3)
    print('ready', flush=True)
    await array[...]
asyncio.run(main())
""",
}


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize("code", UNCAUGHT.values(), ids=UNCAUGHT)
def test_uncaught_ctrl_c_ends_the_process_with_its_own_traceback_only(server: FaultServer, code: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", "import sys\n" + code, server.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        server.script = spoil.when(lambda request: request.key != "zarr.json", spoil.no_answer)
        assert process.stdout.readline() == "ready\n"
        # Not `in_flight`: the server may still be about to finish what was answered before.
        wait_until(lambda: any(request.key != "zarr.json" for request in server.requests))
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode in (-signal.SIGINT, 130)
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert "Exception ignored" not in err
    assert "never retrieved" not in err
    assert "was destroyed" not in err


def wait_until(condition: object) -> None:
    for _ in range(1000):
        if condition():  # type: ignore[operator]
            return
        time.sleep(0.01)
    raise AssertionError("it does not come to pass")
