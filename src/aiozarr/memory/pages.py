"""Pages of large arrays: of which size they are, and that they are there before they are needed."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Sequence
from math import prod
from time import thread_time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.memory.mapped import mapped

Advise: TypeAlias = Callable[[int, int, int], int]

LARGE = 4 << 20
"""From this size on numpy asks for huge pages."""

VERY_LARGE = 32 << 20
"""From this size on allocators take memory from the system, and give it back to it, for every single array."""

HUGE_PAGE = 2 << 20
DEAR_SECONDS = 1e-3
"""What small pages of the size of a huge one take at most, made present together."""

PIECE = 8 * HUGE_PAGE
"""Bytes that `Presence` makes present at a time: a few milliseconds."""

_SMALL_PAGES = getattr(mmap, "MADV_NOHUGEPAGE", None)
_HUGE_PAGES = getattr(mmap, "MADV_HUGEPAGE", None)
_POPULATE_WRITE = 23
"""Of Linux 5.14, which Python has no name for: as if every page were written to, with its content left as it is."""


def _find_advise() -> Advise | None:
    if sys.platform != "linux" or _SMALL_PAGES is None or _HUGE_PAGES is None:
        return None
    try:
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    # Advice that is not taken is no error: the memory is there either way.
    return lambda address, length, advice: int(advise(address, length, advice))


_advise = _find_advise()


def empty(shape: int | Sequence[int], dtype: Any) -> NDArray[Any]:
    """Return an uninitialised array, C-contiguous.

    Large ones lie in pages of the usual size. A huge page is cheap only where the machine has one at hand: on virtual
    machines it is often taken from the host, while the thread that touched it waits. The memory of very large ones goes
    back to the system aside, whoever lets go of them.
    """
    array = _very_large(shape, np.dtype(dtype))
    if array is None:
        array = np.empty(shape, dtype)
    if array.nbytes >= LARGE and _advise is not None and not array.dtype.hasobject:
        start, stop = _bounds(array, mmap.PAGESIZE)
        _advise(start, stop - start, _SMALL_PAGES or 0)
    return array


def _very_large(shape: int | Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Return an array in memory of its own; None where that is no use."""
    if _advise is None or dtype.hasobject or dtype.subdtype is not None:
        return None
    nbytes = int(prod(shape) if isinstance(shape, Sequence) else shape) * dtype.itemsize
    return mapped.empty(shape, dtype, nbytes) if nbytes >= VERY_LARGE else None


def owner_of(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array over the memory of what `empty` has returned, given that or a view of it."""
    return array.base if isinstance(array.base, np.ndarray) else array


def _bounds(array: NDArray[Any], unit: int) -> tuple[int, int]:
    """Return the first and last multiple of `unit` within the memory of a contiguous array."""
    start: int = array.ctypes.data
    return -(-start // unit) * unit, (start + array.nbytes) // unit * unit


class Presence:
    """Makes the memory of a new array present, piece by piece, in the order of its addresses.

    The system does so by itself, one page at a time, for whoever writes to one first; done in one call for many pages
    it costs a third less, and with huge pages a sixth, as long as the machine has those at hand: the first that takes
    longer than small ones would is the last that is asked for.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        """Take a contiguous array that is as `empty` has returned it; what is written to it meanwhile stays."""
        self._array = array  # the memory stays as long as somebody is at work on it
        self._position, self._stop = _bounds(array, HUGE_PAGE)
        self._huge = True

    def next(self) -> Callable[[], None] | None:
        """Return what makes the next piece present, in any thread; None where there is nothing left, or no way."""
        start = self._position
        if _advise is None or start >= self._stop:
            return None
        stop = self._position = min(start + PIECE, self._stop)
        return lambda: self._populate(start, stop)

    def _populate(self, start: int, stop: int) -> None:
        assert _advise is not None
        while self._huge and start < stop:
            begun = thread_time()
            _advise(start, HUGE_PAGE, _HUGE_PAGES or 0)
            if _advise(start, HUGE_PAGE, _POPULATE_WRITE) != 0:
                self._position = self._stop  # an older kernel
                return
            start += HUGE_PAGE
            if thread_time() - begun > DEAR_SECONDS:
                self._huge = False
        if start < stop:
            _advise(start, stop - start, _POPULATE_WRITE)
