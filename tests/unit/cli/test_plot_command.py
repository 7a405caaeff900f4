"""plot: pictures, and what cannot be drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import aiozarr.sync
from tests.support.command_line import invoke, records, succeed


def test_a_line_on_the_terminal(sample: Path) -> None:
    lines = succeed("plot", "--width", "30", "--height", "4", sample / "lat").stdout.splitlines()
    assert lines[0].startswith(" 50 ┤")
    assert lines[3].startswith("-50 ┤")
    assert lines[4] == "lat, lat 0 to 5"


def test_an_image_without_colours(sample: Path) -> None:
    lines = succeed("plot", "--width", "16", "--height", "6", sample / "air", "-s", "time=0").stdout.splitlines()
    assert lines[-1] == "air, lat down, lon across, 0 to 47"
    assert lines[0][0] == " "
    assert lines[-2][-1] == "@"


def test_a_picture(sample: Path, tmp_path: Path) -> None:
    for target, name in ((sample / "air", "map.png"), (sample / "lat", "line.svg")):
        select = ["-s", "time=0"] if name == "map.png" else []
        succeed("plot", target, *select, "-o", tmp_path / name)
    assert (tmp_path / "map.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert b"<svg" in (tmp_path / "line.svg").read_bytes()


def test_limits_and_json(sample: Path) -> None:
    [found] = records("plot", sample / "air", "-s", "time=0", "--vmin", "-5")
    assert found == {"title": "air", "names": ["lat", "lon"], "shape": [6, 8], "low": -5.0, "high": 47.0}


def test_what_cannot_be_drawn(sample: Path, tmp_path: Path) -> None:
    result = invoke("plot", sample / "air")
    assert result.exit_code == 2
    assert "--select, such as time=0" in result.stderr
    aiozarr.sync.create_array(tmp_path / "text.zarr", data=np.array(["a", "b"]))
    assert invoke("plot", tmp_path / "text.zarr").exit_code == 2
    assert invoke("plot", sample / "lat", "-o", tmp_path / "none/map.png").exit_code == 4
