"""Memory of large arrays, and memory that a thread reuses.

Each very large array has a mapped block of memory, which a separate thread returns to the system. Returning 512 MiB
takes 30 ms. Otherwise the thread that drops the last reference would wait: usually the caller's loop.

A worker thread reuses its memory from chunk to chunk. The system maps a new block page by page and unmaps it again.
That takes longer than copying the chunk, and threads wait for each other meanwhile. Making a decoder takes longer
than decoding a small chunk.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from _thread import interrupt_main
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import count
from math import prod
from queue import SimpleQueue
from time import thread_time
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

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
    # Imported here because a copy between stores needs bytes only.
    import numpy as np

    dtype = np.dtype(dtype)
    nbytes = int(prod(shape) if isinstance(shape, Sequence) else shape) * dtype.itemsize
    if nbytes < LARGE or dtype.hasobject or dtype.subdtype is not None:
        return np.empty(shape, dtype)
    block = _very_large(nbytes)
    array = np.empty(shape, dtype) if block is None else np.ndarray(shape, dtype, np.frombuffer(block, np.uint8))
    _use_small_pages(array.ctypes.data, nbytes)
    return array


def empty_bytes(nbytes: int) -> memoryview:
    """Return `nbytes` uninitialised, writable bytes. They are like those of `empty`, and numpy is not imported."""
    view = _very_large(nbytes) or memoryview(cast("bytearray", _new_bytearray(None, nbytes)))
    if nbytes >= LARGE:
        _use_small_pages(_address_of(view), nbytes)
    return view


def _very_large(nbytes: int) -> memoryview | None:
    """Return mapped memory, or None if there are fewer bytes or the system does not support it."""
    return map_block(nbytes) if nbytes >= VERY_LARGE and _advise is not None else None


def _use_small_pages(start: int, nbytes: int) -> None:
    if _advise is not None:
        first, stop = _aligned(start, nbytes, mmap.PAGESIZE)
        _advise(first, stop - first, _SMALL_PAGES or 0)


def _address_of(memory: memoryview | mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _aligned(start: int, nbytes: int, unit: int) -> tuple[int, int]:
    """Return the first and the last multiple of `unit` within memory."""
    return -(-start // unit) * unit, (start + nbytes) // unit * unit


def owner_of(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array over the whole memory of an array that `empty` has returned, given that array or a view."""
    base = array.base
    return base if isinstance(base, type(array)) else array


