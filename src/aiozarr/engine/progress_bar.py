"""`progress=True`: a bar of the chunks that are done, drawn by rich on a terminal or in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TypeAlias

from aiozarr.engine.progress import Progress

ProgressCallback: TypeAlias = Callable[[Progress], object]
ProgressLike: TypeAlias = ProgressCallback | bool | None
"""A function that is called with `Progress`; True: a bar; None or False: nothing."""


@contextmanager
def shown_progress(progress: ProgressLike, title: str) -> Iterator[ProgressCallback | None]:
    """Yield the callback of `progress`; with True, that of a bar, which is removed from the terminal at the end.

    Raises:
        ImportError: `progress` is True, and rich is not installed.
        TypeError: it is neither a function nor a bool.
    """
    if progress is None or progress is False:
        yield None
        return
    if progress is not True:
        if not callable(progress):
            raise TypeError(f"progress is a function, True or None, not {type(progress).__name__}")
        yield progress
        return
    if find_spec("rich") is None:
        raise ImportError("progress=True draws its bar with rich; pip install 'aiozarr[cli]' installs it", name="rich")
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn  # optional
    from rich.progress import Progress as Bars  # optional

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bars(*columns, transient=True) as bars:
        bar = bars.add_task(title, total=None)

        def show(state: Progress) -> None:
            bars.update(bar, completed=state.bytes_done, total=state.bytes_total)

        yield show
