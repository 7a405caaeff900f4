"""Views of memory as bytes and as arrays, without a copy."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

from aiozarr.codecs.core.codec import AnyArray

_UINT8 = np.dtype(np.uint8)


def byte_view(array: AnyArray) -> memoryview:
    """Return the memory of a C-contiguous array of any type as bytes; read-only if the array is.

    Raises:
        ValueError: the array is not C-contiguous.
    """
    if not array.flags.c_contiguous:
        raise ValueError("the array must be C-contiguous")
    # Numpy's stubs declare the buffer protocol from Python 3.12 on only; arrays support it in all versions.
    return memoryview(cast("Buffer", array.reshape(-1).view(_UINT8)))


def fast_byte_view(array: AnyArray) -> memoryview:
    """Return the same as `byte_view` in half the time, for arrays whose type `has_fast_view` accepts."""
    return array.data.cast("B")


def has_fast_view(dtype: np.dtype[Any]) -> bool:
    """Return whether `fast_byte_view` accepts arrays of `dtype`. It refuses complex, raw and structured types."""
    try:
        np.empty(1, dtype).data.cast("B")
    except (TypeError, ValueError):
        return False
    return True


def byte_array(data: Buffer) -> NDArray[np.uint8]:
    """Return a contiguous buffer as an array of bytes; read-only if the buffer is."""
    return np.frombuffer(cast("bytes", data), _UINT8)


def array_over(data: Buffer, shape: tuple[int, ...], dtype: np.dtype[Any]) -> AnyArray:
    """Return an array over a contiguous buffer of at least its size; read-only if the buffer is."""
    return np.ndarray(shape, dtype, buffer=cast("bytes", data))
