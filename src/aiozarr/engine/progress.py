"""How far a read, a write or a copy has come, as a callback receives it."""

from __future__ import annotations

from typing import NamedTuple


class Progress(NamedTuple):
    """How far an operation has come.

    Attributes:
        done: stored objects that are finished.
        total: stored objects that the operation touches.
        bytes_done: bytes of array elements in place (copy: bytes of objects).
        bytes_total: all of them.
    """

    done: int
    total: int
    bytes_done: int
    bytes_total: int
