"""The blocking array: the asynchronous one, waited for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from aiozarr import hierarchy
from aiozarr.grid import BasicSelection
from aiozarr.hierarchy.values.written import convert_values
from aiozarr.hierarchy.view import AnyArray, FieldSelection
from aiozarr.metadata import ArrayMetadata
from aiozarr.stores.transformer import StorageTransformer
from aiozarr.sync.indexer import ArrayIndexer
from aiozarr.sync.node import Node
from aiozarr.sync.view import View, as_numpy
from aiozarr.sync.wait import method, same, wait


class Array(Node[hierarchy.Array]):
    """An array in a store; see `aiozarr.Array`. `arr[selection]` reads, `arr[selection] = values` writes."""

    @property
    def metadata(self) -> ArrayMetadata:
        """What the array's metadata document says; not to be changed in place."""
        return self._async.metadata

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self._async.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._async.ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements in memory."""
        return self._async.dtype

    @property
    def size(self) -> int:
        """Number of elements; exact at any size."""
        return self._async.size

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in memory."""
        return self._async.nbytes

    @property
    def chunks(self) -> tuple[Any, ...]:
        """Shape of the smallest unit that can be read."""
        return self._async.chunks

    @property
    def shards(self) -> tuple[Any, ...] | None:
        """Shape of a stored object that holds several chunks; None without shards."""
        return self._async.shards

    @property
    def fill_value(self) -> Any:
        """What missing chunks hold, as a numpy scalar."""
        return self._async.fill_value

    @property
    def order(self) -> Literal["C", "F"]:
        """The order of elements in what is stored: "C" or "F"."""
        return self._async.order

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """One name or None per dimension; None where the array has no names."""
        return self._async.dimension_names

    @property
    def view(self) -> View:
        """The whole array as a view: `arr.view[selection]` selects without reading."""
        return View(self, self._async[...])

    def __getitem__(self, selection: BasicSelection | FieldSelection) -> AnyArray:
        """Read a selection: an array, or a numpy scalar where numpy's indexing gives one.

        Raises:
            SelectionError: the selection does not fit the shape; also an `IndexError`.
            StoreError, CodecError, MissingChunkError, LimitError: as `aiozarr.View.read`.
        """
        return View(self, self._async[selection]).read()

    def __setitem__(self, selection: BasicSelection | FieldSelection, values: ArrayLike) -> None:
        """Write values to a selection; errors are those of `aiozarr.View.write`."""
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
    def blocks(self) -> ArrayIndexer:
        """Stored objects: `arr.blocks[selection]` reads, assigning writes; see `aiozarr.Array.blocks`."""
        return ArrayIndexer(lambda selection: View(self, self._async.blocks[selection]))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[AnyArray]:
        """Iterate over the first dimension; each step is a read."""
        return (self[number] for number in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> AnyArray:
        return as_numpy(self.view, dtype, copy)

    resize = method(hierarchy.Array.resize, same)
    info = method(hierarchy.Array.info, same)

    def append(self, values: ArrayLike, axis: int = 0) -> tuple[int, ...]:
        """Append `values` along `axis` and return the new shape; errors are those of `aiozarr.Array.append`."""
        # Made in this thread, as View.write does.
        converted = convert_values(values, self.dtype)
        return wait(lambda _: self._async.append(converted, axis))

    def with_storage_transformer(self, transformer: StorageTransformer) -> Array:
        """Return a handle whose chunks go through `transformer`; see `aiozarr.Array.with_storage_transformer`."""
        return Array(self._async.with_storage_transformer(transformer))

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return self._async._repr_html_().replace("aiozarr.Array", "aiozarr.sync.Array", 1)

    def __repr__(self) -> str:
        return repr(self._async).replace("<aiozarr.Array", "<aiozarr.sync.Array", 1)
