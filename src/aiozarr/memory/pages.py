"""Allocates large arrays with pages of the usual size, and prefaults their pages."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Sequence
from math import prod
from time import thread_time
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from aiozarr.memory.mapped import map_block

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Advise: TypeAlias = Callable[[int, int, int], int]

LARGE = 4 << 20
"""From this size on numpy requests huge pages."""

VERY_LARGE = 32 << 20
"""From this size on allocators map and unmap the memory of every array."""

HUGE_PAGE = 2 << 20
SLOW_HUGE_PAGE_SECONDS = 1e-3
"""The longest time for prefaulting 2 MiB of small pages. Huge pages that take longer are not worth it."""

PIECE_BYTES = 8 * HUGE_PAGE
"""Bytes that `PagePrefaulter` prefaults at a time, in a few milliseconds."""

_SMALL_PAGES = getattr(mmap, "MADV_NOHUGEPAGE", None)
_HUGE_PAGES = getattr(mmap, "MADV_HUGEPAGE", None)
_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE of Linux 5.14, unknown to Python: it faults in pages without changing them."""


def _find_advise() -> Advise | None:
    if sys.platform != "linux" or _SMALL_PAGES is None or _HUGE_PAGES is None:
        return None
    try:
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    # A refused advice is not an error, because the memory is usable without it.
    return lambda address, length, advice: int(advise(address, length, advice))


_advise = _find_advise()

# A bytearray of memory that is not initialised: `bytearray(nbytes)` would write zeros.
_new_bytearray = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t)(
    ("PyByteArray_FromStringAndSize", ctypes.pythonapi)
)


def empty(shape: int | Sequence[int], dtype: Any) -> NDArray[Any]:
    """Return an uninitialised C-contiguous array.

    Large arrays use pages of the usual size. Huge pages are fast only if the machine has free ones: virtual machines
    often have to request them from the host while the faulting thread waits. A separate thread returns the memory of
    very large arrays to the system.
    """
    # Imported by those who need arrays: a copy between stores needs bytes only.
    import numpy as np

    array = _very_large(shape, np.dtype(dtype))
    if array is None:
        array = np.empty(shape, dtype)
    if array.nbytes >= LARGE and _advise is not None and not array.dtype.hasobject:
        start, stop = _bounds(array, mmap.PAGESIZE)
        _advise(start, stop - start, _SMALL_PAGES or 0)
    return array


def empty_bytes(nbytes: int) -> memoryview:
    """Return `nbytes` uninitialised, writable bytes. They are like those of `empty`, and numpy is not imported."""
    if nbytes >= VERY_LARGE and _advise is not None:
        block = map_block(nbytes)
        if block is not None:
            _advise_small_pages(memoryview(block))
            return memoryview(block)
    view = memoryview(cast("bytearray", _new_bytearray(None, nbytes)))
    if nbytes >= LARGE and _advise is not None:
        _advise_small_pages(view)
    return view


def _advise_small_pages(view: memoryview) -> None:
    start = ctypes.addressof(ctypes.c_char.from_buffer(view))
    first, stop = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE, (start + view.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    assert _advise is not None
    _advise(first, stop - first, _SMALL_PAGES or 0)


def _very_large(shape: int | Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Return an array in a mapped block, or None if the array is smaller or the system does not support it."""
    if _advise is None or dtype.hasobject or dtype.subdtype is not None:
        return None
    nbytes = int(prod(shape) if isinstance(shape, Sequence) else shape) * dtype.itemsize
    block = map_block(nbytes) if nbytes >= VERY_LARGE else None
    if block is None:
        return None
    import numpy as np

    return np.ndarray(shape, dtype, np.frombuffer(block, np.uint8))


def owner_of(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array over the whole memory of an array that `empty` has returned, given that array or a view."""
    base = array.base
    return base if isinstance(base, type(array)) else array


def _bounds(array: NDArray[Any], unit: int) -> tuple[int, int]:
    """Return the first and last multiple of `unit` within the memory of a contiguous array."""
    start: int = array.ctypes.data
    return -(-start // unit) * unit, (start + array.nbytes) // unit * unit


class PagePrefaulter:
    """Prefaults the pages of a new array, piece by piece, in the order of addresses.

    Otherwise the first write to each page faults it in. One call for many pages takes a third less time, and a sixth
    of it with free huge pages. After the first huge page that takes longer than small pages, small pages are used.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        """Take an array that `empty` has returned. Other threads may write to it meanwhile."""
        self._array = array  # keeps the memory alive while a worker prefaults it
        self._position, self._stop = _bounds(array, HUGE_PAGE)
        self._huge = True

    def next(self) -> Callable[[], None] | None:
        """Return a function that prefaults the next piece, in any thread.

        Returns:
            The function, or None after the last piece or if the system cannot prefault.
        """
        start = self._position
        if _advise is None or start >= self._stop:
            return None
        stop = self._position = min(start + PIECE_BYTES, self._stop)
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
            if thread_time() - begun > SLOW_HUGE_PAGE_SECONDS:
                self._huge = False
        if start < stop:
            _advise(start, stop - start, _POPULATE_WRITE)
