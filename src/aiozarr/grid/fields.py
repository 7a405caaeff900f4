"""Fields of structured elements: their selection in a view, and their projection onto chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from aiozarr.errors import SelectionError
from aiozarr.grid.axes import RegularAxis
from aiozarr.grid.projection import AnyArray, ChunkSelection, ChunkSelections, CoreRegion

FieldNames: TypeAlias = str | tuple[str, ...]
"""The name of a field, or the names of several."""


@dataclass(frozen=True)
class Fields:
    """Selected fields of each element, nested in one or more steps.

    Attributes:
        path: the steps. A tuple of names keeps a structure of these fields.
        dtype: the type of the selected fields.
        shape: shapes of the sub-arrays along the path, outermost first. They follow the dimensions of the array.
    """

    path: tuple[FieldNames, ...]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, dtype: np.dtype[Any], names: FieldNames, before: Fields | None = None) -> Fields:
        """Return the fields `names` of elements of `dtype`. `before` is the path to these elements, if they are fields.

        Raises:
            SelectionError: an unknown field, or a repeated name.
        """
        for name in (names,) if isinstance(names, str) else names:
            if dtype.names is None:
                raise SelectionError(f"there is no field {name!r}: the elements are {dtype}, without fields")
            if name not in dtype.names:
                raise SelectionError(f"there is no field {name!r}; the fields are {', '.join(map(repr, dtype.names))}")
        if not isinstance(names, str) and len(set(names)) != len(names):
            raise SelectionError(f"duplicate field in {list(names)}")
        found: np.dtype[Any] = dtype[names if isinstance(names, str) else list(names)]
        path, shape = ((), ()) if before is None else (before.path, before.shape)
        return cls((*path, names), found.base, shape + found.shape)

    def view(self, array: AnyArray) -> AnyArray:
        """Return the fields of the elements of `array` as a view. Dimensions of sub-arrays are the last."""
        for step in self.path:
            array = array[step if isinstance(step, str) else list(step)]
        return array


class FieldProjection:
    """A `ChunkSelection` of fields. `inner` selects from the chunk of these fields."""

    __slots__ = ("_fields", "_inner", "_ndim")

    def __init__(self, inner: ChunkSelection, fields: Fields, ndim: int) -> None:
        self._inner = inner
        self._fields = fields
        self._ndim = ndim

    @property
    def elements(self) -> ChunkSelection:
        """The selection with the dimensions of the fields after those of the chunk."""
        return self._inner

    @property
    def coords(self) -> tuple[int, ...]:
        """Index of the chunk in the grid."""
        return self._inner.coords[: self._ndim]

    @property
    def extents(self) -> tuple[int, ...]:
        """Number of elements of the chunk inside the array, per dimension."""
        return self._inner.extents[: self._ndim]

    @property
    def size(self) -> int:
        """Number of selected fields."""
        return self._inner.size

    @property
    def point_count(self) -> int:
        """Number of points of index arrays in this chunk."""
        return self._inner.point_count

    @property
    def is_complete(self) -> bool:
        """False: a write keeps the other fields."""
        return False

    def whole_window(self, out: AnyArray, shape: tuple[int, ...]) -> None:
        """Return None, because a chunk has more than the selected fields."""

    def window(self, out: AnyArray) -> None:
        """Return None, because a chunk cannot be decoded into single fields."""

    def gather(self, chunk: AnyArray) -> AnyArray:
        """Return the selected fields of `chunk`."""
        return self._inner.gather(self._fields.view(chunk))

    def scatter(self, out: AnyArray, elements: AnyArray) -> None:
        """Write the result of `gather` to its positions in `out`."""
        self._inner.scatter(out, elements)

    def fill(self, out: AnyArray, value: AnyArray) -> None:
        """Write the fields of `value`, a 0-d array of the type of the chunk, to all their positions in `out`."""
        # Broadcast to a chunk: the selection may contain some elements of a sub-array only.
        chunk = np.broadcast_to(self._fields.view(value), self._inner.extents)
        self._inner.scatter(out, self._inner.gather(chunk))

    def take(self, values: AnyArray) -> AnyArray:
        """Return the elements of `values` at the positions of the selection."""
        return self._inner.take(values)

    def put(self, chunk: AnyArray, elements: AnyArray) -> None:
        """Write the result of `take` into the fields of `chunk`."""
        self._inner.put(self._fields.view(chunk), elements)

    def inner_chunks(self, axes: Sequence[RegularAxis]) -> FieldProjections:
        """Return the selections of the touched inner chunks. `axes` are those of the inner grid."""
        own = [RegularAxis(length, length) for length in self._fields.shape]
        return FieldProjections(self._inner.inner_chunks([*axes, *own]), self._fields, self._ndim)

    def rebased(self) -> tuple[tuple[int, ...], CoreRegion, FieldProjection]:
        """Return the selection for an output of these elements alone.

        Returns: the shape of that output, its region in the full output, and the selection.
        """
        shape, region, inner = self._inner.rebased()
        return shape, region, FieldProjection(inner, self._fields, self._ndim)

    def __repr__(self) -> str:
        return f"FieldPart({self._fields.path}, {self._inner!r})"


class FieldProjections:
    """The chunks that a selection of fields touches.

    Args:
        inner: the projection onto a grid with the dimensions of the fields after those of the array.
        fields: the selected fields.
        ndim: number of dimensions of the array.
    """

    def __init__(self, inner: ChunkSelections, fields: Fields, ndim: int) -> None:
        self._inner = inner
        self._fields = fields
        self._ndim = ndim

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Iterator[FieldProjection]:
        return (FieldProjection(each, self._fields, self._ndim) for each in self._inner)

    def numbered(self, grid_shape: Sequence[int]) -> Iterator[tuple[int, FieldProjection]]:
        """Yield the linear index of each chunk in a grid of `grid_shape`, in C order, and its selection."""
        # A field has one chunk along its own dimensions.
        ones = (1,) * len(self._fields.shape)
        for number, each in self._inner.numbered((*grid_shape, *ones)):
            yield number, FieldProjection(each, self._fields, self._ndim)
