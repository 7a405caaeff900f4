"""Values as text, CSV, JSON, raw bytes and .npy."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from aiozarr.cli.value_commands import FORMATS


def encoded(kind: str, values: np.ndarray, *, rows: int = 100) -> bytes:
    """The array encoded in blocks of `rows`, as cat does."""
    form = FORMATS[kind]
    form.check(values.dtype)
    names = [f"d{number}" for number in range(values.ndim)]
    blocks = [(0, values)] if not values.ndim else [(i, values[i : i + rows]) for i in range(0, len(values), rows)]
    return form.header(values.shape, values.dtype, names) + b"".join(form.block(part, at) for at, part in blocks)


@pytest.mark.parametrize("rows", [1, 100])
def test_text_separates_planes_by_an_empty_line(rows: int) -> None:
    values = np.arange(8).reshape(2, 2, 2)
    assert encoded("text", values, rows=rows) == b"0 1\n2 3\n\n4 5\n6 7\n"
    assert encoded("text", np.arange(3)) == b"0\n1\n2\n"
    assert encoded("text", np.array(7.5)) == b"7.5\n"


@pytest.mark.parametrize("rows", [1, 100])
def test_csv_has_an_index_per_axis_and_columns_of_fields(rows: int) -> None:
    table = list(csv.reader(io.StringIO(encoded("csv", np.array([[1, 2], [3, 4]]), rows=rows).decode())))
    assert table == [["d0", "d1", "value"], ["0", "0", "1"], ["0", "1", "2"], ["1", "0", "3"], ["1", "1", "4"]]
    records = np.array([(1, b"a")], dtype=[("x", "i4"), ("s", "S3")])
    assert encoded("csv", records) == b"d0,x,s\n0,1,b'a'\n"
    assert encoded("csv", np.array(['a,"b'])) == b'd0,value\n0,"a,""b"\n'


def test_json_has_an_object_per_value_and_texts_for_what_json_lacks() -> None:
    lines = encoded("json", np.array([1.5, np.nan, -np.inf], dtype="f4")).splitlines()
    assert [json.loads(line) for line in lines] == [
        {"index": [0], "value": 1.5},
        {"index": [1], "value": "NaN"},
        {"index": [2], "value": "-Infinity"},
    ]
    assert json.loads(encoded("json", np.array(np.datetime64("2020-01-01T00", "ns")))) == {
        "index": [],
        "value": "2020-01-01T00:00:00.000000000",
    }
    assert json.loads(encoded("json", np.array([0.1], dtype="f4")))["value"] == 0.1


@pytest.mark.parametrize(
    "values",
    [
        np.arange(12, dtype=">i4").reshape(3, 4),
        np.zeros((0, 3), "f8"),
        np.array(3.5),
        np.array([(1, 2.5)], dtype=[("a", "i2"), ("b", "f8")]),
        np.arange(12).reshape(3, 4).T,
    ],
)
def test_npy_is_what_numpy_reads(values: np.ndarray) -> None:
    loaded = np.load(io.BytesIO(encoded("npy", values, rows=2)))
    assert loaded.dtype == values.dtype
    np.testing.assert_array_equal(loaded, values)
    assert encoded("raw", values) == values.tobytes()


def test_objects_have_no_raw_bytes() -> None:
    with pytest.raises(TypeError, match="no fixed size in bytes"):
        encoded("raw", np.array(["a", "b"], dtype=object))
    assert encoded("text", np.array(["a", "ü"], dtype=object)) == "a\nü\n".encode()


def test_no_values_are_no_lines() -> None:
    assert encoded("text", np.zeros((0, 2))) == b""
    assert encoded("csv", np.zeros((0, 2))) == b"d0,d1,value\n"
