"""Write docs/reference/command-line.md from the commands themselves; `--check` only checks that it is up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from aiozarr.cli import exit_codes
from aiozarr.cli.command_group import COMMANDS, CommandGroup

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "command-line.md"

HEAD = """\
# Command line

`aiozarr COMMAND --help` says the same. This page is written by `scripts/make_command_docs.py`.

TARGET, SRC and DST are URLs, local paths or zip archives, which the path of a node may follow.

## Selections

`--select` of `cat`, `plot`, `plan` and `convert` has one item for each dimension that is cut. An item names the
dimension (`time=0:24,lat=45..60`) or its number (`0=0:24`). Without names, the items follow the order of the dimensions
(`0:24,45..60`). If the option is repeated, all items apply; two items for one dimension are an error. A selection
without any element is an error, too.

| item | elements |
|---|---|
| `5`, `-1` | one index; `cat` and `plot` drop the dimension, `convert` keeps it with length 1 |
| `0:24`, `100:`, `::10` | indexes from start to stop, which is not included; `convert` takes no step |
| `45..60`, `2020-01..2020-03`, `2020..2021` | coordinates, both bounds included, in either order |
| `45.5`, `2020-01-01`, `band=red` | the elements of one coordinate; words by name only |
| `...` | without names: all dimensions that have no item |

A colon always separates indexes, and two dots always separate coordinates. `lat=45` is an index; `lat=45..45` is the
coordinate.

Coordinates of a dimension are the values of the one-dimensional array of its name and length, beside the array or in a
group above. `convert` of a group cuts all arrays that have the dimension, coordinates included. In Python,
[`aiozarr.convert`](copies.md) takes the same items: `select={"time": "2020-01..2020-03", "x": "0:24"}`.

Numbers with `units` such as `days since 2000-01-01` are times of their `calendar`, and so are times of numpy. cftime
decodes them: `pip install 'aiozarr[times]'` installs it, and selections by index need no extra. A time is written as
`2020`, `2020-06`, `2020-06-01`, `2020-06-01T12`, `2020-06-01T12:30` or `2020-06-01T12:30:15.5`, without a zone: times
of coordinates are UTC. A date without a time is the whole day, and a year the whole year, as in xarray. `time=2020` is
an index; `time=2020..2020` is the year.

Selections by coordinates select what xarray selects, or fail. The [limits](limits.md#selections-by-coordinates) say
which coordinates they refuse.

## Output

Control characters, line breaks and marks of direction in names, attributes and messages are escaped, as in `\\x1b`.
With `--json` they are escapes of JSON, so that a parser returns what is stored. Numbers that JSON lacks are the texts
`"NaN"`, `"Infinity"` and `"-Infinity"`. The bytes of objects, and values in `--format csv`, `raw` and `npy`, are
written as they are; on a terminal, values of `csv` are escaped too.
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
"""Members of the last line that `--json` prints, by command. Members are added and never removed."""

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
"""Members of the lines before the last one, where they are others."""


def page() -> str:
    """Return the page."""
    group = CommandGroup(name="aiozarr")
    with click.Context(group, info_name="aiozarr") as root:
        sections = [section(group, name, root) for name in COMMANDS]
    return "\n".join([HEAD, *sections, common_section(group), json_section(), status_section()])


def section(group: CommandGroup, name: str, root: click.Context) -> str:
    """Return the section of one command."""
    command = group.get_command(root, name)
    assert command is not None
    usage = " ".join(command.collect_usage_pieces(click.Context(command, root, info_name=name)))
    lines = [f"## {name}", "", f"`aiozarr {name} {usage}`", "", _text(command.help or "")]
    rows = [_row(each) for each in command.params if isinstance(each, click.Option) and each.name not in common_names()]
    if rows:
        lines += ["", "| option | meaning |", "|---|---|", *rows]
    return "\n".join([*lines, ""])


def common_names() -> set[str]:
    """Return the names of the options that most commands have: they are described once."""
    return {
        "endpoint_url", "no_sign_request", "profile", "region", "request_payer", "storage_option", "source_option",
        "destination_option", "json", "as_json", "quiet", "verbose",
    }  # fmt: skip


def common_section(group: CommandGroup) -> str:
    """Return the options that most commands have."""
    with click.Context(group, info_name="aiozarr") as root:
        command = group.get_command(root, "cp")
    assert command is not None
    rows = [_row(each) for each in command.params if isinstance(each, click.Option) and each.name in common_names()]
    return "\n".join(["## Options of most commands", "", "| option | meaning |", "|---|---|", *rows, ""])


def json_section() -> str:
    """Return the members of JSON lines."""
    rows = [
        f"| {name} | {', '.join(f'`{each}`' for each in text.split(', '))} |" for name, text in JSON_MEMBERS.items()
    ]
    about = (
        "`--json` prints one object per line; the last line of a command that lists things has the totals. Members are "
        "added and never removed."
    )
    lines = [f"| {name} | {', '.join(f'`{each}`' for each in text.split(', '))} |" for name, text in JSON_LINES.items()]
    table = ["| command | members |", "|---|---|"]
    others = ["", "Lines before the last one, dry runs and groups:", "", *table, *lines, ""]
    return "\n".join(["## JSON", "", about, "", *table, *rows, *others])


def status_section() -> str:
    """Return the exit statuses, from the docstrings below the constants."""
    source = Path(exit_codes.__file__).read_text("utf-8")
    found = re.findall(r'^[A-Z_]+ = (\d+)\n(?:"""(.*?)""")?', source, re.MULTILINE | re.DOTALL)
    rows = [f"| {number} | {_text(text) or 'Everything was done.'} |" for number, text in found]
    return "\n".join(["## Exit status", "", "| status | meaning |", "|---|---|", *rows, ""])


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
