"""The command line `aiozarr`, with the extra `cli`. The module of a command is imported when the command is used."""

from aiozarr.cli.program import main

__all__ = ["main"]
