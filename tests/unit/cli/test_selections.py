"""The option --select."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiozarr
import aiozarr.sync
from aiozarr.cli.selections import axis_names, parse_select, select_view
from aiozarr.errors import SelectionError
from aiozarr.hierarchy import Array, View
from tests.support.command_line import invoke, succeed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("time=0:24,lat=100..200", {"time": "0:24", "lat": "100..200"}),
        (" time = 3: , lat = : ", {"time": "3:", "lat": ":"}),
        ("0:24,:,5", ("0:24", ":", "5")),
        ("[..., 3]", ("...", "3")),
        ("2020-01-01T06:00,45..60.5,-1.5", ("2020-01-01T06:00", "45..60.5", "-1.5")),
    ],
)
def test_selections_are_by_name_or_in_the_order_of_the_dimensions(text: str, expected: Any) -> None:
    assert parse_select(text) == expected


@pytest.mark.parametrize(
    "text", ["", "time", "time=", "time=0:1,5", "time=1,time=2", "1:2:3:4", "=3", "1,,2", "lat=-10.5:10"]
)
def test_a_text_that_is_not_a_selection_is_a_usage_error(text: str, sample: Path) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_select(text)
    assert invoke("cat", sample / "air", "-s", text).exit_code == 2


async def selected(sample: Path, selection: Any) -> tuple[Array, View]:
    """The array `air`, and the view of a selection of it."""
    array = await aiozarr.open_array(sample, "air")
    return array, await select_view(array, selection)


async def test_names_may_be_numbers_and_unknown_ones_are_listed(sample: Path) -> None:
    for selection, shape in (
        ({"lon": "0:2", "time": "3"}, (6, 2)),
        ({"0": "1"}, (6, 8)),
        (None, (4, 6, 8)),
        ({"lat": "-30..31"}, (4, 4, 8)),
        ({"lat": "-29..-90"}, (4, 2, 8)),
        ({"1": "-90..-29.0"}, (4, 2, 8)),
        (("...", "-30.0..31.0", "0"), (4, 4)),
        (("::-1", "...", "-1:0:-3"), (4, 6, 3)),
    ):
        assert (await selected(sample, selection))[1].shape == shape
    with pytest.raises(SelectionError, match="its dimensions are time, lat, lon"):
        await selected(sample, {"depth": "0"})
    with pytest.raises(SelectionError, match=r"'time' of .*/air cannot be selected by coordinate, because no array"):
        await selected(sample, {"time": "0.5..2.0"})
    with pytest.raises(SelectionError, match="air has 3 dimensions, and --select has 4 items"):
        await selected(sample, ("0", "1", "2", "3"))


def test_several_options_select_together(sample: Path, tmp_path: Path) -> None:
    for command in ("cat", "plan"):
        together = succeed(command, sample / "air", "-s", "time=0:1,lat=0:2,lon=0:3").stdout
        assert succeed(command, sample / "air", "-s", "time=0:1", "-s", "lat=0:2", "-s", "lon=0:3").stdout == together
    succeed("convert", sample / "air", tmp_path / "part", "-s", "time=0:1", "-s", "lat=0:2,lon=0:3")
    assert aiozarr.sync.open_array(tmp_path / "part").shape == (1, 2, 3)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["time=0", "time=1"], 2, "dimension 'time' is selected twice"),
        (["0:1", "lat=0"], 2, "several selections name their dimensions"),
        (["0:1", "0:1"], 2, "several selections name their dimensions"),
        (["time=0:1", "0=1"], 1, "'time' and '0' select from the same dimension"),
        (["time=2:2"], 1, "the indexes 2:2 select nothing from dimension 'time', which has length 4"),
        (
            ["lat=30:60"],
            1,
            "30:60 select nothing from dimension 'lat', which has length 6; did you mean the coordinates 30..60?",
        ),
        (["lat=30"], 1, "index 30 is outside dimension 'lat', which has length 6; did you mean the coordinates"),
    ],
)
@pytest.mark.parametrize("command", ["cat", "convert", "plan"])
def test_selections_that_contradict_or_are_empty_are_refused(
    command: str, options: list[str], code: int, message: str, sample: Path, tmp_path: Path
) -> None:
    target = [tmp_path / "part"] if command == "convert" else []
    result = invoke(command, sample / "air", *target, *[part for option in options for part in ("-s", option)])
    assert (result.exit_code, message in " ".join(result.stderr.split())) == (code, True), result.stderr
    assert not (tmp_path / "part").exists()


async def test_axes_have_the_names_of_their_dimensions(sample: Path) -> None:
    for selection, names in (
        (None, ["time", "lat", "lon"]),
        ({"lat": "0"}, ["time", "lon"]),
        (("0",), ["lat", "lon"]),
        (("...", "1"), ["time", "lat"]),
    ):
        array, view = await selected(sample, selection)
        assert axis_names(array, view, selection) == names


@pytest.mark.parametrize("selection", ["time=0,lat=-30..30", "0,-30.0..30", "...,-30..30,:"])
def test_all_commands_select_alike(selection: str, sample: Path, tmp_path: Path) -> None:
    expected = aiozarr.sync.open_array(sample, "air")[:, 1:5]
    expected = expected[:1] if "0," in selection[:7] else expected
    succeed("cat", "-f", "npy", "-o", tmp_path / "values.npy", sample / "air", "-s", selection)
    np.testing.assert_array_equal(np.load(tmp_path / "values.npy"), expected.squeeze())
    succeed("convert", sample / "air", tmp_path / "part", "-s", selection)
    np.testing.assert_array_equal(aiozarr.sync.open_array(tmp_path / "part")[...].squeeze(), expected.squeeze())
    assert "air" in succeed("plan", sample / "air", "-s", selection).stdout


def test_coordinates_may_be_above_the_array(sample: Path) -> None:
    deep = aiozarr.sync.create_array(sample, "deep/er/x", data=np.arange(6), dimension_names=("lat",))
    assert deep.shape == (6,)
    assert succeed("cat", sample / "deep/er/x", "-s", "lat=-30..30").stdout.split() == ["1", "2", "3", "4"]


def test_a_conversion_takes_positions(sample: Path, tmp_path: Path) -> None:
    succeed("convert", sample / "deep/shards", tmp_path / "part", "-s", "2:6,...")
    expected = aiozarr.sync.open_array(sample, "deep/shards")[2:6]
    np.testing.assert_array_equal(aiozarr.sync.open_array(tmp_path / "part")[...], expected)
    result = invoke("convert", sample, tmp_path / "other", "-s", "2:6")
    assert (result.exit_code, "its arrays are air, lat" in result.stderr) == (1, True)
