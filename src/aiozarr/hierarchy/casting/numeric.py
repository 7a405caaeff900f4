"""Casts numbers: by numpy's rule `same_kind`, and otherwise if every value is kept."""

from __future__ import annotations

import warnings
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

AnyArray: TypeAlias = NDArray[Any]
Casting: TypeAlias = Literal["exact", "same_kind", "unsafe"]
"""The rule of casts: numpy's `same_kind`, that or any cast that keeps every value, or numpy's `unsafe`."""

# Bool, integers, floats, complex: values are cast to the same or a higher rank. "O" are integers beyond 64 bits.
_RANK = {"b": 0, "i": 1, "u": 1, "O": 1, "f": 2, "c": 3}
_PYTHON_NAMES = {"b": "bool", "i": "int", "u": "int", "O": "int", "f": "float", "c": "complex"}
# The numpy types through which types of another package are cast to each other.
_WIDE = {"i": "i8", "u": "u8", "f": "f8", "c": "c16"}
_INTERMEDIATE = {"i": "i1", "u": "u1", "f": "f4", "c": "c8"}


def is_number(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of `dtype` are numbers or bools, including types of other packages."""
    return number_kind(dtype) in ("b", "i", "u", "f", "c")


def number_kind(dtype: np.dtype[Any]) -> str:
    """Return numpy's kind of `dtype`, and `i`, `u`, `f` or `c` for ml_dtypes, whose kind in numpy is V or W."""
    name = dtype.name
    # For types of other packages, numpy reports every cast as `same_kind`.
    if dtype.isbuiltin != 2 or getattr(ml_dtypes, name, None) is not dtype.type:
        return dtype.kind
    for start, kind in (("int", "i"), ("uint", "u"), ("complex", "c"), ("bcomplex", "c")):
        if name.startswith(start):
            return kind
    return "f"


def convert_numbers(values: ArrayLike, dtype: np.dtype[Any], casting: Casting = "exact") -> AnyArray:
    """Return numbers as an array of `dtype`, a numeric type.

    Raises:
        TypeError: by "same_kind", the cast would lose the kind of the values: float to integer, complex to float,
            signed to unsigned. By "exact", such a cast would change a value; the error names the first one.
        OverflowError: a Python integer does not fit.
    """
    natural = values if isinstance(values, np.ndarray) else np.asarray(values)
    kind = number_kind(natural.dtype)
    if casting == "unsafe":
        return _cast_unchecked(natural, dtype)
    if kind == "O" and isinstance(values, np.ndarray) and values.dtype == object:
        values = values.tolist()  # The objects decide, as those of a list do.
        natural = np.asarray(values)
        kind = number_kind(natural.dtype)
    if hasattr(values, "dtype") or hasattr(values, "__array__") or kind not in _RANK:
        return _cast(natural, dtype, casting)
    return _from_python(values, natural, dtype, casting)


def _cast(natural: AnyArray, dtype: np.dtype[Any], casting: Casting) -> AnyArray:
    source = number_kind(natural.dtype)
    if not _same_kind(natural.dtype, dtype):
        if casting == "exact" and source in "biufc":
            return _cast_exactly(natural, dtype)
        raise TypeError(
            f"values of type {natural.dtype} are not cast to {dtype} (numpy's rule 'same_kind'); "
            "write(values, casting='unsafe') casts them all the same"
        )
    return _cast_unchecked(natural, dtype)


def _changed_value_error(natural: AnyArray, kept: AnyArray, dtype: np.dtype[Any]) -> TypeError:
    """Return the error of the first value that a cast would change."""
    place = np.unravel_index(int(np.argmin(kept.reshape(-1))), kept.shape)
    at = f" at {tuple(map(int, place))}" if place else ""
    return TypeError(
        f"the value {natural[place]}{at}, of type {natural.dtype}, is not one of {dtype}; "
        "write(values, casting='unsafe') casts it all the same"
    )


def _cast_unchecked(natural: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    if natural.dtype.isbuiltin == dtype.isbuiltin == 2 and natural.dtype != dtype:
        natural = natural.astype(np.dtype(_INTERMEDIATE[number_kind(natural.dtype)]))
    # As numpy's assignment of casts that lose something, without its warnings about it.
    with np.errstate(invalid="ignore", over="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        return natural.astype(dtype, copy=False)


def _cast_exactly(natural: AnyArray, dtype: np.dtype[Any]) -> AnyArray:
    """Cast numbers if every value stays what it is; a NaN stays a NaN in floats, and fits no integer."""
    wide: AnyArray = natural
    if natural.dtype.isbuiltin == 2:
        wide = natural.astype(np.dtype(_WIDE[number_kind(natural.dtype)]))
    is_complex = wide.dtype.kind == "c"
    part: AnyArray = np.real(wide) if is_complex else wide
    kept: AnyArray = (np.imag(wide) == 0) if is_complex else np.ones(wide.shape, bool)
    converted = _cast_unchecked(part, dtype)
    target = number_kind(dtype)
    if target == "b":
        kept &= (part == 0) | (part == 1)
    elif target in "iu":
        low, high = _limits(dtype)
        if part.dtype.kind == "f":
            # Both limits are powers of two, and so exact as floats, or infinite in a narrow type.
            with np.errstate(over="ignore"):
                least, beyond = np.array(float(low)).astype(part.dtype), np.array(float(high + 1)).astype(part.dtype)
            kept &= np.isfinite(part) & (part >= least) & (part < beyond) & (np.trunc(part) == part)
        elif part.dtype.kind in "iu":
            own = np.iinfo(part.dtype)
            kept &= (part >= max(low, int(own.min))) & (part <= min(high, int(own.max)))
    else:
        back = converted.astype(part.dtype)
        kept &= (back == part) | (np.isnan(back) & np.isnan(part))
    if not kept.all():
        raise _changed_value_error(natural, kept, dtype)
    return converted


def _same_kind(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    if source.isbuiltin != 2 and target.isbuiltin != 2:
        return np.can_cast(source, target, casting="same_kind")
    one, other = number_kind(source), number_kind(target)
    return one in _RANK and one != "O" and _RANK[one] <= _RANK[other] and (one, other) != ("i", "u")


def _from_python(values: ArrayLike, natural: AnyArray, dtype: np.dtype[Any], casting: Casting) -> AnyArray:
    """Cast Python numbers and sequences; `natural` is the array that numpy makes of them by default."""
    if natural.size == 0:
        # An empty list is float64 by default, whatever type it is meant for.
        return natural.astype(dtype)
    kind, target = number_kind(natural.dtype), number_kind(dtype)
    if kind == "O" and not all(isinstance(item, int) for item in natural.flat):
        raise TypeError(f"{type(natural.flat[0]).__name__} values cannot be written to an array of type {dtype}")
    if _RANK[kind] > _RANK[target]:
        if casting == "exact" and kind != "O":
            return _cast_exactly(natural, dtype)
        raise TypeError(
            f"Python {_PYTHON_NAMES[kind]} values are not cast to {dtype}; "
            "write(values, casting='unsafe') casts them all the same"
        )
    if target in "iu" and kind in "iuO":
        low, high = _limits(dtype)
        lowest, highest = int(natural.min()), int(natural.max())
        if lowest < low or highest > high:
            raise OverflowError(f"{lowest if lowest < low else highest} is out of bounds for {dtype}")
    if natural.dtype.isbuiltin == dtype.isbuiltin == 2:
        return _cast(natural, dtype, casting)
    # From the original values: large integers in `natural` may have been rounded to floats.
    return np.array(values, dtype=dtype) if kind == "O" else natural.astype(dtype)


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits: Any = np.iinfo(dtype) if dtype.isbuiltin != 2 else ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    return int(limits.min), int(limits.max)
