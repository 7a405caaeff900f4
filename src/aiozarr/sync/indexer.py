"""The blocking `oindex`, `vindex` and `blocks` of an array: brackets that read and write."""

from __future__ import annotations

from collections.abc import Callable

from numpy.typing import ArrayLike

from aiozarr.grid import ArraySelection
from aiozarr.hierarchy.view import AnyArray
from aiozarr.sync.view import View


class ArrayIndexer:
    """`indexer[selection]` reads, `indexer[selection] = values` writes."""

    __slots__ = ("_select",)

    # Without this, Python would try indexer[0], indexer[1], ... as it does for whatever can be indexed.
    __iter__ = None

    def __init__(self, select: Callable[[ArraySelection], View]) -> None:
        self._select = select

    def __getitem__(self, selection: ArraySelection) -> AnyArray:
        """Read a selection: an array, or a numpy scalar where nothing but one element is selected.

        Raises:
            SelectionError: the selection does not fit; also an `IndexError`.
            StoreError, CodecError, MissingChunkError, LimitError: as `aiozarr.View.read`.
        """
        return self._select(selection).read()

    def __setitem__(self, selection: ArraySelection, values: ArrayLike) -> None:
        """Write values to a selection; of elements that it names repeatedly, the last value stays.

        Errors are those of `aiozarr.View.write`.
        """
        self._select(selection).write(values)
