"""A read: elements of one array, and their output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.plan.plan import parts_of
from aiozarr.engine.request.share_key import InternedKey
from aiozarr.fork_safe_cached_property import fork_safe_cached_property
from aiozarr.grid import DimensionMap, Fields
from aiozarr.grid.projection import ChunkSelections
from aiozarr.stores.contract import Store


@dataclass(frozen=True, eq=False)
class Read:
    """Elements of one array and where they go.

    Attributes:
        prefix: the array's keys begin with it; `""` or ending with `/`.
        maps: the elements, one map per dimension of the array, and of `fields` behind them.
        out: an array of the core shape: `core_shape_of` the maps.
        fields: the part of each element that is wanted; None for all of it.
        fresh: the contiguous array behind `out` if it is new: its memory has not been touched yet.
    """

    layout: ArrayLayout
    store: Store
    prefix: str
    maps: tuple[DimensionMap, ...]
    out: NDArray[Any]
    fields: Fields | None = None
    fresh: NDArray[Any] | None = None

    @fork_safe_cached_property
    def token(self) -> InternedKey:
        """The common part of the ids of this array's chunks, by which readers share them."""
        return InternedKey((self.store.identity, self.layout.token))

    @fork_safe_cached_property
    def parts(self) -> ChunkSelections:
        """The stored objects that are touched; where `takes_long(maps)`, a worker has to be the first to ask."""
        return parts_of(self.layout, self.maps, self.fields)
