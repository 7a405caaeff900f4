"""The output of commands: data on standard output or in a file, everything else on standard error."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import isfinite
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, TextIO, TypeAlias

import click

from aiozarr.common.formatting import printable, readable_bytes

if TYPE_CHECKING:
    from aiozarr.common.progress import Progress

SHOW_AFTER_SECONDS = 0.5
"""Shorter work shows no progress, and does not import rich."""
LINE_SECONDS = 5.0
"""Delay between two lines of progress if standard error is not a terminal."""


Title: TypeAlias = "str | Callable[[Progress], str]"


class Output:
    """The two streams of a command.

    Args:
        as_json: print one JSON object per line instead of text.
        quiet: print only data and errors.
        verbose: print more details.
    """

    def __init__(self, *, as_json: bool = False, quiet: bool = False, verbose: int = 0) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.verbose = verbose

    def record(self, record: Mapping[str, Any], *lines: str) -> None:
        """Print one datum: the record as a line of JSON, or its lines of text."""
        if self.as_json:
            sys.stdout.write(json_line(record))
        else:
            print_lines(sys.stdout, lines)

    def say(self, *lines: str) -> None:
        """Print a message to standard error, unless the output is quiet."""
        if not self.quiet:
            print_lines(sys.stderr, lines)

    def complain(self, message: str) -> None:
        """Print an error that does not end the command, even if the output is quiet."""
        print_lines(sys.stderr, [f"aiozarr: {message}"])

    def detail(self, message: str) -> None:
        """Print a message to standard error if the output is verbose."""
        if self.verbose:
            self.say(message)

    @contextmanager
    def progress(self, title: Title) -> Iterator[Callable[[Progress], None] | None]:
        """Yield a callback that shows progress: as a bar on a terminal, else as a line every five seconds.

        Args:
            title: the title of the bar, or a function that returns it for the progress made so far.
        """
        if self.quiet:
            yield None
            return
        if not sys.stderr.isatty():
            yield _Lines(title, self).update
            return
        bar = _Bar(title)
        try:
            yield bar.update
        finally:
            bar.close()


class _Lines:
    """Progress in plain lines, for logs."""

    def __init__(self, title: Title, output: Output) -> None:
        self._title = title
        self._output = output
        self._begun = self._last = monotonic()

    def update(self, state: Progress) -> None:
        now = monotonic()
        if now - self._last >= LINE_SECONDS:
            self._last = now
            self._output.say(f"{_title_text(self._title, state)}: {progress_text(state, now - self._begun)}")


def _title_text(title: Title, state: Progress) -> str:
    return title if isinstance(title, str) else title(state)


class _Bar:
    """Progress as a bar, drawn by rich."""

    def __init__(self, title: Title) -> None:
        self._title = title
        self._begun = monotonic()
        self._bars: Any = None

    def update(self, state: Progress) -> None:
        if self._bars is None:
            if monotonic() - self._begun < SHOW_AFTER_SECONDS:
                return
            self._bars = make_bars()
            self._task = self._bars.add_task("", total=None, objects="", rate="", left="")
            self._bars.start()
        rate, left = rate_texts(state, monotonic() - self._begun)
        self._bars.update(
            self._task,
            description=_title_text(self._title, state),
            completed=state.bytes_done,
            total=state.bytes_total,
            objects=f"{state.done:,}/{state.total:,}",
            rate=rate,
            left="" if left is None else f"{left} left",
        )

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()


def make_bars(**options: Any) -> Any:
    """Return a rich progress display with bytes, rate and time left; `options` are passed to its console."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[objects]}"),
        DownloadColumn(binary_units=True),
        # Not rich's own columns, which forget the rate whenever the total grows, as it does while a listing streams.
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[left]}"),
    )
    return Progress(*columns, console=Console(**{"stderr": True, **options}))


def progress_text(state: Progress, seconds: float) -> str:
    """Return one line of progress: objects, bytes, rate and time left."""
    rate, left = rate_texts(state, seconds)
    text = (
        f"{state.done:,} of {state.total:,} objects, "
        f"{readable_bytes(state.bytes_done)} of {readable_bytes(state.bytes_total)}, {rate}"
    )
    return text if left is None else f"{text}, {left} left"


