"""Parts of dimensions: by index, by coordinate, and in the text of a command line."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime, timedelta
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from aiozarr.conversion.dimension_selection import (
    is_index,
    parse_part,
    resolve_coordinates,
    resolve_indexes,
)
from aiozarr.errors import SelectionError

LAT = np.linspace(90, -90, 19)
DAYS = np.arange(59)
SINCE = {"units": "days since 2020-01-01"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5", 5),
        (" -1 ", -1),
        ("0:24", slice(0, 24)),
        ("::2", slice(None, None, 2)),
        (":", slice(None)),
        ("3:", slice(3, None)),
        ("45..60.5", slice("45", "60.5")),
        ("5..5", slice("5", "5")),
        ("..3", slice(None, "3")),
        ("2020..2021", slice("2020", "2021")),
        ("2020-01-01..2020-02-01T12:00", slice("2020-01-01", "2020-02-01T12:00")),
        ("2024-01-02T06:00", "2024-01-02T06:00"),
        ("2024-01-02 06:00Z", "2024-01-02 06:00Z"),
        ("45.5", "45.5"),
        ("red", "red"),
    ],
)
def test_a_colon_separates_indexes_and_two_dots_separate_coordinates(text: str, expected: Any) -> None:
    assert parse_part(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the selection is empty"),
        ("-10.5:10", r"its bounds are not integers; .*: -10.5..10$"),
        ("2020-01-01:2020-02", r"with two dots: 2020-01-01..2020-02$"),
        ("1:2:3:4", "its bounds are not integers"),
    ],
)
def test_a_colon_between_coordinates_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_part(text)


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
    assert resolve_indexes(part, 10, name="x") == slice(*expected, 1)


def test_a_slice_that_selects_nothing_is_an_error() -> None:
    for part in (slice(7, 3), slice(10, 20), slice(4, 4)):
        with pytest.raises(SelectionError, match=r"select nothing from dimension 'x', which has length 10"):
            resolve_indexes(part, 10, name="x")
    assert resolve_indexes(slice(2, 5), 0, name="x") == slice(0, 0, 1)


@pytest.mark.parametrize("part", [10, -11])
def test_an_index_outside_is_an_error(part: int) -> None:
    with pytest.raises(SelectionError, match=r"dimension 'x', which has length 10"):
        resolve_indexes(part, 10, name="x")


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (slice(60.0, 30.0), (3, 7)),
        (slice(30.0, 60.0), (3, 7)),
        (slice("30", "6e1"), (3, 7)),
        (90.0, (0, 1)),
    ],
)
def test_coordinates_include_both_bounds_in_either_order(part: Any, expected: tuple[int, int]) -> None:
    assert not is_index(part)
    assert resolve_coordinates(part, LAT, {}, name="lat") == slice(*expected)


@pytest.mark.parametrize(
    "values",
    [DAYS, DAYS.astype(">f4"), *[(np.datetime64("2020-01-01") + DAYS).astype(f"M8[{unit}]") for unit in ("D", "ns")]],
)
@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (slice("2020-01-10", "2020-01-12"), (9, 12)),
        (slice("2020-02", "2020-02"), (31, 59)),
        (slice("2020-02", None), (31, 59)),
        (slice(None, "2020-01"), (0, 31)),
        (slice("2020-02", "2020"), (31, 59)),
        (slice("2020", "2020"), (0, 59)),
        ("2020-01-05", (4, 5)),
        ("2020-01", (0, 31)),
        (slice("2020-01-02T00", "2020-01-03 00:00:00.5"), (1, 3)),
        (slice(np.datetime64("2020-01-02"), date(2020, 1, 3)), (1, 3)),
        (date(2020, 1, 1), (0, 1)),
    ],
)
def test_times_are_selected_by_dates(values: Any, part: Any, expected: tuple[int, int]) -> None:
    assert resolve_coordinates(part, values, SINCE, name="time") == slice(*expected)


@pytest.mark.parametrize(
    ("units", "calendar", "first"),
    [
        ("hours since 1900-1-1 00:00:00.0", "standard", "1900-01-01T00"),
        ("seconds since 1970-01-01T00:00:00Z", "gregorian", "1970-01-01T00:00:00"),
        ("Minutes since 2000-01-01 6:00", "proleptic_gregorian", "2000-01-01T06:00"),
        ("hours since 2020-1-1 6:0:0", "standard", "2020-01-01T06:00"),
        ("hours since 2020-01-01 06:00:00 UTC", "standard", "2020-01-01T06:00"),
        ("hours since 2020-01-01 00:00:00 -06:00", "standard", "2020-01-01T06:00"),
        ("seconds since 1992-10-8 15:15:42.5 -6:00", "standard", "1992-10-08T21:15:42.5"),
        ("hours since 2020-01-01 00:00 +0530", "standard", "2019-12-31T18:30"),
        ("days since 0001-01-01", "proleptic_gregorian", "0001-01-01"),
        ("days since 1582-10-15", "standard", "1582-10-15"),
        ("days since 12020-01-01", "noleap", "12020-01-01"),
        ("days since 2020-02-30", "360_day", "2020-02-30"),
        ("months since 2020-02-30", "360_day", "2020-02"),
        ("days since 1900-02-29", "julian", "1900-02-29"),
        ("nanoseconds since 2020-01-01", "standard", np.datetime64("2020-01-01T00:00:00.000000000")),
    ],
)
def test_units_and_calendars_of_times(units: str, calendar: str, first: Any) -> None:
    values = np.arange(3)
    attributes = {"units": units, "calendar": calendar}
    assert resolve_coordinates(first, values, attributes, name="t").start == 0
    assert resolve_coordinates(slice(first, None), values[1:], attributes, name="t") == slice(0, 2)
    with pytest.raises(SelectionError, match="selects nothing from dimension 't'"):
        resolve_coordinates(slice(None, first), values + 40 * 24 * 3600, attributes, name="t")


def test_a_mixed_calendar_has_no_days_between_its_parts() -> None:
    days = {"units": "days since 1582-10-01", "calendar": "standard"}
    assert resolve_coordinates(slice("1582-10-04", "1582-10-15"), np.arange(30), days, name="t") == slice(3, 5)


def test_years_are_text_and_numbers_of_any_size() -> None:
    days = {"units": "days since 1850-01-01", "calendar": "proleptic_gregorian"}
    first = (date(2300, 1, 1) - date(1850, 1, 1)).days
    assert resolve_coordinates(slice("2300", "2301"), np.arange(first - 5, first + 800), days, name="t") == slice(
        5, 735
    )
    times = np.array(["1000-01-01", "3000-01-01", "3000-06-01"], "M8[s]")
    assert resolve_coordinates("3000", times, {}, name="t") == slice(1, 3)
    large = np.array([2**62, 2**62 + 1])
    assert resolve_coordinates(str(2**62 + 1), large, {}, name="n") == slice(1, 2)
    single = np.linspace(40, 41, 11, dtype="f4")
    assert resolve_coordinates(slice(40.1, 40.3), single, {}, name="lat") == slice(1, 4)
    assert resolve_coordinates(slice(40.1, 1e300), single, {}, name="lat") == slice(1, 11)


@pytest.mark.parametrize(
    ("part", "values", "attributes", "message"),
    [
        (slice(100.0, 200.0), LAT, {}, "whose coordinates range from 90.0 to -90.0"),
        (91.5, LAT, {}, "selects nothing from dimension"),
        ("north", LAT, {}, "north cannot be compared with the coordinates"),
        (slice(np.nan, 5.0), LAT[::-1], {}, "cannot be compared"),
        (slice(None, -45.0), LAT, {}, "do not ascend, so ..-45.0 is ambiguous"),
        (slice("2020", "2020-01-03"), DAYS[::-1], SINCE, "is ambiguous"),
        (slice(0.5, None), DAYS, SINCE, "cannot be compared"),
        ("never", DAYS, SINCE, "expected a time without a zone"),
        ("2020-01-05T00:00Z", DAYS, SINCE, "expected a time without a zone"),
        (datetime(2020, 1, 5, tzinfo=UTC), DAYS, SINCE, "expected a time without a zone"),
        ("2020-02-30", DAYS, SINCE, "cannot be compared"),
        (np.datetime64("NaT"), DAYS, SINCE, "cannot be compared"),
        (slice(-0.5, 1.5), np.array([0, 5, 1]), {}, "not sorted"),
        (1, np.array([1, 5, 1]), {}, "not sorted"),
        (1.5, np.array([]), {}, "whose coordinates are empty"),
        ("2020", DAYS, {"units": "months since 2000-01-01"}, "months"),
        *[
            ("2020", DAYS, {"units": f"hours since {reference}"}, "are not supported; select 'x' by index")
            for reference in (
                "2020-01-01 06",
                "2020-01-01 06:00 EST",
                "2020-01-01 -06:00",
                "1-1-2020",
                "20200101",
                "noon",
            )
        ],
        ("2020", DAYS, {**SINCE, "calendar": "mayan"}, "are not supported"),
        ("2020", DAYS, {**SINCE, "calendar": ""}, "are not supported"),
        ("2020", DAYS, {**SINCE, "calendar": 5}, "are not supported"),
        (5.0, DAYS, {"scale_factor": 0.5}, "are packed"),
        ("2020-01-03", DAYS.astype("i2"), {**SINCE, "add_offset": 1}, "are packed"),
        (5.0, DAYS.astype("i1"), {"_Unsigned": "true"}, "are packed"),
        ("2020-01-01", np.array([0, np.nan, 2]), SINCE, "has missing coordinates"),
        (slice("2020", "2021"), np.array([0, 1, -999]), {**SINCE, "_FillValue": -999}, "has missing coordinates"),
        (2.0, np.array([1, 1e20], "f4"), {"missing_value": [1e20]}, "has missing coordinates"),
        (2.0, np.array([1, 1e20]), {"_FillValue": "QIy1eB2vFUQ="}, "has missing coordinates"),
        ("2020", np.array(["2020", "NaT"], "M8[D]"), {}, "has missing coordinates"),
        (5.0, np.array([True]), {}, "of type bool"),
        ("6h", np.array([6], "m8[h]"), {}, "cannot be compared"),
    ],
)
def test_coordinates_that_select_nothing_are_errors(part: Any, values: Any, attributes: Any, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        resolve_coordinates(part, values, attributes, name="x")


def test_declared_missing_values_need_not_be_there() -> None:
    attributes = {"_FillValue": "AAAAAAAA+H8=", "missing_value": 1e20}
    assert resolve_coordinates(slice(1, 2.0), np.arange(4.0), attributes, name="x") == slice(1, 3)


def test_names_and_durations_are_coordinates() -> None:
    assert resolve_coordinates("green", np.array(["red", "green", "blue"]), {}, name="band") == slice(1, 2)
    hours = np.array([0, 6, 12], "m8[h]")
    assert resolve_coordinates(slice(timedelta(hours=6), np.timedelta64(1, "D")), hours, {}, name="step") == slice(1, 3)


def test_times_need_an_extra_and_numbers_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cftime", None)
    assert resolve_coordinates("5", DAYS, {}, name="x") == slice(5, 6)
    with pytest.raises(ImportError, match=r"dimension 'time' .* pip install cftime"):
        resolve_coordinates("2020", DAYS, SINCE, name="time")


@pytest.mark.filterwarnings("ignore:Unable to decode time axis")
@pytest.mark.parametrize("calendar", ["standard", "proleptic_gregorian", "noleap", "360_day", "julian"])
def test_selections_of_times_are_those_of_xarray(calendar: str) -> None:
    xarray = pytest.importorskip("xarray")
    random = Random(calendar)
    for unit, reference in product(("days", "hours", "seconds"), ("1581-12-28", "1999-12-28 18:00:00 -06:00")):
        values = np.sort(np.array([random.randrange(40 * 24) / 24 for _ in range(20)]))
        values = values if unit == "days" else np.round(values * {"hours": 24, "seconds": 86400}[unit]).astype(">i4")
        attributes = {"units": f"{unit} since {reference}", "calendar": calendar}
        times = xarray.conventions.decode_cf_variable("time", xarray.Variable("time", values, dict(attributes)))
        decoded = xarray.DataArray(np.arange(20), coords={"time": times}, dims="time")
        texts = [time.isoformat() if hasattr(time, "isoformat") else str(time) for time in times.values]
        for _ in range(20):
            bounds = sorted([random.choice(texts)[: random.choice((4, 7, 10, 13, 16))] for _ in range(2)])
            found = resolve_coordinates(slice(*bounds), values, attributes, name="time")
            assert list(range(20))[found] == decoded.sel(time=slice(*bounds)).values.tolist(), (attributes, bounds)
