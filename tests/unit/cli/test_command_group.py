"""All commands: help, names and errors."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import numpy as np
import pytest

import aiozarr
from aiozarr.cli.command_group import COMMANDS, ROOT, option_text
from aiozarr.cli.help import Command
from aiozarr.common.formatting import argument, name_arguments
from tests.support.command_line import invoke, succeed


def test_help_lists_all_commands() -> None:
    text = succeed("--help").stdout
    assert all(f"  {name} " in text for name in COMMANDS)
    titles = [line for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == ["Options:", "Look:", "Copy:", "Check:", "Change:", "Tools:"]
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


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_each_help_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("bucket/era5.zarr",) if name == "cp" else ("era5.zarr", "bucket/era5.zarr"):
        group = aiozarr.sync.create_group(place)
        group.create_array("t2m", data=np.ones((24, 4, 6)), chunks=(6, 4, 6), dimension_names=("time", "lat", "lon"))
        group.create_array("v10", data=np.ones(24), dimension_names=("time",))
    aiozarr.sync.create_array("old.zarr", data=[1], zarr_format=2)
    if name == "diff":
        succeed("cp", "era5.zarr", "copy.zarr")
    command = ROOT.get_command(click.Context(ROOT), name)
    assert isinstance(command, Command)
    assert len(command.examples) == 2
    help_text = succeed(name, "--help").stdout
    for example in command.examples:
        assert f"\n  {example}\n" in help_text
        program, *arguments = shlex.split(example.replace("s3://", ""))
        assert program == "aiozarr"
        succeed(*arguments)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("check", "'diff' compares"),
        ("du", "'info' counts"),
        ("stat", "'ls -l' shows"),
        ("migrate", "'zarr migrate v3' migrates in place"),
        ("completion", "_AIOZARR_COMPLETE=bash_source aiozarr"),
    ],
)
def test_a_command_of_another_tool_or_version_gets_its_remedy(name: str, remedy: str) -> None:
    result = invoke(name, "x")
    assert result.exit_code == 2
    assert f"No such command '{name}'; " in result.stderr
    assert remedy in result.stderr


def test_a_misspelled_option_gets_only_the_nearest_one() -> None:
    error = invoke("convert", "--worker", "2", "a", "b").stderr
    assert "'--workers'" in error or "--workers?" in error
    error = invoke("cp", "--dryrun", "a", "b").stderr.splitlines()[-1]
    assert re.findall(r"--[a-z-]+", error) == ["--dryrun", "--dry-run"]
    assert "ean" not in invoke("tree", "--level", "2", "a").stderr
    error = invoke("info", "--storage-option", "anonn=true", "s3://bucket/x").stderr
    assert error == "aiozarr: unknown storage option 'anonn' for an S3 store; did you mean 'anon'?\n"


def test_an_unknown_command_gets_the_nearest_name() -> None:
    result = invoke("vrify", "x")
    assert result.exit_code == 2
    assert "did you mean 'verify'?" in result.stderr
    assert invoke("zzz").exit_code == 2


@pytest.mark.parametrize("name", ["rmm", "rn", "r"])
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


ADVICE = re.compile(r"argument\(['\"](\w+)['\"]")
"""The calls by which messages of the library name an argument."""


def test_each_argument_that_a_message_names_is_an_option_of_a_command() -> None:
    paths = [path for path in Path(aiozarr.__file__).parent.rglob("*.py") if path.parent.name != "cli"]
    sources = [path.read_text("utf-8") for path in paths]
    names = {name for source in sources for name in ADVICE.findall(source)}
    commands = [ROOT.get_command(click.Context(ROOT), name) for name in COMMANDS]
    options = {option for command in commands if command for each in command.params for option in each.opts}
    assert {"overwrite", "resume", "chunks"} <= names
    unknown = {option_text(name, ...) for name in names} - options - NOT_IN_THE_COMMAND_LINE
    assert not unknown, f"name an argument of a command, or add to NOT_IN_THE_COMMAND_LINE: {sorted(unknown)}"


# Arguments that no command can leave or give wrongly.
NOT_IN_THE_COMMAND_LINE = {"--max-amplification", "--destination-option"}
NOT_IN_THE_COMMAND_LINE |= {"--codecs", "--filters", "--compressors", "--compressor"}


@pytest.mark.parametrize(
    ("name", "value", "in_python", "in_the_command_line"),
    [
        ("overwrite", True, "overwrite=True", "--overwrite"),
        ("erase_old", ..., "erase_old", "--erase-old"),
        ("shards", False, "shards=False", "--shards none"),
        ("chunks", {"time": 1, "x": 2}, "chunks={'time': 1, 'x': 2}", "--chunks time=1,x=2"),
        ("verify", "checksum", "verify='checksum'", "--verify checksum"),
        ("include", ("a", "b*"), "include=('a', 'b*')", "--include 'a', 'b*'"),
        ("source_options", ..., "source_options", "--source-option"),
    ],
)
def test_a_message_names_an_argument_as_its_reader_gives_it(
    name: str, value: object, in_python: str, in_the_command_line: str
) -> None:
    assert argument(name, value) == in_python
    before = name_arguments(option_text)
    try:
        assert argument(name, value) == in_the_command_line
    finally:
        name_arguments(before)
    assert argument(name, value) == in_python


def test_a_message_has_the_syntax_of_the_command_line(sample: Path, tmp_path: Path) -> None:
    assert (
        "100..200 selects nothing from dimension 'lat', whose coordinates range"
        in invoke("cat", sample / "air", "-s", "lat=100..200").stderr
    )
    assert (
        "..-99 selects nothing from dimension 'lat', whose coordinates range"
        in invoke("cat", sample / "air", "-s", "lat=..-99").stderr
    )
    assert (
        "matches --include 'x*', 'y'"
        in invoke("cp", sample, tmp_path / "x", "--include", "x*", "--include", "y").stderr
    )
    assert "--chunks time=1 names" in invoke("convert", sample, tmp_path / "x", "--shards", "4").stderr
    assert "--chunks (1, 2) has 2 dim" in invoke("convert", sample / "air", tmp_path / "x", "--chunks", "1,2").stderr
