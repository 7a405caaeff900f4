"""An array: what its metadata say, views of it, and the operations that change the metadata."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, NoReturn, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aiozarr.engine import ArrayLayout
from aiozarr.errors import MetadataError, NodeTypeError, StaleDataWarning
from aiozarr.grid import BasicSelection, IndexTransform
from aiozarr.hierarchy.describe.v3 import check_shape, storage_order
from aiozarr.hierarchy.documents import NodeMetadata, Place
from aiozarr.hierarchy.indexer import Indexer, block_slices
from aiozarr.hierarchy.info import ArrayInfo, count_objects, format_bytes
from aiozarr.hierarchy.location import key_prefix
from aiozarr.hierarchy.node import Mode, Node
from aiozarr.hierarchy.picture import grid_picture, table
from aiozarr.hierarchy.regrowth import clear_gained, shows_old_data
from aiozarr.hierarchy.reshaping import erase_outside, reshaped
from aiozarr.hierarchy.values.written import convert_values
from aiozarr.hierarchy.view import FieldSelection, View
from aiozarr.metadata import ArrayMetadata
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.stores.transformer import StorageTransformer, resolve_transformers, wrap_store

AnyArray: TypeAlias = NDArray[Any]


class Array(Node[ArrayMetadata]):
    """An array in a store. `arr[selection]` is a `View`; `await arr[selection]` reads it, `.write(values)` writes it.

    Made by `open`, `open_array`, `create_array` and the methods of `Group`, not by hand. Resolving the metadata checks
    them whole: an array that is there can be read.
    """

    # Without this, Python would try arr[0], arr[1], ... as it does for whatever can be indexed.
    __iter__ = None

    def __init__(
        self,
        store: Store,
        path: str,
        metadata: ArrayMetadata,
        *,
        settings: Settings,
        mode: Mode,
        owns_store: bool = False,
    ) -> None:
        super().__init__(store, path, metadata, settings=settings, mode=mode, owns_store=owns_store)
        self._layout = self._resolve(metadata)
        self._run_time: tuple[StorageTransformer, ...] = ()
        self._chunk_store = self._behind_transformers(metadata)

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self._metadata.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._metadata.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements in memory: native byte order, whatever the stored one is."""
        return self._metadata.dtype

    @property
    def size(self) -> int:
        """Number of elements; exact at any size."""
        return self._whole().size

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in memory."""
        return self.size * self.dtype.itemsize

    @property
    def chunks(self) -> tuple[Any, ...]:
        """Shape of the smallest unit that can be read: of the inner chunks where there are shards.

        Where chunks differ in length (chunk grid `rectilinear`, without shards): for each dimension a tuple of the
        lengths of its chunks inside the array, as dask has it.

        Raises:
            LimitError: chunks differ, and there are more than a million lengths.
        """
        return self._layout.chunks

    @property
    def shards(self) -> tuple[Any, ...] | None:
        """Shape of a stored object that holds several chunks; None where each chunk is an object of its own.

        Where shards differ in length: as `chunks`.
        """
        return self._layout.shards

    @property
    def fill_value(self) -> Any:
        """What missing chunks hold, as a numpy scalar."""
        return self._metadata.fill_value[()]

    @property
    def order(self) -> Literal["C", "F"]:
        """The order of elements in a stored chunk: "F" where its first axis runs fastest, else "C"."""
        return storage_order(self._metadata)

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """One name or None per dimension; None where the array has no names."""
        return self._metadata.dimension_names

    def __getitem__(self, selection: BasicSelection | FieldSelection) -> View:
        """Return a view, without I/O: integers, slices of any step, `...` and None (a new axis), as numpy.

        Names of fields select parts of structured elements: `arr["a"]`, `arr[["a", "b"]]`, `arr["a", :3]`.

        Raises:
            SelectionError: the selection does not fit the shape; also an `IndexError`.
        """
        return self._whole()[selection]

    @property
    def oindex(self) -> Indexer[View]:
        """Orthogonal indexing, axis by axis: `arr.oindex[[1, 5], :, mask]` is a view; see `View.oindex`."""
        return self._whole().oindex

    @property
    def vindex(self) -> Indexer[View]:
        """Pointwise indexing: `arr.vindex[i, j]`, `arr.vindex[mask]` are views; see `View.vindex`."""
        return self._whole().vindex

    @property
    def blocks(self) -> Indexer[View]:
        """The grid of stored objects, shards where there are shards: `arr.blocks[i, 1:3]` is a view of their elements.

        Takes integers, which keep their axis, slices of step 1, and `...`.
        """
        grid = self._layout.grid
        whole = self._whole()
        return Indexer(
            lambda selection: whole._select(
                lambda transform, rest: transform.select(block_slices(grid, rest)), selection
            )
        )

    async def resize(
        self,
        shape: SupportsIndex | Iterable[SupportsIndex],
        *,
        delete_chunks: bool = True,
        clear: bool = False,
    ) -> None:
        """Give the array another shape of the same number of dimensions.

        The metadata are stored first; then, with `delete_chunks`, the chunks that lie wholly outside are erased. Chunks
        that the new edge cuts stay (v3 core specification, "Resizing"): if the array grows again, the values
        behind the cut are there again. Where it grows into what was never stored, it holds the fill value.

        Where chunks differ in length they stay as they are; past the last of them chunks are added, none longer than
        the longest of the dimension.

        Args:
            shape: the new lengths.
            delete_chunks: erase chunks that lie wholly outside. Without it they show again when the array grows.
            clear: make all that the array gains hold the fill value: chunks stored there are erased, and the fill
                value is written into those that the old edge cuts.

        Raises:
            ValueError: another number of dimensions, or a negative length.
            TypeError: lengths that are no integers.
            UnsupportedOperationError: the array is read-only.
            NodeNotFoundError: the array is no longer there.

        Warns:
            StaleDataWarning: the array has grown, without `clear`, and shows values that an earlier, larger shape has
                left. Up to 500 gained chunks and 64 cut ones are looked at.
        """
        lengths = check_shape(shape, self.ndim)
        stale = False

        async def follow(place: Place, old: ArrayMetadata, new: ArrayMetadata) -> None:
            nonlocal stale
            before, after = self._resolve(old), self._resolve(new)
            place = replace(place, store=self._chunk_store)
            if delete_chunks:
                await erase_outside(place, before, after)
            if clear:
                await clear_gained(place, before, after)
            else:
                stale = await shows_old_data(place, before, after)

        await self._change(lambda metadata: reshaped(self._resolve(metadata), lengths), follow)
        if stale:
            warnings.warn(
                f"{self.url} has grown over values that an earlier, larger shape has left: they are visible again; "
                "resize(..., clear=True) removes them",
                StaleDataWarning,
                stacklevel=2,
            )

    async def append(self, values: ArrayLike, axis: int = 0) -> tuple[int, ...]:
        """Append `values` along `axis` and return the new shape.

        The array is grown first, from the shape that is stored, so that several writers append behind each
        other. If the write then fails, the array stays grown and holds the fill value there.

        Raises:
            ValueError: `values` differ from the array in the other dimensions, or there is no such axis.
            TypeError, OverflowError: as `View.write`.
            UnsupportedOperationError, NodeNotFoundError: as `resize`.
        """
        self._check_writeable()
        added = convert_values(values, self.dtype)
        axis = self._check_axis(added.ndim, axis)
        starts: list[int] = []

        def grow(metadata: ArrayMetadata) -> ArrayMetadata:
            others = [n for dimension, n in enumerate(metadata.shape) if dimension != axis]
            if others != [n for dimension, n in enumerate(added.shape) if dimension != axis]:
                raise ValueError(
                    f"values of shape {added.shape} cannot be appended to the shape {metadata.shape} along axis {axis}"
                )
            starts.append(metadata.shape[axis])
            if added.shape[axis] == 0:
                return metadata
            return _with_length(self._resolve(metadata), axis, metadata.shape[axis] + added.shape[axis])

        grown = await self._change(grow)
        start = starts[-1]
        region: list[slice] = [slice(None)] * self.ndim
        region[axis] = slice(start, start + added.shape[axis])
        # Seen as reaching to the end of its last chunk, the array has no chunk that this write covers only because the
        # array ends there: another append may be writing behind it, and neither may replace what the other has stored.
        layout = self._resolve(grown)
        end = int(layout.grid.edges(axis)[-1])
        layout = self._resolve(_with_length(layout, axis, min(end, (1 << 63) - 1)))
        await View(self, layout, IndexTransform.identity(layout.metadata.shape))[tuple(region)].write(added)
        return grown.shape

    async def info(self) -> ArrayInfo:
        """Return the facts of this array; where the store can list, what is stored is counted, page by page.

        Raises:
            StoreError: the listing failed.
        """
        count, total = await self._at_place(count_objects)
        expected = 1
        for length in self._layout.grid.shape:
            expected *= length
        return ArrayInfo(
            url=self.url,
            zarr_format=self.zarr_format,
            store=type(self._store).__name__,
            read_only=self.read_only,
            data_type=self._metadata.data_type.name,
            shape=self.shape,
            chunks=self.chunks,
            shards=self.shards,
            order=self.order,
            fill_value=str(self.fill_value),
            codecs=tuple([codec.name for codec in self._metadata.codecs]),
            nbytes=self.nbytes,
            objects_expected=expected,
            objects_stored=count,
            bytes_stored=total,
        )

    def with_storage_transformer(self, transformer: StorageTransformer) -> Array:
        """Return a handle of this array whose chunks are read and written through `transformer`; without I/O.

        It is not recorded in the metadata: other handles of the array, and other programs, know nothing of it. It lies
        over those that the metadata name. `aiozarr.stores.CachingTransformer` keeps chunks in memory.

        Raises:
            TypeError: it is no `StorageTransformer`.
        """
        if not isinstance(transformer, StorageTransformer):
            raise TypeError(f"a StorageTransformer is wanted, not {type(transformer).__name__}")
        array = self._at(self._metadata)
        array._run_time = (*self._run_time, transformer)
        array._chunk_store = array._behind_transformers(self._metadata)
        return array

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        raise TypeError(
            "an Array holds no values; `await arr[...]` reads them (aiozarr.sync arrays convert by themselves)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (*super().__reduce__()[1][1:], self._run_time))

    def __repr__(self) -> str:
        return f"<aiozarr.Array {self.url} {self.dtype} {self.shape} {self._layout}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what is known already, without a request, and a picture of the grid."""
        facts = [
            ("url", self.url),
            ("shape", self.shape),
            ("type", self._metadata.data_type.name),
            ("layout", str(self._layout)),
            ("fill value", self.fill_value),
            ("order", self.order),
            ("dimension names", self.dimension_names),
            ("codecs", " → ".join([codec.name for codec in self._metadata.codecs])),
            ("bytes", format_bytes(self.nbytes)),
            ("zarr format", self.zarr_format),
            ("read only", self.read_only),
        ]
        return table("aiozarr.Array", facts, self._metadata.attributes, grid_picture(self._layout.grid))

    # --- for this package ----------------------------------------------------------------------------------------

    def _whole(self) -> View:
        layout = self._layout
        return View(self, layout, IndexTransform.identity(layout.metadata.shape))

    def _at(self, metadata: ArrayMetadata) -> Array:
        """Return another handle of this array, with these metadata."""
        array = Array(
            self._store, self._path, metadata, settings=self._settings, mode=self._mode, owns_store=self._owns_store
        )
        array._run_time = self._run_time
        array._chunk_store = array._behind_transformers(metadata)
        return array

    def _behind_transformers(self, metadata: ArrayMetadata) -> Store:
        """Return the store that chunks are in: this array's, behind the transformers of the metadata and of run time.

        Raises:
            UnsupportedMetadataError: the metadata name one that is not known.
        """
        if not metadata.storage_transformers and not self._run_time:
            return self._store
        try:
            named = resolve_transformers(metadata.storage_transformers)
        except MetadataError as error:
            error.node = error.node or self.url
            raise
        return wrap_store(self._store, key_prefix(self._path), (*reversed(self._run_time), *named))

    def _check_axis(self, ndim: int, axis: int) -> int:
        if not -self.ndim <= axis < self.ndim:
            raise ValueError(f"axis {axis} is out of range for an array of {self.ndim} dimensions")
        if ndim != self.ndim:
            raise ValueError(f"values of {ndim} dimensions cannot be appended to an array of {self.ndim} dimensions")
        return axis % self.ndim

    def _expect(self, metadata: NodeMetadata) -> ArrayMetadata:
        if not isinstance(metadata, ArrayMetadata):
            raise NodeTypeError(f"there is a group at {self.url} now", url=self.url, path=self._path)
        return metadata

    def _adopt(self, metadata: ArrayMetadata) -> None:
        # The layout first: whoever reads in between sees a layout that can be read.
        self._layout = self._resolve(metadata)
        self._metadata = metadata

    def _resolve(self, metadata: ArrayMetadata) -> ArrayLayout:
        return ArrayLayout.resolve(metadata, node=self.url, settings=self._settings)


def _restore(
    store: Store,
    path: str,
    metadata: ArrayMetadata,
    settings: Settings,
    mode: Mode,
    owns_store: bool,
    run_time: tuple[StorageTransformer, ...],
) -> Array:
    array = Array(store, path, metadata, settings=settings, mode=mode, owns_store=owns_store)
    for transformer in run_time:
        array = array.with_storage_transformer(transformer)
    return array


def _with_length(layout: ArrayLayout, axis: int, length: int) -> ArrayMetadata:
    shape = layout.metadata.shape
    return reshaped(layout, [length if dimension == axis else n for dimension, n in enumerate(shape)])
