"""Casts text, bytes and times. Values that do not fit raise; nothing is truncated silently."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aiozarr.metadata.data_types.times import parse_times

AnyArray: TypeAlias = NDArray[Any]


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
