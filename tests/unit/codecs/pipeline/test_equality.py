"""What counts as the fill value: bits of numbers, fields without their padding, values of objects."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aiozarr.codecs.pipeline.equality import equals_everywhere, value_test


def test_none_and_objects_are_compared_by_type_and_value() -> None:
    fill = np.array("", object)
    assert equals_everywhere(np.array(["", ""], object), fill)
    assert not equals_everywhere(np.array(["", None], object), fill)
    assert not equals_everywhere(np.array(["", b""], object), fill)
    assert equals_everywhere(np.array([None, None], object), np.array(None, object))
    assert not equals_everywhere(np.array([0, False], object), np.array(0, object))


def test_objects_may_be_arrays() -> None:
    fill, array = np.empty((), object), np.empty(2, object)
    fill[()] = np.array([1, 2])
    array[0], array[1] = np.array([1, 2]), np.array([1, 2])
    assert equals_everywhere(array, fill)
    array[1] = np.array([1, 2, 3])
    assert not equals_everywhere(array, fill)


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 1 has no StringDType")
def test_strings_are_compared_by_value() -> None:
    dtype = np.dtypes.StringDType()
    long = "x" * 100
    assert equals_everywhere(np.array([[long, long]], dtype), np.array(long, dtype))
    assert not equals_everywhere(np.array([long, long + "\0"], dtype), np.array(long, dtype))
    assert equals_everywhere(np.array("a", dtype), np.array("a", dtype))


def test_padding_of_aligned_structures_is_ignored() -> None:
    dtype = np.dtype([("x", "i1"), ("y", "<f8")], align=True)
    array = np.frombuffer(b"\x01" + b"\xaa" * 7 + bytes(8), dtype)
    fill = np.array((1, 0.0), dtype)
    assert equals_everywhere(array, fill)
    assert not equals_everywhere(array, np.array((1, -0.0), dtype))


@pytest.mark.parametrize(("dtype", "value"), [("U3", "ab"), ("S3", b"ab"), ("V3", b"abc"), (ml_dtypes.bfloat16, 1.5)])
def test_a_0d_array_is_compared_whole(dtype: Any, value: Any) -> None:
    fill = np.array(value, dtype)
    assert equals_everywhere(fill.copy(), fill)
    assert equals_everywhere(np.full((2, 2), fill), fill)
    assert not equals_everywhere(np.zeros((), dtype), fill)


def test_small_floats_are_compared_bit_for_bit() -> None:
    zero = np.zeros((), ml_dtypes.float8_e5m2)
    assert not equals_everywhere(np.array([0.0, -0.0], ml_dtypes.float8_e5m2), zero)
    nans = np.array([np.nan, np.nan], ml_dtypes.bfloat16)
    assert equals_everywhere(nans, np.array(np.nan, ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *(("f4", 0.0), ("f4", -0.0), ("f4", np.nan), ("u1", 7), ("c16", 1j), ("?", True), ("U2", "ab"), ("M8[s]", 5)),
        *((ml_dtypes.bfloat16, 1.5), (object, "a"), ([("x", "i1"), ("y", "<f8")], (1, 2.0))),
    ],
)
@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (3, 4)])
def test_a_prepared_test_finds_the_same(dtype: Any, value: Any, shape: tuple[int, ...]) -> None:
    fill = np.array(value, dtype)
    is_fill = value_test(fill)
    arrays = [np.full(shape, fill), np.zeros(shape, fill.dtype)]
    if arrays[0].size:
        arrays += [np.full(shape, fill), np.full(shape, fill)]
        arrays[2][(-1,) * len(shape)] = np.zeros((), fill.dtype)
        arrays[3][(0,) * len(shape)] = np.zeros((), fill.dtype)
    for array in arrays:
        assert is_fill(array) == equals_everywhere(array, fill)
    assert is_fill(arrays[0])
