"""Casts values to the data type of an array, as numpy's assignment does, and broadcasts them to a shape."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aiozarr.hierarchy.casting.numeric import Casting, convert_numbers, is_number
from aiozarr.hierarchy.casting.strings_and_times import convert_bytes, convert_raw, convert_text, convert_times

AnyArray: TypeAlias = NDArray[Any]


def convert_values(
    values: ArrayLike, dtype: np.dtype[Any], casting: Casting = "exact", *, is_element: bool = False
) -> AnyArray:
    """Return `values` as an array of `dtype`, without a copy if they are one already.

    With `is_element`, `values` of an object array are a single object, such as an array or a list.

    Arrays and numpy scalars are cast by numpy's rule `same_kind`, and with "exact" also if every value is kept. Python
    numbers, and sequences of them, are cast if the value fits; so are strings and bytes, which numpy would truncate
    silently. Fields of records are cast to the fields of the same names by the same rules. "unsafe" casts as numpy.

    Raises:
        TypeError: the cast would change a value, or with "same_kind" its kind: float to integer, complex to float,
            signed to unsigned.
        OverflowError: a Python integer does not fit.
        ValueError: a string does not fit, or is not valid for the type.
    """
    if casting not in ("exact", "same_kind", "unsafe"):
        raise ValueError(f"casting is 'exact', 'same_kind' or 'unsafe', not {casting!r}")
    if is_element and dtype.kind == "O" and np.ndim(values if isinstance(values, np.ndarray) else [0]):
        element: AnyArray = np.empty((), object)
        element[()] = values
        return element
    if isinstance(values, np.ndarray | np.generic) and values.dtype == dtype:
        return np.asarray(values)
    if is_number(dtype):
        return convert_numbers(values, dtype, casting)
    if _is_empty(values):
        # An empty list is float64 by default, whatever type it is meant for.
        return np.empty(np.array(values, object).shape, dtype)
    if dtype.names is not None:
        return _convert_records(values, dtype, casting)
    if casting == "unsafe" and dtype.kind in "USTMmV":
        return np.asarray(values).astype(dtype)
    match dtype.kind:
        case "U" | "T":
            return convert_text(values, dtype)
        case "S":
            return convert_bytes(values, dtype)
        case "M" | "m":
            return convert_times(values, dtype)
        case "O":
            # The array's object codec checks the objects.
            return np.asarray(values).astype(object) if hasattr(values, "__array__") else np.array(values, object)
        case _:
            return convert_raw(values, dtype)


def broadcast_values(values: AnyArray, shape: tuple[int, ...]) -> AnyArray:
    """Return `values` as a read-only array of `shape`. Extra leading axes of length 1 are dropped, as in numpy.

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


def _convert_records(values: ArrayLike, dtype: np.dtype[Any], casting: Casting) -> AnyArray:
    names = dtype.names or ()
    python = not hasattr(values, "dtype") and not hasattr(values, "__array__")
    if python:
        # As objects first: numpy would cast the members of tuples unchecked.
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
        converted[name] = convert_values(part.tolist() if python else part, dtype[name].base, casting)
    return converted
