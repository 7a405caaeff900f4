"""The option `--select`: elements of an array by index, per dimension or by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from aiozarr.cli.targets import ParsedType

if TYPE_CHECKING:
    from aiozarr.hierarchy import Array, View

NamedSelection: TypeAlias = dict[str, Any]
PositionalSelection: TypeAlias = tuple[Any, ...]

_INTEGER = re.compile(r"[+-]?\d+")
_TIME = re.compile(r"-?\d+-\d\d-\d\d[T ]\d\d:\d\d")
_SLICE = re.compile(r"(?:[+-]?\d+)?\s*:\s*+(?:[+-]?\d+)?\s*(?::\s*(?:[+-]?\d+)?)?")


def _combined(_ctx: click.Context, param: click.Parameter, selections: tuple[Any, ...]) -> Any:
    """Return the selections of all options together, or None if there is none."""
    if len(selections) <= 1:
        return selections[0] if selections else None
    found: NamedSelection = {}
    for selection in selections:
        if not isinstance(selection, Mapping):
            raise click.BadParameter("several selections name their dimensions, as in time=0:24", param=param)
        if repeated := found.keys() & selection:
            raise click.BadParameter(f"dimension {min(repeated)!r} is selected twice", param=param)
        found |= selection
    return found


def parse_select(text: str) -> NamedSelection | PositionalSelection:
    """Return the selection that `text` describes: a mapping of names, or a tuple by position.

    An item is an index `5`, a slice `START:STOP:STEP` of indexes, a coordinate `45.5`, or `START..STOP` of coordinates,
    both of which are included. Bounds with a colon that are no integers are coordinates, too. By position, `...` stands
    for all other dimensions.

    Raises:
        ValueError: `text` is no selection.
    """
    items = [item.strip() for item in text.strip().removeprefix("[").removesuffix("]").split(",")]
    if not any("=" in item for item in items):
        return tuple([Ellipsis if item == "..." else _parse_position(item) for item in items])
    found: NamedSelection = {}
    for item in items:
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not name or not value:
            raise ValueError(f"a selection is DIMENSION=START:STOP, such as time=0:24, not {item!r}")
        if name in found:
            raise ValueError(f"dimension {name!r} is selected twice")
        found[name] = _parse_item(value)
    return found


def _parse_position(text: str) -> Any:
    item = _parse_item(text)
    # A word is more likely a name without its selection than a coordinate.
    if item is None or (isinstance(item, str) and not item.lstrip("+-.")[:1].isdigit()):
        raise ValueError(
            f"{text!r} is no index, as 5, and no slice, as 0:24; by name it is time=0:24 or lat=45.0..60.0"
        )
    return item


def _parse_item(text: str) -> Any:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _SLICE.fullmatch(text):
        return slice(*[int(part) if part.strip() else None for part in text.split(":")])
    start, dots, stop = text.partition("..")
    if dots:
        return slice(start.strip() or None, stop.strip() or None)
    if _TIME.match(text):
        return text  # its colons separate hours and minutes
    bounds = [bound.strip() or None for bound in text.split(":")]
    if len(bounds) > 2:
        raise ValueError(f"{text!r} has several colons; write coordinates with two dots: START..STOP")
    return bounds[0] if len(bounds) == 1 else slice(*bounds)


select_option = click.option(
    "-s",
    "--select",
    type=ParsedType("SELECTION", parse_select),
    multiple=True,
    callback=_combined,
    help="Elements, by dimension: time=0:24,lat=45.0..60.0, or by position: 0:24,45.0..60.0. A colon between integers "
    "is for indexes, two dots are for coordinates. Repeat it for further dimensions.",
)


async def select_view(array: Array, selection: NamedSelection | PositionalSelection | None) -> View:
    """Return the view of a selection; arguments and errors are the same as for `resolve_selection`."""
    return array[await resolve_selection(array, selection)]


def name_selection(array: Array, selection: PositionalSelection) -> NamedSelection:
    """Convert a selection by position into one by the names of dimensions, or by the numbers of those without names.

    Raises:
        SelectionError: it has more items than the array has dimensions, or several `...`.
    """
    from aiozarr.errors import SelectionError

    missing = array.ndim - len([item for item in selection if item is not Ellipsis])
    if missing < 0 or selection.count(Ellipsis) > 1:
        raise SelectionError(f"{array.url} has {array.ndim} dimensions, and --select has {len(selection)} items")
    names = _names_of(array)
    found: NamedSelection = {}
    position = 0
    for item in selection:
        if item is Ellipsis:
            position += missing
        else:
            found[names[position]] = item
            position += 1
    return found


def _names_of(array: Array) -> list[str]:
    """Return a name for each dimension: its number, if it has no name of its own."""
    names = array.dimension_names or (None,) * array.ndim
    return [name if name and names.count(name) == 1 else str(number) for number, name in enumerate(names)]


async def resolve_selection(
    array: Array, selection: NamedSelection | PositionalSelection | None
) -> PositionalSelection:
    """Return a selection by position and index.

    Args:
        array: the array. Coordinates of a dimension are in the array of its name beside it, or above.
        selection: by position or by name; None: everything.

    Raises:
        SelectionError: the array has no dimension of a name, or has no coordinates, or nothing is selected, or two
            names select from one dimension.
    """
    from aiozarr.errors import SelectionError
    from aiozarr.transfer.dimension_selection import check_not_empty, is_index, resolve_coordinates

    if selection is None:
        return (Ellipsis,)
    if not isinstance(selection, Mapping):
        selection = name_selection(array, selection)
    names = _names_of(array)
    items: list[Any] = [slice(None)] * array.ndim
    selected: dict[int, str] = {}
    for name, item in selection.items():
        if name in names:
            position = names.index(name)
        elif name.isdecimal() and int(name) < array.ndim:
            position = int(name)
        else:
            known = ", ".join(filter(None, array.dimension_names or ())) or f"none; 0 to {array.ndim - 1} are numbers"
            raise SelectionError(f"{array.url} has no dimension {name!r}; its dimensions are {known}")
        if position in selected:
            raise SelectionError(f"{selected[position]!r} and {name!r} select from the same dimension of {array.url}")
        selected[position] = name
        if is_index(item):
            if isinstance(item, slice):
                check_not_empty(item, array.shape[position], name=name)
            items[position] = item
            continue
        values, attributes = await _coordinates(array, names[position], array.shape[position])
        interval = resolve_coordinates(item, values, attributes, name=name)
        items[position] = slice(interval.start, interval.stop)
    return tuple(items)


async def _coordinates(array: Array, name: str, length: int) -> tuple[Any, Mapping[str, Any]]:
    """Return values and attributes of the coordinates of a dimension: of the 1-D array beside the array, or above.

    Raises:
        SelectionError: there is no such array.
    """
    from aiozarr.errors import SelectionError
    from aiozarr.hierarchy import open_array
    from aiozarr.hierarchy.internal import run_on_io_thread
    from aiozarr.transfer.copy import child_store
    from aiozarr.transfer.node_tree import load_array_above

    async def load(access: Any) -> Any:
        store = child_store(access.store, access.path)
        return await load_array_above(access.engine, store, name, length, access.settings)

    found = await run_on_io_thread(array, load)
    if found is None:
        raise SelectionError(
            f"dimension {name!r} of {array.url} cannot be selected by coordinate: there is no array of this name, with "
            f"one dimension of length {length}, beside it or above"
        )
    store, path, _ = found
    coordinates = await open_array(store, path)
    return await coordinates[...].read(), dict(coordinates.attrs)


async def resolve_region(array: Array, selection: NamedSelection | PositionalSelection) -> tuple[slice, ...]:
    """Return a selection as slices: a single index keeps its dimension, with length 1.

    Raises:
        SelectionError: as `resolve_selection`; or an index is outside.
    """
    from aiozarr.transfer.dimension_selection import resolve_indexes

    def as_slice(item: Any, name: str, length: int) -> slice:
        return item if isinstance(item, slice) else resolve_indexes(item, length, name=name)

    items = await resolve_selection(array, selection)
    return tuple(map(as_slice, items, _names_of(array), array.shape))


def axis_names(array: Array, view: View, selection: NamedSelection | PositionalSelection | None) -> list[str]:
    """Return a name for each axis of the view of a selection."""
    if selection is not None and not isinstance(selection, Mapping):
        selection = name_selection(array, selection)
    numbers = [str(number) for number in range(array.ndim)]
    dropped = {name for name, item in (selection or {}).items() if isinstance(item, int)}
    names = [
        f"dim_{number}" if name == number else name
        for number, name in zip(numbers, _names_of(array), strict=True)
        if not dropped & {number, name}
    ]
    return names if len(names) == view.ndim else [f"dim_{number}" for number in range(view.ndim)]
