"""The read of several views and arrays as one schedule: `read_many`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.engine import run
from aiozarr.hierarchy.array import Array
from aiozarr.hierarchy.changes import erasures
from aiozarr.hierarchy.view import View
from aiozarr.schedule.events import current_recorder
from aiozarr.schedule.operations import observed

AnyArray: TypeAlias = NDArray[Any]


def _url_of_reads(_: object, views: Sequence[View | Array]) -> str | None:
    """Return the URL of the array that all views select from, or None if there are several."""
    urls = {view.url if isinstance(view, Array) else view.array.url for view in views}
    return urls.pop() if len(urls) == 1 else None


@observed("read", _url_of_reads)
async def read_many(views: Sequence[View | Array]) -> list[AnyArray]:
    """Read several views, of any arrays and stores, as one schedule, and return their values in order.

    The settings are those of the first view. The first error ends all reads.

    Raises:
        TypeError: an item is not a view or array, or is one of `aiozarr.sync`.
        StoreError, CodecError, MissingChunkError, LimitError, TimeoutError: as `View.read`.
    """
    requested = [_as_view(view) for view in views]
    for view in requested:
        if view._array._erasures_seen != erasures.count:
            await view._array._check_before_read()
        await view._check_size()
    targets = [view._output(None) for view in requested]
    pairs = [(view, target) for view, target in zip(requested, targets, strict=True) if view.size]
    planned = [(target, *view._reading(target, new=True)) for view, target in pairs]
    if planned:
        reads = [read for _, read, _ in planned]
        settings, report = requested[0]._settings, current_recorder()
        await run(lambda engine: engine.read(reads, settings=settings, report=report), timeout=settings.timeout)
        copies = [(target, filled) for target, _, filled in planned if filled is not target]
        if copies:
            await run(lambda engine: engine.run_in_worker(lambda: _copy_arrays(copies)), timeout=settings.timeout)
    return [view._result(target) for view, target in zip(requested, targets, strict=True)]


def _copy_arrays(pairs: Sequence[tuple[AnyArray, AnyArray]]) -> None:
    for target, filled in pairs:
        np.copyto(target, filled)


def _as_view(view: object) -> View:
    if isinstance(view, View):
        return view
    if isinstance(view, Array):
        return view._whole()
    raise wrong_view_error("aiozarr", view)


def wrong_view_error(module: str, view: object) -> TypeError:
    """Return the error of the `read_many` of `module`, which takes the views and arrays of that module only."""
    kind = type(view)
    home = "aiozarr.sync" if kind.__module__.startswith("aiozarr.sync") else kind.__module__.partition(".")[0]
    return TypeError(f"{module}.read_many takes {module}.View and {module}.Array, not {home}.{kind.__qualname__}")
