"""Memory for the bodies of responses, reused after the last reference to a body is gone.

Otherwise the system would provide memory of such sizes page by page, while the loop's thread receives into it, and
reclaim it after the body was used.
"""

from __future__ import annotations

import ctypes
from collections import deque
from weakref import ref

from aiozarr.memory import empty_bytes

MAX_POOLED_BYTES = 64 << 20
"""Bytes that are reused, in use or free; bodies beyond have memory of their own."""

MIN_BLOCK_BYTES = 32 << 10
"""Smaller memory comes from the allocator, which reuses it itself."""

MAX_BLOCK_BYTES = MAX_POOLED_BYTES // 16

STEPS = 16
"""Block sizes between one power of two and the next: at most a sixteenth of a block is unused."""


class _LeasedBlock(ref["ctypes.Array[ctypes.c_ubyte]"]):
    """A weak reference to the lease of a block, which keeps the block."""

    __slots__ = ("block",)

    block: memoryview


class BufferPool:
    """The memory of the bodies of one connection pool. Used on its loop; bodies may be released in any thread."""

    def __init__(self) -> None:
        self._total = 0  # bytes of pooled blocks, leased or free
        self._free: dict[int, list[memoryview]] = {}
        self._leased: dict[int, _LeasedBlock] = {}  # by identity: a reference to an array has no hash
        self._returned: deque[_LeasedBlock] = deque()
        self._used = False

    @property
    def free_bytes(self) -> int:
        """Bytes of free blocks."""
        self._collect_returned()
        return sum([size * len(blocks) for size, blocks in self._free.items()])

    def take(self, size: int) -> memoryview:
        """Return `size` writable bytes, not initialised. They are not reused while a view of them is alive."""
        if not MIN_BLOCK_BYTES <= size <= MAX_BLOCK_BYTES:
            return empty_bytes(size)
        self._used = True
        self._collect_returned()
        step = 1 << max(0, size.bit_length() - STEPS.bit_length())
        block_size = -(-size // step) * step
        free = self._free.get(block_size)
        block = free.pop() if free else self._new_block(block_size)
        if block is None:
            return empty_bytes(size)
        # The lease is an object of its own, which lives as long as any view of the memory. A memoryview would not:
        # its slices refer to the memory. An array of ctypes needs no numpy, which a copy between stores lacks.
        lease = (ctypes.c_ubyte * block_size).from_buffer(block)
        leased = _LeasedBlock(lease, self._returned.append)
        leased.block = block
        self._leased[id(leased)] = leased
        return memoryview(lease).cast("B")[:size]

    def sweep(self) -> None:
        """Free the unused blocks if no block was taken since the last sweep."""
        if not self._used:
            self._drop_free()
        self._used = False

    def clear(self) -> None:
        """Free all unused blocks; leased ones are freed with their bodies."""
        self._free.clear()
        self._returned.clear()
        self._leased.clear()  # without its weak reference a block is freed with its body
        self._total = 0

    def _new_block(self, block_size: int) -> memoryview | None:
        if self._total + block_size > MAX_POOLED_BYTES:
            self._drop_free()
            if self._total + block_size > MAX_POOLED_BYTES:
                return None
        self._total += block_size
        return empty_bytes(block_size)

    def _collect_returned(self) -> None:
        returned = self._returned
        while returned:
            leased = returned.popleft()
            del self._leased[id(leased)]
            self._free.setdefault(leased.block.nbytes, []).append(leased.block)

    def _drop_free(self) -> None:
        self._total -= self.free_bytes
        self._free.clear()
