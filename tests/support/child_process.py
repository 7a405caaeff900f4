"""A script in an interpreter of its own, for tests of what only a whole process shows."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

LIVENESS = 60.0
"""Seconds after which a script counts as hung; none takes more than a few."""

_REPOSITORY = Path(__file__).parents[2]


def repository_path() -> str:
    """Return a `PYTHONPATH` with which a process finds `tests.support`."""
    return os.pathsep.join(filter(None, [str(_REPOSITORY), os.environ.get("PYTHONPATH")]))


def run_script(code: str, *arguments: str, timeout: float = LIVENESS, **environment: str) -> str:
    """Run `code` with warnings as errors, and check that it exits with 0 and writes nothing to standard error.

    Returns:
        Its standard output.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "PYTHONPATH": repository_path(), **environment},
    )
    assert done.stderr == "", done.stderr
    assert done.returncode == 0, done.returncode
    return done.stdout
