"""Values that are written: cast and broadcast as numpy assignment does, by the rule `same_kind`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from aiozarr.hierarchy.values import broadcast_values, convert_values


def test_an_array_of_the_same_type_is_passed_on_without_a_copy() -> None:
    values = np.arange(3)
    assert convert_values(values, values.dtype) is values


@pytest.mark.parametrize("source", ["i1", "i4", "u2", "f2", "f8", "c8", "?"])
@pytest.mark.parametrize("target", ["i1", "i4", "u2", "f2", "f8", "c8", "?"])
def test_arrays_are_cast_by_the_rule_same_kind(source: str, target: str) -> None:
    values, dtype = np.ones(2, source), np.dtype(target)
    if np.can_cast(values.dtype, dtype, "same_kind"):
        assert np.array_equal(convert_values(values, dtype), np.ones(2, target))
    else:
        with pytest.raises(TypeError, match="same_kind"):
            convert_values(values, dtype)


def test_stored_byte_order_does_not_matter() -> None:
    converted = convert_values(np.array([1, 2], ">i4"), np.dtype("<i4"))
    assert converted.dtype == np.dtype("<i4")
    assert converted.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (1, "u1"),
        (255, "u1"),
        (True, "i2"),
        (3, "f4"),
        (2.5, "f4"),
        (2, "c8"),
        (1j, "c16"),
        ([1, 2], "u1"),
        ([[1.5], [2]], "f4"),
        ([], "i4"),
        (2**63, "u8"),
        (2**70, "f8"),
        (float("nan"), "f4"),
        ([True, False], "?"),
    ],
)
def test_python_numbers_go_wherever_they_fit(values: Any, dtype: str) -> None:
    assert np.array_equal(convert_values(values, np.dtype(dtype)), np.array(values, dtype), equal_nan=dtype[0] in "fc")


@pytest.mark.parametrize(
    ("values", "dtype"), [(256, "u1"), (-1, "u1"), (2**63, "i8"), ([0, 300], "i1"), (2**70, "i8"), (10**400, "f8")]
)
def test_a_python_integer_that_does_not_fit_is_an_overflow_error(values: Any, dtype: str) -> None:
    with pytest.raises(OverflowError):
        convert_values(values, np.dtype(dtype))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (1.5, "i4"),
        (1.0, "i4"),
        (1j, "f8"),
        (1, "?"),
        (2**70, "?"),
        ([1, 2.5], "u1"),
        ("a", "i4"),
        (None, "f8"),
        ([None], "f8"),
    ],
)
def test_python_values_of_a_higher_kind_are_a_type_error(values: Any, dtype: str) -> None:
    with pytest.raises(TypeError):
        convert_values(values, np.dtype(dtype))


def test_raw_types_take_raw_values() -> None:
    values = np.array([b"abc", b"def"], "V3")
    assert convert_values(values, np.dtype("V3")) is values
    with pytest.raises(TypeError):
        convert_values(3, np.dtype("V3"))


@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4))
def test_shapes_fit_exactly_where_numpy_assignment_takes_them(shapes: hnp.BroadcastableShapes) -> None:
    target, source = shapes.input_shapes
    values = np.arange(int(np.prod(source))).reshape(source)
    expected = np.zeros(target, values.dtype)
    try:
        expected[...] = values
    except ValueError:
        with pytest.raises(ValueError, match="do not fit"):
            broadcast_values(values, target)
    else:
        assert np.array_equal(broadcast_values(values, target), expected)
