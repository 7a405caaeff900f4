"""The shell commands of README work on the data that its examples write."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_snippets import REPOSITORY, blocks_of, run_block

README = REPOSITORY / "README.md"


def test_the_shell_commands_of_the_readme_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = README.read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    with asyncio.Runner() as runner:
        block = next(block for block in blocks_of(text) if "create_group" in block.body)
        run_block(block, README, {"__name__": "__main__"}, runner, {})
    shell = re.search(r"^<!-- runs in the folder of the examples -->\n```sh\n(.*?)```", text, re.MULTILINE | re.DOTALL)
    assert shell is not None
    for line in shell[1].splitlines():
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(line, comments=True)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_the_readme_is_short() -> None:
    assert len(README.read_text("utf-8").split()) <= 650
