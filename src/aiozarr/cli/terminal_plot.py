"""Lines and images as text: braille dots for a line, half blocks or characters for an image."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RAMP = " .:-=+*#%@"
"""Characters of an image without colours, from the least value to the greatest."""
_BRAILLE = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_ANCHORS = np.array([(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)], dtype=float)
"""Five colours from dark blue to yellow, of growing lightness."""


def as_floats(values: NDArray[Any]) -> Floats:
    """Return values for a plot: numbers, booleans and times as floats, and infinities as NaN.

    Raises:
        TypeError: they are no real numbers.
    """
    if values.dtype.kind in "mM":
        missing = np.isnat(values)
        floats = values.astype("i8").astype(float)
        floats[missing] = np.nan
        return floats
    if values.dtype.kind not in "biuf":
        try:
            if values.dtype.kind in "cSUO" or values.dtype.names:
                raise TypeError
            floats = values.astype(float)
        except (TypeError, ValueError):
            raise TypeError(f"values of type {values.dtype} cannot be drawn; real numbers and times can") from None
    floats = values.astype(float)
    floats[~np.isfinite(floats)] = np.nan
    return floats


def limits_of(values: Floats, low: float | None, high: float | None) -> tuple[float, float]:
    """Return the given limits, and for those that are None the least and the greatest of the values."""
    finite = values[np.isfinite(values)]
    if low is None:
        low = float(finite.min()) if finite.size else 0.0
    if high is None:
        high = float(finite.max()) if finite.size else 1.0
    return low, high


def draw_line(values: Floats, width: int, height: int, low: float, high: float) -> list[str]:
    """Return the lines of a plot of a 1-D array, `width` × `height` characters, with the limits at the left."""
    labels = [f"{high:.6g}", *[""] * max(0, height - 2), f"{low:.6g}"]
    margin = max(map(len, labels))
    columns, rows = max(2, width - margin - 2) * 2, height * 4
    dots = np.zeros((rows, columns), bool)
    if 1 < values.size < columns:
        # A line between the points, and not the points alone.
        places = np.linspace(0, values.size - 1, columns)
        values = np.interp(places, np.arange(values.size), values)
    if values.size:
        span = high - low or 1.0
        # Of values that share a column, all between the least and the greatest are drawn.
        edges = np.linspace(0, values.size, min(columns, values.size) + 1).astype(int)
        places = np.linspace(0, columns - 1, len(edges) - 1).astype(int) if len(edges) > 2 else np.array([0])
        for column, start, stop in zip(places, edges[:-1], edges[1:], strict=True):
            part = values[start:stop]
            part = part[np.isfinite(part)]
            if part.size:
                scaled = np.clip((np.array([part.min(), part.max()]) - low) / span, 0, 1)
                top, bottom = (rows - 1 - np.round(scaled * (rows - 1)).astype(int))[::-1]
                dots[top : bottom + 1, column] = True
    cells = dots.reshape(height, 4, columns // 2, 2)
    codes = 0x2800 + np.einsum("hrwc,rc->hw", cells.astype(int), _BRAILLE)
    return [
        f"{label:>{margin}} ┤{''.join(map(chr, row))}".rstrip("\u2800")
        for label, row in zip(labels[:height], codes, strict=True)
    ]


def draw_image(values: Floats, width: int, height: int, low: float, high: float, *, colours: bool) -> list[str]:
    """Return the lines of an image of a 2-D array, its first row at the top, of at most `width` × `height` characters.

    With `colours` each character has two pixels, one above the other, in 24-bit colours.
    """
    if not values.size:
        return []
    rows, columns = values.shape
    # A character is about twice as high as wide.
    scale = min(width / columns, 2 * height / rows, 8.0)
    across, down = max(1, round(columns * scale)), max(1, round(rows * scale / 2))
    small = shrink(values, 2 * down if colours else down, across)
    scaled = np.clip((small - low) / (high - low or 1.0), 0, 1)
    if not colours:
        steps = np.round(np.nan_to_num(scaled) * (len(RAMP) - 1)).astype(int)
        missing = np.isnan(scaled)
        return [
            "".join(["?" if gone else RAMP[step] for step, gone in zip(row, gaps, strict=True)]).rstrip()
            for row, gaps in zip(steps, missing, strict=True)
        ]
    pixels = colour(scaled)
    lines = []
    for above, below in zip(pixels[::2], pixels[1::2], strict=True):
        cells = [
            f"\x1b[38;2;{a[0]};{a[1]};{a[2]};48;2;{b[0]};{b[1]};{b[2]}m▀" for a, b in zip(above, below, strict=True)
        ]
        lines.append("".join(cells) + "\x1b[0m")
    return lines


def shrink(values: Floats, rows: int, columns: int) -> Floats:
    """Return an image of `rows` × `columns` pixels: the mean of the values of each, or the nearest value."""
    for axis, length in ((0, rows), (1, columns)):
        size = values.shape[axis]
        if size <= length:
            values = np.take(values, np.arange(length) * size // length, axis=axis)
            continue
        starts = np.arange(length) * size // length
        present = np.isfinite(values)
        sums = np.add.reduceat(np.where(present, values, 0.0), starts, axis=axis)
        counts = np.add.reduceat(present.astype(float), starts, axis=axis)
        values = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return values


def colour(scaled: Floats) -> NDArray[np.int64]:
    """Return the red, green and blue of values between 0 and 1; NaN is grey."""
    position = np.nan_to_num(scaled) * (len(_ANCHORS) - 1)
    index = np.minimum(position.astype(int), len(_ANCHORS) - 2)
    share = (position - index)[..., None]
    mixed = _ANCHORS[index] * (1 - share) + _ANCHORS[index + 1] * share
    mixed[np.isnan(scaled)] = 128
    rounded: NDArray[np.int64] = np.round(mixed).astype(np.int64)
    return rounded
