"""The option `--select`: elements of an array by index, per dimension or by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from aiozarr.cli.targets import parent_and_key

if TYPE_CHECKING:
    from aiozarr.hierarchy import Array, View

NamedSelection: TypeAlias = dict[str, Any]
PositionalSelection: TypeAlias = tuple[Any, ...]

_INTEGER = re.compile(r"\s*[+-]?\d+\s*")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?")
_SLICE = re.compile(r"\s*(?:[+-]?\d+)?\s*:\s*(?:[+-]?\d+)?\s*(?::\s*(?:[+-]?\d+)?\s*)?")


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

    By position, an item is an integer, a slice `start:stop:step`, or `...` for all other dimensions. By name it is what
    `aiozarr.copy` takes, or a slice with a step.

    Raises:
        ValueError: `text` is no selection.
    """
    items = [item.strip() for item in text.strip().removeprefix("[").removesuffix("]").split(",")]
    if not any("=" in item for item in items):
        return tuple([Ellipsis if item == "..." else _position(item) for item in items])
    from aiozarr.transfer.dimension_selection import parse_selection

    found: NamedSelection = {}
    for item in items:
        name, _, value = item.partition("=")
        stepped = value.count(":") == 2 and _SLICE.fullmatch(value.strip())
        if _TIME.fullmatch(value.strip()):
            parsed: NamedSelection = {name.strip(): value.strip()}  # its colons are those of a clock
        else:
            parsed = {name.strip(): _position(value.strip())} if stepped else parse_selection(item)
        if parsed.keys() & found.keys():
            raise ValueError(f"the dimension {name.strip()!r} is selected twice")
        found |= parsed
    return found


def _position(text: str) -> Any:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _SLICE.fullmatch(text):
        return slice(*[int(part) if part.strip() else None for part in text.split(":")])
    raise ValueError(f"{text!r} is no index, as 5, and no slice, as 0:24; by name it is time=0:24 or lat=45.0..60.0")


async def select_view(
    array: Array, selection: NamedSelection | PositionalSelection | None, target: str, options: Mapping[str, Any]
) -> View:
    """Return the view of a selection; arguments and errors are those of `resolve_selection`."""
    return array[await resolve_selection(array, selection, target, options)]


async def resolve_selection(
    array: Array, selection: NamedSelection | PositionalSelection | None, target: str, options: Mapping[str, Any]
) -> PositionalSelection:
    """Return a selection by position and index.

    Args:
        array: the array.
        selection: by position or by name; None: everything.
        target: the array's location: coordinates of a dimension are in the array of its name beside it.
        options: options of the array's store.

    Raises:
        SelectionError: the array has no dimension of a name, or has no coordinates, or nothing is selected.
    """
    from aiozarr.errors import SelectionError
    from aiozarr.transfer.dimension_selection import is_index, resolve_coordinates

    if not isinstance(selection, Mapping):
        return (Ellipsis,) if selection is None else selection
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
        if is_index(item):
            items[position] = item
            continue
        values, attributes = await _coordinates(target, name, array.shape[position], options)
        interval = resolve_coordinates(item, values, attributes, name=name)
        items[position] = slice(interval.start, interval.stop)
    return tuple(items)


async def _coordinates(
    target: str, name: str, length: int, options: Mapping[str, Any]
) -> tuple[Any, Mapping[str, Any]]:
    """Return the values and attributes of the coordinates of a dimension: of the 1-D array beside the target.

    Raises:
        SelectionError: there is no such array.
    """
    from aiozarr.errors import NodeNotFoundError, SelectionError
    from aiozarr.hierarchy import Array
    from aiozarr.hierarchy.open import open as open_node

    place = f"{parent_and_key(target.rstrip('/'))[0]}/{name}"
    try:
        async with open_node(place, storage_options=options) as node:
            if isinstance(node, Array) and node.shape == (length,):
                return await node[...].read(), dict(node.attrs)
    except NodeNotFoundError:
        pass
    raise SelectionError(
        f"dimension {name!r} cannot be selected by coordinate: {place} is no array of one dimension of length {length}"
    )


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
