"""Written values are cast by the rule `same_kind` and broadcast, as in numpy's assignment."""

from __future__ import annotations

import datetime as dt
from typing import Any

import ml_dtypes  # noqa: F401 - names its types to numpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from aiozarr.hierarchy.casting import broadcast_values, convert_values


def test_an_array_of_the_same_type_is_not_copied() -> None:
    values = np.arange(3)
    assert convert_values(values, values.dtype) is values


@pytest.mark.parametrize("source", ["i1", "i4", "u2", "f2", "f8", "c8", "?"])
@pytest.mark.parametrize("target", ["i1", "i4", "u2", "f2", "f8", "c8", "?"])
def test_arrays_are_cast_by_the_rule_same_kind(source: str, target: str) -> None:
    values, dtype = np.ones(2, source), np.dtype(target)
    if np.can_cast(values.dtype, dtype, "same_kind"):
        assert np.array_equal(convert_values(values, dtype, "same_kind"), np.ones(2, target))
    else:
        with pytest.raises(TypeError, match="same_kind"):
            convert_values(values, dtype, "same_kind")
        assert np.array_equal(convert_values(values, dtype), np.ones(2, target))


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
def test_python_numbers_are_cast_if_they_fit(values: Any, dtype: str) -> None:
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
        convert_values(values, np.dtype(dtype), "same_kind")


@pytest.mark.parametrize(
    ("values", "dtype"), [(1.0, "i4"), ([1, 2.0], "u1"), (1, "?"), (2 + 0j, "f4"), ([[0.0], [1]], "?")]
)
def test_python_values_of_a_higher_kind_are_cast_if_none_changes(values: Any, dtype: str) -> None:
    converted = convert_values(values, np.dtype(dtype))
    assert converted.dtype == np.dtype(dtype)
    assert converted.tolist() == np.asarray(values).tolist()


def test_the_first_value_that_would_change_is_named() -> None:
    with pytest.raises(TypeError, match=r"the value 1\.5 at \(0, 1\), of type float64, is not one of int32"):
        convert_values(np.array([[1.0, 1.5], [2.5, 0]]), np.dtype("i4"))
    with pytest.raises(OverflowError, match=r"the value -1 at \(2,\), of type int64, is out of range for uint8"):
        convert_values(np.array([3, 255, -1]), np.dtype("u1"))
    with pytest.raises(
        ValueError, match="casting must be 'checked', 'same_value', 'same_kind' or 'unsafe', not 'safe'"
    ):
        convert_values([1], np.dtype("i4"), "safe")  # type: ignore[arg-type]


def test_fields_and_texts_are_cast_by_the_rule_too() -> None:
    dtype = np.dtype([("a", "i2"), ("b", "S2")])
    values = np.array([(1.0, b"ab")], [("a", "f8"), ("b", "S2")])
    assert convert_values(values, dtype).tolist() == [(1, b"ab")]
    values["a"] = 1.5
    with pytest.raises(TypeError, match=r"1\.5"):
        convert_values(values, dtype)
    assert convert_values(values, dtype, "unsafe").tolist() == [(1, b"ab")]
    assert convert_values(np.array(["abc"]), np.dtype("U2"), "unsafe").tolist() == ["ab"]


SMALL = ["int2", "int4", "uint4", "bfloat16", "float8_e5m2", "float4_e2m1fn"]


@pytest.mark.parametrize("target", SMALL)
@pytest.mark.parametrize("source", [*SMALL, "i1", "i8", "u2", "f4", "c8", "?"])
def test_small_numbers_are_cast_by_the_same_rule(source: str, target: str) -> None:
    def rank(name: str) -> int:
        return 0 if name == "?" else 3 if name == "c8" else 2 if "f" in name else 1

    values, dtype = np.ones(2).astype(np.dtype(source)), np.dtype(target)
    loses_sign = rank(source) == 1 and source[0] == "i" and target[0] == "u"
    if rank(source) <= rank(target) and not loses_sign:
        converted = convert_values(values, dtype, "same_kind")
        assert converted.dtype == dtype
        assert converted.astype(float).tolist() == [1, 1]
    else:
        with pytest.raises(TypeError, match="same_kind"):
            convert_values(values, dtype, "same_kind")
        assert convert_values(values, dtype).astype(float).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("values", "dtype"), [(7, "int4"), ([-8, True], "int4"), (1.5, "bfloat16"), ([1, 2], "bfloat16"), ([], "uint2")]
)
def test_python_numbers_become_small_ones(values: Any, dtype: str) -> None:
    converted = convert_values(values, np.dtype(dtype))
    assert converted.dtype == np.dtype(dtype)
    assert converted.astype(float).tolist() == np.asarray(values, float).tolist()


