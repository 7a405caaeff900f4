"""A forked child finds every lock free; cached properties hold none; serial numbers are handed out once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from aiozarr.common.fork_safe import SerialNumbers, fork_safe_cached_property

FORK = """
import contextlib, os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks in processes with threads
from fsspec.implementations.memory import MemoryFileSystem
from aiozarr.stores import MemoryStore, ZipStore
from aiozarr.stores.fsspec.file_system_calls import _locks
from aiozarr.stores.bucket.token_source import TokenSource
from aiozarr.stores.local.atomic_write import _process_locks
from aiozarr.stores.memory_store import _spaces
from aiozarr.stores.s3.address import S3Options
from aiozarr.stores.s3.credentials import FoundCredentials
from aiozarr.stores.zip.archive import open_archives

fs, memory, archive = MemoryFileSystem(), MemoryStore(), ZipStore("/no/such.zip")
tokens = TokenSource("")
found = FoundCredentials(S3Options(), "")
locks = {
    "fsspec": _locks.of(fs), "fsspec's": _locks._guard, "gcs": tokens._guard, "local": _process_locks[5],
    "memory": memory._space.lock, "memory's": _spaces._lock, "s3": found._guard,
    "archive": archive._archive.lock, "archives": open_archives._lock,
}
with contextlib.ExitStack() as held:
    for lock in locks.values():
        held.enter_context(lock)
    child = os.fork()
    if child == 0:
        opened = []
        for name, lock in locks.items():
            with lock:
                opened.append(name)
        os.write(1, f"{opened}\\n".encode())
        os._exit(0)
    os.waitpid(child, 0)
print([*locks])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
def test_a_child_of_a_fork_finds_the_locks_of_all_stores_open() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True, timeout=60)
    opened, known = done.stdout.splitlines()
    assert opened == known


def test_threads_get_each_number_once() -> None:
    numbers = SerialNumbers()
    with ThreadPoolExecutor(4) as pool:
        found = [each for part in pool.map(lambda _: [numbers.next() for _ in range(500)], range(4)) for each in part]
    assert sorted(found) == list(range(1, 2001))


@dataclass(frozen=True)
class Square:
    side: int

    @fork_safe_cached_property
    def areas(self) -> list[int]:
        """Area of the square."""
        return [self.side**2]

    @fork_safe_cached_property
    def broken(self) -> int:
        raise LookupError("no value")


def test_a_value_is_computed_once_per_instance() -> None:
    small, large = Square(2), Square(3)
    assert (small.areas, large.areas) == ([4], [9])
    assert small.areas is small.areas
    assert small == Square(2)


def test_an_error_is_not_cached() -> None:
    square = Square(2)
    for _ in range(2):
        with pytest.raises(LookupError, match="no value"):
            _ = square.broken
    assert "broken" not in vars(square)


def test_the_class_has_the_property_with_its_documentation() -> None:
    assert isinstance(Square.areas, fork_safe_cached_property)
    assert Square.areas.__doc__ == "Area of the square."


def test_no_thread_waits_for_the_computation_of_another() -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow:
        @fork_safe_cached_property
        def value(self) -> int:
            if threading.current_thread() is slow:
                begun.set()
                assert go_on.wait(10)
            return 1

    one = Slow()
    slow = threading.Thread(target=lambda: one.value)
    slow.start()
    assert begun.wait(10)
    assert one.value == Slow().value == 1
    go_on.set()
    slow.join()
