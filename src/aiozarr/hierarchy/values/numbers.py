"""Numbers that are written: arrays by numpy's rule `same_kind`, Python's own wherever the value fits."""

from __future__ import annotations

from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

AnyArray: TypeAlias = NDArray[Any]

# Bool, integers, floats, complex: Python values go up this ladder and never down. "O" are integers beyond 64 bits.
_LADDER = {"b": 0, "i": 1, "u": 1, "O": 1, "f": 2, "c": 3}
_PYTHON_NAMES = {"b": "bool", "i": "int", "u": "int", "O": "int", "f": "float", "c": "complex"}
# By which of numpy's own types two types of another package are cast to each other.
_BETWEEN = {"i": "i1", "u": "u1", "f": "f4", "c": "c8"}


def is_number(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of `dtype` are numbers or bools, those of other packages among them."""
    return number_kind(dtype) in ("b", "i", "u", "f", "c")


def number_kind(dtype: np.dtype[Any]) -> str:
    """Return numpy's kind of `dtype`: `i`, `u`, `f` or `c` also for numbers of ml_dtypes, which are of kind V or W."""
    name = dtype.name
    # Types of other packages. numpy says of casts between these and its own that all of them are of one kind.
    if dtype.isbuiltin != 2 or getattr(ml_dtypes, name, None) is not dtype.type:
        return dtype.kind
    for start, kind in (("int", "i"), ("uint", "u"), ("complex", "c"), ("bcomplex", "c")):
        if name.startswith(start):
            return kind
    return "f"


def convert_numbers(values: ArrayLike, dtype: np.dtype[Any]) -> AnyArray:
    """Return numbers as an array of `dtype`, which is one of numbers.

    Raises:
        TypeError: the cast would lose the kind of the values: float to integer, complex to float, signed to unsigned.
        OverflowError: a Python integer does not fit.
    """
    natural = values if isinstance(values, np.ndarray) else np.asarray(values)
    kind = number_kind(natural.dtype)
    if hasattr(values, "dtype") or hasattr(values, "__array__") or kind not in _LADDER:
        return _cast(natural, dtype)
    return _from_python(values, natural, dtype)


def _cast(natural: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    if not _same_kind(natural.dtype, dtype):
        raise TypeError(
            f"values of type {natural.dtype} are not cast to {dtype} (numpy's rule 'same_kind'); convert them yourself"
        )
    if natural.dtype.isbuiltin == dtype.isbuiltin == 2 and natural.dtype != dtype:
        natural = natural.astype(np.dtype(_BETWEEN[number_kind(natural.dtype)]))
    return natural.astype(dtype, copy=False)


def _same_kind(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    if source.isbuiltin != 2 and target.isbuiltin != 2:
        return np.can_cast(source, target, casting="same_kind")
    one, other = number_kind(source), number_kind(target)
    return one in _LADDER and one != "O" and _LADDER[one] <= _LADDER[other] and (one, other) != ("i", "u")


def _from_python(values: ArrayLike, natural: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """Convert Python numbers and sequences; `natural` is what numpy makes of them by itself."""
    if natural.size == 0:
        # numpy calls an empty list float64, which says nothing about it.
        return natural.astype(dtype)
    kind, target = number_kind(natural.dtype), number_kind(dtype)
    if kind == "O" and not all(isinstance(item, int) for item in natural.flat):
        raise TypeError(f"{type(natural.flat[0]).__name__} values cannot be written to an array of type {dtype}")
    if _LADDER[kind] > _LADDER[target]:
        raise TypeError(f"Python {_PYTHON_NAMES[kind]} values are not cast to {dtype}; convert them yourself")
    if target in "iu" and kind in "iuO":
        low, high = _limits(dtype)
        least, greatest = int(natural.min()), int(natural.max())
        if least < low or greatest > high:
            raise OverflowError(f"{least if least < low else greatest} is out of bounds for {dtype}")
    if natural.dtype.isbuiltin == dtype.isbuiltin == 2:
        return _cast(natural, dtype)
    # From the values themselves, not from what numpy made of them: large integers would go by way of floats.
    return np.array(values, dtype=dtype) if kind == "O" else natural.astype(dtype)


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits: Any = np.iinfo(dtype) if dtype.isbuiltin != 2 else ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    return int(limits.min), int(limits.max)
