"""Concurrent callers share one file system."""

import asyncio
import contextlib
import threading
from typing import Any

import fsspec

from aiozarr.stores import FsspecStore
from aiozarr.stores.fsspec.file_system_calls import FileSystemCalls


async def test_threads_that_ask_for_the_file_system_at_once_get_the_same_one() -> None:
    """The memory of fsspec has one cursor per file, so readers must take turns, and turns belong to a file system."""
    together = threading.Barrier(2, timeout=10)
    made: list[Any] = []

    class Slow:
        kinds = ()

        def make(self) -> Any:
            made.append(object())
            with contextlib.suppress(threading.BrokenBarrierError):
                together.wait(0.2)  # a second maker, if there is one, is here too
            return fsspec.filesystem("memory", skip_instance_cache=True)

    calls = FileSystemCalls(Slow(), FsspecStore("dir::memory://calls")._traits)  # type: ignore[arg-type]  # what is asked of it
    found = await asyncio.gather(*(asyncio.to_thread(lambda: calls.fs) for _ in range(4)))
    assert len(made) == 1
    assert all(fs is found[0] for fs in found)
