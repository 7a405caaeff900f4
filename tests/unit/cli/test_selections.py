"""The option --select."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import aiozarr
from aiozarr.cli.selections import axis_names, parse_select, select_view
from aiozarr.errors import SelectionError
from aiozarr.hierarchy import Array, View
from tests.support.command_line import invoke, succeed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("time=0:24,lat=100:200", {"time": slice(0, 24), "lat": slice(100, 200)}),
        ("time=5", {"time": 5}),
        ("time=-1,lat=::2", {"time": -1, "lat": slice(None, None, 2)}),
        ("0:24,:,5", (slice(0, 24), slice(None), 5)),
        ("[..., 3]", (Ellipsis, 3)),
        ("lat=45..60.5", {"lat": slice(45.0, 60.5)}),
        ("time=2020-01-01..2020-02-01T12:00", {"time": slice("2020-01-01", "2020-02-01T12:00")}),
        ("time=2024-01-02T06:00", {"time": "2024-01-02T06:00"}),
        ("time=..3", {"time": slice(None, 3.0)}),
    ],
)
def test_selections_by_name_and_by_position(text: str, expected: Any) -> None:
    assert parse_select(text) == expected


@pytest.mark.parametrize("text", ["", "time=", "time=0:1,5", "time=1,time=2", "1:2:3:4", "=3", "1.5,2"])
def test_what_is_no_selection_is_a_usage_error(text: str, sample: Path) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_select(text)
    assert invoke("cat", sample / "air", "-s", text).exit_code == 2


async def selected(sample: Path, selection: Any) -> tuple[Array, View]:
    """The array `air`, and the view of a selection of it."""
    array = await aiozarr.open_array(sample, "air")
    return array, await select_view(array, selection, f"{sample}/air", {})


async def test_names_may_be_numbers_and_unknown_ones_are_listed(sample: Path) -> None:
    for selection, shape in (
        ({"lon": slice(0, 2), "time": 3}, (6, 2)),
        ({"0": 1}, (6, 8)),
        (None, (4, 6, 8)),
        ({"lat": slice(-30.0, 31.0)}, (4, 4, 8)),
        ({"lat": slice(None, -29.0)}, (4, 2, 8)),
    ):
        assert (await selected(sample, selection))[1].shape == shape
    with pytest.raises(SelectionError, match="its dimensions are time, lat, lon"):
        await selected(sample, {"depth": 0})
    with pytest.raises(SelectionError, match="time is no array of one dimension"):
        await selected(sample, {"time": slice(0.5, 2.0)})


async def test_axes_have_the_names_of_their_dimensions(sample: Path) -> None:
    for selection, names in (
        (None, ["time", "lat", "lon"]),
        ({"lat": 0}, ["time", "lon"]),
        ((0,), ["lat", "lon"]),
        ((Ellipsis, 1), ["time", "lat"]),
    ):
        array, view = await selected(sample, selection)
        assert axis_names(array, view, selection) == names


def test_coordinates_select_on_the_command_line(sample: Path) -> None:
    assert len(succeed("cat", sample / "air", "-s", "time=0,lat=-30..30,lon=0").stdout.splitlines()) == 4
