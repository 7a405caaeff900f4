"""Selections by the names of dimensions: the same part of every array that has the dimension."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from numbers import Real
from operator import index
from typing import Any, TypeAlias

import numpy as np

from aiozarr.common.formatting import argument, did_you_mean
from aiozarr.conversion.dimension_selection import (
    is_index,
    parse_part,
    resolve_coordinates,
    resolve_indexes,
    text_of,
)
from aiozarr.conversion.regions import Bounds
from aiozarr.errors import SelectionError
from aiozarr.hierarchy import Array, Group
from aiozarr.hierarchy.internal import HandleOptions, NodeAccess, run_on_io_thread
from aiozarr.metadata.format_rules import key_prefix
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.stores import Store
from aiozarr.transfer.copy import child_store
from aiozarr.transfer.node_tree import load_array_above

NamedSelection: TypeAlias = Mapping[str, Any]
"""The part of each dimension: an index, a coordinate, a slice of either, or a text in the form of `--select`."""

Nodes: TypeAlias = Mapping[str, Array | Group]
"""A node and all nodes below, by path relative to it; its own path is \"\"."""


def parse_selection(selection: Any) -> dict[str, Any]:
    """Return the parts of a selection by the name of the dimension, with texts parsed by `parse_part`.

    Raises:
        TypeError: it is not a mapping of names to indexes, coordinates, slices of them, and texts.
        ValueError: a text is not a selection.
    """
    if not isinstance(selection, Mapping):
        form = "{'time': slice(0, 24), 'lat': '45.0..60.0'}"
        raise TypeError(f"select must be a mapping of dimension names, such as {form}, not {type(selection).__name__}")
    parts: dict[str, Any] = {}
    for name, part in selection.items():
        if not isinstance(name, str):
            raise TypeError(f"select has the key {name!r}, but its keys must be names of dimensions")
        if isinstance(part, str):
            try:
                parts[name] = parse_part(part)
            except ValueError as error:
                raise ValueError(f"select[{name!r}]: {error}") from None
        else:
            parts[name] = _checked_part(part, name)
    return parts


def _checked_part(part: Any, name: str) -> Any:
    """Return a part whose bounds are integers, which are indexes, or other values, which are coordinates."""
    bounds = (part.start, part.stop) if isinstance(part, slice) else (part,)
    if part is None or any([bound is not None and not _is_bound(bound) for bound in bounds]):
        wrong = next((bound for bound in bounds if bound is not None and not _is_bound(bound)), part)
        raise TypeError(
            f"select[{name!r}] is {type(wrong).__name__}; expected integers, which are indexes, or numbers, times and "
            "text, which are coordinates, or a slice of them"
        )
    if is_index(part):
        return part if isinstance(part, slice) else index(part)
    texts = [str(bound) if isinstance(bound, date | np.datetime64) else bound for bound in bounds]
    return slice(texts[0], texts[1], part.step) if isinstance(part, slice) else texts[0]


def _is_bound(value: Any) -> bool:
    return isinstance(value, Real | str | date | np.datetime64) and not isinstance(value, bool | np.bool_)


async def select_bounds(nodes: Nodes, selection: NamedSelection) -> dict[str, Bounds]:
    """Return start and stop for each dimension of each array. A single index keeps its dimension, with length 1.

    Raises:
        TypeError, ValueError: as `parse_selection`; or a slice has a step other than 1.
        SelectionError: as `select_parts`.
    """
    parts = parse_selection(selection)
    for name, part in parts.items():
        if isinstance(part, slice) and part.step not in (None, 1):
            raise ValueError(
                f"{argument('select')} has the step {part.step} for dimension {name!r}; a conversion can only "
                "select adjacent elements"
            )
    return {
        path: tuple([(part.start, part.stop) for part in found])
        for path, found in (await select_parts(nodes, parts)).items()
    }


async def select_parts(nodes: Nodes, parts: Mapping[str, Any]) -> dict[str, tuple[slice, ...]]:
    """Return the indexes of each dimension of each array.

    Args:
        nodes: the arrays, and the groups above them. The coordinates of a dimension are in the array of its name and
            length, beside the array or in the nearest group above.
        parts: a parsed selection. If the root is an array, the number of a dimension is a name as well. If a
            one-dimensional array has no dimension names, its own name is the name of its dimension.

    Raises:
        SelectionError: no array has a dimension of a name, two names select from one dimension, or nothing is selected;
            or a dimension has no coordinates, or coordinates that cannot be compared.
        ImportError: the coordinates are times, and cftime is not installed.
        StoreError, MetadataError, CodecError: coordinates could not be read.
    """
    arrays = {path: node for path, node in nodes.items() if isinstance(node, Array)}
    dimensions = {path: dimension_numbers(path, array, parts) for path, array in arrays.items()}
    _check_known(nodes[""], arrays, set(parts).difference(*dimensions.values()))
    coordinates = _Coordinates(nodes)
    result: dict[str, tuple[slice, ...]] = {}
    for path, array in arrays.items():
        found = [slice(0, length, 1) for length in array.shape]
        selected: dict[int, str] = {}
        for name, numbers in dimensions[path].items():
            for number in numbers:
                if number in selected:
                    both = f"{selected[number]!r} and {name!r}"
                    raise SelectionError(f"{both} select from the same dimension of {array.url}")
                selected[number] = name
                try:
                    found[number] = await coordinates.resolve(path, number, name, parts[name])
                except SelectionError as error:
                    if path:
                        error.add_note(f"selecting from the array {path!r}")
                    raise
        result[path] = tuple(found)
    return result


