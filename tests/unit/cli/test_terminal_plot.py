"""Lines and images as text."""

from __future__ import annotations

import numpy as np
import pytest

from aiozarr.cli.terminal_plot import RAMP, as_floats, colour, draw_image, draw_line, limits_of, shrink


def test_a_line_has_its_limits_at_the_left_and_rises() -> None:
    rows = draw_line(np.arange(100.0), 40, 5, 0.0, 99.0)
    assert len(rows) == 5
    assert all(len(row) <= 40 for row in rows)
    first = [next((at for at, c in enumerate(row[4:]) if c != "\u2800"), None) for row in rows]
    assert first == sorted(first, reverse=True)


def test_a_line_with_gaps_and_constants() -> None:
    assert len(draw_line(np.array([np.nan, 1.0, np.nan]), 20, 3, 1.0, 1.0)) == 3
    assert len(draw_line(np.array([]), 20, 3, 0.0, 1.0)) == 3
    assert len(draw_line(np.array([5.0]), 20, 3, 5.0, 5.0)) == 3


def test_an_image_uses_the_ramp_and_marks_gaps() -> None:
    rows = draw_image(np.array([[0.0, 1.0], [np.nan, 0.5]]), 4, 2, 0.0, 1.0, colours=False)
    assert rows == ["  @@", "??" + RAMP[4] * 2] or rows == ["  @@", "??" + RAMP[5] * 2]
    assert draw_image(np.zeros((0, 3)), 10, 5, 0.0, 1.0, colours=False) == []


def test_an_image_in_colours_has_two_pixels_per_character() -> None:
    [row] = draw_image(np.array([[0.0, 1.0], [1.0, 0.0]]), 2, 1, 0.0, 1.0, colours=True)
    assert row == ("\x1b[38;2;68;1;84;48;2;253;231;37m▀\x1b[38;2;253;231;37;48;2;68;1;84m▀\x1b[0m")


def test_a_smaller_image_has_means_without_gaps() -> None:
    image = np.array([[1.0, 3.0, np.nan, np.nan], [5.0, 7.0, np.nan, 2.0]])
    np.testing.assert_array_equal(shrink(image, 1, 2), [[4.0, 2.0]])
    np.testing.assert_array_equal(shrink(np.array([[1.0]]), 2, 3), np.ones((2, 3)))


def test_colours_of_limits_and_gaps() -> None:
    assert colour(np.array([[0.0, 1.0, np.nan]])).tolist() == [[[68, 1, 84], [253, 231, 37], [128, 128, 128]]]


def test_values_become_floats() -> None:
    assert as_floats(np.array([True, False])).tolist() == [1.0, 0.0]
    times = as_floats(np.array(["2020-01-01", "NaT"], "M8[D]"))
    assert times[0] == 18262
    assert np.isnan(times[1])
    assert np.isnan(as_floats(np.array([np.inf]))[0])
    for values in (np.array(["a"]), np.array([1j]), np.zeros(1, [("a", "i4")])):
        with pytest.raises(TypeError, match="cannot be drawn"):
            as_floats(values)


def test_limits_are_those_of_finite_values() -> None:
    assert limits_of(np.array([1.0, np.nan, 3.0]), None, None) == (1.0, 3.0)
    assert limits_of(np.array([1.0]), -1, 7) == (-1, 7)
    assert limits_of(np.array([np.nan]), None, None) == (0.0, 1.0)