@pytest.mark.parametrize(
    ("values", "dtype", "error"),
    [
        (8, "int4", OverflowError),
        (-1, "uint4", OverflowError),
        ([0, 4], "uint2", OverflowError),
        (1.5, "int4", TypeError),
        (1j, "bfloat16", TypeError),
        ("a", "bfloat16", TypeError),
    ],
)
def test_python_numbers_beyond_small_types_are_an_error(values: Any, dtype: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        convert_values(values, np.dtype(dtype))


def test_raw_types_take_bytes_of_their_length() -> None:
    values = np.array([b"abc", b"def"], "V3")
    assert convert_values(values, np.dtype("V3")) is values
    assert convert_values([b"ab\0", np.void(b"def")], np.dtype("V3")).tobytes() == b"ab\0def"
    assert convert_values(b"abc", np.dtype("V3")).shape == ()
    with pytest.raises(ValueError, match="elements of 3 bytes, got 2"):
        convert_values(b"ab", np.dtype("V3"))
    for wrong in (3, "abc", np.array([b"abc"]), [b"abc", 1]):
        with pytest.raises(TypeError):
            convert_values(wrong, np.dtype("V3"))


STRING = np.dtypes.StringDType() if hasattr(np.dtypes, "StringDType") else None
needs_strings = pytest.mark.skipif(STRING is None, reason="numpy 1 has no strings of any length")


@needs_strings
@pytest.mark.parametrize(
    "values",
    [
        "a",
        ["a", "naïve \N{GRINNING FACE}", ""],
        [["a"], ["b"]],
        np.array(["a", "bc"]),
        np.array(["a", "bc"], ">U7"),
        np.array(["a", "bc"], object),
        np.array([b"a", b"bc"]),
        np.str_("a"),
        [],
    ],
)
def test_text_becomes_strings_of_any_length(values: Any) -> None:
    converted = convert_values(values, STRING)
    assert converted.dtype == STRING
    expected = values.astype(str) if isinstance(values, np.ndarray) else np.array(values, object)
    assert converted.tolist() == expected.tolist()


@needs_strings
@pytest.mark.parametrize("values", [1, 1.5, None, [1, "a"], ["a", None], [b"a", "b"], np.arange(2), np.array([None])])
def test_values_that_are_not_text_are_refused(values: Any) -> None:
    for dtype in (STRING, np.dtype("U9")):
        with pytest.raises(TypeError):
            convert_values(values, dtype)


@needs_strings
def test_a_missing_string_is_not_written_as_text() -> None:
    values = np.array(["a", None], np.dtypes.StringDType(na_object=None))
    with pytest.raises(TypeError, match="missing"):
        convert_values(values, STRING)
    assert convert_values(values[:1], STRING).tolist() == ["a"]
    with pytest.raises(ValueError, match="surrogates"):
        convert_values("\ud800", STRING)


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (["a", "bc"], "U2", ["a", "bc"]),
        (np.array(["a"], ">U9"), "U2", ["a"]),
        (np.array(["a", "bc"], object), "U2", ["a", "bc"]),
        ([b"a", b"bc"], "S2", [b"a", b"bc"]),
        (["a", "bc"], "S2", [b"a", b"bc"]),
        (np.array([b"a"], "S9"), "S2", [b"a"]),
        ([b"a\0"], "S2", [b"a"]),
        (np.array([b"a"]), "U2", ["a"]),
    ],
)
def test_text_and_bytes_of_a_fixed_length_are_accepted_if_they_fit(
    values: Any, dtype: str, expected: list[Any]
) -> None:
    converted = convert_values(values, np.dtype(dtype))
    assert converted.dtype == np.dtype(dtype)
    assert converted.tolist() == expected


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        *[(values, "U2") for values in ("abc", ["a", "abc"], np.array(["abc"]), np.array(["abc"], object))],
        *[(values, "S2") for values in (b"abc", [b"a", b"abc"], np.array([b"abc"]), "abc", "é", np.array(["abc"]))],
    ],
)
def test_nothing_is_truncated(values: Any, dtype: str) -> None:
    with pytest.raises(ValueError):
        convert_values(values, np.dtype(dtype))