def dimension_names(path: str, array: Array) -> tuple[str | None, ...]:
    """Return the names of an array's dimensions. One dimension without a name has that of the array."""
    if array.dimension_names is not None:
        return array.dimension_names
    return (path.rpartition("/")[2] or None,) if array.ndim == 1 else (None,) * array.ndim


def dimension_numbers(path: str, array: Array, parts: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the numbers of the dimensions of an array by those names of a selection that it has."""
    names = dimension_names(path, array)
    found: dict[str, list[int]] = {}
    for name in parts:
        numbers = [number for number, own in enumerate(names) if own == name]
        if not numbers and not path:
            numbers = [number for number in range(array.ndim) if str(number) == name]
        if numbers:
            found[name] = numbers
    return found


def _check_known(root: Array | Group, arrays: Mapping[str, Array], unknown: set[str]) -> None:
    """Refuse the names that no array has as the name of a dimension."""
    if not unknown:
        return
    known = list(dict.fromkeys([name for path in arrays for name in dimension_names(path, arrays[path]) if name]))
    if isinstance(root, Array):
        numbers = f"unnamed; use the numbers 0 to {root.ndim - 1}" if root.ndim else "none"
        subject, listed = f"{root.url} has no", ", ".join(known) or numbers
    else:
        subject, listed = f"no array of {root.url} has a", ", ".join(known) or "none"
    hint = did_you_mean(min(unknown), known, f"its dimensions are {listed}")
    raise SelectionError(f"{subject} dimension {min(unknown)!r}; {hint}")


class _Coordinates:
    """The coordinates of the dimensions of a tree. Each array of coordinates is read once."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._above: dict[tuple[str, int], Array | None] = {}
        self._values: dict[str, Any] = {}

    async def resolve(self, path: str, number: int, name: str, part: Any) -> slice:
        """Return the indexes of a dimension that a part of a selection selects; `name` is the selection's name of it.

        Raises:
            SelectionError: as `select_parts`.
        """
        array = self._nodes[path]
        assert isinstance(array, Array)
        own, length = dimension_names(path, array)[number] or name, array.shape[number]
        if not is_index(part):
            coordinates = await self._find(path, own, length)
            if coordinates is None:
                raise SelectionError(
                    f"dimension {own!r} of {array.url} cannot be selected by coordinate, because no array of this name "
                    f"and length {length} is stored next to it or in a group above"
                )
            return await self._compare(coordinates, part, name)
        try:
            return resolve_indexes(part, length, name=name)
        except SelectionError as error:
            text = text_of(part, "..") if isinstance(part, slice) else f"{part}..{part}"
            if (coordinates := await self._find(path, own, length)) is None:
                raise
            try:
                await self._compare(coordinates, parse_part(text), name)
            except (SelectionError, ImportError):
                raise error from None
            raise SelectionError(f"{error}; did you mean the coordinates {text}?") from None

    async def _compare(self, coordinates: Array, part: Any, name: str) -> slice:
        if coordinates.url not in self._values:
            self._values[coordinates.url] = await coordinates[...].read()
        return resolve_coordinates(part, self._values[coordinates.url], coordinates.attrs, name=name)

    async def _find(self, path: str, name: str, length: int) -> Array | None:
        """Return the one-dimensional array of this name and length beside the array at `path`, or in a group above."""
        group = path
        while group:
            group = group.rpartition("/")[0]
            node = self._nodes.get(key_prefix(group) + name)
            if isinstance(node, Array) and node.shape == (length,):
                return node
        if (name, length) not in self._above:
            self._above[name, length] = await self._find_above(name, length)
        return self._above[name, length]

    async def _find_above(self, name: str, length: int) -> Array | None:
        """Return the array in the nearest group above the root that has it."""

        async def load(access: NodeAccess) -> tuple[Store, str, ArrayMetadata] | None:
            store = child_store(access.store, access.path)
            return await load_array_above(access.engine, store, name, length, access.settings)

        root = self._nodes[""]
        found = await run_on_io_thread(root, load)
        return None if found is None else Array(*found, HandleOptions(root.settings, "r"))