class PagePrefaulter:
    """Prefaults the pages of a new array, piece by piece, in the order of addresses.

    Otherwise the first write to each page faults it in. One call for many pages takes a third less time, and a sixth
    of it with free huge pages. After the first huge page that takes longer than small pages, small pages are used.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        """Take an array that `empty` has returned. Other threads may write to it meanwhile."""
        self._array = array  # keeps the memory alive while a worker prefaults it
        self._position, self._stop = _aligned(array.ctypes.data, array.nbytes, HUGE_PAGE)
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


MAX_PENDING_UNMAP_BYTES = 256 << 20
"""The most bytes that wait for the thread. The thread that drops more returns the excess itself."""

UNMAP_PIECE_BYTES = 8 << 20
"""The thread returns memory in pieces of half a millisecond, because other threads cannot map memory meanwhile."""


class _Releaser:
    """The thread that returns memory to the system, and the blocks that wait for it.

    A block that waits is reused for the next array of its size. In a series of reads the result before the last one is
    often dropped just before the next read begins, so its pages need not be returned and faulted in again.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start without a thread. In a forked child, the waiting blocks are returned at once."""
        self._lock = threading.Lock()
        self._returning = threading.RLock()  # while the thread returns a piece
        self._thread: threading.Thread | None = None
        self._numbers = count()
        self._pending: dict[int, mmap.mmap] = {}
        self._queue: SimpleQueue[tuple[int, mmap.mmap]] = SimpleQueue()

    def start(self) -> None:
        """Start the thread unless it runs. No thread can be started while the interpreter shuts down."""
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._serve, name="aiozarr-memory", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return
                self._thread = thread

    def release(self, block: mmap.mmap) -> None:
        """Queue a block for the thread, without what exceeds the limit of waiting bytes.

        It is called in any thread at any moment, even by the garbage collector, so it must not lock.
        """
        if self._thread is None:
            return
        number, size = next(self._numbers), len(block)
        try:
            waiting = sum(map(len, list(self._pending.values())))
            kept = max(0, min(size, MAX_PENDING_UNMAP_BYTES - waiting))
            if kept < size:
                kept -= kept % UNMAP_PIECE_BYTES
                _return_pages(block, kept, size)
            if kept:
                self._pending[number] = block
                self._queue.put((number, block))
        except BaseException as error:
            self._pending.pop(number, None)
            if not isinstance(error, KeyboardInterrupt):
                raise
            interrupt_main()  # a finalizer would swallow the KeyboardInterrupt

    def reuse(self, nbytes: int) -> mmap.mmap | None:
        """Return a waiting block of `nbytes`, whose pages may be present, or None."""
        for number, block in list(self._pending.items()):
            if len(block) == nbytes and self._pending.pop(number, None) is not None:
                with self._returning:  # the thread may be at a piece of it, and returns no more
                    return block
        return None

    def _serve(self) -> None:
        queue = self._queue
        while True:
            number, block = queue.get()
            # The addresses stay reserved until the block is deallocated. The end is returned first, because arrays are
            # written from the beginning, and the block may be reused.
            for start in reversed(range(0, len(block), UNMAP_PIECE_BYTES)):
                with self._returning:
                    if number not in self._pending:
                        break
                    _return_pages(block, start, min(start + UNMAP_PIECE_BYTES, len(block)))
            self._pending.pop(number, None)
            del block


def _return_pages(block: mmap.mmap, start: int, stop: int) -> None:
    """Return pages of a block to the system; `start` is a multiple of the page size.

    Unlike `mmap.madvise`, this does not hold the interpreter's lock.
    """
    assert _advise is not None
    _advise(_address_of(block) + start, stop - start, mmap.MADV_DONTNEED)


def map_block(nbytes: int) -> memoryview | None:
    """Return a view of mapped memory of `nbytes` bytes, or None if the system cannot map it."""
    from pickle import PickleBuffer  # slow to import, and seldom needed

    block = releaser.reuse(nbytes)
    if block is None:
        try:
            block = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError):
            return None
    releaser.start()
    lease: Any = _lease_type(nbytes).from_buffer(block)
    lease.block = block
    return PickleBuffer(lease).raw()


@lru_cache(16)
def _lease_type(nbytes: int) -> type[ctypes.Array[ctypes.c_char]]:
    """Return the type of an object that all views of a block refer to. It passes the block on when it is finalized."""
    return type("_Lease", (ctypes.c_char * nbytes,), {"__del__": _end_lease})


def _end_lease(lease: Any) -> None:
    # The garbage collector also finalizes a lease of a cycle, which other finalizers may still read: then the block
    # is deallocated with the lease.
    if sys.getrefcount(lease) <= _REFERENCES_AT_END:
        releaser.release(lease.block)


def _count_references(probe: object) -> None:
    global _REFERENCES_AT_END
    _REFERENCES_AT_END = sys.getrefcount(probe)


_REFERENCES_AT_END = 0
type("_Probe", (), {"__del__": _count_references})()
releaser = _Releaser()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=releaser.reset)

K = TypeVar("K")
V = TypeVar("V")

SPARE_BYTES = 4 << 20
"""A scratch block up to this size is reused even if only a small part of it is needed."""


class ThreadMemory(threading.local):
    """One thread's scratch block, and its latest value of each kind. There is one instance, `thread_memory`.

    Threads and their memory live as long as the process. Therefore users of `scratch` bound their requests.
    """

    def __init__(self) -> None:
        """Called once in each thread."""
        self._latest: dict[str, tuple[object, object]] = {}
        self._scratch: NDArray[np.uint8] | None = None

    def latest(self, kind: str, key: K, make: Callable[[K], V]) -> V:
        """Return this thread's value of `kind`, which `make(key)` replaces when the key changes."""
        found = self._latest.get(kind)
        if found is None or found[0] != key:
            del found
            self._latest.pop(kind, None)  # two values, and their memory, never live at the same time
            found = self._latest[kind] = (key, make(key))
        return cast("V", found[1])

    def scratch(self, nbytes: int) -> NDArray[np.uint8]:
        """Return a block of at least `nbytes`, with any content. All users in this thread share it.

        A block that is too small, or much too large, is replaced. The latest values are dropped then, because they may
        refer to the block.
        """
        scratch = self._scratch
        if scratch is None or not nbytes <= scratch.nbytes <= max(SPARE_BYTES, 4 * nbytes):
            del scratch
            self._scratch = None
            self._latest.clear()
            import numpy as np

            scratch = self._scratch = np.empty(max(nbytes, 1), np.uint8)
        return scratch


thread_memory = ThreadMemory()
