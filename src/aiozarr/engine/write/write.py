"""The arguments of a write: values, and the elements of one array that receive them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import NDArray

from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.plan.listed_chunks import ListedChunks
from aiozarr.engine.plan.plan import parts_of
from aiozarr.fork_safe_cached_property import fork_safe_cached_property
from aiozarr.grid import DimensionMap, Fields, core_shape_of
from aiozarr.grid.projection import SizedSelections
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
        stores_empty: whether chunks of fill values are stored. False: they are erased. None: they are stored if they
            were before, or if the metadata have no fill value.
        is_guarded: True to warn if the store cannot guard partial writes against other processes.
        listed: the chunks, in place of `maps`, if the caller lists them.
    """

    layout: ArrayLayout
    store: Store
    prefix: str
    maps: tuple[DimensionMap, ...]
    values: NDArray[Any]
    fields: Fields | None = None
    stores_empty: bool | None = None
    is_guarded: bool = True
    listed: ListedChunks | None = None

    @classmethod
    def of_listed(cls, store: Store, chunks: ListedChunks, values: NDArray[Any], *, stores_empty: bool) -> Self:
        """Return the write of listed chunks.

        A library that lists chunks has its own rule of empty ones. Its users know that one of two processes that write
        parts of a chunk may lose: nothing is warned of.
        """
        return cls(chunks.layout, store, "", (), values, stores_empty=stores_empty, is_guarded=False, listed=chunks)

    @property
    def core_shape(self) -> tuple[int, ...]:
        """The shape that `values` are broadcast to."""
        if self.listed is None:
            return core_shape_of(self.maps)
        return self.values.shape or self.listed.output_extents

    @fork_safe_cached_property
    def parts(self) -> SizedSelections:
        """The stored objects that are touched, as `Read.parts`."""
        return parts_of(self.layout, self.maps, self.fields) if self.listed is None else self.listed
