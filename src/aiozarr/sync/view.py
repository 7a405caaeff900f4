"""The blocking view: the asynchronous one, waited for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from aiozarr import hierarchy
from aiozarr.engine import Plan
from aiozarr.grid import BasicSelection
from aiozarr.hierarchy.indexer import Indexer
from aiozarr.hierarchy.values.written import convert_values
from aiozarr.hierarchy.view import AnyArray, FieldSelection, Region
from aiozarr.sync.wait import ProgressCallback, iterate, same, wait

if TYPE_CHECKING:
    from aiozarr.sync.array import Array


class View:
    """Elements of an array, as numpy's indexing selects them; see `aiozarr.View`. `view.read()` reads them."""

    __slots__ = ("_array", "_async")

    # Without this, Python would try view[0], view[1], ... as it does for whatever can be indexed.
    __iter__ = None

    def __init__(self, array: Array, view: hierarchy.View) -> None:
        self._array = array
        self._async = view

    @property
    def array(self) -> Array:
        """The array that this is a view of."""
        return self._array

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the view's axes."""
        return self._async.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._async.ndim

    @property
    def size(self) -> int:
        """Number of elements; exact at any size."""
        return self._async.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements in memory."""
        return self._async.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in memory."""
        return self._async.nbytes

    def __getitem__(self, selection: BasicSelection | FieldSelection) -> View:
        """Return a view of this view, without I/O."""
        return View(self._array, self._async[selection])

    @property
    def oindex(self) -> Indexer[View]:
        """Orthogonal indexing: `view.oindex[selection]` is a view; see `aiozarr.View.oindex`."""
        return Indexer(lambda selection: View(self._array, self._async.oindex[selection]))

    @property
    def vindex(self) -> Indexer[View]:
        """Pointwise indexing: `view.vindex[selection]` is a view; see `aiozarr.View.vindex`."""
        return Indexer(lambda selection: View(self._array, self._async.vindex[selection]))

    def read(self, out: AnyArray | None = None, progress: ProgressCallback | None = None) -> AnyArray:
        """Read the elements; arguments and errors are those of `aiozarr.View.read`. `progress` runs in this thread."""
        return wait(lambda callback: self._async.read(out, callback), progress)

    def write(self, values: ArrayLike, progress: ProgressCallback | None = None) -> None:
        """Write `values`; arguments and errors are those of `aiozarr.View.write`. `progress` runs in this thread."""
        # What numpy makes of them is made in this thread: making it may run anyone's code, and that may call us again.
        converted = convert_values(values, self.dtype)
        wait(lambda callback: self._async.write(converted, callback), progress)

    def plan(self, *, probe: bool = False) -> Plan:
        """Return what a read of this view costs: bounds without I/O, or exactly with `probe=True`."""
        return wait(lambda _: self._async.plan(probe=True)) if probe else self._async.plan()

    def stream(self, prefetch: int | None = None) -> Iterator[tuple[Region, AnyArray]]:
        """Iterate over the blocks of the view as they land; arguments are those of `aiozarr.View.stream`."""
        return iterate(self._async.stream(prefetch), same)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return as_numpy(self, dtype, copy)

    def __repr__(self) -> str:
        return f"<aiozarr.sync.View {self.shape} {self.dtype} of {self._array.url}>"


def as_numpy(view: View, dtype: Any, copy: bool | None) -> AnyArray:
    """Return the elements for numpy's array protocol, as a 0-d array where there are no axes.

    Raises:
        ValueError: `copy` is False: what is stored is not in memory.
    """
    if copy is False:
        raise ValueError("the values are not in memory: reading them makes a copy")
    values = np.asarray(view.read())
    return values if dtype is None else values.astype(dtype, copy=False)
