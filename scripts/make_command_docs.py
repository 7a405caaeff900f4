"""Write docs/reference/command-line.md from the commands themselves; `--check` only checks that it is up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from aiozarr.cli import exit_codes
from aiozarr.cli.command_group import COMMANDS, CommandGroup
from aiozarr.cli.help import Command, section_of

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "command-line.md"

HEAD = """\
# Command line

This page has the same text as `aiozarr COMMAND --help`, from which `scripts/make_command_docs.py` writes it. The
[guide](../how-to/command-line.md) shows the commands at work.

{commands}

TARGET, SRC and DST are URLs, local paths or zip archives. To name an array or group inside a store, append its path:
`s3://bucket/era5.zarr/t2m`.

## Selections

The option `--select` of `cat`, `plot`, `plan` and `convert` has one item for each dimension that it cuts. An item names
the dimension (`time=0:24,lat=45..60`) or gives its number (`0=0:24`). Without names, the items follow the order of the
dimensions (`0:24,45..60`). If the option is repeated, all items apply. Two items for one dimension are an error, and so
is a selection without any element.

| item | elements |
|---|---|
| `5`, `-1` | one index; `cat` and `plot` drop the dimension, `convert` keeps it with length 1 |
| `0:24`, `100:`, `::10` | indexes from start up to, but not including, stop; `convert` accepts no step |
| `45..60`, `2020-01..2020-03`, `2020..2021` | coordinates, including both bounds, in either order |
| `45.5`, `2020-01-01`, `band=red` | the elements with this coordinate; a word needs the name of the dimension |
| `...` | without names: all dimensions that have no item |

A colon always separates indexes, and two dots always separate coordinates. `lat=45` is an index; `lat=45..45` is the
coordinate.

The coordinates of a dimension are the values of the one-dimensional array that has its name and length, in the same
group or in a group above. When `convert` copies a group, it cuts all arrays that have the dimension, coordinates
included. In Python, [`aiozarr.convert`](copies.md) accepts the same items:
`select={{"time": "2020-01..2020-03", "x": "0:24"}}`.

Numbers with `units` such as `days since 2000-01-01` are times of their `calendar`, and so are numpy's times. Selections
by such times need the package cftime (`pip install cftime`); selections by index do not. Write a time as `2020`,
`2020-06`, `2020-06-01`, `2020-06-01T12`, `2020-06-01T12:30` or `2020-06-01T12:30:15.5`, without a time zone: times are
UTC. As in xarray, a date without a time is the whole day, and a year is the whole year. `time=2020` is an index;
`time=2020..2020` is the year.

