"""Run pytest, and run the failed tests again without others beside them.

A machine with two cores runs four test processes, among them servers, interpreters and killed children. A test that
fails there and passes alone is named in the output and does not fail the run. A wrong result fails both times.
Two Pythons may run side by side: the failed tests of one wait until the other's run has ended.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

if sys.platform != "win32":
    import fcntl

LOCK = Path(".pytest_cache/run_tests.lock")
PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"


def main(arguments: list[str]) -> int:
    """Return the exit status of the second run where there is one, else of the first."""
    with locked(is_alone=False):
        status = run(arguments)
    if status == pytest.ExitCode.TESTS_FAILED:
        print(f"\n{PYTHON}: the failed tests run again, alone, once no other run is under way.", flush=True)
        print("Those that pass now depended on others:", flush=True)
        again = ["-n", "0", "-v", "--last-failed", "--last-failed-no-failures", "none", *without_processes(arguments)]
        with locked(is_alone=True):
            status = run(again)
    print(f"{PYTHON}: {'passed' if status == pytest.ExitCode.OK else f'status {int(status)}'}", flush=True)
    return status


@contextmanager
def locked(*, is_alone: bool) -> Iterator[None]:
    """Hold the lock of the runs in this folder: first runs share it, a second run has it alone. Windows has none."""
    if sys.platform == "win32":
        yield
        return
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
        yield


def run(arguments: list[str]) -> int:
    # Each Python remembers its own failed tests.
    cache = ["-o", f"cache_dir=.pytest_cache/{sys.implementation.cache_tag}"]
    return subprocess.run([sys.executable, "-m", "pytest", *cache, *arguments], check=False).returncode


def without_processes(arguments: list[str]) -> list[str]:
    """Drop the options of pytest-xdist, each of which has a value of its own."""
    kept: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument in ("-n", "--dist"):
            next(remaining, None)
        elif argument != "-q":
            kept.append(argument)
    return kept


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
