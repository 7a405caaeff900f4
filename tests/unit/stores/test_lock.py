"""Whoever held a lock in the parent, a forked child finds it open."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FORK = """
import contextlib, os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks in processes with threads
from fsspec.implementations.memory import MemoryFileSystem
from aiozarr.stores import LatencyStore, MemoryStore, ZipStore
from aiozarr.stores.fsspec.calls import _turns
from aiozarr.stores.gcs.tokens import Tokens
from aiozarr.stores.local.write import _process_locks
from aiozarr.stores.memory import _spaces
from aiozarr.stores.options.gcs import GcsOptions
from aiozarr.stores.s3.profiles import ProfileCredentials
from aiozarr.stores.zip.archive import archives

fs, memory, archive = MemoryFileSystem(), MemoryStore(), ZipStore("/no/such.zip")
tokens, profile, late = Tokens(GcsOptions(), "anonymous"), ProfileCredentials(None), LatencyStore(memory, 0)
locks = {
    "fsspec": _turns.of(fs)[0], "fsspec's": _turns._guard, "gcs": tokens._guard, "local": _process_locks[5],
    "memory": memory._space.lock, "memory's": _spaces._lock, "s3": profile._lock, "line": late._line._lock,
    "archive": archive._archive.lock, "archives": archives._lock,
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
