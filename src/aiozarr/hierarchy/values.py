"""Values that are written: cast to the array's data type as numpy assignment casts, and laid over the view's shape."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

AnyArray: TypeAlias = NDArray[Any]

# Bool, integers, floats, complex: Python values go up this ladder and never down. "O" are integers beyond 64 bits.
_LADDER = {"b": 0, "i": 1, "u": 1, "O": 1, "f": 2, "c": 3}
_PYTHON_NAMES = {"b": "bool", "i": "int", "u": "int", "O": "int", "f": "float", "c": "complex"}


def convert_values(values: ArrayLike, dtype: np.dtype[Any]) -> AnyArray:
    """Return `values` as an array of `dtype`, without a copy where they are one.

    Arrays and numpy scalars are cast by numpy's rule `same_kind`. Python numbers, and sequences of them, go wherever
    the value fits.

    Raises:
        TypeError: the cast would lose the kind of the values: float to integer, complex to float, signed to unsigned.
        OverflowError: a Python integer does not fit.
    """
    natural = values if isinstance(values, np.ndarray) else np.asarray(values)
    if natural.dtype == dtype:
        return natural
    if hasattr(values, "dtype") or hasattr(values, "__array__") or natural.dtype.kind not in "biufcO":
        return _cast(natural, dtype)
    return _from_python(values, natural, dtype)


def broadcast_values(values: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    """Return `values` as a read-only array of `shape`; leading axes of length 1 may be too many, as in numpy.

    Raises:
        ValueError: the shapes do not fit.
    """
    if values.shape == shape:
        return values
    extra = max(0, values.ndim - len(shape))
    if values.shape[:extra] == (1,) * extra:
        try:
            return np.broadcast_to(values[(0,) * extra + (...,)], shape)
        except ValueError:
            pass
    raise ValueError(f"values of shape {values.shape} do not fit into a selection of shape {shape}")


def _cast(natural: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    if not np.can_cast(natural.dtype, dtype, casting="same_kind"):
        raise TypeError(
            f"values of type {natural.dtype} are not cast to {dtype} (numpy's rule 'same_kind'); convert them yourself"
        )
    return natural.astype(dtype, copy=False)


def _from_python(values: ArrayLike, natural: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """Convert Python numbers and sequences; `natural` is what numpy makes of them by itself."""
    if natural.size == 0:
        # numpy calls an empty list float64, which says nothing about it.
        return natural.astype(dtype)
    kind = natural.dtype.kind
    if kind == "O" and not all(isinstance(item, int) for item in natural.flat):
        raise TypeError(f"{type(natural.flat[0]).__name__} values cannot be written to an array of type {dtype}")
    if dtype.kind not in _LADDER:
        return _cast(natural, dtype)
    if _LADDER[kind] > _LADDER[dtype.kind]:
        raise TypeError(f"Python {_PYTHON_NAMES[kind]} values are not cast to {dtype}; convert them yourself")
    if dtype.kind in "iu" and kind in "iuO":
        limits = np.iinfo(dtype)
        least, greatest = int(natural.min()), int(natural.max())
        if least < limits.min or greatest > limits.max:
            raise OverflowError(f"{least if least < limits.min else greatest} is out of bounds for {dtype}")
    # From the values themselves, not from what numpy made of them: large integers would go by way of floats.
    return np.array(values, dtype=dtype) if kind == "O" else natural.astype(dtype)
