"""The array of a variable that is not read yet, for xarray's lazy indexing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.coding.strings import create_vlen_dtype
from xarray.core import indexing

from aiozarr import hierarchy
from aiozarr.hierarchy import View
from aiozarr.hierarchy.internal import AnyArray
from aiozarr.sync.wait import wait

if TYPE_CHECKING:
    from collections.abc import Iterator

Corners = Mapping[tuple[int, ...], AnyArray]
"""Single elements by their indices: xarray looks at the first and the last one of each time variable."""


_TEXT: np.dtype[Any] = create_vlen_dtype(str)  # type: ignore[no-untyped-call]  # xarray has no types for it


class _ViewFound(Exception):
    """Ends the evaluation of xarray's wrappers with the view that it would read."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.view = view


# Replaces the reading of a view while xarray's wrappers of a lazy array are evaluated in this context.
_read_instead: ContextVar[Callable[[View], AnyArray] | None] = ContextVar("aiozarr_xarray_read", default=None)


class LazyArray(BackendArray):
    """An array behind a lazy variable: indexing reads it, blocking or awaited.

    Args:
        array: the array.
        values: all its values, if they were read when the data set was opened.
        corners: its first and last element, if they were read then.
    """

    # Not `array`, because xarray considers an attribute of this name to be the array that a wrapper wraps.
    __slots__ = ("_corners", "_source", "_values", "dtype", "shape")

    def __init__(self, array: hierarchy.Array, values: AnyArray | None = None, corners: Corners | None = None) -> None:
        self._source = array
        self._values = values
        self._corners = corners or {}
        self.shape = array.shape
        self.dtype: np.dtype[Any] = _TEXT if is_text_object(array) else array.dtype

    @property
    def source(self) -> hierarchy.Array:
        """The array."""
        return self._source

    def __getitem__(self, key: indexing.ExplicitIndexer) -> AnyArray:
        found: AnyArray = self._adapted(key, indexing.explicit_indexing_adapter, self._read)
        return found

    async def async_getitem(self, key: indexing.ExplicitIndexer) -> AnyArray:
        """Read a selection without blocking the loop of the caller."""
        found: AnyArray = await self._adapted(key, indexing.async_explicit_indexing_adapter, self._async_read)
        return found

    def _adapted(self, key: indexing.ExplicitIndexer, adapter: Any, read: Any) -> Any:
        kind = type(key)
        return adapter(key, self.shape, indexing.IndexingSupport.VECTORIZED, lambda raw: read(kind, raw))

    def _read(self, kind: type[indexing.ExplicitIndexer], key: tuple[Any, ...]) -> AnyArray:
        known = self._known(kind, key)
        if known is not None:
            return known
        view = self._view(kind, key)
        replacement = _read_instead.get()
        if replacement is not None:
            return replacement(view)
        return wait(lambda _: view.read())

    async def _async_read(self, kind: type[indexing.ExplicitIndexer], key: tuple[Any, ...]) -> AnyArray:
        known = self._known(kind, key)
        return await self._view(kind, key) if known is None else known

    def _view(self, kind: type[indexing.ExplicitIndexer], key: tuple[Any, ...]) -> View:
        if issubclass(kind, indexing.VectorizedIndexer):
            return self._source.vindex[key]
        if issubclass(kind, indexing.OuterIndexer):
            return self._source.oindex[key]
        # With `...` the result is an array even if integers select one element, so that it keeps its type.
        return self._source[(*key, ...)]

    def _known(self, kind: type[indexing.ExplicitIndexer], key: tuple[Any, ...]) -> AnyArray | None:
        """Return the selected values if they are in memory."""
        if self._values is not None:
            return np.asarray(_select(self._values, kind, key))
        if not self._corners or not issubclass(kind, indexing.BasicIndexer):
            return None
        lengths = self.shape
        axes = [[each] if isinstance(each, int) else range(n)[each] for each, n in zip(key, lengths, strict=True)]
        if any(len(axis) != 1 for axis in axes):
            return None
        found = self._corners.get(tuple([axis[0] for axis in axes]))
        return None if found is None else found.reshape([1 for each in key if not isinstance(each, int)])

    def _repr_inline_(self, max_width: int) -> str:
        """Return the text for a line of a data set's representation. Makes no request."""
        text = str(self._source.metadata.data_type.name)
        return text if len(text) <= max_width else "..."

    def __repr__(self) -> str:
        return f"<LazyArray {self._source.url} {self.dtype} {self.shape}>"

    def __dask_tokenize__(self) -> tuple[object, ...]:
        return ("aiozarr.LazyArray", self._source.url, hash(self._source.metadata), self.shape)

    def __reduce__(self) -> tuple[Any, ...]:
        return (LazyArray, (self._source, self._values, self._corners))


def _select(values: AnyArray, kind: type[indexing.ExplicitIndexer], key: tuple[Any, ...]) -> Any:
    """Return a selection of values in memory, by the rules of this kind of key."""
    if issubclass(kind, indexing.VectorizedIndexer) or not issubclass(kind, indexing.OuterIndexer):
        return values[key]
    for axis, each in reversed(list(enumerate(key))):
        values = values[(*[slice(None)] * axis, each)]
    return values


def is_text_object(array: hierarchy.Array) -> bool:
    """Return whether the elements are Python objects that are all texts."""
    if array.dtype.kind != "O":
        return False
    names = {codec.name for codec in array.metadata.codecs}
    if names & {"vlen-utf8", "numcodecs.vlen-utf8"} or array.metadata.data_type.name in ("string", "str"):
        return True
    filters = [each for codec in array.metadata.codecs for each in codec.configuration.get("filters") or ()]
    return any(isinstance(each, Mapping) and each.get("id") == "vlen-utf8" for each in filters)


def pending_view(data: Any) -> View | None:
    """Return the view that loading the data of a variable would read.

    Returns: the view, or None if the data are in memory, chunked, or from another engine.
    """
    if not _is_over_lazy_array(data):
        return None

    def found(view: View) -> AnyArray:
        raise _ViewFound(view)

    # The wrappers compose their selections only while they are evaluated. The first read ends the evaluation.
    with _reading(found):
        try:
            data.get_duck_array()
        except _ViewFound as end:
            return end.view
    return None


def load_variable(variable: Any, values: AnyArray) -> None:
    """Load a variable in place, with these values of the view that `pending_view` returned for its data."""
    with _reading(lambda _: values):
        variable.load()


@contextmanager
def _reading(replacement: Callable[[View], AnyArray]) -> Iterator[None]:
    token = _read_instead.set(replacement)
    try:
        yield
    finally:
        _read_instead.reset(token)


def _is_over_lazy_array(data: Any) -> bool:
    while data is not None:
        if isinstance(data, LazyArray):
            return True
        if isinstance(data, np.ndarray):
            return False
        data = getattr(data, "array", None)
    return False