A selection by coordinates selects the same elements as xarray, or fails. The
[limits](limits.md#selections-by-coordinates) list the coordinates that cannot be used.

## Output

Data go to standard output; progress, reports and errors go to standard error. Control characters, line breaks and
bidirectional marks in names, attributes and messages are escaped (`\\x1b`). With `--json` they are JSON escapes, so a
parser returns the stored text. Numbers that JSON cannot represent are the strings `"NaN"`, `"Infinity"` and
`"-Infinity"`. The bytes of objects, and values in the formats `csv`, `raw` and `npy`, are written unchanged. On a
terminal, values in `csv` are escaped too.

## Shell completion

```bash
eval "$(_AIOZARR_COMPLETE=bash_source aiozarr)"                # bash: in ~/.bashrc
eval "$(_AIOZARR_COMPLETE=zsh_source aiozarr)"                 # zsh: in ~/.zshrc
_AIOZARR_COMPLETE=fish_source aiozarr | source                 # fish: in ~/.config/fish/config.fish
```
"""

JSON_MEMBERS = {
    "info": "type, url, zarr_format, store, read_only, data_type, shape, chunks, shards, order, fill_value, codecs, "
    "nbytes, objects_expected, objects_stored, bytes_stored, objects_outside, objects_other, dimension_names, "
    "attributes",
    "tree": "path, kind, zarr_format, shape, data_type, dimension_names, error",
    "ls": "type, key, size, version",
    "cat": "index, value",
    "plan": "array, shape, exact, sharded, chunks, inner_chunks, missing, requests, min_requests, bytes, bytes_wanted, "
    "over_read, rows",
    "cp": "type, source, destination, objects, bytes, metadata_documents, failed, changed, folder_markers, skipped, "
    "deleted, missing_chunks, server_side, dry_run, seconds, requests",
    "sync": "type, source, destination, objects, bytes, metadata_documents, failed, changed, folder_markers, skipped, "
    "deleted, missing_chunks, server_side, dry_run, seconds, requests",
    "rm": "type, objects, bytes, removed",
    "mv": "source, destination",
    "diff": "type, equal, differs, missing, surplus, error",
    "verify": "type, arrays, objects, missing, bad, outside, other, bytes",
    "validate": "type, nodes, error, warning, note",
    "convert": "type, arrays, groups, tasks, skipped, bytes, bytes_read, bytes_written, requests, seconds, "
    "notes, failed",
    "consolidate": "url, zarr_format, nodes",
}
"""Members of the last line that `--json` prints, by command. Members may be added, and are never removed."""

JSON_LINES = {
    "cp -n, sync -n": "type, action, key",
    "convert -n": "type, source, destination, arrays, groups, max_memory, nbytes, bytes_read, requests, notes, stages",
    "info of a group": "type, url, zarr_format, store, read_only, consolidated, arrays, groups, objects_stored, "
    "bytes_stored, objects_outside, objects_other, attributes",
    "rm": "type, key, removed",
    "diff": "type, key, state, source_size, destination_size, reason",
    "verify": "type, array, key, problem, range, error",
    "validate": "type, severity, rule, path, key, member, message",
}
"""Members of the lines before the last line, if they differ."""


def page() -> str:
    """Return the page."""
    group = CommandGroup(name="aiozarr")
    with click.Context(group, info_name="aiozarr") as root:
        sections = [section(group, name, root) for name in COMMANDS]
    head = HEAD.format(commands=command_table())
    return "\n".join([head, *sections, common_section(group), json_section(), status_section()])


def command_table() -> str:
    """Return the table of all commands, by the sections of `aiozarr --help`."""
    titles = dict.fromkeys(title for title, _, _ in COMMANDS.values())
    links = {title: [f"[{name}](#{name})" for name, row in COMMANDS.items() if row[0] == title] for title in titles}
    return "\n".join(["| | commands |", "|---|---|", *[f"| {title} | {', '.join(links[title])} |" for title in titles]])


def section(group: CommandGroup, name: str, root: click.Context) -> str:
    """Return the section of one command."""
    command = group.get_command(root, name)
    assert isinstance(command, Command)
    usage = " ".join(command.collect_usage_pieces(click.Context(command, root, info_name=name)))
    summary, _, details = _text(command.help or "").partition("\n\n")
    examples = ["```bash", *command.examples, "```"]
    lines = [f"## {name}", "", f"`aiozarr {name} {usage}`", "", summary, "", *examples]
    lines += ["", details] if details else []
    options = [each for each in command.params if isinstance(each, click.Option) and not is_common(each)]
    if options:
        lines += ["", "| option | meaning |", "|---|---|", *map(_row, options)]
    return "\n".join([*lines, ""])


def is_common(option: click.Option) -> bool:
    """Return whether most commands have the option, so that the page describes it once."""
    return section_of(option) == "Store" or option.name in ("as_json", "quiet", "verbose")


def common_section(group: CommandGroup) -> str:
    """Return the options that most commands have."""
    with click.Context(group, info_name="aiozarr") as root:
        command = group.get_command(root, "cp")
    assert command is not None
    rows = [_row(each) for each in command.params if isinstance(each, click.Option) and is_common(each)]
    return "\n".join(["## Options of most commands", "", "| option | meaning |", "|---|---|", *rows, ""])


def json_section() -> str:
    """Return the members of JSON lines."""
    about = (
        "`--json` prints one object per line. The last line of a command that lists things has the totals. Members may "
        "be added, and are never removed."
    )
    others = "The lines before the last line, and the lines of dry runs and groups, have these members:"
    return "\n".join(
        ["## JSON", "", about, "", *_member_table(JSON_MEMBERS), "", others, "", *_member_table(JSON_LINES), ""]
    )


def _member_table(members: dict[str, str]) -> list[str]:
    rows = [f"| {name} | {', '.join(f'`{each}`' for each in text.split(', '))} |" for name, text in members.items()]
    return ["| command | members |", "|---|---|", *rows]


def status_section() -> str:
    """Return the exit statuses, from the docstrings of the constants."""
    source = Path(exit_codes.__file__).read_text("utf-8")
    found = re.findall(r'^[A-Z_]+ = (\d+)\n(?:"""(.*?)""")?', source, re.MULTILINE | re.DOTALL)
    rows = [f"| {number} | {_text(text) or 'Everything was done.'} |" for number, text in found]
    about = "A signal that was ignored when the command started, as under `nohup`, stays ignored."
    return "\n".join(["## Exit status", "", about, "", "| status | meaning |", "|---|---|", *rows, ""])


def _row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    return f"| {names} | {_text(option.help or '')} |"


def _text(text: str) -> str:
    joined = "\n\n".join([" ".join(part.split()) for part in re.sub(r"\x08|\\b\n", "", text).split("\n\n")])
    return joined.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").strip()


def main() -> int:
    """Write the page, or compare it."""
    if "--check" in sys.argv:
        return int(PAGE.read_text("utf-8") != page())
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
