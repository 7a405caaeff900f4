"""A read: elements of one array, and their output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.plan.projections import parts_of
from aiozarr.engine.request.in_flight import InternedKey
from aiozarr.grid.projection import SizedSelections
from aiozarr.grid.transform import DimensionMap
from aiozarr.stores.contract import Store

if TYPE_CHECKING:
    from aiozarr.engine.plan.listed_chunks import ListedChunks
    from aiozarr.grid.fields import Fields

MAX_OUT_BYTES = 256 << 10
"""Elements of an immediate read: copying them takes at most 0.1 ms, in which the caller's loop does nothing else."""


@dataclass(frozen=True, eq=False)
class Read:
    """Elements of one array and where they go.

    Attributes:
        prefix: the array's keys begin with it; `""` or ending with `/`.
        maps: the elements, one map per dimension of the array, and of `fields` behind them.
        out: an array of the core shape: `core_shape_of` the maps.
        fields: the part of each element that is wanted; None for all of it.
        fresh: the contiguous array behind `out` if it is new: its memory has not been touched yet.
        missing: receives the keys of the objects that are not stored, if the caller wants to know them.
        listed: the chunks, in place of `maps`, if the caller lists them.
    """

    layout: ArrayLayout
    store: Store
    prefix: str
    maps: tuple[DimensionMap, ...]
    out: NDArray[Any]
    fields: Fields | None = None
    fresh: NDArray[Any] | None = None
    missing: set[str] | None = None
    listed: ListedChunks | None = None

    @classmethod
    def of_listed(
        cls, store: Store, chunks: ListedChunks, out: NDArray[Any], *, fresh: NDArray[Any] | None = None
    ) -> Self:
        """Return the read of listed chunks. Afterwards `missing` has the keys of those that are not stored."""
        return cls(chunks.layout, store, "", (), out, fresh=fresh, missing=set(), listed=chunks)

    @fork_safe_cached_property
    def token(self) -> InternedKey:
        """The common part of the ids of this array's chunks, by which readers share them."""
        return InternedKey((self.store.identity, self.layout.token))

    @fork_safe_cached_property
    def parts(self) -> SizedSelections:
        """The stored objects that the read touches. If the maps are expensive, a worker computes this first."""
        return parts_of(self.layout, self.maps, self.fields) if self.listed is None else self.listed
