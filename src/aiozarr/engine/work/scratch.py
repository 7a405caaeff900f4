"""Memory that a worker thread uses again for every chunk that it encodes.

Fresh memory of a chunk's size comes from the system, page by page, and goes back; that takes longer than to copy the
chunk, and threads wait for each other meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.codecs import ArraySpec
from aiozarr.codecs._buffers import byte_array

AnyArray = NDArray[Any]

MAX_BYTES = 4 << 20
"""Larger chunks have memory of their own: threads keep theirs for good."""


class _Held(threading.local):
    memory: NDArray[np.uint8] | None = None


_held = _Held()


@contextmanager
def scratch(spec: ArraySpec) -> Iterator[AnyArray]:
    """Give an array for one decoded chunk, C-contiguous, with anything in it; it is the caller's within the context."""
    nbytes = spec.nbytes
    if nbytes > MAX_BYTES or spec.dtype.hasobject or spec.dtype.kind == "T":
        yield np.empty(spec.shape, spec.dtype)
        return
    # Taken out for as long as it is used: a codec may encode chunks of its own.
    memory, _held.memory = _held.memory, None
    if memory is None or memory.nbytes < nbytes:
        memory = np.empty(max(nbytes, 1), np.uint8)
    try:
        yield np.ndarray(spec.shape, spec.dtype, buffer=memory.data)
    finally:
        _held.memory = memory


def detached(encoded: Buffer, block: AnyArray) -> Buffer:
    """Return `encoded`, or a copy where it lies in the memory of `block`: codecs that make no new bytes give it on."""
    if isinstance(encoded, bytes) or not memoryview(encoded).nbytes:
        return encoded
    return bytes(encoded) if np.may_share_memory(byte_array(encoded), block) else encoded
