"""The option `--select`: elements of an array by index, per dimension or by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import click

if TYPE_CHECKING:
    from aiozarr.hierarchy import Array, View

NamedSelection: TypeAlias = dict[str, Any]
PositionalSelection: TypeAlias = tuple[Any, ...]

_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class SelectType(click.ParamType[Any]):
    """A selection: `time=0:24,lat=100:200` by names of dimensions, or `0:24,:,5` by position."""

    name = "SELECTION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a mapping of names, or a tuple."""
        if not isinstance(value, str):
            return value
        try:
            return parse_select(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


select_option = click.option(
    "-s",
    "--select",
    type=SelectType(),
    help="Elements: time=0:24,lat=100:200 by dimension, or 0:24,:,5 by position. Bounds with two dots are coordinates: "
    "lat=45.0..60.0.",
)


def parse_select(text: str) -> NamedSelection | PositionalSelection:
    """Return the selection that `text` describes.

    An item is an integer, a slice `start:stop:step`, or two coordinates `first..last`, which become a slice of numbers
    or texts. `...` stands for all other dimensions of a selection by position.

    Raises:
        ValueError: `text` is no selection.
    """
    items = text.strip().removeprefix("[").removesuffix("]").split(",")
    if not any("=" in item for item in items):
        return tuple([Ellipsis if item.strip() == "..." else _item(item.strip()) for item in items])
    named: NamedSelection = {}
    for item in items:
        name, mark, rest = item.partition("=")
        if not mark or not name.strip():
            raise ValueError(f"{item.strip()!r} has no name of a dimension, as in time=0:24")
        if name.strip() in named:
            raise ValueError(f"the dimension {name.strip()!r} is selected twice")
        named[name.strip()] = _item(rest.strip())
    return named


def _item(text: str) -> Any:
    if _INTEGER.fullmatch(text):
        return int(text)
    if ".." in text:
        first, _, last = text.partition("..")
        return slice(_coordinate(first), _coordinate(last))
    parts = text.split(":")
    if 2 <= len(parts) <= 3 and all(not part.strip() or _INTEGER.fullmatch(part) for part in parts):
        return slice(*[int(part) if part.strip() else None for part in parts])
    raise ValueError(f"{text!r} is no index, as 5, no slice, as 0:24, and no coordinates, as 45.0..60.0")


def _coordinate(text: str) -> float | str | None:
    text = text.strip()
    if not text:
        return None
    # An integer bound of coordinates must not be taken for an index.
    return float(text) if _NUMBER.fullmatch(text) else text


def select_view(array: Array, selection: NamedSelection | PositionalSelection | None) -> View:
    """Return the view of a selection by index.

    Raises:
        SelectionError: the array has no dimension of a name, or the selection does not fit.
    """
    from aiozarr.errors import SelectionError

    if selection is None:
        return array[...]
    if not isinstance(selection, Mapping):
        return array[selection]
    names = array.dimension_names or (None,) * array.ndim
    items: list[Any] = [slice(None)] * array.ndim
    for name, item in selection.items():
        if name in names:
            position = names.index(name)
        elif name.isdecimal() and int(name) < array.ndim:
            position = int(name)
        else:
            known = ", ".join([str(each) for each in names if each]) or f"none; 0 to {array.ndim - 1} are numbers"
            raise SelectionError(f"{array.url} has no dimension {name!r}; its dimensions are {known}")
        items[position] = item
    return array[tuple(items)]


def axis_names(array: Array, view: View, select: Any) -> list[str]:
    """Return a name for each axis of the view."""
    names = array.dimension_names or (None,) * array.ndim
    chosen = [name or f"dim_{number}" for number, name in enumerate(names)]
    if isinstance(select, dict):
        chosen = [name for name in chosen if not isinstance(select.get(name), int)]
    elif isinstance(select, tuple):
        after = array.ndim - len([item for item in select if item is not Ellipsis])
        items: list[Any] = []
        for item in select if Ellipsis in select else (*select, Ellipsis):
            items += [slice(None)] * after if item is Ellipsis else [item]
        chosen = [name for name, item in zip(chosen, items, strict=False) if not isinstance(item, int)]
    return chosen if len(chosen) == view.ndim else [f"dim_{number}" for number in range(view.ndim)]
