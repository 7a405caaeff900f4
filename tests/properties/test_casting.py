"""Casts of written numbers: "checked" refuses what leaves the range of a type, and "unsafe" is numpy's own."""

from __future__ import annotations

import math
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from aiozarr.hierarchy.casting import convert_values

TYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
SPECIAL = [0, 1, -1, 2, 127, 128, 255, 256, -128, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1]


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    dtype = np.dtype(draw(st.sampled_from(TYPES)))
    if draw(st.booleans()):
        return draw(npst.arrays(dtype, npst.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4)))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        choices = [value for value in SPECIAL if limits.min <= value <= limits.max]
    else:
        choices = [*SPECIAL, 0.5, float("nan"), float("inf"), -0.0, 65504]  # type: ignore[list-item]
    values = draw(st.lists(st.sampled_from(choices), max_size=4))
    with np.errstate(over="ignore"):
        return np.array(values, object).astype(dtype)


def numpy_cast(values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return values.astype(dtype)


def keeps(value: Any, cast: Any) -> bool:
    """Whether two numbers are the same; Python compares integers and floats exactly."""
    value, cast = value.item(), cast.item()
    return value == cast or (value != value and cast != cast)


def fits(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a number is one of this type, by Python's exact arithmetic."""
    number = value.item()
    if isinstance(number, complex) and dtype.kind != "c":
        if number.imag != 0:
            return False
        number = number.real
    if dtype.kind in "biu":
        if number != number or number in (float("inf"), float("-inf")) or number != int(number):
            return False
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return bool(low <= int(number) <= high)
    return keeps(np.asarray(number)[()], numpy_cast(np.asarray(number), dtype)[()])


@given(arrays(), st.sampled_from(TYPES))
def test_checked_takes_same_kind_without_overflow_and_whatever_keeps_every_value(
    values: np.ndarray[Any, Any], name: str
) -> None:
    dtype = np.dtype(name)
    refused = refused_indices(values, dtype)
    if not refused:
        assert np.array_equal(convert_values(values, dtype), numpy_cast(values, dtype), equal_nan=dtype.kind in "fc")
        return
    with pytest.raises((OverflowError, TypeError)) as caught:
        convert_values(values, dtype)
    place = f" at {refused[0]}" if refused[0] else ""
    assert f"the value {values[refused[0]]}{place}, of type {values.dtype}, is " in str(caught.value)
    assert "casting='unsafe'" in str(caught.value)


def refused_indices(values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> list[tuple[int, ...]]:
    if not np.can_cast(values.dtype, dtype, casting="same_kind"):
        return [index for index in np.ndindex(values.shape) if not fits(values[index], dtype)]
    cast = numpy_cast(values, dtype)
    if dtype.kind in "biu":
        return [index for index in np.ndindex(values.shape) if int(values[index]) != int(cast[index])]
    return [
        index
        for index in np.ndindex(values.shape)
        if [math.isfinite(part) for part in parts(values[index])]
        != [math.isfinite(part) for part in parts(cast[index])]
    ]


def parts(number: Any) -> tuple[Any, Any]:
    value = number.item()
    return (value.real, value.imag if isinstance(value, complex) else 0)


@given(arrays(), st.sampled_from(TYPES))
def test_unsafe_is_the_cast_of_numpy(values: np.ndarray[Any, Any], name: str) -> None:
    dtype = np.dtype(name)
    assert np.array_equal(
        convert_values(values, dtype, "unsafe"), numpy_cast(values, dtype), equal_nan=dtype.kind in "fc"
    )


@given(arrays(), st.sampled_from(TYPES))
def test_same_kind_is_the_rule_of_numpy(values: np.ndarray[Any, Any], name: str) -> None:
    dtype = np.dtype(name)
    if np.can_cast(values.dtype, dtype, casting="same_kind"):
        assert convert_values(values, dtype, "same_kind").dtype == dtype
    else:
        with pytest.raises(TypeError, match="same_kind"):
            convert_values(values, dtype, "same_kind")


@given(arrays(), st.sampled_from(TYPES))
def test_same_value_takes_only_casts_that_keep_every_value(values: np.ndarray[Any, Any], name: str) -> None:
    dtype = np.dtype(name)
    if all(same(values[index], dtype) for index in np.ndindex(values.shape)):
        cast = convert_values(values, dtype, "same_value")
        assert all(keeps(values[index], cast[index]) for index in np.ndindex(values.shape))
    else:
        with pytest.raises(ValueError, match="casting='unsafe'"):
            convert_values(values, dtype, "same_value")


def same(value: Any, dtype: np.dtype[Any]) -> bool:
    """Whether a number is one of this type, or not a number of a type that has it."""
    if isinstance(value.item(), complex) and dtype.kind == "c":
        cast = numpy_cast(np.asarray(value), dtype)[()]
        return all(
            keeps(np.asarray(old)[()], np.asarray(new)[()]) for old, new in zip(parts(value), parts(cast), strict=True)
        )
    return fits(value, dtype)


SMALL = [
    *("?", "i1", "u1", "i2", "u8", "f2", "f4", "f8", "int2", "uint2", "int4", "uint4", "bfloat16"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2"),
    *("float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
]
REALS = [
    0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    6.5,
    7.0,
    8.0,
    100.0,
    1000.0,
    70000.0,
    -70000.0,
    1e30,
    1e300,
    np.inf,
    -np.inf,
    np.nan,
]


@pytest.mark.parametrize("target", SMALL)
@pytest.mark.parametrize("source", SMALL)
def test_no_small_type_stores_a_number_of_another_range(source: str, target: str) -> None:
    dtype = np.dtype(target)
    limits = None if dtype.kind in "bfc" or "float" in target else np_limits(dtype)
    for real in REALS:
        with np.errstate(all="ignore"):
            value = np.array([real]).astype(np.dtype(source))
        number = value.item() if value.dtype.kind in "iu" else float(value.astype(float)[0])
        try:
            cast = convert_values(value, dtype)
        except (OverflowError, TypeError):
            # What the type has must not be refused.
            assert not is_stored_well(number, dtype, limits), (real, source, target)
        else:
            assert is_stored_well(number, dtype, limits), (real, source, target, cast)


def np_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def is_stored_well(number: float, dtype: np.dtype[Any], limits: tuple[int, int] | None) -> bool:
    """Whether a type has this number, or for floats one that is nearer than a step beyond the largest."""
    if dtype.kind == "b":
        return number in (0, 1)
    if limits is not None:
        return math.isfinite(number) and number == int(number) and limits[0] <= number <= limits[1]
    with np.errstate(all="ignore"):
        cast = float(np.array(number).astype(dtype).astype(complex).real)
    if math.isfinite(number) and math.isfinite(cast):
        largest = float(ml_dtypes.finfo(dtype).max)
        # One step of the largest binade, by the number of mantissa bits, halved: there rounding ends.
        return abs(number) < largest + 2.0 ** (math.floor(math.log2(largest)) - ml_dtypes.finfo(dtype).nmant - 1)
    return math.isfinite(number) == math.isfinite(cast) and math.isnan(number) == math.isnan(cast)
