"""Memory that a worker thread reuses from chunk to chunk.

The system maps a new block page by page and unmaps it again. That takes longer than copying the chunk, and threads wait
for each other meanwhile. Making a decoder takes longer than decoding a small chunk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

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
            scratch = self._scratch = np.empty(max(nbytes, 1), np.uint8)
        return scratch


thread_memory = ThreadMemory()
