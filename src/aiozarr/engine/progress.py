"""The progress of a read, a write or a copy, which callbacks receive."""

from __future__ import annotations

from typing import NamedTuple


class Progress(NamedTuple):
    """The progress of an operation.

    Attributes:
        done: stored objects that are complete.
        total: stored objects that the operation touches.
        bytes_done: bytes of array elements in place (copy: bytes of objects).
        bytes_total: bytes of all of them.
    """

    done: int
    total: int
    bytes_done: int
    bytes_total: int
