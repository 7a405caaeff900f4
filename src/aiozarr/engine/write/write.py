"""What a write is asked for: values, and the elements of one array that they are for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.plan.plan import parts_of
from aiozarr.grid import DimensionMap, Fields
from aiozarr.grid.projection import Parts
from aiozarr.stores.contract import Store


@dataclass(frozen=True, eq=False)
class Write:
    """Values for elements of one array.

    Attributes:
        prefix: the array's keys begin with it; `""` or ending with `/`.
        maps: the elements, one map per dimension of the array, and of `fields` behind them.
        values: broadcast to the core shape: `core_shape_of` the maps. They are cast to the array's type as numpy's
            assignment does.
        fields: the part of each element that is written; None: all of it.
    """

    layout: ArrayLayout
    store: Store
    prefix: str
    maps: tuple[DimensionMap, ...]
    values: NDArray[Any]
    fields: Fields | None = None

    @property
    def parts(self) -> Parts:
        """The stored objects that are touched; as `Read.parts`."""
        # Not functools.cached_property: before Python 3.12 it takes a lock, which a fork leaves locked in the child.
        made: Parts | None = self.__dict__.get("_parts")
        if made is None:
            made = self.__dict__["_parts"] = parts_of(self.layout, self.maps, self.fields)
        return made
