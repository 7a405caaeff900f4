"""Casts values to the data type of an array, as numpy's assignment does, and broadcasts them to a shape.

Numbers are cast by numpy's rule `same_kind` if none overflows, and otherwise if every value is kept. Text, bytes and
times that do not fit raise. Floats are rounded, and times lose what their unit does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from aiozarr.hierarchy.number_casts import (
    RANK,
    AnyArray,
    Casting,
    cast_advice,
    cast_numbers,
    cast_unchecked,
    limits,
    number_kind,
)
from aiozarr.metadata.times import parse_times

LARGE_CAST_BYTES = 1 << 19
"""A smaller cast takes less time than passing it to a worker and back, which is about 0.1 ms."""
CASTINGS = ", ".join([repr(name) for name in get_args(Casting)[:-1]]) + f" or {get_args(Casting)[-1]!r}"
"""The rules, for messages."""


def convert_values(
    values: ArrayLike,
    dtype: np.dtype[Any],
    casting: Casting = "checked",
    *,
    is_element: bool = False,
    origin: Sequence[int] | None = None,
) -> AnyArray:
    """Return `values` as an array of `dtype`, without a copy if they are one already.

    With `is_element`, `values` of an object array are a single object, such as an array or a list.

    By "checked", arrays and numpy scalars are cast by numpy's rule `same_kind` if no value overflows, and otherwise if
    every value is kept. "same_value" takes only casts that keep every value. "same_kind" and "unsafe" are numpy's. Text
    and bytes that numpy would truncate, and Python integers that it would wrap, are refused by all but "unsafe". Fields
    of records are cast to the fields of the same names. `origin` is the index of the first element in errors.

    Raises:
        TypeError: the types are not cast, or a fraction or an imaginary part would be lost.
        OverflowError: a number or time is out of range, or NaN has no counterpart; names the first one and its index.
        ValueError: a string does not fit, or is not valid for the type; by "same_value", a value would change.
    """
    if casting not in get_args(Casting):
        raise ValueError(f"casting must be {CASTINGS}, not {casting!r}")
    if is_element and dtype.kind == "O" and np.ndim(values if isinstance(values, np.ndarray) else [0]):
        element: AnyArray = np.empty((), object)
        element[()] = values
        return element
    if isinstance(values, np.ndarray | np.generic) and values.dtype == dtype:
        return np.asarray(values)
    if is_number(dtype):
        return convert_numbers(values, dtype, casting, origin)
    if _is_empty(values):
        # An empty list is float64 by default, whatever type it is meant for.
        return np.empty(np.array(values, object).shape, dtype)
    if dtype.names is not None:
        return _convert_records(values, dtype, casting, origin)
    if casting == "unsafe" and dtype.kind in "USTMmV":
        return np.asarray(values).astype(dtype)
    match dtype.kind:
        case "U" | "T":
            return convert_text(values, dtype)
        case "S":
            return convert_bytes(values, dtype)
        case "M" | "m":
            return convert_times(values, dtype, casting, origin)
        case "O":
            # The array's object codec checks the objects.
            return np.asarray(values).astype(object) if hasattr(values, "__array__") else np.array(values, object)
        case _:
            return convert_raw(values, dtype)


def is_large_cast(values: ArrayLike, dtype: np.dtype[Any]) -> bool:
    """Return whether a worker should cast: the cast would hold up the caller's loop, and runs no code of the user."""
    return (
        isinstance(values, np.ndarray)
        and values.dtype != dtype
        and not values.dtype.hasobject
        and max(values.nbytes, values.size * dtype.itemsize) >= LARGE_CAST_BYTES
    )


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
    raise ValueError(f"values of shape {values.shape} do not broadcast to a selection of shape {shape}")


def _is_empty(values: object) -> bool:
    while isinstance(values, list | tuple) and values:
        values = values[0]
    return isinstance(values, list | tuple)


def _convert_records(
    values: ArrayLike, dtype: np.dtype[Any], casting: Casting, origin: Sequence[int] | None
) -> AnyArray:
    names = dtype.names or ()
    python = not hasattr(values, "dtype") and not hasattr(values, "__array__")
    if python:
        # As objects first, because numpy would cast the members of tuples unchecked.
        parts = [(name, np.dtype((object, dtype[name].shape))) for name in names]
        try:
            natural: AnyArray = np.array(values, np.dtype(parts))
        except (TypeError, ValueError) as error:
            raise TypeError(f"write records as tuples of {len(names)} values: {error}") from error
    else:
        natural = np.asarray(values)
    if natural.dtype.names != names:
        raise TypeError(f"values of type {natural.dtype} do not have the fields {names}")
    converted: AnyArray = np.empty(natural.shape, dtype)
    for name in names:
        part = natural[name]
        # Indices in errors have the axes of a sub-array, too.
        start = None if origin is None else (*origin, *[0] * (part.ndim - natural.ndim))
        try:
            converted[name] = convert_values(part.tolist() if python else part, dtype[name].base, casting, origin=start)
        except (TypeError, ValueError, OverflowError) as error:
            error.add_note(f"field {name!r}")
            raise
    return converted


_PYTHON_NAMES = {"b": "bool", "i": "int", "u": "int", "O": "int", "f": "float", "c": "complex"}


def is_number(dtype: np.dtype[Any]) -> bool:
    """Return whether elements of `dtype` are numbers or bools, including types of other packages."""
    return number_kind(dtype) in ("b", "i", "u", "f", "c")


