"""Run pytest, and run the failed tests again without others beside them.

A machine with two cores runs four test processes, among them servers, interpreters and killed children. A test that
fails there and passes alone is named in the output and does not fail the run. A wrong result fails both times.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"


def main(arguments: list[str]) -> int:
    """Return the exit status of the second run where there is one, else of the first."""
    status = run(arguments)
    if status == pytest.ExitCode.TESTS_FAILED:
        print(f"\n{PYTHON}: the failed tests run again, alone. Those that pass now depended on others:", flush=True)
        status = run(
            ["-n", "0", "-v", "--last-failed", "--last-failed-no-failures", "none", *without_processes(arguments)]
        )
    print(f"{PYTHON}: {'passed' if status == pytest.ExitCode.OK else f'status {int(status)}'}", flush=True)
    return status


def run(arguments: list[str]) -> int:
    # Two Pythons may run side by side: each remembers its own failed tests.
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
