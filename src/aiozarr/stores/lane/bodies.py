"""Memory for the bodies of answers, used again once nobody refers to a body any more.

Fresh memory of such sizes comes from the system, page by page, while the loop's thread copies or receives into it, and
goes back when the body is done with.
"""

from __future__ import annotations

from collections import deque
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from aiozarr.memory import empty

KEPT_BYTES = 16 << 20
"""Bytes in all, with those that are in use, that are used again; bodies beyond have memory of their own."""

LEAST_BYTES = 32 << 10
"""Smaller memory comes from the allocator, which keeps it."""

MOST_BYTES = KEPT_BYTES // 4

STEPS = 16
"""Sizes between one power of two and the next that are told apart: so little of a block is left unused."""


class _Lent(ref["NDArray[np.uint8]"]):
    """Refers to what of a block was given away, and keeps the block."""

    __slots__ = ("block",)

    block: NDArray[np.uint8]


class Bodies:
    """The memory of one pool's bodies. Used on its loop; bodies may be let go of in any thread."""

    def __init__(self) -> None:
        self._total = 0  # bytes of blocks that come back, lent or not
        self._free: dict[int, list[NDArray[np.uint8]]] = {}
        self._lent: dict[int, _Lent] = {}  # by identity: what they refer to has no hash
        self._back: deque[_Lent] = deque()
        self._used = False

    @property
    def held(self) -> int:
        """Bytes that are held for bodies to come."""
        self._take_back()
        return sum([size * len(blocks) for size, blocks in self._free.items()])

    def take(self, size: int) -> memoryview:
        """Return `size` writable bytes with anything in them; nobody else has them as long as a view of them lives."""
        if not LEAST_BYTES <= size <= MOST_BYTES:
            return empty(size, np.uint8).data
        self._used = True
        self._take_back()
        step = 1 << max(0, size.bit_length() - STEPS.bit_length())
        room = -(-size // step) * step
        block = self._block(room)
        if block is None:
            return empty(size, np.uint8).data
        # What is given away is an array of its own: it lives as long as anybody sees memory through it.
        array = block[:size]
        lent = _Lent(array, self._back.append)
        lent.block = block
        self._lent[id(lent)] = lent
        return array.data

    def sweep(self) -> None:
        """Let go of what is free where nothing was asked for since the last sweep."""
        if not self._used:
            self._take_back()
            self._drop_free()
        self._used = False

    def clear(self) -> None:
        """Let go of all that is free, and take nothing back of what is in use."""
        self._free.clear()
        self._back.clear()
        self._lent.clear()  # without the reference nobody is told of a body's end, and its memory ends with it
        self._total = 0

    def _block(self, room: int) -> NDArray[np.uint8] | None:
        free = self._free.get(room)
        if free:
            return free.pop()
        if self._total + room > KEPT_BYTES:
            self._drop_free()
            if self._total + room > KEPT_BYTES:
                return None
        self._total += room
        return np.empty(room, np.uint8)

    def _take_back(self) -> None:
        back = self._back
        while back:
            lent = back.popleft()
            del self._lent[id(lent)]
            self._free.setdefault(lent.block.nbytes, []).append(lent.block)

    def _drop_free(self) -> None:
        self._total -= sum([size * len(blocks) for size, blocks in self._free.items()])
        self._free.clear()
