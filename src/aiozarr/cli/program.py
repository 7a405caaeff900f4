"""The process of the command line: signals, streams and the exit status. The commands are in other modules."""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from typing import NoReturn

from aiozarr.cli.exit_codes import BROKEN_PIPE, ERROR, HANGUP, Terminated
from aiozarr.common.formatting import printable

GARBAGE_THRESHOLD = 50_000
"""New objects before the garbage collector runs. With Python's 700 it walks over the modules just imported, which
takes 20 to 40 ms of the 160 ms of CPU time of a short copy."""

MISSING_CLICK = "aiozarr: the command line needs click and rich: pip install click rich\n"


def main() -> NoReturn:
    """Run the command of `sys.argv` and end the process, without the teardown of the interpreter.

    Everything that a command writes is complete when it returns. The teardown would only end threads and free memory
    object by object, which takes longer than many commands.
    """
    gc.set_threshold(GARBAGE_THRESHOLD)
    _open_closed_streams()
    try:
        import click
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write(MISSING_CLICK)
        _end(ERROR)
    del click
    from aiozarr.cli.command_group import ROOT

    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # A signal that was ignored when the program started stays ignored, as under nohup. Python itself does so for
        # SIGINT, for which it raises KeyboardInterrupt.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _terminate)
    _escape_warnings()
    try:
        ROOT.main(prog_name="aiozarr")
    except SystemExit as end:
        _end(end.code if isinstance(end.code, int) else ERROR)


def _open_closed_streams() -> None:
    """Open the null device for closed standard streams (`>&-`), so that no file is opened under their numbers."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            mode = "r" if number == 0 else "w"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _escape_warnings() -> None:
    """Print warnings as messages of the command, with control characters escaped."""
    warnings.formatwarning = lambda message, *_: f"aiozarr: {printable(str(message))}\n"


def _terminate(number: int, frame: object) -> NoReturn:
    error = Terminated()
    error.status = 128 + number
    raise error


def _end(code: int) -> NoReturn:
    """Write out both streams and end the process."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            # `| head` has read enough, or the disk is full.
            code = code or (BROKEN_PIPE if isinstance(error, BrokenPipeError) else ERROR)
            if stream is sys.stdout and not isinstance(error, BrokenPipeError):
                sys.stderr.write(f"aiozarr: standard output could not be written: {error.strerror}\n")
    if (archives := sys.modules.get("aiozarr.stores.zip.archive")) is not None:
        archives.discard_unfinished()
    if code == HANGUP:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGHUP)
    os._exit(code)
