"""Memory for the bodies of responses, reused after the last reference to a body is gone.

Fresh memory of such sizes comes from the system, page by page, while the loop's thread receives into it, and goes
back after the body was used.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING
from weakref import ref

from aiozarr.memory import empty_bytes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_POOLED_BYTES = 16 << 20
"""Bytes that are reused, in use or free; bodies beyond have memory of their own."""

MIN_BLOCK_BYTES = 32 << 10
"""Smaller memory comes from the allocator, which reuses it itself."""

MAX_BLOCK_BYTES = MAX_POOLED_BYTES // 4

STEPS = 16
"""Block sizes between one power of two and the next: at most a sixteenth of a block is unused."""


class _LeasedBlock(ref["NDArray[np.uint8]"]):
    """A weak reference to the leased part of a block, which keeps the block."""

    __slots__ = ("block",)

    block: NDArray[np.uint8]


class BufferPool:
    """The memory of the bodies of one connection pool. Used on its loop; bodies may be released in any thread."""

    def __init__(self) -> None:
        self._total = 0  # bytes of pooled blocks, leased or free
        self._free: dict[int, list[NDArray[np.uint8]]] = {}
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
        # A lease is an array. A process that has not imported numpy copies between stores, and reads no arrays.
        if not MIN_BLOCK_BYTES <= size <= MAX_BLOCK_BYTES or "numpy" not in sys.modules:
            return empty_bytes(size)
        self._used = True
        self._collect_returned()
        step = 1 << max(0, size.bit_length() - STEPS.bit_length())
        block_size = -(-size // step) * step
        block = self._take_block(block_size)
        if block is None:
            return empty_bytes(size)
        # The lease is an array of its own: it lives as long as any view of the memory.
        array = block[:size]
        leased = _LeasedBlock(array, self._returned.append)
        leased.block = block
        self._leased[id(leased)] = leased
        return array.data

    def sweep(self) -> None:
        """Free the unused blocks if no block was taken since the last sweep."""
        if not self._used:
            self._collect_returned()
            self._drop_free()
        self._used = False

    def clear(self) -> None:
        """Free all unused blocks, and let leased ones go with their bodies."""
        self._free.clear()
        self._returned.clear()
        self._leased.clear()  # without its weak reference a block ends with its body
        self._total = 0

    def _take_block(self, block_size: int) -> NDArray[np.uint8] | None:
        free = self._free.get(block_size)
        if free:
            return free.pop()
        if self._total + block_size > MAX_POOLED_BYTES:
            self._drop_free()
            if self._total + block_size > MAX_POOLED_BYTES:
                return None
        self._total += block_size
        import numpy as np

        return np.empty(block_size, np.uint8)

    def _collect_returned(self) -> None:
        returned = self._returned
        while returned:
            leased = returned.popleft()
            del self._leased[id(leased)]
            self._free.setdefault(leased.block.nbytes, []).append(leased.block)

    def _drop_free(self) -> None:
        self._total -= sum([size * len(blocks) for size, blocks in self._free.items()])
        self._free.clear()
