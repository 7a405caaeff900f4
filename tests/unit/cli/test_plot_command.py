"""plot: pictures, and what cannot draw values of type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import aiozarr.sync
from aiozarr.cli.plot_command import as_floats
from tests.support.command_line import invoke, succeed

PNG = b"\x89PNG\r\n\x1a\n"


def test_a_picture(sample: Path, tmp_path: Path) -> None:
    for target, name in ((sample / "air", "map.png"), (sample / "lat", "line.svg")):
        select = ["-s", "time=0"] if name == "map.png" else []
        succeed("plot", target, *select, "-o", tmp_path / name)
    assert (tmp_path / "map.png").read_bytes()[:8] == PNG
    assert b"<svg" in (tmp_path / "line.svg").read_bytes()


def test_a_picture_has_the_size_that_is_asked_for(sample: Path, tmp_path: Path) -> None:
    picture = tmp_path / "map.png"
    succeed("plot", sample / "air", "-s", "time=0", "--vmin", "-5", "--width", "120", "--height", "80", "-o", picture)
    header = picture.read_bytes()[16:24]
    assert (int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")) == (120, 80)


def test_a_window_shows_the_selection(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib.pyplot as plt

    shown: list[list[float]] = []
    monkeypatch.setattr("matplotlib.get_backend", lambda: "a backend with windows")
    monkeypatch.setattr(plt, "show", lambda: shown.append(list(plt.gca().lines[0].get_ydata())))
    plt.switch_backend("agg")
    succeed("plot", sample / "lat")
    plt.close()
    assert shown == [list(aiozarr.sync.open_array(sample / "lat")[...])]


def test_without_a_display_a_file_is_advised(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("matplotlib.get_backend", lambda: "agg")
    result = invoke("plot", sample / "lat")
    assert result.exit_code == 2
    assert "--output map.png" in result.stderr


def test_what_cannot_be_drawn(sample: Path, tmp_path: Path) -> None:
    picture = tmp_path / "map.png"
    result = invoke("plot", sample / "air", "-o", picture)
    assert result.exit_code == 2
    assert "--select time=0" in result.stderr
    aiozarr.sync.create_array(tmp_path / "text.zarr", data=np.array(["a", "b"]))
    assert invoke("plot", tmp_path / "text.zarr", "-o", picture).exit_code == 2
    assert invoke("plot", sample / "lat", "-o", tmp_path / "none/map.png").exit_code == 4
    assert not picture.exists()


def test_times_and_infinities_become_floats() -> None:
    times = np.array(["1970-01-02", "NaT"], "M8[D]")
    np.testing.assert_array_equal(as_floats(times), [1.0, np.nan])
    np.testing.assert_array_equal(as_floats(np.array([np.inf, 2.0])), [np.nan, 2.0])
    np.testing.assert_array_equal(as_floats(np.array([True])), [1.0])
    with pytest.raises(TypeError, match="cannot draw values of type"):
        as_floats(np.array([1j]))
