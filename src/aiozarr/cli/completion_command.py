"""The command completion: prints the script that completes commands and options in a shell."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

# The line with \b alone keeps the lines of its paragraph.
_HELP = """Print the script of shell completion; run it at the start of a shell.

\b
bash, in ~/.bashrc:                   eval "$(aiozarr completion bash)"
zsh, in ~/.zshrc:                     eval "$(aiozarr completion zsh)"
fish, in ~/.config/fish/config.fish:  aiozarr completion fish | source
"""


@click.command(help=_HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script of shell completion."""
    root = context.find_root().command
    kind = get_completion_class(shell)
    assert kind is not None
    sys.stdout.write(kind(root, {}, "aiozarr", "_AIOZARR_COMPLETE").source() + "\n")
