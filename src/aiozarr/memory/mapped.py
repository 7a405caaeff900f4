"""Maps a block of memory for each very large array. A separate thread returns the block to the system.

Returning 512 MiB takes 30 ms. Otherwise the thread that drops the last reference would wait: usually the caller's loop.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
from _thread import interrupt_main
from queue import SimpleQueue

MAX_PENDING_UNMAP_BYTES = 256 << 20
"""The most bytes that wait for the thread. Beyond it, other threads deallocate their blocks themselves."""

UNMAP_PIECE_BYTES = 8 << 20
"""The thread returns memory in pieces of half a millisecond, because other threads cannot map memory meanwhile."""


class _MappedBlock(mmap.mmap):
    """Private memory that passes itself on to the release thread when its last reference is dropped."""

    def __del__(self) -> None:
        # A block that could not be mapped is closed. The garbage collector also finalizes blocks of a cycle, which
        # other finalizers may still read.
        if not self.closed and sys.getrefcount(self) <= _REFERENCES_AT_END:
            releaser.release(self)


class _Releaser:
    """The thread that returns memory to the system, and the blocks that wait for it."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start without a thread. In a forked child, the waiting blocks are returned at once."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._pending_bytes: dict[int, int] = {}
        self._queue: SimpleQueue[_MappedBlock] = SimpleQueue()

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

    def release(self, block: _MappedBlock) -> None:
        """Queue a block for the thread, or let the caller deallocate it if there is no thread or too much is queued.

        Called in any thread at any moment, also by the garbage collector: it must not lock.
        """
        try:
            if self._thread is not None and sum(list(self._pending_bytes.values())) < MAX_PENDING_UNMAP_BYTES:
                self._pending_bytes[id(block)] = len(block)
                self._queue.put(block)
        except BaseException as error:
            self._pending_bytes.pop(id(block), None)
            if not isinstance(error, KeyboardInterrupt):
                raise
            interrupt_main()  # a finalizer would swallow the KeyboardInterrupt

    def _serve(self) -> None:
        queue = self._queue
        while True:
            block = queue.get()
            # The addresses stay reserved until the block is deallocated.
            for start in range(0, len(block), UNMAP_PIECE_BYTES):
                block.madvise(mmap.MADV_DONTNEED, start, min(UNMAP_PIECE_BYTES, len(block) - start))
            self._pending_bytes.pop(id(block), None)
            del block


def map_block(nbytes: int) -> mmap.mmap | None:
    """Return a block of `nbytes` bytes, or None if the system cannot map the memory."""
    try:
        block = _MappedBlock(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):
        return None
    releaser.start()
    return block


class _Probe:
    def __del__(self) -> None:
        global _REFERENCES_AT_END
        _REFERENCES_AT_END = sys.getrefcount(self)


_REFERENCES_AT_END = 0
_Probe()
releaser = _Releaser()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=releaser.reset)
