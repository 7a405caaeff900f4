"""Parts of dimensions: by index, by coordinate, and in the text of a command line."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest

from aiozarr.errors import SelectionError
from aiozarr.transfer.dimension_selection import (
    check_selection,
    is_index,
    resolve_coordinates,
    resolve_indexes,
)

LAT = np.linspace(90, -90, 19)
DAYS = np.arange(59)
SINCE = {"units": "days since 2020-01-01"}


@pytest.mark.parametrize(
    ("selection", "error"),
    [
        ("time=0:24", TypeError),
        ({3: slice(1)}, TypeError),
        ({"time": slice(0, 10, 2)}, ValueError),
        ({"time": [1, 2]}, TypeError),
        ({"time": True}, TypeError),
        ({"time": None}, TypeError),
    ],
)
def test_selections_of_another_form_are_mistakes(selection: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="select"):
        check_selection(selection)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (slice(2, 5), (2, 5)),
        (slice(None), (0, 10)),
        (slice(-3, None), (7, 10)),
        (slice(5, 99), (5, 10)),
        (4, (4, 5)),
        (-1, (9, 10)),
        (np.int64(0), (0, 1)),
    ],
)
def test_indexes_are_those_of_python(part: Any, expected: tuple[int, int]) -> None:
    assert is_index(part)
    assert resolve_indexes(part, 10, name="x") == slice(*expected)


def test_a_slice_that_selects_nothing_is_an_error() -> None:
    for part in (slice(7, 3), slice(10, 20), slice(4, 4)):
        with pytest.raises(SelectionError, match=r"select nothing of dimension 'x', which has the length 10"):
            resolve_indexes(part, 10, name="x")
    assert resolve_indexes(slice(2, 5), 0, name="x") == slice(0, 0)


@pytest.mark.parametrize("part", [10, -11])
def test_an_index_outside_is_an_error(part: int) -> None:
    with pytest.raises(SelectionError, match=r"dimension 'x', which has the length 10"):
        resolve_indexes(part, 10, name="x")


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (slice(60.0, 30.0), (3, 7)),
        (slice(30.0, 60.0), (3, 7)),
        (slice(None, -45.0), (14, 19)),
        (slice(45.0, None), (0, 5)),
        (90.0, (0, 1)),
    ],
)
def test_coordinates_include_both_bounds_in_either_order(part: Any, expected: tuple[int, int]) -> None:
    assert not is_index(part)
    assert resolve_coordinates(part, LAT, {}, name="lat") == slice(*expected)


@pytest.mark.parametrize("values", [DAYS, DAYS.astype("f4"), np.datetime64("2020-01-01") + DAYS])
@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (slice("2020-01-10", "2020-01-12"), (9, 12)),
        (slice("2020-02", "2020-02"), (31, 59)),
        (slice("2020-02", None), (31, 59)),
        (slice(None, "2020-01"), (0, 31)),
        ("2020-01-05", (4, 5)),
        (slice(np.datetime64("2020-01-02"), date(2020, 1, 3)), (1, 3)),
        (date(2020, 1, 1), (0, 1)),
    ],
)
def test_times_are_selected_by_dates(values: Any, part: Any, expected: tuple[int, int]) -> None:
    assert resolve_coordinates(part, values, SINCE, name="time") == slice(*expected)


@pytest.mark.parametrize(
    ("units", "start"),
    [
        ("hours since 1900-1-1 00:00:00.0", "1900-01-01"),
        ("seconds since 1970-01-01T00:00:00Z", "1970-01-01"),
        ("Minutes since 2000-01-01 6:00", "2000-01-01T06:00"),
    ],
)
def test_units_of_times(units: str, start: str) -> None:
    values = np.arange(3)
    assert resolve_coordinates(np.datetime64(start), values, {"units": units}, name="t") == slice(0, 1)


@pytest.mark.parametrize(
    ("part", "values", "attributes", "message"),
    [
        (slice(100.0, 200.0), LAT, {}, "its coordinates are from -90.0 to 90.0"),
        (91.5, LAT, {}, "nothing of dimension"),
        ("north", LAT, {}, "numbers as coordinates"),
        (slice(0.5, None), DAYS, SINCE, "cannot be compared"),
        ("never", DAYS, SINCE, "cannot be compared"),
        (slice(-0.5, 1.5), np.array([0, 5, 1]), {}, "not sorted"),
        (1.5, np.array([]), {}, "of which there are none"),
        ("2020", DAYS, {**SINCE, "calendar": "360_day"}, "360_day"),
        ("2020", DAYS, {"units": "months since 2000-01-01"}, "months"),
    ],
)
def test_coordinates_that_select_nothing_are_errors(part: Any, values: Any, attributes: Any, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        resolve_coordinates(part, values, attributes, name="x")


def test_names_are_coordinates() -> None:
    assert resolve_coordinates("green", np.array(["red", "green"]), {}, name="band") == slice(1, 2)
