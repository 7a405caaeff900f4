"""All commands: help, names and errors."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from aiozarr.cli.command_group import COMMANDS, ROOT
from tests.support.command_line import invoke, succeed


def test_help_lists_all_commands() -> None:
    text = succeed("--help").stdout
    assert all(f"  {name} " in text for name in COMMANDS)
    assert succeed("--version").stdout.startswith("aiozarr ")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_its_summary(name: str) -> None:
    text = " ".join(succeed(name, "--help").stdout.split())
    command = ROOT.get_command(click.Context(ROOT), name)
    assert command is not None
    assert command.name == name
    assert text.startswith(f"Usage: aiozarr {name} ")
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, option.name


def test_an_unknown_command_gets_the_nearest_name() -> None:
    result = invoke("vrify", "x")
    assert result.exit_code == 2
    assert "did you mean 'verify'?" in result.stderr
    assert invoke("zzz").exit_code == 2


@pytest.mark.parametrize("name", ["mv", "rmm", "rn", "r"])
def test_no_unknown_command_leads_to_one_that_removes(name: str) -> None:
    result = invoke(name, "x")
    assert result.exit_code == 2
    assert "'rm'" not in result.stderr


def test_an_error_is_one_line_on_standard_error() -> None:
    result = invoke("info", "nope://bucket/x")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("aiozarr: no store opens 'nope://' URLs")
    assert "Traceback" not in result.stderr


def test_a_member_of_a_document_is_no_option(tmp_path: Path) -> None:
    (tmp_path / "zarr.json").write_text("{}")
    assert "member 'zarr_format'" in invoke("info", tmp_path).stderr


def test_a_message_has_the_syntax_of_the_command_line(sample: Path, tmp_path: Path) -> None:
    assert "selected by 100.0..200.0: its" in invoke("cat", sample / "air", "-s", "lat=100..200").stderr
    assert "selected by ..-99.0: its" in invoke("cat", sample / "air", "-s", "lat=..-99").stderr
    assert (
        "matches --include 'x*', 'y'"
        in invoke("cp", sample, tmp_path / "x", "--include", "x*", "--include", "y").stderr
    )
    assert "--chunks time=1 names" in invoke("convert", sample, tmp_path / "x", "--shards", "4").stderr
