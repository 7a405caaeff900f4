"""The progress of an operation, which a callback receives or a bar shows (`progress=True`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Lock
from typing import Any, NamedTuple, TypeAlias


class Progress(NamedTuple):
    """The progress of an operation.

    Attributes:
        done: stored objects that are complete.
        total: stored objects that the operation touches.
        bytes_done: bytes of array elements that are complete; in a copy, bytes of objects.
        bytes_total: bytes of all elements or objects that the operation touches.
    """

    done: int
    total: int
    bytes_done: int
    bytes_total: int


ProgressCallback: TypeAlias = Callable[[Progress], object]
ProgressLike: TypeAlias = ProgressCallback | bool | None
"""A function that is called with `Progress`; True: a bar; None or False: nothing."""


@contextmanager
def shown_progress(progress: ProgressLike, title: str) -> Iterator[ProgressCallback | None]:
    """Yield the callback of `progress`; with True, that of a bar, which is removed from the terminal at the end.

    Without a terminal or notebook, True shows nothing.

    Raises:
        ImportError: `progress` is True, and rich is not installed.
        TypeError: it is neither a function nor a bool.
    """
    if progress is None or progress is False:
        yield None
        return
    if progress is not True:
        if not callable(progress):
            raise TypeError(f"progress must be a function, True or None, not {type(progress).__name__}")
        yield progress
        return
    if find_spec("rich") is None:
        raise ImportError("progress=True needs the package rich: pip install rich", name="rich")
    with _shared_bars.adding(title) as show:
        yield show


class _SharedBars:
    """The bars of all operations that run at once, in one display, because a terminal has only one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._display: Any = None
        self._count = 0

    @contextmanager
    def adding(self, title: str) -> Iterator[ProgressCallback]:
        with self._lock:
            if self._display is None:
                self._display = _new_display()
                self._display.start()
            self._count += 1
            display = self._display
            bar = display.add_task(title, total=None)
        try:
            yield lambda state: display.update(bar, completed=state.bytes_done, total=state.bytes_total)
        finally:
            with self._lock:
                display.remove_task(bar)
                self._count -= 1
                if not self._count:
                    display.stop()
                    self._display = None


def _new_display() -> Any:
    from rich.console import Console  # optional
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn  # optional
    from rich.progress import Progress as Display  # optional

    # On standard error, because the output of a script may be piped into another one.
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    is_shown = console.is_terminal or console.is_jupyter
    return Display(*columns, console=console, transient=True, disable=not is_shown)


_shared_bars = _SharedBars()
