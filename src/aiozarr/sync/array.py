"""The blocking array and its views: each method runs that of the asynchronous one and waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from aiozarr.grid.transform import BasicSelection
from aiozarr.hierarchy.array import Array as AsyncArray
from aiozarr.hierarchy.indexer import BlockIndexer, Indexer
from aiozarr.hierarchy.node import Node as AsyncNode
from aiozarr.hierarchy.unread_values import UnreadValues
from aiozarr.hierarchy.view import AnyArray, FieldSelection, Region
from aiozarr.hierarchy.view import View as AsyncView
from aiozarr.sync.wait import Forwarded, blocking_method, iterate, unchanged, wait

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from aiozarr.common.progress import ProgressLike
    from aiozarr.engine import Plan
    from aiozarr.grid.advanced import ArraySelection
    from aiozarr.hierarchy.number_casts import Casting
    from aiozarr.stores.transformer import StorageTransformer

N = TypeVar("N", bound=AsyncNode[Any])


class Node(Generic[N]):
    """A blocking handle of one node. It may be used from any number of threads, and be pickled."""

    def __init__(self, node: N) -> None:
        self._async: N = node

    # Groups have these too, because they are defined on an abstract base, which has no instances.
    store = Forwarded(AsyncArray, lambda node: node.store)
    path = Forwarded(AsyncArray, lambda node: node.path)
    name = Forwarded(AsyncArray, lambda node: node.name)
    url = Forwarded(AsyncArray, lambda node: node.url)
    settings = Forwarded(AsyncArray, lambda node: node.settings)
    zarr_format = Forwarded(AsyncArray, lambda node: node.zarr_format)
    read_only = Forwarded(AsyncArray, lambda node: node.read_only)
    attrs = Forwarded(AsyncArray, lambda node: node.attrs)

    update_attributes = blocking_method(AsyncNode.update_attributes, unchanged)
    replace_attributes = blocking_method(AsyncNode.replace_attributes, unchanged)
    refresh = blocking_method(AsyncNode.refresh, unchanged)
    close = blocking_method(AsyncNode.aclose, unchanged)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def async_node(node: Node[N]) -> N:
    """Return the node whose coroutines a blocking handle waits for."""
    return node._async


class Array(UnreadValues, Node[AsyncArray]):
    """An array in a store; see `aiozarr.Array`. `arr[selection]` reads, `arr[selection] = values` writes."""

    metadata = Forwarded(AsyncArray, lambda array: array.metadata)
    shape = Forwarded(AsyncArray, lambda array: array.shape)
    ndim = Forwarded(AsyncArray, lambda array: array.ndim)
    dtype = Forwarded(AsyncArray, lambda array: array.dtype)
    size = Forwarded(AsyncArray, lambda array: array.size)
    nbytes = Forwarded(AsyncArray, lambda array: array.nbytes)
    itemsize = Forwarded(AsyncArray, lambda array: array.itemsize)
    nchunks = Forwarded(AsyncArray, lambda array: array.nchunks)
    chunks = Forwarded(AsyncArray, lambda array: array.chunks)
    shards = Forwarded(AsyncArray, lambda array: array.shards)
    fill_value = Forwarded(AsyncArray, lambda array: array.fill_value)
    order = Forwarded(AsyncArray, lambda array: array.order)
    dimension_names = Forwarded(AsyncArray, lambda array: array.dimension_names)

    @property
    def view(self) -> View:
        """The whole array as a view: `arr.view[selection]` selects without reading."""
        return View(self, self._async[...])

    def __getitem__(self, selection: BasicSelection | FieldSelection) -> AnyArray:
        """Read a selection: an array, or a numpy scalar if numpy's indexing would return one.

        Raises:
            SelectionError: the selection does not fit the shape; also an `IndexError`.
            StoreError, CodecError, MissingChunkError, LimitError: as `aiozarr.View.read`.
        """
        return View(self, self._async[selection]).read()

    def __setitem__(self, selection: BasicSelection | FieldSelection, values: ArrayLike) -> None:
        """Write values to a selection; errors are the same as for `aiozarr.View.write`."""
        View(self, self._async[selection]).write(values)

    @property
    def oindex(self) -> ArrayIndexer:
        """Orthogonal indexing: `arr.oindex[selection]` reads, assigning writes; see `aiozarr.View.oindex`."""
        return ArrayIndexer(lambda selection: View(self, self._async.oindex[selection]))

    @property
    def vindex(self) -> ArrayIndexer:
        """Pointwise indexing: `arr.vindex[selection]` reads, assigning writes; see `aiozarr.View.vindex`."""
        return ArrayIndexer(lambda selection: View(self, self._async.vindex[selection]))

    @property
    def blocks(self) -> ArrayBlockIndexer:
        """Stored objects: `arr.blocks[selection]` reads, assigning writes; see `aiozarr.Array.blocks`."""
        return ArrayBlockIndexer(lambda selection: View(self, self._async.blocks[selection]), self._async.blocks)

    def __len__(self) -> int:
        return len(self._async)

    def __iter__(self) -> Iterator[AnyArray]:
        """Iterate over the first dimension; each step is a read."""
        return (self[number] for number in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return as_numpy(self.view, dtype, copy)

    resize = blocking_method(AsyncArray.resize, unchanged)
    info = blocking_method(AsyncArray.info, unchanged)

    def append(self, values: ArrayLike, axis: int = 0) -> tuple[int, ...]:
        """Append `values` along `axis` and return the new shape; errors are the same as for `aiozarr.Array.append`."""
        from aiozarr.hierarchy.casting import convert_values, is_large_cast

        if not is_large_cast(values, self.dtype):
            # Cast in this thread, as in View.write.
            values = convert_values(values, self.dtype)
        return wait(lambda _: self._async.append(values, axis))

    def with_settings(self, **changes: Any) -> Array:
        """Return a handle of this array with other settings, without I/O; see `aiozarr.Array.with_settings`."""
        return Array(self._async.with_settings(**changes))

    def with_storage_transformer(self, transformer: StorageTransformer) -> Array:
        """Return a handle whose chunks go through `transformer`; see `aiozarr.Array.with_storage_transformer`."""
        return Array(self._async.with_storage_transformer(transformer))

    def __dask_tokenize__(self) -> tuple[object, ...]:
        """Return the identity of this array for dask: its URL, the server and the metadata. Makes no request."""
        return ("aiozarr.sync.Array", self.url, plain_parts(self.store.origin), repr(self.metadata))

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks show."""
        return self._async._repr_html_().replace("aiozarr.Array", "aiozarr.sync.Array", 1)

    def __repr__(self) -> str:
        return repr(self._async).replace("<aiozarr.Array", "<aiozarr.sync.Array", 1)


