"""Memory of its own for each very large array, which a thread gives back to the system.

For 512 MiB that takes 30 ms. Else it would be whoever lets go of the array that waits for it: mostly the caller's loop.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import threading
from _thread import interrupt_main
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

WAITING_BYTES = 256 << 20
"""Bytes that may wait for the thread; whoever lets go of more gives the rest back himself, as ever."""

PIECE = 8 << 20
"""Bytes that are given back at a time, in half a millisecond: others who want or return memory wait for that."""


class Calls:
    """What the system is asked for."""

    def __init__(self) -> None:
        """Find the calls.

        Raises:
            AttributeError, OSError, TypeError: there are none here.
        """
        library = ctypes.CDLL(None)
        self._map, self._unmap, self._advise = library.mmap, library.munmap, library.madvise
        address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        self._map.restype = address
        self._map.argtypes = [address, size, number, number, number, ctypes.c_long]
        self._unmap.argtypes = [address, size]
        self._advise.argtypes = [address, size, number]
        # While the interpreter goes down, modules may have lost their names.
        self._failed = ctypes.c_void_p(-1).value
        self._dropped: int = mmap.MADV_DONTNEED

    def take(self, nbytes: int) -> int | None:
        """Return the address of new memory, whole pages; None: there is none."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        found = self._map(None, nbytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        return None if found == self._failed else int(found)

    def drop(self, address: int, nbytes: int) -> None:
        """Give back what was written there; the place stays. The interpreter's lock is free meanwhile."""
        self._advise(address, nbytes, self._dropped)

    def give_back(self, address: int, nbytes: int) -> None:
        """Give back the place too, whose memory is dropped."""
        self._unmap(address, nbytes)


class _Place:
    """Says once where memory is."""

    __slots__ = ("__array_interface__",)

    __array_interface__: dict[str, Any]


def array_at(address: int, nbytes: int) -> NDArray[np.uint8]:
    """Return the bytes at `address` as an array, to which every view and every buffer of them refers.

    It is an array, and nothing that shows its memory is behind it, because the garbage collector does not know of
    arrays: of what it knows, it ends weak references before objects in the same cycle have had their last word.
    """
    place = _Place()
    place.__array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (address, False), "version": 3}
    array: NDArray[np.uint8] = np.asarray(place)
    del place.__array_interface__
    return array


class _Lent(ref["NDArray[np.uint8]"]):
    """Refers to mapped memory as a whole."""

    __slots__ = ("address", "left", "nbytes")

    address: int
    nbytes: int
    left: int  # bytes at its end that are not given back yet


class Mapped:
    """The arrays that lie in such memory, and the thread, which lives as long as there are any."""

    def __init__(self) -> None:
        self.calls: Calls | None = None
        with contextlib.suppress(AttributeError, OSError, TypeError):
            self.calls = Calls()
        self._lent: dict[int, _Lent] = {}  # by identity: what they refer to has no hash
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.RLock()  # the garbage collector may have somebody come in from within
        self._gone: SimpleQueue[_Lent] = SimpleQueue()
        self._waiting: dict[int, _Lent] = {}
        self._thread: threading.Thread | None = None

    def forked(self) -> None:
        """This is a child: it has what its parent had, but for the thread."""
        waiting = self._waiting
        self._begin()
        for lent in waiting.values():
            self._end(lent)

    def empty(self, shape: int | Sequence[int], dtype: np.dtype[Any], nbytes: int) -> NDArray[Any] | None:
        """Return an array of `nbytes`, in C order; None where the system gives no such memory."""
        room = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        address = None if self.calls is None else self.calls.take(room)
        if address is None:
            return None
        memory = array_at(address, nbytes)
        lent = _Lent(memory, self._let_go)
        lent.address, lent.nbytes = address, room
        self._lent[id(lent)] = lent
        self._start()
        self._find_lost()
        return np.ndarray(shape, dtype, memory)

    def _find_lost(self) -> None:
        """Give back what nobody sees any more and yet was not let go of: deep in a recursion nothing can be called."""
        for lent in list(self._lent.values()):
            if lent() is None:
                self._let_go(lent)

    def _let_go(self, lent: _Lent) -> None:
        """Nobody sees the memory any more. Called in any thread and at any moment, also by the garbage collector."""
        if self._lent.pop(id(lent), None) is None:
            return  # somebody else has found it
        lent.left = lent.nbytes
        self._waiting[id(lent)] = lent
        try:
            waiting = sum([each.left for each in list(self._waiting.values())]) - lent.nbytes
            left = 0 if self._thread is None else max(0, min(lent.nbytes, WAITING_BYTES - waiting))
            assert self.calls is not None
            if left < lent.nbytes:
                self.calls.drop(lent.address, lent.nbytes - left)
                lent.left = left
        except KeyboardInterrupt:  # from here it would reach nobody
            interrupt_main()
        finally:  # whatever a signal's handler has raised
            if lent.left:
                self._gone.put(lent)
            else:
                del self._waiting[id(lent)]
                self._end(lent)

    def _end(self, lent: _Lent) -> None:
        assert self.calls is not None
        self.calls.give_back(lent.address, lent.nbytes)

    def _start(self) -> None:
        """See to it that there is a thread; while the interpreter is going down there may be none."""
        thread = threading.Thread(target=self._serve, name="aiozarr-memory", daemon=True)
        with self._lock:
            if self._thread is not None:
                return
            self._thread = thread
        try:
            thread.start()
        except RuntimeError:
            self._thread = None

    def _serve(self) -> None:
        assert self.calls is not None
        while True:
            lent = self._gone.get()
            while lent.left:
                nbytes = min(PIECE, lent.left)
                self.calls.drop(lent.address + lent.nbytes - lent.left, nbytes)
                lent.left -= nbytes
            del self._waiting[id(lent)]
            self._end(lent)
            del lent
            self._find_lost()
            with self._lock:
                if not self._lent and not self._waiting:
                    self._thread = None
                    return


mapped = Mapped()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=mapped.forked)
