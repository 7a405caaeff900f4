"""The reference of the command line equals the commands, and the guide shows what they print."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import aiozarr
from aiozarr.cli.command_group import CommandGroup
from scripts import make_command_docs


def test_the_page_equals_the_output_of_its_script() -> None:
    written = make_command_docs.PAGE.read_text("utf-8")
    assert written == make_command_docs.page(), "run: .venv/bin/python -m scripts.make_command_docs"


REMEDY = "correct the members in scripts/make_command_docs.py, and run: .venv/bin/python -m scripts.make_command_docs"
ARGUMENTS = {
    "info": ["a.zarr/t"],
    "tree": ["a.zarr"],
    "ls": ["a.zarr"],
    "cat": ["a.zarr/t"],
    "plan": ["a.zarr/t"],
    "cp": ["a.zarr", "b.zarr"],
    "sync": ["a.zarr", "b.zarr"],
    "rm": ["a.zarr/zarr.json"],
    "convert": ["a.zarr", "b.zarr"],
    "mv": ["a.zarr/t", "a.zarr/u"],
    "diff": ["a.zarr", "a.zarr"],
    "verify": ["a.zarr"],
    "validate": ["a.zarr"],
    "consolidate": ["a.zarr"],
}


LINES = {
    "cp -n, sync -n": [
        ["cp", "-n", "a.zarr", "b.zarr"],
        ["sync", "-n", "a.zarr", "b.zarr"],
    ],
    "convert -n": [["convert", "-n", "a.zarr", "b.zarr"]],
    "info of a group": [["info", "a.zarr"]],
    "rm": [["rm", "-r", "-n", "a.zarr"]],
    "diff": [["diff", "a.zarr", "bad.zarr"]],
    "verify": [["verify", "bad.zarr"]],
    "validate": [["validate", "bad.zarr"]],
}


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory with a group, an array of format 2, and an array with a damaged chunk and two documents."""
    monkeypatch.chdir(tmp_path)
    group = aiozarr.sync.create_group("a.zarr")
    group.create_array("t", data=np.arange(6.0).reshape(2, 3))
    aiozarr.sync.create_array("old.zarr", data=[1], zarr_format=2)
    aiozarr.sync.create_array("bad.zarr", data=[1])
    Path("bad.zarr/c/0").write_bytes(b"damaged")
    shutil.copy("old.zarr/.zarray", "bad.zarr/.zarray")


def lines_of(arguments: list[str], code: int = 0) -> list[str]:
    """The members of each line that a command prints."""
    result = CliRunner().invoke(CommandGroup(name="aiozarr"), [*arguments, "--json"])
    assert result.exit_code == code, result.output
    return [", ".join(json.loads(line)) for line in result.stdout.splitlines()]


@pytest.mark.usefixtures("stores")
@pytest.mark.parametrize("command", make_command_docs.JSON_MEMBERS)
def test_json_has_the_members_that_the_page_lists(command: str) -> None:
    assert lines_of([command, *ARGUMENTS[command]])[-1] == make_command_docs.JSON_MEMBERS[command], REMEDY


@pytest.mark.usefixtures("stores")
@pytest.mark.parametrize("name", make_command_docs.JSON_LINES)
def test_other_json_lines_have_the_members_that_the_page_lists(name: str) -> None:
    for arguments in LINES[name]:
        lines = lines_of(arguments, int(name in ("diff", "verify")))
        assert make_command_docs.JSON_LINES[name] in lines, REMEDY


GUIDE = make_command_docs.PAGE.parents[1] / "how-to" / "command-line.md"


def test_the_guide_shows_what_the_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text("utf-8")
    exec(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], {})
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    assert len(blocks) > 5
    for block in blocks:
        for line, expected in re.findall(r"\$ aiozarr ([^\n]*)\n((?:[^$].*\n)*)", block):
            result = CliRunner().invoke(CommandGroup(name="aiozarr"), shlex.split(line))
            assert result.exit_code == int(line.startswith("diff")), (line, result.output)
            assert result.stdout == expected, line