def plain_parts(value: object) -> object:
    """Return the texts and numbers in nested tuples. Other objects may differ between processes."""
    if isinstance(value, tuple):
        return tuple([plain_parts(each) for each in value])
    return value if isinstance(value, str | bytes | int | float | None) else None


class ArrayIndexer:
    """`indexer[selection]` reads, `indexer[selection] = values` writes."""

    __slots__ = ("_select",)

    # Without this, iteration would fall back to indexer[0], indexer[1], ...
    __iter__ = None

    def __init__(self, select: Callable[[ArraySelection], View]) -> None:
        self._select = select

    def __getitem__(self, selection: ArraySelection) -> AnyArray:
        """Read a selection: an array, or a numpy scalar if integers select one element.

        Raises:
            SelectionError: the selection does not fit; also an `IndexError`.
            StoreError, CodecError, MissingChunkError, LimitError: as `aiozarr.View.read`.
        """
        return self._select(selection).read()

    def __setitem__(self, selection: ArraySelection, values: ArrayLike) -> None:
        """Write values to a selection. If it repeats an element, the last value is stored.

        Errors are the same as for `aiozarr.View.write`.
        """
        self._select(selection).write(values)


class ArrayBlockIndexer(ArrayIndexer):
    """`blocks[selection]` reads stored objects, assigning writes. Iterating yields the region of each."""

    __slots__ = ("_blocks",)

    def __init__(self, select: Callable[[ArraySelection], View], blocks: BlockIndexer[AsyncView]) -> None:
        super().__init__(select)
        self._blocks = blocks

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of stored objects along each dimension."""
        return self._blocks.shape

    def __len__(self) -> int:
        return len(self._blocks)

    def __iter__(self) -> Iterator[tuple[slice, ...]]:  # type: ignore[override]  # other indexers cannot be iterated
        return iter(self._blocks)


class View(UnreadValues):
    """Selected elements of an array, indexed as in numpy; see `aiozarr.View`. `view.read()` reads them."""

    __slots__ = ("_array", "_async")

    if TYPE_CHECKING:
        __iter__ = None
    else:
        __iter__ = UnreadValues._refuse_iteration

    def __init__(self, array: Array, view: AsyncView) -> None:
        self._array = array
        self._async = view

    @property
    def array(self) -> Array:
        """The array of the view."""
        return self._array

    shape = Forwarded(AsyncView, lambda view: view.shape)
    ndim = Forwarded(AsyncView, lambda view: view.ndim)
    size = Forwarded(AsyncView, lambda view: view.size)
    dtype = Forwarded(AsyncView, lambda view: view.dtype)
    nbytes = Forwarded(AsyncView, lambda view: view.nbytes)

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
        """Read the elements, with the arguments and errors of `aiozarr.View.read`. `progress` runs in this thread."""
        found = self._async._read_directly_blocking(out) if progress is None else None
        return wait(lambda callback: self._async.read(out, callback), progress) if found is None else found

    def write(self, values: ArrayLike, progress: ProgressLike = None, casting: Casting = "checked") -> None:
        """Write `values`, with the arguments and errors of `aiozarr.View.write`. `progress` runs in this thread."""
        from aiozarr.hierarchy.casting import convert_values, is_large_cast

        if not is_large_cast(values, self.dtype):
            # Cast in this thread, because the cast may run user code, which may call this package again.
            values = convert_values(values, self.dtype, casting, is_element=self._async._scalar)
        wait(lambda callback: self._async.write(values, callback, casting), progress)

    def plan(self) -> Plan:
        """Return bounds of the cost of reading this view, from the metadata and without I/O."""
        return self._async.plan()

    probe = blocking_method(AsyncView.probe, unchanged)

    def stream(self, prefetch: int | None = None) -> Iterator[tuple[Region, AnyArray]]:
        """Iterate over the blocks of the view as they complete; arguments are the same as for `aiozarr.View.stream`."""
        return iterate(self._async.stream(prefetch), unchanged)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return as_numpy(self, dtype, copy)

    def __repr__(self) -> str:
        return f"<aiozarr.sync.View {self.shape} {self.dtype} of {self._array.url}; .read() reads it>"


def as_numpy(view: View, dtype: Any, copy: bool | None) -> AnyArray:
    """Return the elements for numpy's array protocol, as a 0-d array if the view has no axes.

    Raises:
        ValueError: `copy` is False, and reading always copies.
    """
    if copy is False:
        raise ValueError("a copy cannot be avoided, because the values must be read first")
    values = np.asarray(view.read())
    return values if dtype is None else values.astype(dtype, copy=False)
