"""The command plot: a line or an image of values, in a file or on the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from aiozarr.cli.node_commands import with_array
from aiozarr.cli.output import Output, output_options
from aiozarr.cli.output_file import open_output
from aiozarr.cli.selections import axis_names, select_option, select_view
from aiozarr.cli.targets import TargetOptions, run, store_options

if TYPE_CHECKING:
    from aiozarr.hierarchy import Array

MAX_VALUES = 100_000_000
"""Values that are read for a plot: 800 MB as floats."""


@click.command()
@click.argument("target")
@select_option
@click.option("-o", "--output", metavar="FILE", help="Write a picture, such as map.png or map.svg, with matplotlib.")
@click.option("--vmin", type=float, help="The least value of colours or of the axis.")
@click.option("--vmax", type=float, help="The greatest value of colours or of the axis.")
@click.option(
    "--cmap", default="viridis", show_default=True, help="The colours of a picture, as matplotlib names them."
)
@click.option("--width", type=click.IntRange(10), help="Characters, or pixels of a picture.")
@click.option("--height", type=click.IntRange(2), help="Lines, or pixels of a picture.")
@store_options
@output_options
def plot(
    target: str,
    select: Any,
    output: str | None,
    vmin: float | None,
    vmax: float | None,
    cmap: str,
    width: int | None,
    height: int | None,
    stores: TargetOptions,
    out: Output,
) -> None:
    """Draw the array TARGET, or a selection of it, as a line (one dimension) or as an image (two).

    Without --output it is drawn on the terminal: in colours, or in characters where standard output is no terminal.
    Dimensions of length 1 do not count.
    """
    if output is not None and find_spec("matplotlib") is None:
        raise ImportError("pictures are drawn by matplotlib; pip install 'aiozarr[plot]' installs it")

    options = stores.of(target)

    async def read(array: Array) -> tuple[Any, list[str], str]:
        view = await select_view(array, select)
        names = [name for name, length in zip(axis_names(array, view, select), view.shape, strict=True) if length != 1]
        if not array.ndim:
            raise click.UsageError("a plot has one or two dimensions, and the array has none: cat shows its value")
        if len(names) not in (1, 2):
            raise click.UsageError(
                f"a plot has one or two dimensions, and the selection has {len(names)} {view.shape}: "
                f"choose with --select, such as {_example(array)}"
            )
        if view.size > MAX_VALUES:
            raise click.UsageError(
                f"the selection has {view.size:,} values; a step, as in --select ::10,::10, draws fewer"
            )
        return await view.read(), names, array.url.rstrip("/").rpartition("/")[2]

    values, names, title = run(lambda: with_array(target, options, read))
    values = values.reshape([length for length in values.shape if length != 1] or [1])
    if output is not None:
        _draw_picture(values, names, title, output, vmin, vmax, cmap, (width or 900, height or 600))
        out.say(f"{output}: {' × '.join(map(str, values.shape))} values of {title}")
        return
    from aiozarr.cli.terminal_plot import as_floats, draw_image, draw_line, limits_of

    floats = as_floats(values)
    low, high = limits_of(floats, vmin, vmax)
    columns, lines = shutil.get_terminal_size((80, 24))
    size = (width or columns, height or max(4, lines - 3))
    if floats.ndim == 1:
        rows = draw_line(floats, *size, low, high)
        footer = f"{title}, {names[0]} 0 to {floats.size - 1}"
    else:
        colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        rows = draw_image(floats, *size, low, high, colours=colours)
        footer = f"{title}, {names[0]} down, {names[1]} across, {low:.6g} to {high:.6g}"
    out.record(
        {"title": title, "names": names, "shape": floats.shape, "low": low, "high": high}, "\n".join([*rows, footer])
    )


def _example(array: Array) -> str:
    if array.ndim < 3:
        return "0:10"
    names = array.dimension_names
    if names and all(names):
        return ",".join([f"{name}=0" for name in names[:-2]])
    return ",".join(["0"] * (array.ndim - 2) + [":", ":"])


def _draw_picture(
    values: Any,
    names: list[str],
    title: str,
    output: str,
    low: float | None,
    high: float | None,
    cmap: str,
    pixels: tuple[int, int],
) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    from aiozarr.cli.terminal_plot import as_floats

    figure = Figure(figsize=(pixels[0] / 100, pixels[1] / 100), dpi=100, layout="constrained")
    axes = figure.add_subplot()
    floats = as_floats(values)
    if floats.ndim == 1:
        axes.plot(floats)
        axes.set(xlabel=names[0], ylim=(low, high))
    else:
        image = axes.imshow(floats, cmap=cmap, vmin=low, vmax=high, aspect="auto", interpolation="nearest")
        axes.set(xlabel=names[1], ylabel=names[0])
        figure.colorbar(image)
    axes.set_title(title)
    with open_output(output) as file:
        figure.savefig(file, format=os.path.splitext(output)[1].removeprefix(".").lower() or "png")
