"""The arguments of a write: values, and the elements of one array that receive them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.plan.plan import parts_of
from aiozarr.fork_safe_cached_property import fork_safe_cached_property
from aiozarr.grid import DimensionMap, Fields
from aiozarr.grid.projection import ChunkSelections
from aiozarr.stores.contract import Store


@dataclass(frozen=True, eq=False)
class Write:
    """Values for elements of one array.

    Attributes:
        prefix: the prefix of the array's keys: `""`, or ending with `/`.
        maps: the elements: one map per dimension of the array, followed by those of `fields`.
        values: broadcast to the core shape: `core_shape_of` the maps. They are cast to the array's type as numpy's
            assignment does.
        fields: the fields of each element that are written, or None for all.
    """

    layout: ArrayLayout
    store: Store
    prefix: str
    maps: tuple[DimensionMap, ...]
    values: NDArray[Any]
    fields: Fields | None = None

    @fork_safe_cached_property
    def parts(self) -> ChunkSelections:
        """The stored objects that are touched, as `Read.parts`."""
        return parts_of(self.layout, self.maps, self.fields)
