"""Casts values to the data type of an array, as numpy's assignment does, and broadcasts them to a shape.

Numbers are cast by numpy's rule `same_kind`, and otherwise if every value is kept. Text, bytes and times that do not
fit raise; nothing is truncated silently.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from aiozarr.metadata.data_types.times import parse_times

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


def convert_text(values: ArrayLike, dtype: np.dtype[Any]) -> AnyArray:
    """Return text as an array of `dtype`, which is numpy's `U` of some length, or its `StringDType`.

    Raises:
        TypeError: a value is not text.
        ValueError: a text is too long, is missing, or is not valid Unicode.
    """
    natural = _natural(values)
    kind = natural.dtype.kind
    if kind == "T" or kind == "O":
        natural = _objects(natural, str, dtype, "missing, or no text") if _may_lack_text(natural) else natural
    elif kind == "S":
        natural = natural.astype(f"U{max(1, natural.dtype.itemsize)}")  # ASCII, or an error
    elif kind != "U":
        raise _not_cast(natural, dtype)
    if dtype.kind == "T":
        # numpy does not swap the bytes of text when it casts to StringDType.
        swapped = natural.dtype.kind == "U" and not natural.dtype.isnative
        return (natural.astype(natural.dtype.newbyteorder("=")) if swapped else natural).astype(dtype)
    converted = natural.astype(dtype, copy=False)
    if natural.dtype.kind != "U" or natural.dtype.itemsize > dtype.itemsize:
        _check_uncut(natural, converted, dtype)
    return converted


def convert_bytes(values: ArrayLike, dtype: np.dtype[Any]) -> AnyArray:
    """Return byte strings as an array of `dtype`, which is numpy's `S` of some length. Text is encoded as ASCII.

    Raises:
        TypeError: a value is not bytes or text.
        ValueError: a value is too long, or is text beyond ASCII.
    """
    natural = _natural(values)
    if natural.dtype.kind == "O":
        natural = _objects(natural, (bytes, str), dtype, "neither bytes nor text")
    elif natural.dtype.kind not in "SUT":
        raise _not_cast(natural, dtype)
    if natural.dtype.kind in "OT":
        natural = np.array([_encoded(item) for item in natural.flat], np.bytes_).reshape(natural.shape)
    converted = natural.astype(dtype, copy=False)
    if natural.dtype.kind != "S" or natural.dtype.itemsize > dtype.itemsize:
        _check_uncut(natural, converted, dtype)
    return converted


def convert_raw(values: ArrayLike, dtype: np.dtype[Any]) -> AnyArray:
    """Return bytes of exactly the length of an element as an array of `dtype`, which is numpy's `V` of some length.

    Raises:
        TypeError: a value is not bytes.
        ValueError: bytes of another length.
    """
    natural = _natural(values)
    if natural.dtype.kind == "S" and not hasattr(values, "dtype"):
        natural = np.array(values, object)  # numpy strips trailing zeros of byte strings
    if natural.dtype.kind != "O":
        raise _not_cast(natural, dtype)
    items = [bytes(item) for item in _objects(natural, (bytes, np.void), dtype, "no bytes").flat]
    for item in items:
        if len(item) != dtype.itemsize:
            raise ValueError(f"elements have {dtype.itemsize} bytes, not {len(item)}")
    return np.frombuffer(b"".join(items), dtype).reshape(natural.shape)


def convert_times(values: ArrayLike, dtype: np.dtype[Any]) -> AnyArray:
    """Return times as an array of `dtype`, numpy's `M8` or `m8` of some unit. Integers count units.

    Raises:
        TypeError: a value is not a time.
        ValueError: a text cannot be parsed as a time.
        OverflowError: an integer of more than 63 bits, or a time that the unit does not reach.
    """
    natural = _natural(values)
    if natural.dtype.kind in "OU" and not hasattr(values, "dtype"):
        natural = parse_times(natural, dtype) if _holds_times(natural) else natural
    if natural.dtype.kind in "iu" and natural.dtype.itemsize <= 8:
        if natural.dtype == np.uint64 and natural.size and natural.max() >= 1 << 63:
            raise OverflowError(f"{natural.max()} is out of bounds for {dtype}")
        return natural.astype(np.int64).view(dtype)
    if natural.dtype.kind != dtype.kind or not np.can_cast(natural.dtype, dtype, casting="same_kind"):
        raise _not_cast(natural, dtype)
    try:
        converted = natural.astype(dtype, copy=False)
    except OverflowError as error:  # numpy 2.5
        raise OverflowError(f"{_first_beyond(natural, dtype)} is out of bounds for {dtype}") from error
    # A finer unit spans less time, and numpy before 2.5 wraps around beyond it.
    if converted is not natural and np.can_cast(natural.dtype, dtype, casting="safe"):
        same = (converted.astype(natural.dtype) == natural) | np.isnat(natural)
        if not same.all():
            lost = natural.flat[int(np.argmin(same.reshape(-1)))]
            raise OverflowError(f"{lost} is out of bounds for {dtype}")
    return converted


def _natural(values: ArrayLike) -> AnyArray:
    if isinstance(values, np.ndarray):
        return values
    natural = np.asarray(values)
    # numpy converts numbers beside text to text: values from Python stay objects.
    return np.array(values, object) if natural.dtype.kind in "UT" and not hasattr(values, "dtype") else natural


def _may_lack_text(natural: AnyArray) -> bool:
    return natural.dtype.kind == "O" or hasattr(natural.dtype, "na_object")


def _holds_times(natural: AnyArray) -> bool:
    return not any(isinstance(item, int | float | complex | bytes) for item in natural.flat)


def _objects(natural: AnyArray, kinds: type | tuple[type, ...], dtype: np.dtype[Any], what: str) -> AnyArray:
    """Return `natural` as an array of objects, and check that all are of these kinds."""
    objects = natural.astype(object)
    for item in objects.flat:
        if not isinstance(item, kinds):
            raise TypeError(f"{item!r:.100} is {what}, and cannot be written to an array of type {dtype}")
    return objects


def _encoded(item: Any) -> bytes:
    return item.encode("ascii") if isinstance(item, str) else bytes(item)


def _check_uncut(natural: AnyArray, converted: AnyArray, dtype: np.dtype[Any]) -> None:
    wide: AnyArray = converted.astype(object) if natural.dtype.kind in "OT" else converted.astype(natural.dtype)
    whole: AnyArray = natural.astype(object) if natural.dtype.kind in "OT" else natural
    same = np.asarray(wide == whole)
    if not same.all():
        lost = whole.flat[int(np.argmin(same.reshape(-1)))]
        raise ValueError(f"{lost!r:.100} does not fit into {dtype}")


def _not_cast(natural: AnyArray, dtype: np.dtype[Any]) -> TypeError:
    return TypeError(
        f"values of type {natural.dtype} are not cast to {dtype} (numpy's rule 'same_kind'); convert them yourself"
    )


def _first_beyond(times: AnyArray, dtype: np.dtype[Any]) -> Any:
    """Return the first of `times` that numpy does not cast to the unit of `dtype`."""
    for time in times.flat:
        try:
            time.astype(dtype)
        except OverflowError:
            return time
    raise AssertionError("no time is out of bounds")
