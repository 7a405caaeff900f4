"""Several views read as one schedule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aiozarr.engine import run
from aiozarr.hierarchy.array import Array
from aiozarr.hierarchy.view import AnyArray, View
from aiozarr.schedule import current_recorder


async def read_many(views: Sequence[View | Array]) -> list[AnyArray]:
    """Read several views, of any arrays and stores, as one schedule; returns their values in order.

    The options are those of the first view. One error ends all.

    Raises:
        TypeError: something is no view and no array, or one of `aiozarr.sync`.
        StoreError, CodecError, MissingChunkError, LimitError, TimeoutError: as `View.read`.
    """
    asked = [_as_view(view) for view in views]
    for view in asked:
        await view._check_size()
    targets = [view._output(None) for view in asked]
    pairs = [(view, target) for view, target in zip(asked, targets, strict=True) if view.size]
    reading = [(target, *view._reading(target, new=True)) for view, target in pairs]
    if reading:
        reads = [read for _, read, _ in reading]
        settings, recorder = asked[0]._settings, current_recorder()
        await run(lambda engine: engine.read(reads, settings=settings, recorder=recorder), timeout=settings.timeout)
        copies = [(target, landing) for target, _, landing in reading if landing is not target]
        if copies:
            await run(lambda engine: engine.work(lambda: _copy(copies)), timeout=settings.timeout)
    return [view._result(target) for view, target in zip(asked, targets, strict=True)]


def _copy(pairs: Sequence[tuple[AnyArray, AnyArray]]) -> None:
    for target, landing in pairs:
        np.copyto(target, landing)


def _as_view(asked: object) -> View:
    if isinstance(asked, View):
        return asked
    if isinstance(asked, Array):
        return asked._whole()
    raise refusal("aiozarr", asked)


def refusal(module: str, asked: object) -> TypeError:
    """Return the error of the `read_many` of `module`, which takes the views and arrays of that module only."""
    kind = type(asked)
    home = "aiozarr.sync" if kind.__module__.startswith("aiozarr.sync") else kind.__module__.partition(".")[0]
    reason = f"{module}.read_many takes {module}.View and {module}.Array, not {home}.{kind.__qualname__}"
    return TypeError(reason)
