"""The command plot: draws values with matplotlib as a line or an image, in a file or a window."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from aiozarr.cli.help import command
from aiozarr.cli.node_commands import with_array
from aiozarr.cli.output import Output, open_output, output_options
from aiozarr.cli.selections import axis_names, select_option, select_view
from aiozarr.cli.targets import TargetOptions, run, store_options

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from aiozarr.hierarchy import Array

MAX_VALUES = 100_000_000
"""Largest number of values in a plot: 800 MB as floats."""


@command(
    "aiozarr plot --select time=0 era5.zarr/t2m -o map.png", "aiozarr plot -s lat=0,lon=0 era5.zarr/t2m -o line.svg"
)
@click.argument("target")
@select_option
@click.option(
    "-o", "--output", metavar="FILE", help="Write a picture (map.png, map.svg, ...) instead of opening a window."
)
@click.option("--vmin", type=float, help="The lower end of the colour scale or axis.")
@click.option("--vmax", type=float, help="The upper end of the colour scale or axis.")
@click.option("--cmap", default="viridis", show_default=True, help="The matplotlib colour map of an image.")
@click.option("--width", type=click.IntRange(10), default=900, show_default=True, help="Width in pixels.")
@click.option("--height", type=click.IntRange(10), default=600, show_default=True, help="Height in pixels.")
@store_options
@output_options
def plot(target: str, select: Any, output: str | None, stores: TargetOptions, out: Output, **style: Any) -> None:
    """Draw the array TARGET, or a selection of it, as a line (one dimension) or an image (two dimensions).

    The picture opens in a window, or is written to a file with --output. Dimensions of length 1 do not count. The
    command needs matplotlib.
    """
    if find_spec("matplotlib") is None:
        raise ImportError("plot needs matplotlib: pip install matplotlib")
    if output is None and not _can_open_window():
        raise click.UsageError("no window can be opened here; write a picture with --output map.png")

    options = stores.of(target)

    async def read(array: Array) -> tuple[Any, list[str], str]:
        view = await select_view(array, select)
        names = [name for name, length in zip(axis_names(array, view, select), view.shape, strict=True) if length != 1]
        if not array.ndim:
            raise click.UsageError("a plot has one or two dimensions, but the array has none; cat prints its value")
        if len(names) not in (1, 2):
            raise click.UsageError(
                f"a plot has one or two dimensions, but the selection has {len(names)} {view.shape}; "
                f"select fewer with --select {_example(array)}"
            )
        if view.size > MAX_VALUES:
            raise click.UsageError(
                f"the selection has {view.size:,} values; draw fewer with a step, such as --select ::10,::10"
            )
        return await view.read(), names, array.url.rstrip("/").rpartition("/")[2]

    values, names, title = run(lambda: with_array(target, options, read))
    values = values.reshape([length for length in values.shape if length != 1] or [1])
    figure = _figure(as_floats(values), names, title, in_window=output is None, **style)
    if output is None:
        import matplotlib.pyplot as plt

        plt.show()
        return
    with open_output(output) as file:
        figure.savefig(file, format=os.path.splitext(output)[1].removeprefix(".").lower() or "png")
    out.say(f"{output}: {' × '.join(map(str, values.shape))} values of {title}")


def _example(array: Array) -> str:
    if array.ndim < 3:
        return "0:10"
    names = array.dimension_names
    if names and all(names):
        return ",".join([f"{name}=0" for name in names[:-2]])
    return ",".join(["0"] * (array.ndim - 2) + [":", ":"])


def as_floats(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return numbers, booleans and times as floats for a plot, with infinities as NaN.

    Raises:
        TypeError: they are neither real numbers nor times.
    """
    if values.dtype.kind in "mM":
        return np.where(np.isnat(values), np.nan, values.astype("i8").astype(float))
    try:
        if values.dtype.kind in "cSUO" or values.dtype.names:
            raise TypeError
        floats = values.astype(float)
    except (TypeError, ValueError):
        raise TypeError(f"cannot draw values of type {values.dtype}, only real numbers and times") from None
    floats[~np.isfinite(floats)] = np.nan
    return floats


def _can_open_window() -> bool:
    import matplotlib as mpl

    return mpl.get_backend().lower() != "agg"  # matplotlib falls back to it without a display


def _figure(
    floats: NDArray[np.float64],
    names: list[str],
    title: str,
    *,
    vmin: float | None,
    vmax: float | None,
    cmap: str,
    width: int,
    height: int,
    in_window: bool,
) -> Figure:
    size: dict[str, Any] = {"figsize": (width / 100, height / 100), "dpi": 100, "layout": "constrained"}
    if in_window:
        import matplotlib.pyplot as plt

        figure: Figure = plt.figure(**size)
    else:
        from matplotlib.figure import Figure

        figure = Figure(**size)
    axes = figure.add_subplot()
    if floats.ndim == 1:
        axes.plot(floats)
        axes.set(xlabel=names[0], ylim=(vmin, vmax))
    else:
        image = axes.imshow(floats, cmap=cmap, vmin=vmin, vmax=vmax, aspect="auto", interpolation="nearest")
        axes.set(xlabel=names[1], ylabel=names[0])
        figure.colorbar(image)
    axes.set_title(title)
    return figure
