"""Tests whether all elements of an array equal one value bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aiozarr.codecs.core.codec import AnyArray, view_region
from aiozarr.codecs.serializers.storage_type import bits_used, clear_spare_bits, packed_type

_BLOCK = 1 << 16
_UNSIGNED: dict[int, np.dtype[Any]] = {1: np.dtype("u1"), 2: np.dtype("u2"), 4: np.dtype("u4"), 8: np.dtype("u8")}


def equals_everywhere(array: AnyArray, value: AnyArray) -> bool:
    """Return whether every element of `array` has the bytes of `value`, a 0-d array of the same type.

    Padding between fields and unused bits are ignored. Strings and other objects are equal if they have one type and
    compare equal; None equals None. The test begins with the first element and stops at the first block that differs.
    """
    if array.size == 0:
        return True
    if array.dtype.hasobject:
        return _objects_equal(array, value[()])
    if array.dtype.kind == "T":
        return _rows_equal(array, value)
    array, value = _comparable(array), _comparable(value)
    # A region instead of an element: the scalars of text types lose their trailing zeros.
    if view_region(array, (slice(1),) * array.ndim).tobytes() != value.tobytes():
        return False
    unsigned = _UNSIGNED.get(array.dtype.itemsize)
    if unsigned is None:
        flat: AnyArray = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(array.size, -1)
        wanted: AnyArray = np.frombuffer(value.tobytes(), np.uint8)
    else:
        # A view of a type of the same item size needs no contiguity.
        flat = array.view(unsigned).reshape(-1) if array.flags.c_contiguous else array.view(unsigned)
        wanted = np.frombuffer(value.tobytes(), unsigned)[0]
    return _rows_equal(flat, wanted)


def value_test(value: AnyArray) -> Callable[[AnyArray], bool]:
    """Return `equals_everywhere` for one 0-d array. It is fast for arrays that differ at their first element."""
    dtype: np.dtype[Any] = value.dtype
    if dtype.kind not in "biufc" or dtype.itemsize not in _UNSIGNED or dtype.isbuiltin != 1:
        return lambda array: equals_everywhere(array, value)
    wanted = value.tobytes()

    def is_value(array: AnyArray) -> bool:
        if array.size and array[(0,) * array.ndim].tobytes() != wanted:
            return False
        return equals_everywhere(array, value)

    return is_value


def _comparable(array: AnyArray) -> AnyArray:
    """Return `array` in a form in which equal values have equal bytes."""
    dtype = array.dtype
    if dtype.names is not None:
        packed = packed_type(dtype)
        return array if packed == dtype else array.astype(packed)
    if bits_used(dtype) == 8 * dtype.itemsize:
        return array
    array = array.copy()
    clear_spare_bits(array)
    return array


def _rows_equal(rows: AnyArray, wanted: AnyArray) -> bool:
    if rows.ndim == 0:
        return bool(rows == wanted)
    per_row = max(1, rows.size // len(rows))
    step = max(1, _BLOCK // per_row)
    return all(bool((rows[start : start + step] == wanted).all()) for start in range(0, len(rows), step))


def _objects_equal(array: AnyArray, wanted: Any) -> bool:
    return all(_same(item, wanted) for item in array.flat)


def _same(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return bool(left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes())
    return bool(left == right)
