"""The option `--select`: elements of an array, by the names of its dimensions or in their order."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from aiozarr.cli.targets import ParsedType

if TYPE_CHECKING:
    from aiozarr.hierarchy import Array, View

NamedSelection: TypeAlias = dict[str, str]
OrderedSelection: TypeAlias = tuple[str, ...]
"""A text that `parse_part` accepts for each dimension, or `...` for all other dimensions."""


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


def parse_select(text: str) -> NamedSelection | OrderedSelection:
    """Return the selection that `text` describes: a mapping of names, or a tuple in the order of the dimensions.

    Raises:
        ValueError: `text` is not a selection.
    """
    from aiozarr.conversion.dimension_selection import parse_part

    items = [item.strip() for item in text.strip().removeprefix("[").removesuffix("]").split(",")]
    found: NamedSelection = {}
    if not any("=" in item for item in items):
        for item in items:
            # A word is more likely a name without its selection than a coordinate.
            if item != "..." and isinstance(parse_part(item), str) and not item.lstrip("+-.")[:1].isdigit():
                raise ValueError(
                    f"{item!r} is not an index, such as 5, or a slice, such as 0:24; "
                    "by name it is time=0:24 or lat=45..60"
                )
        return tuple(items)
    for item in items:
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not name or not value:
            raise ValueError(f"{item!r} is not a selection; expected DIMENSION=START:STOP, such as time=0:24")
        if name in found:
            raise ValueError(f"dimension {name!r} is selected twice")
        parse_part(value)
        found[name] = value
    return found


select_option = click.option(
    "-s",
    "--select",
    type=ParsedType("SELECTION", parse_select),
    multiple=True,
    callback=_combined,
    help="Elements, by dimension: time=0:24,lat=45..60, or in the order of the dimensions: 0:24,45..60. A colon "
    "separates indexes, and two dots separate coordinates. Repeat the option for further dimensions.",
)


async def select_view(array: Array, selection: NamedSelection | OrderedSelection | None) -> View:
    """Return the view of a selection. An index drops its dimension; a single coordinate keeps it, with length 1.

    Raises:
        SelectionError: as `select_parts`; or the selection has more items than the array has dimensions.
    """
    from aiozarr.conversion.named_selection import select_parts

    parts = _parse(array, selection)
    items, indexed = (await select_parts({"": array}, parts))[""], _indexed_dimensions(array, parts)
    return array[tuple([item.start if number in indexed else item for number, item in enumerate(items)])]


def name_selection(array: Array, selection: OrderedSelection) -> NamedSelection:
    """Convert a selection in the order of the dimensions into one by their names, or numbers where they have no name.

    Raises:
        SelectionError: it has more items than the array has dimensions, or several `...`.
    """
    from aiozarr.errors import SelectionError

    missing = array.ndim - len([item for item in selection if item != "..."])
    if missing < 0 or selection.count("...") > 1:
        raise SelectionError(f"{array.url} has {array.ndim} dimensions, and --select has {len(selection)} items")
    names = iter(_unique_names(array))
    found: NamedSelection = {}
    for item in selection:
        if item == "...":
            names = islice(names, missing, None)
        else:
            found[next(names)] = item
    return found


def axis_names(array: Array, view: View, selection: NamedSelection | OrderedSelection | None) -> list[str]:
    """Return a name for each axis of the view of a selection."""
    indexed = _indexed_dimensions(array, _parse(array, selection))
    names = [
        f"dim_{number}" if name == str(number) else name
        for number, name in enumerate(_unique_names(array))
        if number not in indexed
    ]
    return names if len(names) == view.ndim else [f"dim_{number}" for number in range(view.ndim)]


def _parse(array: Array, selection: NamedSelection | OrderedSelection | None) -> dict[str, Any]:
    from aiozarr.conversion.named_selection import parse_selection

    return parse_selection(name_selection(array, selection) if isinstance(selection, tuple) else selection or {})


def _indexed_dimensions(array: Array, parts: Mapping[str, Any]) -> set[int]:
    """Return the numbers of the dimensions of which a parsed selection has a single index."""
    from aiozarr.conversion.named_selection import dimension_numbers

    numbers = dimension_numbers("", array, parts).items()
    return {number for name, found in numbers if isinstance(parts[name], int) for number in found}


def _unique_names(array: Array) -> list[str]:
    """Return a name for each dimension: its number, if it has no name of its own."""
    names = array.dimension_names or (None,) * array.ndim
    return [name if name and names.count(name) == 1 else str(number) for number, name in enumerate(names)]
