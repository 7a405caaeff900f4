"""The last stage: elements from a decoded chunk to their places in the output."""

from __future__ import annotations

import time

import numpy as np

from aiozarr.grid.axes import regular_axes
from aiozarr.grid.projection import Projection
from aiozarr.grid.transform import IndexTransform
from benchmarks.stages.figures import Figure, least

SELECTIONS: dict[str, tuple[slice | int, ...]] = {
    "whole chunks": (),
    "a box inside": (slice(8, -8), slice(8, -8), slice(8, -8)),
    "every second": (slice(None, None, 2),) * 3,
    "backwards": (slice(None, None, -1),) * 3,
    "a plane across": (slice(None), slice(None), 5),
}


def figures(side: int, runs: int) -> list[Figure]:
    """Return how fast elements of chunks of `side`³ go to an array of four times that in each dimension."""
    shape, chunks = (4 * side,) * 3, (side,) * 3
    chunk = np.ones(chunks, np.float32)
    found = []
    for name, selection in SELECTIONS.items():
        transform = IndexTransform.identity(shape).select(selection)
        out = np.zeros(transform.shape, np.float32)
        parts = list(Projection(regular_axes(chunks, shape), transform.maps))  # type: ignore[arg-type]  # none is Indexed

        def scatter(parts: object = parts, out: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = out) -> None:
            assert isinstance(parts, list)
            for part in parts:
                part.scatter(out, part.gather(chunk))

        seconds = least(scatter, runs, time.thread_time)
        found.append(Figure("scatter", f"{name}, chunks of {side}³", out.nbytes / seconds / 1e9, "GB/s"))
    return found
