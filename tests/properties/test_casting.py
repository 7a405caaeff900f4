"""Casts of written numbers: "exact" loses no value that numpy's `same_kind` would keep, "unsafe" is numpy's own."""

from __future__ import annotations

import warnings
from typing import Any

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
def test_exact_takes_same_kind_and_whatever_keeps_every_value(values: np.ndarray[Any, Any], name: str) -> None:
    dtype = np.dtype(name)
    if np.can_cast(values.dtype, dtype, casting="same_kind"):
        assert np.array_equal(convert_values(values, dtype), numpy_cast(values, dtype), equal_nan=dtype.kind in "fc")
        return
    wrong = [index for index in np.ndindex(values.shape) if not fits(values[index], dtype)]
    if wrong:
        with pytest.raises(TypeError) as caught:
            convert_values(values, dtype)
        assert f"the value {values[wrong[0]]}" in str(caught.value)
        assert f"of type {values.dtype}, is not one of {dtype}" in str(caught.value)
        assert "casting='unsafe'" in str(caught.value)
    else:
        cast = convert_values(values, dtype)
        assert cast.dtype == dtype
        assert all(keeps(values[index], cast[index]) for index in np.ndindex(values.shape))


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
