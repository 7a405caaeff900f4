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
from aiozarr.stores.fsspec.file_system_calls import _path_locks
from aiozarr.stores.object.token_source import TokenSource
from aiozarr.stores.local.atomic_write import _process_locks
from aiozarr.stores.memory_store import _spaces
from aiozarr.stores.options.s3_options import S3Options
from aiozarr.stores.s3.credentials import FoundCredentials
from aiozarr.stores.zip.archive import open_archives

fs, memory, archive = MemoryFileSystem(), MemoryStore(), ZipStore("/no/such.zip")
tokens, late = TokenSource(""), LatencyStore(memory, 0)
found = FoundCredentials(S3Options(), "")
locks = {
    "fsspec": _path_locks.of(fs)[0], "fsspec's": _path_locks._guard, "gcs": tokens._guard, "local": _process_locks[5],
    "memory": memory._space.lock, "memory's": _spaces._lock, "s3": found._guard, "line": late._bandwidth._lock,
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
