"""The command line in this process, and as a process of its own; and a small store that commands read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

import aiozarr.sync
from aiozarr.cli.command_group import ROOT

LIVENESS_SECONDS = 60.0


def invoke(*arguments: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(ROOT, [str(each) for each in arguments], prog_name="aiozarr")


def succeed(*arguments: object) -> Result:
    """Run a command in this process, and check that it succeeds."""
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    return result


def records(*arguments: object, code: int = 0) -> list[dict[str, Any]]:
    """Run a command with `--json` in this process, and return its objects."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def run_process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as a process, and wait for it."""
    return subprocess.run(
        [sys.executable, "-m", "aiozarr", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIVENESS_SECONDS,
        **options,
    )


def environment(**variables: str) -> dict[str, str]:
    """Return this process's environment with further variables."""
    return {**os.environ, **variables}


def make_sample(root: Path) -> Path:
    """Create a group with an array `air` (4 × 6 × 8 in eight chunks), its coordinate `lat`, and a sharded array."""
    group = aiozarr.sync.create_group(root, attributes={"title": "sample"})
    air = group.create_array(
        "air", shape=(4, 6, 8), chunks=(2, 3, 4), dtype="float32", dimension_names=("time", "lat", "lon")
    )
    air[...] = np.arange(192, dtype="f4").reshape(4, 6, 8)
    group.create_array("lat", data=np.linspace(-50.0, 50.0, 6), dimension_names=("lat",))
    deep = group.create_array("deep/shards", shape=(8, 8), chunks=(2, 2), shards=(4, 4), dtype="int16")
    deep[...] = np.arange(64).reshape(8, 8)
    return root


def damage(file: Path, start: int, length: int = 4) -> None:
    """Overwrite bytes of a file; a negative `start` counts from its end."""
    data = bytearray(file.read_bytes())
    start = start if start >= 0 else len(data) + start
    data[start : start + length] = b"\xff" * length
    file.write_bytes(data)
