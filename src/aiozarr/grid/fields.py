"""Fields of structured elements: which part of each element a view means, and how it is moved to and from chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from aiozarr.errors import SelectionError
from aiozarr.grid.axes import RegularAxis
from aiozarr.grid.projection import AnyArray, CoreRegion, Part, Parts

FieldNames: TypeAlias = str | tuple[str, ...]
"""The name of a field, or the names of several."""


@dataclass(frozen=True)
class Fields:
    """A part of each element, reached by one step or several.

    Attributes:
        path: the steps; several names keep a structure of these fields.
        dtype: what is there.
        shape: of the sub-arrays on the way, outermost first: dimensions that each element has behind the array's own.
    """

    path: tuple[FieldNames, ...]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, dtype: np.dtype[Any], names: FieldNames, before: Fields | None = None) -> Fields:
        """Return the field `names` of elements of `dtype`, which are themselves the fields `before` of others.

        Raises:
            SelectionError: there is no such field, or a name is repeated.
        """
        for name in (names,) if isinstance(names, str) else names:
            if dtype.names is None:
                raise SelectionError(f"there is no field {name!r}: the elements are {dtype}, which has no fields")
            if name not in dtype.names:
                raise SelectionError(f"there is no field {name!r}; there are {', '.join(map(repr, dtype.names))}")
        if not isinstance(names, str) and len(set(names)) != len(names):
            raise SelectionError(f"a field is named twice in {list(names)}")
        found: np.dtype[Any] = dtype[names if isinstance(names, str) else list(names)]
        path, shape = ((), ()) if before is None else (before.path, before.shape)
        return cls((*path, names), found.base, shape + found.shape)

    def view(self, array: AnyArray) -> AnyArray:
        """Return these fields of the elements of `array`, as a view; their own dimensions are the last."""
        for step in self.path:
            array = array[step if isinstance(step, str) else list(step)]
        return array


class FieldPart:
    """A chunk of which fields are selected. A `Part`; `inner` is the one of the chunk of fields."""

    __slots__ = ("_fields", "_inner", "_ndim")

    def __init__(self, inner: Part, fields: Fields, ndim: int) -> None:
        self._inner = inner
        self._fields = fields
        self._ndim = ndim

    @property
    def elements(self) -> Part:
        """The part with the dimensions of the fields behind those of the chunk."""
        return self._inner

    @property
    def coords(self) -> tuple[int, ...]:
        """The chunk's index in the grid."""
        return self._inner.coords[: self._ndim]

    @property
    def extents(self) -> tuple[int, ...]:
        """How many elements of the chunk lie inside the array, per dimension."""
        return self._inner.extents[: self._ndim]

    @property
    def size(self) -> int:
        """Number of selected fields."""
        return self._inner.size

    @property
    def listed(self) -> int:
        """How many points index arrays list here."""
        return self._inner.listed

    @property
    def whole(self) -> bool:
        """False: the other fields stay."""
        return False

    def whole_window(self, out: AnyArray, shape: tuple[int, ...]) -> None:
        """Return None: a chunk holds more than its fields."""

    def window(self, out: AnyArray) -> None:
        """Return None: no chunk can be decoded into fields alone."""

    def gather(self, chunk: AnyArray) -> AnyArray:
        """Return the selected fields of `chunk`."""
        return self._inner.gather(self._fields.view(chunk))

    def scatter(self, out: AnyArray, part: AnyArray) -> None:
        """Put what `gather` has returned to its places in `out`."""
        self._inner.scatter(out, part)

    def fill(self, out: AnyArray, value: AnyArray) -> None:
        """Put the fields of `value`, a 0-d array of the chunk's type, to all these places in `out`."""
        # As from a chunk: of a sub-array the selection may want some elements only.
        chunk = np.broadcast_to(self._fields.view(value), self._inner.extents)
        self._inner.scatter(out, self._inner.gather(chunk))

    def take(self, values: AnyArray) -> AnyArray:
        """Return the elements that are at these places in `values`."""
        return self._inner.take(values)

    def put(self, chunk: AnyArray, part: AnyArray) -> None:
        """Put what `take` has returned into the fields of `chunk`."""
        self._inner.put(self._fields.view(chunk), part)

    def within(self, axes: Sequence[RegularAxis]) -> FieldParts:
        """Return the inner chunks that are touched; `axes` are those of the inner grid."""
        own = [RegularAxis(length, length) for length in self._fields.shape]
        return FieldParts(self._inner.within([*axes, *own]), self._fields, self._ndim)

    def detached(self) -> tuple[tuple[int, ...], CoreRegion, FieldPart]:
        """Return the shape of an array for these elements alone, its place in the output, and the part for it."""
        shape, region, inner = self._inner.detached()
        return shape, region, FieldPart(inner, self._fields, self._ndim)

    def __repr__(self) -> str:
        return f"FieldPart({self._fields.path}, {self._inner!r})"


class FieldParts:
    """The chunks that a selection of fields touches.

    Args:
        inner: the chunks of a grid with the dimensions of the fields behind the array's.
        fields: which.
        ndim: number of dimensions of the array.
    """

    def __init__(self, inner: Parts, fields: Fields, ndim: int) -> None:
        self._inner = inner
        self._fields = fields
        self._ndim = ndim

    def __len__(self) -> int:
        return len(self._inner)

    def __iter__(self) -> Iterator[FieldPart]:
        return (FieldPart(each, self._fields, self._ndim) for each in self._inner)

    def numbered(self, grid_shape: Sequence[int]) -> Iterator[tuple[int, FieldPart]]:
        """Yield each part with its chunk's linear index, in C order, in a grid of `grid_shape`."""
        # Along its own dimensions a field lies in one chunk.
        ones = (1,) * len(self._fields.shape)
        for number, each in self._inner.numbered((*grid_shape, *ones)):
            yield number, FieldPart(each, self._fields, self._ndim)