def rate_texts(state: Progress, seconds: float) -> tuple[str, str | None]:
    """Return the mean rate and the time left, which is None until bytes have arrived."""
    rate = state.bytes_done / seconds if seconds > 0 else 0.0
    left = (state.bytes_total - state.bytes_done) / rate if rate else None
    return f"{readable_bytes(rate)}/s", None if left is None else seconds_text(left)


def seconds_text(seconds: float) -> str:
    """Return a duration, such as "12 s" or "1:02:03"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02} min"


def print_lines(stream: TextIO, lines: Iterable[str]) -> None:
    """Print lines of text. Escape control characters, and characters that the stream cannot encode.

    A line break inside a line is escaped too, so that a name cannot forge a line of its own.
    """
    encoding = stream.encoding or "utf-8"
    stream.writelines(printable(line).encode(encoding, "backslashreplace").decode(encoding) + "\n" for line in lines)


def json_line(record: Mapping[str, Any]) -> str:
    """Return a record as a line of JSON (RFC 8259), with the same characters escaped as in `print_lines`.

    Floats that JSON cannot represent become the strings "NaN", "Infinity" and "-Infinity".
    """
    text = json.dumps(_finite(record), default=str, ensure_ascii=False, allow_nan=False) + "\n"
    if text[:-1].isprintable():
        with suppress(UnicodeEncodeError):
            text.encode(sys.stdout.encoding or "utf-8")
            return text
    return json.dumps(_finite(record), default=str, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {str(name): _finite(member) for name, member in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def output_options(function: Any) -> Any:
    """Add `--json`, `--quiet` and `--verbose` to a command, which receives an `Output` as its argument `out`."""
    from functools import wraps

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
    @click.option("-q", "--quiet", is_flag=True, help="Print only data and errors, no progress and no report.")
    @click.option("-v", "--verbose", count=True, help="Print more details, or with -vv tracebacks of errors.")
    @wraps(function)
    def command(*args: Any, as_json: bool, quiet: bool, verbose: int, **options: Any) -> Any:
        return function(*args, out=Output(as_json=as_json, quiet=quiet, verbose=verbose), **options)

    return command


@contextmanager
def open_output(path: str) -> Iterator[IO[bytes]]:
    """Yield a binary file that replaces `path` when the context ends. An error leaves `path` unchanged.

    The bytes are written to a temporary file in the same directory, which is then renamed. A device, a pipe, or a file
    in a directory without write permission is written directly.

    Raises:
        OSError: the file could not be written; the error has its name.
    """
    try:
        temporary = _temporary_of(path)
        if temporary is None:
            with open(path, "wb") as file:
                yield file
            return
        target, mode, name = temporary
        try:
            # Nobody else may open it before it has the mode of the replaced file.
            first_mode = 0o666 if mode is None else 0o600
            with open(name, "xb", opener=lambda path, flags: os.open(path, flags, first_mode)) as file:
                if mode is not None:
                    os.chmod(name, mode)
                yield file
            os.replace(name, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        if error.errno is not None and error.strerror is not None:
            # If writing fails, the system's error does not name the file.
            error.filename, error.filename2 = path, None
        raise


def _temporary_of(path: str) -> tuple[str, int | None, str] | None:
    """Return the file to replace, its mode if it exists, and a temporary name next to it; None: write it directly."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        status = None
    target = os.path.realpath(path)
    directory = os.path.dirname(target)
    # A name such as /dev/stdout may mean a regular file to which others append.
    is_special = path.startswith(("/dev/", "/proc/")) or (status is not None and not stat.S_ISREG(status.st_mode))
    may_replace = os.access(directory, os.W_OK) and (status is None or os.access(target, os.W_OK))
    if is_special or not may_replace:
        return None
    mode = None if status is None else stat.S_IMODE(status.st_mode)
    return target, mode, os.path.join(directory, f".aiozarr-output~{os.getpid()}")
