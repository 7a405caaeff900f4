"""The command line `aiozarr`, with the extra `cli`: a command per module of commands, imported when it is used."""

from aiozarr.cli.program import main

__all__ = ["main"]
