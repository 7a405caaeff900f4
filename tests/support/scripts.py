"""Runs a script in an interpreter of its own, for what only a whole process can show."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

LIVENESS = 60.0
"""Seconds after which a script counts as hung; none takes more than a few."""


def run_script(code: str, *arguments: str, timeout: float = LIVENESS, **environment: str) -> str:
    """Run `code` with warnings as errors; return what it prints, once it has ended well and complained of nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=os.environ | environment,
    )
    assert done.stderr == "", done.stderr
    assert done.returncode == 0, done.returncode
    return done.stdout
