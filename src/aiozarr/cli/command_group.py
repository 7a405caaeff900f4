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
    "ls": ("object_commands:ls", "List the objects and prefixes below TARGET."),
    "tree": ("node_commands:tree", "Show the groups and arrays below TARGET."),
    "info": ("node_commands:info", "Show the metadata of an array or a group."),
    "stat": ("object_commands:stat", "Show size and version of one object."),
    "du": ("object_commands:du", "Sum up the bytes of the objects below TARGET."),
    "cat": ("value_commands:cat", "Write values of an array, or the bytes of an object."),
    "plot": ("plot_command:plot", "Draw a line or an image of values."),
    "cp": ("copy_commands:cp", "Copy a store, a node or an object."),
    "sync": ("copy_commands:sync", "Copy SRC onto DST, and with --delete make DST equal to SRC."),
    "rm": ("object_commands:rm", "Remove an object, or with --recursive everything below TARGET."),
    "clean": ("object_commands:clean", "List, and with --delete remove, leftovers of killed processes."),
    "check": ("check_commands:check", "Compare the objects of SRC and DST."),
    "verify": ("check_commands:verify", "Read and decode every chunk, and report the bad ones."),
    "validate": ("check_commands:validate", "Check the metadata documents of all nodes."),
    "convert": ("convert_commands:convert", "Write a copy in another format, with other chunks or codecs."),
    "consolidate": ("node_commands:consolidate", "Store the metadata of all nodes in their group."),
    "plan": ("node_commands:plan", "Show what a read would cost."),
    "completion": ("command_group:completion", "Print the script of shell completion."),
}
"""By name: module and function of the command, and its line in `aiozarr --help`."""


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
        module, _, function = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(f"aiozarr.cli.{module}"), function)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the section of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and suggest the nearest name for an unknown one."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            from difflib import get_close_matches

            # A misspelled name must not lead to a command that removes.
            near = get_close_matches(name, [known for known in COMMANDS if known != "rm"], n=1, cutoff=0.5)
            advice = f"did you mean '{near[0]}'?" if near else "'aiozarr --help' lists them."
            ctx.fail(f"No such command '{name}'; {advice}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and end with the exit status of its error."""
        name_before = name_arguments(option_text)
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort):
            raise
        except click.ClickException as error:
            vars(error)["message"] = printable(error.message)
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
            _say("out of memory: a smaller --select needs less")
            sys.exit(ERROR)
        finally:
            name_arguments(name_before)


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
    epilog="TARGET, SRC and DST are URLs (s3://, gs://, az://, https://, ...), local paths, or zip archives. A path of "
    "a node may follow: s3://bucket/era5.zarr/t2m.",
)
@click.version_option(__version__, "-V", "--version", message="aiozarr %(version)s")
def ROOT() -> None:  # noqa: N802  # a constant: the root command
    """Zarr arrays and groups in object stores and files."""


# The line with \b alone keeps the lines of its paragraph.
_COMPLETION_HELP = """Print the script of shell completion; run it at the start of a shell.

\b
bash, in ~/.bashrc:                   eval "$(aiozarr completion bash)"
zsh, in ~/.zshrc:                     eval "$(aiozarr completion zsh)"
fish, in ~/.config/fish/config.fish:  aiozarr completion fish | source
"""


@click.command(help=_COMPLETION_HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script of shell completion."""
    from click.shell_completion import get_completion_class

    root = context.find_root().command
    kind = get_completion_class(shell)
    assert kind is not None
    sys.stdout.write(kind(root, {}, "aiozarr", "_AIOZARR_COMPLETE").source() + "\n")
