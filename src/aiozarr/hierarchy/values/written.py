"""Values that are written: cast to the array's data type as numpy assignment casts, and laid over the view's shape."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aiozarr.hierarchy.values.numbers import convert_numbers, is_number
from aiozarr.hierarchy.values.others import convert_bytes, convert_raw, convert_text, convert_times

AnyArray: TypeAlias = NDArray[Any]


def convert_values(values: ArrayLike, dtype: np.dtype[Any]) -> AnyArray:
    """Return `values` as an array of `dtype`, without a copy where they are one.

    Arrays and numpy scalars are cast by numpy's rule `same_kind`. Python numbers, and sequences of them, go wherever
    the value fits; so do strings and bytes, which numpy would cut to length in silence. Fields of records go to the
    fields of the same names, each by these rules.

    Raises:
        TypeError: the cast would lose the kind of the values: float to integer, complex to float, signed to unsigned.
        OverflowError: a Python integer does not fit.
        ValueError: a string does not fit, or is none that the type has.
    """
    if isinstance(values, np.ndarray | np.generic) and values.dtype == dtype:
        return np.asarray(values)
    if is_number(dtype):
        return convert_numbers(values, dtype)
    if _is_empty(values):
        # numpy calls an empty list float64, which says nothing about it.
        return np.empty(np.array(values, object).shape, dtype)
    if dtype.names is not None:
        return _convert_records(values, dtype)
    match dtype.kind:
        case "U" | "T":
            return convert_text(values, dtype)
        case "S":
            return convert_bytes(values, dtype)
        case "M" | "m":
            return convert_times(values, dtype)
        case "O":
            # What the objects are, the codec of the array knows.
            return np.asarray(values).astype(object) if hasattr(values, "__array__") else np.array(values, object)
        case _:
            return convert_raw(values, dtype)


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


def _is_empty(values: object) -> bool:
    while isinstance(values, list | tuple) and values:
        values = values[0]
    return isinstance(values, list | tuple)


def _convert_records(values: ArrayLike, dtype: np.dtype[Any]) -> AnyArray:
    names = dtype.names or ()
    python = not hasattr(values, "dtype") and not hasattr(values, "__array__")
    if python:
        # As objects first: numpy would cast the parts of tuples without any rule.
        parts = [(name, np.dtype((object, dtype[name].shape))) for name in names]
        try:
            natural: AnyArray = np.array(values, np.dtype(parts))
        except (TypeError, ValueError) as error:
            raise TypeError(f"records are written as tuples of {len(names)} values: {error}") from error
    else:
        natural = np.asarray(values)
    if natural.dtype.names != names:
        raise TypeError(f"values of type {natural.dtype} have not the fields {names}")
    converted: AnyArray = np.empty(natural.shape, dtype)
    for name in names:
        part = natural[name]
        converted[name] = convert_values(part.tolist() if python else part, dtype[name].base)
    return converted
