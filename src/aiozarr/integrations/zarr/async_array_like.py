"""An array with the methods of zarr-python's `AsyncArray` that other libraries call. It imports no zarr-python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from aiozarr.grid.transform import BasicSelection
from aiozarr.hierarchy import Array
from aiozarr.hierarchy.internal import copy_json


@dataclass(frozen=True)
class AsyncArrayMetadata:
    """The metadata that `AsyncArrayLike.metadata` shows.

    Attributes:
        dimension_names: one name or None per dimension; empty if the array has no names.
        fill_value: the value of missing chunks; None if format 2 stores none.
    """

    dimension_names: tuple[str | None, ...]
    fill_value: Any


class AsyncArrayLike:
    """An `aiozarr.Array` for libraries that read zarr-python's `AsyncArray` by duck typing, such as rio-tiler.

    `rio_tiler.experimental.zarr.AsyncArrayReader(AsyncArrayLike(array), crs=..., transform=...)` reads tiles through
    aiozarr: one schedule for each tile, on the loop of the caller, and cancelled with it.

    Args:
        array: the array, which its owner closes.
    """

    def __init__(self, array: Array) -> None:
        self._array = array

    def __repr__(self) -> str:
        return f"AsyncArrayLike({self._array!r})"

    @property
    def name(self) -> str:
        """The path of the array with a slash before it, as zarr-python writes names."""
        return f"/{self._array.path}"

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._array.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements in memory."""
        return self._array.dtype

    @property
    def attrs(self) -> dict[str, Any]:
        """A copy of the attributes. rio-tiler changes lists in them."""
        return dict(copy_json(self._array.metadata.attributes))

    @property
    def metadata(self) -> AsyncArrayMetadata:
        """Names of the dimensions, and the fill value."""
        fill_value = self._array.fill_value if self._array.metadata.has_fill_value else None
        return AsyncArrayMetadata(self._array.dimension_names or (), fill_value)

    async def getitem(self, selection: BasicSelection) -> Any:
        """Return the values that integers and slices select."""
        return await self._array[selection]

    async def get_orthogonal_selection(self, selection: Any) -> Any:
        """Return the values that lists, masks, integers and slices select, axis by axis."""
        return await self._array.oindex[selection]
