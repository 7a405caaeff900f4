"""What a read is asked for: elements of one array, and where they go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from aiozarr.engine.layout import ArrayLayout
from aiozarr.engine.plan.plan import parts_of
from aiozarr.engine.request.flight import Token
from aiozarr.grid import DimensionMap, Fields
from aiozarr.grid.projection import Parts
from aiozarr.stores.contract import Store


@dataclass(frozen=True, eq=False)
class Read:
    """Elements of one array and where they go.

    Attributes:
        prefix: the array's keys begin with it; `""` or ending with `/`.
        maps: the elements, one map per dimension of the array, and of `fields` behind them.
        out: an array of the core shape: `core_shape_of` the maps.
        fields: the part of each element that is wanted; None: all of it.
        fresh: the contiguous array behind `out` where it is new, so that nobody has touched its memory yet.
    """

    layout: ArrayLayout
    store: Store
    prefix: str
    maps: tuple[DimensionMap, ...]
    out: NDArray[Any]
    fields: Fields | None = None
    fresh: NDArray[Any] | None = None

    @property
    def token(self) -> Token:
        """What the chunks of this array have in common for readers who share them."""
        # Not functools.cached_property: before Python 3.12 it takes a lock, which a fork leaves locked in the child.
        made: Token | None = self.__dict__.get("_token")
        if made is None:
            made = self.__dict__["_token"] = Token((self.store.identity, self.layout.token))
        return made

    @property
    def parts(self) -> Parts:
        """The stored objects that are touched; where `takes_long(maps)`, a worker has to be the first to ask."""
        # Not functools.cached_property: before Python 3.12 it takes a lock, which a fork leaves locked in the child.
        made: Parts | None = self.__dict__.get("_parts")
        if made is None:
            made = self.__dict__["_parts"] = parts_of(self.layout, self.maps, self.fields)
        return made
