"""A checker of histories: whether reads and writes of the cells of an array happened as if one after the other.

An operation takes effect at one moment between its beginning and its end. A change that was not acknowledged takes
effect in that time or never. What is checked is necessary for that, and sufficient for single cells with different
values (Gibbons and Korach, "Testing shared memories", 1997).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Cell: TypeAlias = tuple[int, ...]


@dataclass(eq=False)
class Change:
    """A write of `value` to a region.

    Attributes:
        region: the cells.
        value: the new value of all of them. Values other than 0 are written once.
        started, ended: moments, of which no two are equal.
        is_acknowledged: whether it ended without an error.
    """

    region: tuple[slice, ...]
    value: int
    started: int
    ended: float = inf
    is_acknowledged: bool = False


@dataclass(eq=False)
class Observation:
    """A read that returned `values` of a region. A stream may return elements of several versions of one object."""

    region: tuple[slice, ...]
    values: NDArray[Any]
    started: int
    ended: int
    is_stream: bool = False


@dataclass
class History:
    """The operations of one array that held 0 everywhere.

    Attributes:
        object_shape: the shape of a stored object, which is replaced and read as a whole.
        changes, observations: the operations, in any order.
    """

    object_shape: tuple[int, ...] = ()
    changes: list[Change] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)

    def check(self) -> None:
        """Check every cell.

        Raises:
            AssertionError: an acknowledged change was lost, or a read returned what was never written or overwritten.
        """
        changes: dict[Cell, list[Change]] = defaultdict(list)
        for change in self.changes:
            for cell in _cells(change.region):
                changes[cell].append(change)
        reads: dict[Cell, list[tuple[int, Observation]]] = defaultdict(list)
        for read in self.observations:
            for cell, value in zip(_cells(read.region), read.values.flat, strict=True):
                reads[cell].append((int(value), read))
        for cell, seen in reads.items():
            _check_cell(cell, changes[cell], seen)
        written = {change.value: change for change in self.changes if change.value}
        for read in self.observations:
            if not read.is_stream:
                self._check_objects(read, written)

    def _check_objects(self, read: Observation, written: dict[int, Change]) -> None:
        """Check that no object shows one change next to what that change has replaced."""
        objects: dict[Cell, dict[Cell, Change]] = defaultdict(dict)
        for cell, value in zip(_cells(read.region), read.values.flat, strict=True):
            if value:
                place = tuple(n // length for n, length in zip(cell, self.object_shape, strict=True))
                objects[place][cell] = written[int(value)]
        for cells in objects.values():
            shown = set(cells.values())
            for cell, change in cells.items():
                for other in shown:
                    is_replaced = change.ended < other.started and _contains(other.region, cell)
                    assert not is_replaced, f"{cell} is {change.value} beside {other.value}, which has replaced it"


def _check_cell(cell: Cell, changes: list[Change], reads: list[tuple[int, Observation]]) -> None:
    beginning = Change((), 0, -1, -1, is_acknowledged=True)
    # When a change has taken effect at the latest: at its end, or at the end of a read that has returned its value.
    effective = {change: change.ended if change.is_acknowledged else inf for change in changes}
    for value, read in reads:
        for change in changes:
            if change.value == value != 0:
                effective[change] = min(effective[change], read.ended)
    for value, read in reads:
        sources = [each for each in (beginning, *changes) if each.value == value and each.started < read.ended]
        assert sources, f"{cell} is {value}, which was never written there"
        overwritten_by = [
            [each.value for each in changes if each.started > source.ended and effective[each] < read.started]
            for source in sources
        ]
        assert not all(overwritten_by), f"{cell} is {value}, which was overwritten by {overwritten_by[-1][0]}"
    _check_order(cell, changes, reads)


def _check_order(cell: Cell, changes: list[Change], reads: list[tuple[int, Observation]]) -> None:
    """Check that no two values take turns. The zone of a value lies between its first end and its last beginning."""
    zones = []
    for change in changes:
        operations = [(read.started, float(read.ended)) for value, read in reads if value == change.value]
        if change.value == 0 or not (operations or change.is_acknowledged):
            continue
        operations.append((change.started, change.ended))
        zones.append((min(end for _, end in operations), max(start for start, _ in operations), change.value))
    forward = sorted(zone for zone in zones if zone[0] < zone[1])
    for first, second in pairwise(forward):
        assert second[0] > first[1], f"{cell} is {first[2]} and {second[2]} in turn"
    for end, start, value in (zone for zone in zones if zone[0] >= zone[1]):
        inside = [each for low, high, each in forward if low < start and end < high]
        assert not inside, f"{cell} is {inside[0]}, then {value}, then {inside[0]} again"


def _contains(region: tuple[slice, ...], cell: Cell) -> bool:
    return all(part.start <= n < part.stop for part, n in zip(region, cell, strict=True))


def _cells(region: Iterable[slice]) -> Iterator[Cell]:
    ranges = [np.arange(each.start, each.stop) for each in region]
    return zip(*(axis.ravel().tolist() for axis in np.meshgrid(*ranges, indexing="ij")), strict=True)
