"""Memory of its own for each very large array, which a thread gives back to the system.

For 512 MiB that takes 30 ms. Else it would be whoever lets go of the array that waits for it: mostly the caller's loop.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray


class _Gone(ref["NDArray[Any]"]):
    """Refers to an array, and keeps its memory."""

    __slots__ = ("memory",)

    memory: mmap.mmap | None


class Mapped:
    """The arrays that lie in such memory, and the thread, which lives as long as there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: dict[int, _Gone] = {}  # by identity: what they refer to has no hash
        self._gone: SimpleQueue[_Gone] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def empty(self, shape: int | Sequence[int], dtype: np.dtype[Any], nbytes: int) -> NDArray[Any] | None:
        """Return an array of `nbytes`, in C order; None where the system gives no such memory."""
        try:
            memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError):
            return None
        array: NDArray[Any] = np.ndarray(shape, dtype, memory)
        # Views of the array refer to it: its end is that of the last of them. This may happen in any thread and at any
        # moment, also under the lock; so nothing is done there but to note it.
        gone = _Gone(array, self._gone.put)
        gone.memory = memory
        with self._lock:
            self._alive[id(gone)] = gone
            try:
                self._start()
            except RuntimeError:  # the interpreter is going down: whoever lets go of the array waits
                del self._alive[id(gone)]
        return array

    def _start(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="aiozarr-memory", daemon=True)
            thread.start()
            self._thread = thread

    def _serve(self) -> None:
        while True:
            gone = self._gone.get()
            with self._lock:
                del self._alive[id(gone)]
            gone.memory = None  # the system takes it back, without the interpreter's lock
            del gone
            with self._lock:
                if not self._alive:
                    self._thread = None
                    return


mapped = Mapped()

if hasattr(os, "register_at_fork"):
    # A child has no such thread, and whoever lets go of an array that was there before waits.
    os.register_at_fork(after_in_child=mapped.__init__)  # type: ignore[misc]
