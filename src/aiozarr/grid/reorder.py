"""Assignment between arrays whose elements lie in different orders, in slices that caches can hold."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

SLICE = 8
"""Elements of a slice: as many places of memory as the nearest cache keeps, however they collide."""

COLLIDING = 1024
"""Bytes. Places in memory that are a multiple of it apart share few lines of a cache."""

FROM_BYTES = 128 << 10


def assign(out: NDArray[Any], part: NDArray[Any]) -> None:
    """Do `out[...] = part`, for arrays of one shape.

    Where elements that follow each other in `out` lie a power of two apart in `part`, as those of a chunk in Fortran
    order do, numpy reads each line of memory as often as it has elements; slice by slice it is two to four times as
    fast.
    """
    if part.nbytes >= FROM_BYTES and part.ndim > 1 and part.shape == out.shape:
        stride, length = part.strides[-1], part.shape[-1]
        if stride and stride % COLLIDING == 0 and length > SLICE and out.strides[-1] == out.itemsize:
            for start in range(0, length, SLICE):
                out[..., start : start + SLICE] = part[..., start : start + SLICE]
            return
    out[...] = part
