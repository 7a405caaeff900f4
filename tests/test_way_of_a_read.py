"""The ways of a read and of a write in the design note are those of the code, and a read takes no longer way."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTE = (ROOT / "docs/design/001-architecture.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", NOTE, re.DOTALL)
HAND_OVERS = "①②③④⑤⑥⑦⑧⑨"
RESPONSE = "Connection._begin_body"

MAX_LINES = 40
# Hand-overs, modules and functions by the length of the array's sides.
# If no worker is busy, the I/O thread decodes the few chunks of a small array itself.
MAX_WAYS = {64: (5, 51, 265), 256: (7, 52, 273)}


def lines_of(block: str) -> Iterator[tuple[str, str]]:
    """The lines of code of a block, each with the module that it is said to be in."""
    module = ""
    for line in block.splitlines():
        if line.startswith("# "):
            module = line.removeprefix("# ")
        else:
            yield module, re.sub(r"  # .*", "", line)


def test_the_note_has_the_way_of_a_read_and_of_a_write() -> None:
    assert len(BLOCKS) == 2
    assert all(len(list(lines_of(block))) <= MAX_LINES for block in BLOCKS)
    for block in BLOCKS:
        marks = [each for each in block if each in HAND_OVERS]
        assert marks == list(HAND_OVERS[: len(marks)])


@pytest.mark.parametrize(("module", "line"), [each for block in BLOCKS for each in lines_of(block)])
def test_each_line_of_the_ways_is_in_the_source(module: str, line: str) -> None:
    source = (ROOT / "src/aiozarr" / module).read_text("utf-8")
    assert line in [each.strip() for each in source.splitlines()], f"{module} has no such line any more"


@pytest.mark.parametrize("side", MAX_WAYS)
def test_a_cold_read_of_a_shard_takes_no_longer_way_than_the_note_says(side: int) -> None:
    way = count_way(side)
    assert all(count <= most for count, most in zip(way, MAX_WAYS[side], strict=True)), way


def count_way(side: int) -> list[int]:
    """Count in a process of its own, because the I/O thread must begin with the profile."""
    output = subprocess.run(
        [sys.executable, "-c", f"from tests.test_way_of_a_read import trace; trace({side})"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    return [int(count) for count in output.split()]


# Functions that a thread, the network or a later turn of a loop begins with, by what hands over to it. What follows
# another one of the same kind is part of the same hand-over.
BEGINNINGS = {
    "Mailbox._empty": "mailbox",
    "Engine.read": "call",
    "CrossThreadCall._ended": "mailbox",
    "Connection.get_buffer": "network",
    "Connection.buffer_updated": "network",
    "RequestExecutor._process_responses": "responses",
    "run_all": "worker",
    "FairQueue.get": "worker",
    "complete_all": "loop",
    # A task that a mailbox has begun, or ended.
    "observed.<locals>.decorate.<locals>.call": "mailbox",
}
TIMER = "Pool._sweep"  # of a pool of connections, which comes at any time
# Of the turn of the loop before, with nothing left to do.
EMPTY = {
    "TurnGate._next_turn",
    "RangeCoalescer.flush",
    "ThreadPool.flush",
}


def trace(side: int) -> None:
    """Print how many hand-overs, modules and functions a read takes of half an array with sides of this length."""
    import os
    import threading
    from types import FrameType
    from typing import Any

    import numpy as np

    import aiozarr
    from tests.support.remote_arrays import serve_array
    from tests.support.servers.http_server import FaultServer

    # One worker: a second one would make its memory and decoders in one of the reads.
    if sys.platform == "linux":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    source = str(Path(aiozarr.__file__).parent)
    functions: set[tuple[str, str]] = set()
    beginnings: list[str] = []
    responses = 0
    is_on = False

    def is_own(frame: FrameType | None) -> bool:
        return frame is not None and frame.f_code.co_filename.startswith(source)

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal responses
        code = frame.f_code
        if not is_on or event != "call" or not is_own(frame) or code.co_name.startswith(("<", "__post_init__")):
            return
        if TIMER in (code.co_qualname, frame.f_back.f_code.co_qualname if frame.f_back else ""):
            return
        functions.add((code.co_filename, code.co_qualname))
        responses += code.co_qualname == RESPONSE
        caller = frame.f_back
        # The loop of the I/O thread may be one of another library, whose frames Python does not see.
        if caller is None or not is_own(caller) or caller.f_code.co_name == "_serve":
            beginnings.append(code.co_qualname)

    threading.setprofile(profile)

    async def read(server: FaultServer) -> None:
        nonlocal is_on
        remote = await serve_array(server, shape=(side, side), chunks=(side, side), inner=(side // 4, side // 4))
        settings = aiozarr.Settings(merge_gap_bytes=0, index_cache_bytes=0)
        array = await aiozarr.open_array(server.url, zarr_format=3, settings=settings)
        await array[: side // 2]
        sys.setprofile(profile)
        is_on = True
        values = await array[: side // 2]
        is_on = False
        sys.setprofile(None)
        assert np.array_equal(values, remote.values[: side // 2])

    with FaultServer() as server:
        asyncio.run(read(server))
    kinds = [BEGINNINGS[each] for each in beginnings[3:] if each not in EMPTY]
    # The call begins in the turn that empties the mailbox: one hand-over.
    kinds = ["mailbox" if number == 1 else kind for number, kind in enumerate(kinds)]
    changes = [kind for before, kind in zip(["caller", *kinds], kinds, strict=False) if kind != before]
    # A response is one hand-over, in however many pieces it comes, and the next one another.
    hand_overs = len(changes) - changes.count("network") + responses
    sys.stdout.write(f"{hand_overs} {len({path for path, _ in functions})} {len(functions)}\n")
