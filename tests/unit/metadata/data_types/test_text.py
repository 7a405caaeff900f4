"""Fill values of text, bytes and times in all forms of documents."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata import DataType

TEXT = {"name": "fixed_length_utf32", "configuration": {"length_bytes": 12}}
BYTES = {"name": "null_terminated_bytes", "configuration": {"length_bytes": 3}}
RAW = {"name": "raw_bytes", "configuration": {"length_bytes": 3}}
TIME = {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 10}}
SPAN = {"name": "numpy.timedelta64", "configuration": {"unit": "ms", "scale_factor": 1}}


def moment(text: str) -> Any:
    """What numpy makes of a time for Python: a datetime without a zone."""
    return np.datetime64(text, "s").item()


@pytest.mark.parametrize(
    ("data_type", "value", "expected", "rendered"),
    [
        ("string", "", "", ""),
        ("string", "naïve \N{GRINNING FACE}", "naïve \N{GRINNING FACE}", "naïve \N{GRINNING FACE}"),
        ("string", "a\0b\0", "a\0b\0", "a\0b\0"),
        (TEXT, "aü", "aü", "aü"),
        (TEXT, "abc", "abc", "abc"),
        (BYTES, "", b"", ""),
        (BYTES, "SGk=", b"Hi", "SGk="),
        (BYTES, "SGkA", b"Hi", "SGk="),
        (RAW, "AAD/", b"\0\0\xff", "AAD/"),
        (RAW, [0, 0, 255], b"\0\0\xff", "AAD/"),
        ("bytes", "", b"", ""),
        ("bytes", "SGkA", b"Hi\0", "SGkA"),
        ("variable_length_bytes", [72, 105], b"Hi", "SGk="),
        (TIME, "NaT", None, "NaT"),
        (TIME, -(2**63), None, "NaT"),
        (TIME, 3, moment("1970-01-01T00:00:30"), 3),
        (SPAN, -1500, dt.timedelta(seconds=-1.5), -1500),
    ],
)
def test_a_fill_value_is_read_and_written(data_type: Any, value: Any, expected: Any, rendered: Any) -> None:
    parsed = DataType.from_json(data_type)
    array = parsed.parse_fill_value(value)
    assert (array.shape, array.dtype, array.flags.writeable) == ((), parsed.dtype, False)
    assert (array.tobytes() if array.dtype.kind == "V" else array.item()) == expected
    assert parsed.render_fill_value(array) == rendered


@pytest.mark.parametrize(
    ("data_type", "value"),
    [
        *[("string", value) for value in (0, None, ["a"], "\ud800", True)],
        *[(TEXT, value) for value in (0, None, "abcd", "\udfff")],
        *[(BYTES, value) for value in (0, None, "SGk", "SG k=", "é", "SGVsbG8=", [72])],
        *[(RAW, value) for value in (0, "AAA=", [0, 0], [0, 0, 256], [0, 0, True], "AA")],
        *[("bytes", value) for value in (0, None, "x", [1.0], {})],
        *[(TIME, value) for value in ("nat", "2000-01-01", 1.0, True, 2**63, None)],
    ],
)
def test_other_fill_values_are_rejected_with_their_path(data_type: Any, value: Any) -> None:
    with pytest.raises(InvalidMetadataError) as caught:
        DataType.from_json(data_type).parse_fill_value(value, strict=True)
    assert (caught.value.member or "").startswith("fill_value")


@pytest.mark.parametrize(
    ("data_type", "value", "expected"),
    [
        ("string", "a", "a"),
        ("string", np.str_("a"), "a"),
        ("string", np.array("a"), "a"),
        (TEXT, "abc", "abc"),
        (TEXT, np.array("a", ">U8"), "a"),
        (BYTES, b"ab", b"ab"),
        (BYTES, b"ab\0\0\0", b"ab"),
        (BYTES, "ab", b"ab"),
        (BYTES, np.bytes_(b"ab"), b"ab"),
        ("bytes", bytearray(b"a\0"), b"a\0"),
        ("bytes", "ab", b"ab"),
        (TIME, "2000-01-01", moment("2000-01-01")),
        (TIME, dt.date(2000, 1, 1), moment("2000-01-01")),
        (TIME, np.datetime64(20, "s"), moment("1970-01-01T00:00:20")),
        (TIME, 2, moment("1970-01-01T00:00:20")),
        (TIME, "NaT", None),
        (SPAN, dt.timedelta(seconds=1), dt.timedelta(seconds=1)),
        (SPAN, np.timedelta64(2, "s"), dt.timedelta(seconds=2)),
    ],
)
def test_a_value_of_the_type_is_a_fill_value(data_type: Any, value: Any, expected: Any) -> None:
    parsed = DataType.from_json(data_type)
    array = parsed.make_fill_value(value)
    assert (array.shape, array.dtype, array.flags.writeable) == ((), parsed.dtype, False)
    assert array.item() == expected


@pytest.mark.parametrize(
    ("data_type", "value", "error"),
    [
        ("string", 1, TypeError),
        ("string", b"a", TypeError),
        ("string", "\ud800", ValueError),
        (TEXT, "abcd", ValueError),
        (TEXT, 1, TypeError),
        (BYTES, b"abcd", ValueError),
        (BYTES, "é", ValueError),
        (BYTES, 1, TypeError),
        ("bytes", 1, TypeError),
        (RAW, b"abcd", ValueError),
        (RAW, "abc", ValueError),
        (TIME, np.datetime64(5, "s"), ValueError),
        (TIME, "not a time", ValueError),
        (TIME, 1.5, ValueError),
        (TIME, 2**63, ValueError),
        (TIME, np.timedelta64(1, "s"), TypeError),
        (SPAN, ["NaT"], TypeError),
    ],
)
def test_a_value_that_the_type_lacks_is_an_error(data_type: Any, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        DataType.from_json(data_type).make_fill_value(value)


def test_equal_fill_values_have_equal_keys() -> None:
    for name, values in (("string", ("", "a", "a\0")), ("bytes", (b"", b"a", b"a\0"))):
        data_type = DataType.from_json(name)
        keys = [data_type.fill_key(data_type.make_fill_value(value)) for value in values]
        assert len(set(keys)) == len(values)
        assert keys == [data_type.fill_key(data_type.make_fill_value(value)) for value in values]
