"""Times and durations: units, counts, and conversions."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pytest

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata import DataType
from aiozarr.metadata.times import parse_times

SECONDS = {"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 10}}


def test_a_count_and_nat_are_fill_values() -> None:
    data_type = DataType.from_json(SECONDS)
    assert data_type.dtype == np.dtype("M8[10s]")
    assert data_type.render_fill_value(data_type.parse_fill_value(7)) == 7
    assert np.isnat(data_type.default_fill_value)
    assert np.isnat(data_type.parse_fill_value("NaT"))
    assert data_type.make_fill_value(dt.datetime.fromisoformat("1970-01-01T00:01"))[()] == np.datetime64(
        "1970-01-01T00:01:00"
    )


@pytest.mark.parametrize(
    "configuration", [{"unit": "x", "scale_factor": 1}, {"unit": "s", "scale_factor": 0}, {"unit": "s"}]
)
def test_an_invalid_configuration_is_rejected(configuration: dict[str, Any]) -> None:
    with pytest.raises(InvalidMetadataError):
        DataType.from_json({"name": "numpy.timedelta64", "configuration": configuration})


def test_text_dates_and_none_convert_to_times() -> None:
    values = np.array(["2024-01-02", dt.date(2024, 1, 3), None], object)
    parsed = parse_times(values, np.dtype("M8[s]"))
    assert parsed.dtype.kind == "M"
    assert parsed[:2].astype("M8[D]").astype(str).tolist() == ["2024-01-02", "2024-01-03"]
    assert np.isnat(parsed[2])
    assert parse_times(np.array([None, None], object), np.dtype("M8[s]")).dtype == np.dtype("M8[s]")


@pytest.mark.parametrize(
    ("unit", "value"),
    [("ns", np.datetime64("3000-01-01")), ("D", np.datetime64("2000-01-01T00:00:01")), ("us", "300000-01-01")],
)
def test_a_fill_value_that_the_unit_does_not_have_is_refused(unit: str, value: object) -> None:
    with pytest.raises(ValueError, match="is not a value of"):
        DataType.from_numpy(np.dtype(f"M8[{unit}]")).make_fill_value(value)
