"""The page of the command line is generated from the commands, and its JSON members are those that are printed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import aiozarr
from aiozarr.cli.command_group import CommandGroup
from scripts import make_command_docs


def test_the_page_equals_the_output_of_its_script() -> None:
    written = make_command_docs.PAGE.read_text("utf-8")
    assert written == make_command_docs.page(), "run scripts/make_command_docs.py"


ARGUMENTS = {
    "info": ["a.zarr/t"],
    "tree": ["a.zarr"],
    "ls": ["a.zarr"],
    "stat": ["a.zarr/zarr.json"],
    "du": ["a.zarr"],
    "cat": ["a.zarr/t"],
    "plan": ["a.zarr/t"],
    "cp": ["a.zarr", "b.zarr"],
    "sync": ["a.zarr", "b.zarr"],
    "rm": ["a.zarr/zarr.json"],
    "convert": ["a.zarr", "b.zarr"],
    "migrate": ["old.zarr", "b.zarr"],
    "bench": ["a.zarr", "--seconds", "0.01", "--max-requests", "1"],
    "plot": ["a.zarr/t"],
    "check": ["a.zarr", "a.zarr"],
    "verify": ["a.zarr"],
    "validate": ["a.zarr"],
    "consolidate": ["a.zarr"],
}


@pytest.mark.parametrize("command", make_command_docs.JSON_MEMBERS)
def test_json_has_the_members_that_the_page_lists(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    group = aiozarr.sync.create_group("a.zarr")
    group.create_array("t", data=np.arange(6.0).reshape(2, 3))
    aiozarr.sync.create_array("old.zarr", data=[1], zarr_format=2)
    result = CliRunner().invoke(CommandGroup(name="aiozarr"), [command, "--json", *ARGUMENTS[command]])
    assert result.exit_code == 0, result.output
    last = json.loads(result.stdout.splitlines()[-1])
    assert ", ".join(last) == make_command_docs.JSON_MEMBERS[command]
