"""What an import costs: seconds in fresh processes, beside numpy's own import in the same run."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from collections.abc import Mapping

STATEMENTS = {
    "numpy": "import numpy",
    "aiozarr": "import aiozarr",
    "aiozarr, ready to open": "import aiozarr; aiozarr.open_array",
}
PEER_STATEMENTS = {"zarr-python": "import zarr", "tensorstore": "import tensorstore"}
_TIMED = "import time; begun = time.perf_counter(); {}; print(time.perf_counter() - begun)"


def import_seconds(
    pythons: Mapping[str, str], statements: Mapping[str, str], rounds: int = 5
) -> dict[str, float | None]:
    """Return the median seconds of each statement, in turn in fresh processes, after one that writes the bytecode.

    Args:
        pythons: the interpreter of each statement, by its name.
        statements: the import statements by name.
        rounds: processes for each statement.

    Returns: the seconds by name; None if the import fails.
    """
    found: dict[str, list[float]] = {name: [] for name in statements}
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(rounds + 1):
            for name, statement in statements.items():
                done = subprocess.run(
                    [pythons[name], "-c", _TIMED.format(statement)],
                    capture_output=True,
                    text=True,
                    check=False,
                    env=environment,
                )
                if number and done.returncode == 0:
                    found[name].append(float(done.stdout))
    return {name: statistics.median(seconds) if seconds else None for name, seconds in found.items()}


def import_lines(seconds: Mapping[str, float | None]) -> list[str]:
    """Return a line of text per import, with its ratio to numpy's."""
    numpy = seconds["numpy"]
    lines = []
    for name, value in seconds.items():
        if value is None or numpy is None:
            lines.append(f"import {name}: not installed")
        else:
            lines.append(f"import {name}: {value * 1000:.0f} ms, {value / numpy:.2f} of numpy's import")
    return lines