@pytest.mark.parametrize(
    ("values", "dtype", "counts"),
    [
        (["1970-01-01T00:01", "NaT"], "M8[s]", [60, None]),
        (dt.date(1970, 1, 2), "M8[h]", 24),
        ([dt.timedelta(seconds=1), None], "m8[ms]", [1000, None]),
        (np.array([60, 90], "M8[s]"), "M8[m]", [1, 1]),
        (np.array([1], ">M8[m]"), "M8[10s]", [6]),
        (7, "M8[10s]", 7),
        ([1, 2], "m8[s]", [1, 2]),
        (np.array([1], "u2"), "m8[s]", [1]),
    ],
)
def test_times_are_cast_between_units_and_integers_count_steps(values: Any, dtype: str, counts: Any) -> None:
    converted = convert_values(values, np.dtype(dtype))
    assert converted.dtype == np.dtype(dtype)
    expected = np.array([-(2**63) if each is None else each for each in np.array(counts, object).flat])
    assert converted.reshape(-1).view("i8").tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("values", "dtype", "error"),
    [
        (1.5, "M8[s]", TypeError),
        (b"2000", "M8[s]", TypeError),
        (np.timedelta64(1, "s"), "M8[s]", TypeError),
        (np.timedelta64(1, "Y"), "m8[s]", TypeError),
        (np.array(["2000"]), "M8[s]", TypeError),
        ("not a time", "M8[s]", ValueError),
        (2**63, "m8[s]", OverflowError),
    ],
)
def test_values_that_are_not_times_are_an_error(values: Any, dtype: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        convert_values(values, np.dtype(dtype))


RECORD = np.dtype([("a", "i4"), ("s", "S2"), ("n", [("p", "f4"), ("q", "U1")]), ("v", "f8", (2,))])


def test_records_are_written_from_tuples_and_from_records_of_the_same_names() -> None:
    row = (1, b"ab", (2.5, "x"), [1, 2])
    expected = np.array(row, RECORD)
    assert convert_values(row, RECORD).tobytes() == expected.tobytes()
    assert convert_values([row, row], RECORD).tobytes() == expected.tobytes() * 2
    swapped = np.array([row], RECORD.newbyteorder("S"))
    assert convert_values(swapped, RECORD).tobytes() == expected.tobytes()
    assert convert_values(expected[()], RECORD).tobytes() == expected.tobytes()
    assert convert_values([], RECORD).shape == (0,)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ((1, b"abc", (2.5, "x"), [1, 2]), ValueError),
        ((1.5, b"ab", (2.5, "x"), [1, 2]), TypeError),
        ((1, b"ab", (2.5, "xy"), [1, 2]), ValueError),
        ((2**31, b"ab", (2.5, "x"), [1, 2]), OverflowError),
        ((1, b"ab"), TypeError),
        (np.zeros(1, [("a", "i4"), ("b", "i4")]), TypeError),
        (np.zeros(1), TypeError),
    ],
)
def test_each_field_of_a_record_is_cast_by_the_rules_of_its_type(values: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        convert_values(values, RECORD)


def test_objects_are_passed_on() -> None:
    converted = convert_values([b"a", b"\0"], np.dtype(object))
    assert (converted.dtype, converted.tolist()) == (np.dtype(object), [b"a", b"\0"])
    assert convert_values(np.array([b"a", b"bc"]), np.dtype(object)).tolist() == [b"a", b"bc"]
    assert convert_values(np.array([[1], [2, 3]], object), np.dtype(object)).tolist() == [[1], [2, 3]]


@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4))
def test_shapes_broadcast_exactly_as_in_numpy_assignment(shapes: hnp.BroadcastableShapes) -> None:
    target, source = shapes.input_shapes
    values = np.arange(int(np.prod(source))).reshape(source)
    expected = np.zeros(target, values.dtype)
    try:
        expected[...] = values
    except ValueError:
        with pytest.raises(ValueError, match="do not broadcast"):
            broadcast_values(values, target)
    else:
        assert np.array_equal(broadcast_values(values, target), expected)


@pytest.mark.parametrize("dtype", ["i4", "i2"])
def test_a_masked_array_is_written_with_the_values_below_its_mask(dtype: str) -> None:
    masked: Any = np.ma.array([1, 2, 3], mask=[False, True, False], dtype="i4")
    converted = convert_values(masked, np.dtype(dtype))
    assert type(converted) is np.ndarray
    assert converted.tolist() == [1, 2, 3]
