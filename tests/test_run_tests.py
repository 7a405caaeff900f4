"""`scripts.run_tests` repeats failed tests once, and never hides one that fails twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def status_of(folder: Path, source: str) -> int:
    (folder / "test_it.py").write_text(source, "utf-8")
    command = [sys.executable, "-m", "scripts.run_tests", "-n", "1", "--dist", "loadfile", "-q"]
    options = [str(folder), f"--rootdir={folder}", "-o", "addopts=", "-c", str(folder / "pytest.ini"), "-p", "xdist"]
    # Each of the runs would import every plugin that is installed, and needs the test processes only.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    return subprocess.run([*command, *options], cwd=ROOT, env=environment, check=False, capture_output=True).returncode


def test_a_test_that_passes_alone_does_not_fail_the_run(tmp_path: Path) -> None:
    assert status_of(tmp_path, FAILS_ONCE) == 0


def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    assert status_of(tmp_path, FAILS_ONCE + FAILS) == 1


def test_a_run_without_tests_is_not_repeated(tmp_path: Path) -> None:
    assert status_of(tmp_path, "") == 5
