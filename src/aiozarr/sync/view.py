"""The blocking view: each method runs that of the asynchronous view and waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from aiozarr import hierarchy
from aiozarr.engine import Plan
from aiozarr.engine.progress_bar import ProgressLike
from aiozarr.grid import BasicSelection
from aiozarr.hierarchy.casting.numeric import Casting
from aiozarr.hierarchy.casting.values import convert_values
from aiozarr.hierarchy.indexer import Indexer
from aiozarr.hierarchy.unread_values import UnreadValues
from aiozarr.hierarchy.view import AnyArray, FieldSelection, Region
from aiozarr.sync.wait import iterate, unchanged, wait

if TYPE_CHECKING:
    from aiozarr.sync.array import Array


class View(UnreadValues):
    """Elements of an array, as numpy's indexing selects them; see `aiozarr.View`. `view.read()` reads them."""

    __slots__ = ("_array", "_async")

    if TYPE_CHECKING:
        __iter__ = None
    else:
        __iter__ = UnreadValues._refuse_iteration

    def __init__(self, array: Array, view: hierarchy.View) -> None:
        self._array = array
        self._async = view

    @property
    def array(self) -> Array:
        """The array of the view."""
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
        """Number of elements, as an unbounded integer."""
        return self._async.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements in memory."""
        return self._async.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in memory."""
        return self._async.nbytes

    def __len__(self) -> int:
        return len(self._async)

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

    def read(self, out: AnyArray | None = None, progress: ProgressLike = None) -> AnyArray:
        """Read the elements; arguments and errors are those of `aiozarr.View.read`. `progress` runs in this thread."""
        view = self._async
        may_be_immediate = progress is None and view._may_read_immediately()
        found = view._read_immediately(out) if may_be_immediate else None
        return wait(lambda callback: self._async.read(out, callback), progress) if found is None else found

    def write(self, values: ArrayLike, progress: ProgressLike = None, casting: Casting = "exact") -> None:
        """Write `values`; arguments and errors are those of `aiozarr.View.write`. `progress` runs in this thread."""
        # Cast in this thread: the cast may run user code, which may call this package again.
        converted = convert_values(values, self.dtype, casting, is_element=self._async._scalar)
        wait(lambda callback: self._async.write(converted, callback), progress)

    def plan(self, *, probe: bool = False) -> Plan:
        """Return the cost of reading this view: bounds without I/O, or exact with `probe=True`."""
        return wait(lambda _: self._async.plan(probe=True)) if probe else self._async.plan()

    def stream(self, prefetch: int | None = None) -> Iterator[tuple[Region, AnyArray]]:
        """Iterate over the blocks of the view as they complete; arguments are those of `aiozarr.View.stream`."""
        return iterate(self._async.stream(prefetch), unchanged)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return as_numpy(self, dtype, copy)

    def __repr__(self) -> str:
        return f"<aiozarr.sync.View {self.shape} {self.dtype} of {self._array.url}; .read() reads it>"


def as_numpy(view: View, dtype: Any, copy: bool | None) -> AnyArray:
    """Return the elements for numpy's array protocol, as a 0-d array where there are no axes.

    Raises:
        ValueError: `copy` is False, and reading always copies.
    """
    if copy is False:
        raise ValueError("the values are not in memory: reading them makes a copy")
    values = np.asarray(view.read())
    return values if dtype is None else values.astype(dtype, copy=False)
