"""`scripts.run_tests` repeats failed tests once and alone, and never hides one that fails twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FAILS_ONCE = """
from pathlib import Path

def test_fails_at_first():
    mark = Path(__file__).with_suffix(".mark")
    if not mark.exists():
        mark.touch()
        raise AssertionError("other tests ran beside this one")
"""
FAILS = "def test_fails():\n    assert False\n"
NOTES_LOCKS = """
import fcntl
from pathlib import Path

def can_lock(kind):
    with open(".pytest_cache/run_tests.lock") as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True

def test_fails_after_noting_what_other_runs_can_lock():
    with open("notes", "a") as notes:
        print("first runs:", can_lock(fcntl.LOCK_SH), "second runs:", can_lock(fcntl.LOCK_EX), file=notes)
    assert False
"""


def status_of(folder: Path, source: str) -> int:
    (folder / "test_it.py").write_text(source, "utf-8")
    command = [sys.executable, "-m", "scripts.run_tests", "-n", "1", "--dist", "loadfile", "-q"]
    options = [str(folder), f"--rootdir={folder}", "-o", "addopts=", "-c", str(folder / "pytest.ini"), "-p", "xdist"]
    # Each of the runs would import every plugin that is installed, and needs the test processes only.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    # Not in the folder of the run that this test is part of, whose lock is held.
    return subprocess.run(
        [*command, *options], cwd=folder, env=environment, check=False, capture_output=True
    ).returncode


def test_a_test_that_passes_alone_does_not_fail_the_run(tmp_path: Path) -> None:
    assert status_of(tmp_path, FAILS_ONCE) == 0


def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    assert status_of(tmp_path, FAILS_ONCE + FAILS) == 1


def test_a_run_without_tests_is_not_repeated(tmp_path: Path) -> None:
    assert status_of(tmp_path, "") == 5


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks of this kind")
def test_the_second_run_is_alone_and_first_runs_are_not(tmp_path: Path) -> None:
    assert status_of(tmp_path, NOTES_LOCKS) == 1
    assert (tmp_path / "notes").read_text("utf-8").splitlines() == [
        "first runs: True second runs: False",
        "first runs: False second runs: False",
    ]