def convert_numbers(
    values: ArrayLike, dtype: np.dtype[Any], casting: Casting = "checked", origin: Sequence[int] | None = None
) -> AnyArray:
    """Return numbers as an array of `dtype`, a numeric type.

    Raises:
        TypeError, OverflowError, ValueError: as `convert_values`.
    """
    natural = values if isinstance(values, np.ndarray) else np.asarray(values)
    if casting == "unsafe":
        return cast_unchecked(natural, dtype)
    kind = number_kind(natural.dtype)
    if kind == "O" and isinstance(values, np.ndarray) and values.dtype == object:
        values = values.tolist()  # The objects determine the cast, as in a list.
        natural = np.asarray(values)
        kind = number_kind(natural.dtype)
    if hasattr(values, "dtype") or hasattr(values, "__array__") or kind not in RANK:
        return cast_numbers(natural, dtype, casting, origin)
    return _from_python(values, natural, dtype, casting)


def _from_python(values: ArrayLike, natural: AnyArray, dtype: np.dtype[Any], casting: Casting) -> AnyArray:
    """Cast Python numbers and sequences; `natural` is the array that numpy makes of them by default."""
    if natural.size == 0:
        # An empty list is float64 by default, whatever type it is meant for.
        return natural.astype(dtype)
    kind, target = number_kind(natural.dtype), number_kind(dtype)
    if kind == "O" and not all(isinstance(item, int) for item in natural.flat):
        raise TypeError(f"{type(natural.flat[0]).__name__} values cannot be written to an array of type {dtype}")
    if RANK[kind] > RANK[target] and casting == "same_kind":
        raise TypeError(f"Python {_PYTHON_NAMES[kind]} values cannot be cast to {dtype}; {cast_advice()}")
    if target in "biu" and kind in "iuO":
        # Python's integers have no numpy type, and wrap around only by the rule "unsafe".
        low, high = limits(dtype)
        _check_integers(natural, dtype, low, high)
        return np.array(values, dtype=dtype) if kind == "O" else cast_unchecked(natural, dtype)
    if kind == "O":
        most = int(np.finfo(np.float64).max)
        _check_integers(natural, dtype, -most, most)
        natural = np.array(values, np.float64)
    return cast_numbers(natural, dtype, casting)


def _check_integers(natural: AnyArray, dtype: np.dtype[Any], low: int, high: int) -> None:
    if int(natural.min()) < low or int(natural.max()) > high:
        index = next(index for index, item in np.ndenumerate(natural) if not low <= int(item) <= high)
        place = f" at {index}" if index else ""
        raise OverflowError(f"the value {natural[index]}{place} is out of range for {dtype}; {cast_advice()}")


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
            raise ValueError(f"expected elements of {dtype.itemsize} bytes, got {len(item)}")
    return np.frombuffer(b"".join(items), dtype).reshape(natural.shape)


def convert_times(
    values: ArrayLike, dtype: np.dtype[Any], casting: Casting = "checked", origin: Sequence[int] | None = None
) -> AnyArray:
    """Return times as an array of `dtype`, numpy's `M8` or `m8` of some unit. Integers count units.

    Raises:
        TypeError: a value is not a time.
        ValueError: a text cannot be parsed as a time; by "same_value", a time would change.
        OverflowError: an integer of more than 63 bits, or a time that the unit does not reach.
    """
    natural = _natural(values)
    if natural.dtype.kind in "OU" and not hasattr(values, "dtype"):
        natural = parse_times(natural, dtype) if _holds_times(natural) else natural
    if natural.dtype.kind in "iu" and natural.dtype.itemsize <= 8:
        return cast_numbers(natural, np.dtype(np.int64), "checked", origin).view(dtype)
    if natural.dtype.kind != dtype.kind or not np.can_cast(natural.dtype, dtype, casting="same_kind"):
        raise _not_cast(natural, dtype)
    try:
        converted = natural.astype(dtype, copy=False)
    except OverflowError as error:  # numpy 2.5
        index = _first_beyond(natural, dtype)
        raise _time_error(natural, dtype, index, origin) from error
    if converted is not natural and not np.can_cast(dtype, natural.dtype, casting="safe"):
        # A finer unit spans less time, and numpy before 2.5 wraps around beyond it.
        lost = converted.astype(natural.dtype).view("i8") - natural.view("i8")
        beyond = (np.abs(lost) > 1) & ~np.isnat(natural)
        if beyond.any():
            raise _time_error(natural, dtype, np.unravel_index(int(np.argmax(beyond)), beyond.shape), origin)
    if casting == "same_value":
        changed = (converted != natural) & ~np.isnat(natural)
        if changed.any():
            place = np.unravel_index(int(np.argmax(changed)), changed.shape)
            raise ValueError(f"the time {natural[place]} at {_shown(place, origin)} cannot be represented as {dtype}")
    return converted


def _natural(values: ArrayLike) -> AnyArray:
    if isinstance(values, np.ndarray):
        return values
    natural = np.asarray(values)
    # Values from Python stay objects, because numpy would convert numbers beside text to text.
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


def _first_beyond(times: AnyArray, dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Return the index of the first of `times` that numpy does not cast to the unit of `dtype`."""
    for index, time in np.ndenumerate(times):
        try:
            np.asarray(time).astype(dtype)
        except OverflowError:
            return index
    raise AssertionError("no time is out of bounds")


def _time_error(times: AnyArray, dtype: np.dtype[Any], index: Any, origin: Sequence[int] | None) -> OverflowError:
    return OverflowError(f"the time {times[index]} at {_shown(index, origin)} is out of bounds for {dtype}")


def _shown(index: Any, origin: Sequence[int] | None) -> tuple[int, ...]:
    return tuple([int(at) + start for at, start in zip(index, origin or (0,) * len(index), strict=True)])
