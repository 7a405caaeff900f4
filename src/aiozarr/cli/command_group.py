"""The group of all commands. A command's module is imported when the command is used, not for `--help`."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from traceback import format_exc
from typing import Any

import click

from aiozarr import __version__
from aiozarr.cli.exit_codes import BROKEN_PIPE, ERROR, INTERRUPTED, Terminated, exit_code_of
from aiozarr.common.formatting import name_arguments, printable
from aiozarr.errors import AiozarrError

COMMANDS = {
    "ls": ("Look", "object_commands:ls", "List objects and prefixes."),
    "tree": ("Look", "node_commands:tree", "Show the groups and arrays of a store."),
    "info": ("Look", "node_commands:info", "Show the metadata of an array or group."),
    "cat": ("Look", "value_commands:cat", "Print the values of an array, or the bytes of an object."),
    "plot": ("Look", "plot_command:plot", "Draw values as a line or an image."),
    "cp": ("Copy", "copy_commands:cp", "Copy a store, an array, a group or an object."),
    "sync": ("Copy", "copy_commands:sync", "Bring a copy up to date."),
    "convert": ("Copy", "convert_commands:convert", "Write a copy with another format, other chunks or codecs."),
    "diff": ("Check", "check_commands:diff", "Compare the objects of two stores."),
    "verify": ("Check", "check_commands:verify", "Decode every chunk, and list the damaged ones."),
    "validate": ("Check", "check_commands:validate", "Check metadata documents against the specification."),
    "mv": ("Change", "node_commands:mv", "Move or rename an array or group inside a store."),
    "rm": ("Change", "object_commands:rm", "Remove an object, an array, a group or a store."),
    "consolidate": ("Change", "node_commands:consolidate", "Write the consolidated metadata of a group."),
    "plan": ("Tools", "node_commands:plan", "Show the requests and bytes of a read without reading."),
    "clean": ("Tools", "object_commands:clean", "Find and remove leftovers of killed processes."),
}
"""By name: the section of `aiozarr --help`, module and function of the command, and its summary."""

OTHER_NAMES = {
    "check": "'diff' compares two stores, 'verify' decodes all chunks, 'validate' checks metadata",
    "du": "'info' counts the stored objects and bytes of an array or group",
    "stat": "'ls -l' shows the size and version of an object",
    "completion": "_AIOZARR_COMPLETE=bash_source aiozarr prints the completion script (or zsh_source, fish_source)",
    "migrate": "zarr-python's 'zarr migrate v3' migrates in place, 'aiozarr convert --zarr-format 3' writes a copy",
}
"""The remedy for names that are not commands, but that other tools or earlier versions have."""


def option_text(name: str, value: object) -> str:
    """Return a Python argument as a command option: `--overwrite`, `--chunks time=1`, `--shards none`."""
    option = "--" + name.removesuffix("s" if name.endswith("_options") else "").replace("_", "-")
    if value is ... or value is True:
        return option
    if isinstance(value, dict):
        value = ",".join([f"{key}={each}" for key, each in value.items()])
    elif isinstance(value, tuple | list):
        value = ", ".join(map(repr, value))
    return f"{option} {'none' if value is False else value}"


class CommandGroup(click.Group):
    """The root command. It turns errors into a line on standard error and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of `--help`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name][1].partition(":")
        command = getattr(import_module(f"aiozarr.cli.{module}"), function)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections of commands without importing them."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, (title, _, summary) in COMMANDS.items():
            sections.setdefault(title, []).append((name, summary))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows, col_max=12)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the command."""
        try:
            return super().parse_args(ctx, args)
        except click.ClickException as error:
            _tidy(error)
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and suggest the nearest name for an unknown one."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            from difflib import get_close_matches

            # A misspelled name must not lead to a command that removes.
            near = get_close_matches(name, [known for known in COMMANDS if known != "rm"], n=1, cutoff=0.5)
            advice = f"did you mean '{near[0]}'?" if near else "'aiozarr --help' lists the commands"
            ctx.fail(f"No such command '{name}'; {OTHER_NAMES.get(name, advice)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and end with the exit status of its error."""
        name_before = name_arguments(option_text)
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort):
            raise
        except click.ClickException as error:
            _tidy(error)
            raise
        except KeyboardInterrupt as error:
            _say(str(error) or "interrupted")
            sys.exit(error.status if isinstance(error, Terminated) else INTERRUPTED)
        except BrokenPipeError:
            # Later writes, and the flush at the end, must not fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(BROKEN_PIPE)
        except (AiozarrError, OSError, ValueError, TypeError, ImportError, OverflowError) as error:
            if "-vv" in sys.argv:
                _say(*format_exc().splitlines())
            _say(*messages_of(error))
            sys.exit(exit_code_of(error))
        except MemoryError:
            _say("out of memory; select fewer elements with --select")
            sys.exit(ERROR)
        finally:
            name_arguments(name_before)


def _tidy(error: click.ClickException) -> None:
    """Escape control characters in an error of the command line, and keep only the nearest of its suggestions."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return  # its message is the help
    vars(error)["message"] = printable(error.message)
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        from difflib import get_close_matches

        # Without the dashes, because these make any two short names similar.
        names = {each.lstrip("-"): each for each in error.possibilities}
        near = get_close_matches(error.option_name.lstrip("-"), names, n=1)
        vars(error)["possibilities"] = [names[name] for name in near]


def messages_of(error: BaseException) -> list[str]:
    """Return the text of an error, and its notes."""
    first = str(error) or type(error).__name__
    if isinstance(error, OSError) and not isinstance(error, AiozarrError) and error.strerror:
        first = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return [first, *getattr(error, "__notes__", ())]


def _say(message: str, *notes: str) -> None:
    from aiozarr.cli.output import print_lines  # not for `--help`

    with suppress(OSError):  # the terminal is gone after SIGHUP
        print_lines(sys.stderr, [f"aiozarr: {message}", *notes])


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="TARGET, SRC and DST are URLs (s3://, gs://, az://, https://, ...), local paths or zip archives. To name an "
    "array or group in a store, append its path: s3://bucket/era5.zarr/t2m.",
)
@click.version_option(__version__, "-V", "--version", message="aiozarr %(version)s")
def ROOT() -> None:  # noqa: N802  # a constant: the root command
    """Read, copy, check and change Zarr arrays in object stores, on web servers and on disk."""
