"""Assignment between arrays whose elements lie in different orders, in slices that caches can hold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SLICE = 8
"""Elements of a slice: as many places of memory as the nearest cache keeps, however they collide."""

COLLIDING = 1024
"""Bytes. Places in memory that are a multiple of it apart share few lines of a cache."""

FROM_BYTES = 128 << 10

ROW_BYTES = 512
"""Longer rows cost more to copy than to count."""

_ROWS: dict[int, np.dtype[Any]] = {}


def assign(out: NDArray[Any], part: NDArray[Any]) -> None:
    """Do `out[...] = part`, for arrays of one shape.

    Where elements that follow each other in `out` lie a power of two apart in `part`, as those of a chunk in Fortran
    order do, numpy reads each line of memory as often as it has elements; slice by slice it is two to four times as
    fast. Short rows that are contiguous in both travel as one element each, which spares numpy a loop for every row.
    """
    alike = part.ndim > 1 and part.shape == out.shape and part.dtype == out.dtype
    if alike and part.strides[-1] == part.itemsize == out.strides[-1] and _as_rows(out, part):
        return
    if part.nbytes >= FROM_BYTES and part.ndim > 1 and part.shape == out.shape:
        stride, length = part.strides[-1], part.shape[-1]
        if stride and stride % COLLIDING == 0 and length > SLICE and out.strides[-1] == out.itemsize:
            for start in range(0, length, SLICE):
                out[..., start : start + SLICE] = part[..., start : start + SLICE]
            return
    out[...] = part


def row_type(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """Return the type by which the rows of a C-contiguous array travel as one element each; None: not worth it."""
    if dtype.hasobject or dtype.kind == "T" or len(shape) < 2 or shape[-1] < 2:
        return None
    row = shape[-1] * dtype.itemsize
    if row > ROW_BYTES:
        return None
    # Single bytes without a meaning: nothing of them is looked at.
    element = _ROWS.get(row)
    if element is None:
        element = _ROWS[row] = np.dtype(f"V{row}")
    return element


def _as_rows(out: NDArray[Any], part: NDArray[Any]) -> bool:
    # Of other kinds of arrays, such as masked ones, a view is not just the memory.
    if type(out) is not np.ndarray or (out.flags.c_contiguous and part.flags.c_contiguous):
        return False
    element = row_type(part.shape, part.dtype)
    if element is None:
        return False
    out.view(element)[...] = part.view(element)
    return True
