"""An array: its properties, views of it, and the operations that change its metadata."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NoReturn, SupportsIndex, TypeAlias

import numpy as np

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.common.formatting import format_bytes, printable
from aiozarr.engine import ArrayLayout
from aiozarr.errors import (
    ChangedError,
    MetadataError,
    NodeNotFoundError,
    NodeTypeError,
    PermissionDeniedError,
    StaleDataWarning,
    StoreError,
    UnauthenticatedError,
)
from aiozarr.grid.transform import BasicSelection, DimensionMap, stop_of
from aiozarr.hierarchy.changes import erasures, lineage_of, resizes
from aiozarr.hierarchy.indexer import BlockIndexer, Indexer, block_slices, length_of
from aiozarr.hierarchy.node import HandleOptions, Node, wrong_kind_error
from aiozarr.hierarchy.node_access import NodeAccess, NodeMetadata, node_not_found_error, read_explicit
from aiozarr.hierarchy.unread_values import UnreadValues, equal_handles, unread_error
from aiozarr.hierarchy.view import FieldSelection, View
from aiozarr.metadata.format_rules import key_prefix, rules_of
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.settings import changed_settings
from aiozarr.stores import BlockingStore, Store

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from aiozarr.hierarchy.info import ArrayInfo
    from aiozarr.stores.transformer import StorageTransformer

AnyArray: TypeAlias = "NDArray[Any]"

SMALL_CHUNK_BYTES = 128 << 10
"""Chunks of a file up to this size are decoded without numcodecs, whose import takes 50 ms."""
CUT_SECONDS = 2.0
"""The extra time in which a failed append may cut the array again: its own time may be over, or the store may hang."""


class Array(UnreadValues, Node[ArrayMetadata]):
    """An array in a store. `arr[selection]` is a `View`; `await arr[selection]` reads it, `.write(values)` writes it.

    Create it with `open`, `open_array`, `create_array` or a method of `Group`. Opening checks the metadata completely,
    so an opened array can be read.
    """

    if TYPE_CHECKING:
        __iter__ = None
    else:
        __iter__ = UnreadValues._refuse_iteration

    def __init__(self, store: Store, path: str, metadata: ArrayMetadata, options: HandleOptions) -> None:
        super().__init__(store, path, metadata, options)
        self._prefix = key_prefix(path)
        self._layout = self._resolve(metadata)
        self._metadata = self._layout.metadata
        # The changes so far when the stored document was compared with `metadata`; None: it was not.
        self._erasures_seen = erasures.count
        self._resizes_seen: int | None = None
        # The shape in the stored document, if it was another one.
        self._present_shape: tuple[int, ...] | None = None
        self._runtime_transformers: tuple[StorageTransformer, ...] = ()
        self._chunk_store = self._transformed_store(metadata)
        _import_used(self._layout, store, options)

    # Comparing a handle with handles, as in a list, or with None does not use its values.
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return equal_handles(self, other)

    def __ne__(self, other: object) -> bool:
        return not equal_handles(self, other)

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
        """Type of the elements in memory, in native byte order."""
        return self._metadata.dtype

    @property
    def size(self) -> int:
        """Number of elements, as an unbounded integer."""
        return self._whole().size

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in memory."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        """Return the length of the first dimension.

        Raises:
            TypeError: the array has no dimensions.
        """
        return length_of(self.shape)

    @property
    def nchunks(self) -> int:
        """Number of chunks in the grid, stored or not. In a sharded array, the inner chunks are counted."""
        return prod(
            len(chunk) if isinstance(chunk, tuple) else -(-length // chunk)
            for length, chunk in zip(self.shape, self.chunks, strict=True)
        )

    @property
    def chunks(self) -> tuple[Any, ...]:
        """Shape of the smallest unit that can be read. In a sharded array, this is the inner chunk.

        For an unsharded array with the chunk grid `rectilinear`, each dimension has a tuple of chunk lengths, clipped
        to the array, as in dask.

        Raises:
            LimitError: the grid is rectilinear, and there are more than a million lengths.
        """
        return self._layout.chunks

    @property
    def shards(self) -> tuple[Any, ...] | None:
        """Shape of a shard; None if the array is not sharded. For rectilinear shards, see `chunks`."""
        return self._layout.shards

    @property
    def fill_value(self) -> Any:
        """The value of missing chunks, as a numpy scalar."""
        return self._metadata.fill_value[()]

    @property
    def order(self) -> Literal["C", "F"]:
        """The order of elements in a stored chunk: "F" if the first axis varies fastest, else "C"."""
        from aiozarr.hierarchy.new_metadata_v3 import storage_order

        return storage_order(self._metadata)

    @property
    def dimension_names(self) -> tuple[str | None, ...] | None:
        """One name or None per dimension; None if the array has no names."""
        return self._metadata.dimension_names

    def __getitem__(self, selection: BasicSelection | FieldSelection) -> View:
        """Return a view, without I/O, for integers, slices of any step, `...` and None (a new axis), as in numpy.

        Names of fields select parts of structured elements: `arr["a"]`, `arr[["a", "b"]]`, `arr["a", :3]`. One list
        of integers or one mask selects as in numpy: `arr[[1, 5]]`, `arr[mask]`. For several, use `oindex` or `vindex`.

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
    def blocks(self) -> BlockIndexer[View]:
        """Indexing by stored objects (shards or chunks): `arr.blocks[i, 1:3]` is a view of their elements.

        Accepts integers, which keep their axis, slices with step 1, and `...`. `blocks.shape` is the shape of the grid.
        Iterating yields the region of each stored object, a tuple of slices: `arr[region]` is its view.
        """
        grid = self._layout.grid
        whole = self._whole()
        return BlockIndexer(
            lambda selection: whole._select(
                lambda transform, rest: transform.select(block_slices(grid, rest)), selection
            ),
            grid,
        )

    async def resize(
        self,
        shape: SupportsIndex | Iterable[SupportsIndex],
        *,
        delete_chunks: bool = True,
        clear: bool = False,
    ) -> None:
        """Change the shape of the array, but not the number of dimensions.

        The metadata are stored first. With `delete_chunks`, the chunks wholly outside the new shape are then erased.
        Chunks across the new edge stay whole (v3 core specification, "Resizing"): if the array grows again, their
        values beyond the edge reappear. Elements that were never stored read as the fill value.

        To complete a failed call, repeat it: a call that does not change the shape lists the stored chunks, and erases
        the chunks outside the shape that an interrupted call left behind.

        Chunks of a rectilinear grid keep their lengths. New chunks are added after the last chunk, none longer than the
        longest chunk of the dimension.

        Args:
            shape: the new lengths.
            delete_chunks: erase the chunks wholly outside. Otherwise they reappear when the array grows.
            clear: fill the gained area with the fill value before the new shape is stored, by erasing chunks stored
                there and writing the fill value into chunks across the old edge. Another process must not append at the
                same time.

        Raises:
            ValueError: the number of dimensions differs, or a length is negative.
            TypeError: a length is not an integer.
            UnsupportedOperationError: the array is read-only.
            ChangedError: the array was replaced since this handle was opened.
            NodeNotFoundError: the array no longer exists.

        Warns:
            StaleDataWarning: the array has grown, without `clear`, and shows values of an earlier, larger shape. Up to
                500 gained chunks and 64 chunks across the old edge are checked.
        """
        from aiozarr.hierarchy.new_metadata_v3 import check_shape
        from aiozarr.hierarchy.resize import clear_gained_area, erase_outside, has_stale_data, resized_metadata

        lengths = check_shape(shape, self.ndim)
        stale = False

        async def clear_first(access: NodeAccess, old: ArrayMetadata, new: ArrayMetadata) -> None:
            if clear:
                access = access._replace(store=self._chunk_store)
                await clear_gained_area(access, self._resolve(old), self._resolve(new))

        async def clean_up(access: NodeAccess, old: ArrayMetadata, new: ArrayMetadata) -> None:
            nonlocal stale
            self._note_resize(old, new)
            before, after = self._resolve(old), self._resolve(new)
            access = access._replace(store=self._chunk_store)
            if delete_chunks:
                await erase_outside(access, before, after)
            if not clear:
                stale = await has_stale_data(access, before, after)

        await self._change(
            lambda metadata: resized_metadata(self._resolve(self._check_not_replaced(metadata)), lengths),
            clean_up,
            before=clear_first,
        )
        if stale:
            warnings.warn(
                f"{self.url} has grown over values left by an earlier, larger shape, which are visible again; "
                "resize(..., clear=True) removes them",
                StaleDataWarning,
                stacklevel=2,
            )

    async def append(self, values: ArrayLike, axis: int = 0) -> tuple[int, ...]:
        """Append `values` along `axis` and return the new shape.

        The array first grows from its stored shape, so several writers append one after another. If the write then
        fails or is cancelled, the array shrinks to its former shape, unless another writer has appended since. This
        takes at most 2 seconds, even after a timeout or a cancellation. If the array could not shrink, a note on the
        error says so.

        Raises:
            ValueError: `values` differ from the array in the other dimensions, or the axis does not exist.
            TypeError, OverflowError: as `View.write`.
            UnsupportedOperationError, ChangedError, NodeNotFoundError: as `resize`.
        """
        from aiozarr.hierarchy.resize import append_mark

        self._require_writable()
        mark = append_mark()
        added = await self[...]._converted(values)
        axis = self._check_axis(added.ndim, axis)
        starts: list[int] = []
        growths: list[ArrayMetadata] = []
        length = added.shape[axis]

        def grow(metadata: ArrayMetadata) -> ArrayMetadata:
            self._check_not_replaced(metadata)
            others = [n for dimension, n in enumerate(metadata.shape) if dimension != axis]
            if others != [n for dimension, n in enumerate(added.shape) if dimension != axis]:
                raise ValueError(
                    f"values of shape {added.shape} cannot be appended to the shape {metadata.shape} along axis {axis}"
                )
            starts.append(metadata.shape[axis])
            if not length:
                return metadata
            growths.append(_with_length(self._resolve(metadata), axis, metadata.shape[axis] + length))
            return growths[-1]

        is_stored = False

        async def note(_: NodeAccess, old: ArrayMetadata, new: ArrayMetadata) -> None:
            nonlocal is_stored
            is_stored = True
            self._note_resize(old, new)

        try:
            grown = await self._change(grow, note, mark=mark)
        except BaseException as error:
            if growths:  # perhaps only consolidated metadata above could not be rewritten
                await self._cut_again(growths[-1], axis, starts[-1], error, None if is_stored else mark)
            raise
        region: list[slice] = [slice(None)] * self.ndim
        region[axis] = slice(starts[-1], starts[-1] + length)
        layout = self._resolve(grown)
        try:
            await View(self, layout, layout.whole)[tuple(region)].write(added)
        except BaseException as error:
            if length:
                await self._cut_again(grown, axis, starts[-1], error)
            raise
        return grown.shape

    async def _cut_again(
        self, grown: ArrayMetadata, axis: int, start: int, error: BaseException, mark: bytes | None = None
    ) -> None:
        """Cut the array to the length `start` again, after the write of an append has failed with `error`.

        With a `mark`, it is unknown whether the array has grown: it is cut only if its document has this mark.
        """
        from anyio import move_on_after  # imported here because it is needed only after failures

        from aiozarr.hierarchy.resize import erase_outside

        def cut(metadata: ArrayMetadata) -> ArrayMetadata:
            if metadata.shape != grown.shape:
                raise ValueError(f"another writer has changed the shape to {metadata.shape}")
            return _with_length(self._resolve(metadata), axis, start)

        async def erase(access: NodeAccess, old: ArrayMetadata, new: ArrayMetadata) -> None:
            self._note_resize(old, new)
            access = access._replace(store=self._chunk_store)
            await erase_outside(access, self._resolve(old), self._resolve(new))

        async def has_grown(access: NodeAccess) -> bool:
            key = access.prefix + rules_of(self.zarr_format).array_key
            stored = await access.scheduled.fetch(key, max_bytes=self.settings.max_metadata_bytes)
            return stored is not None and bytes(stored.data).endswith(mark or b"")

        is_known, stop = mark is None, grown.shape[axis]
        failure: object = f"it took more than {CUT_SECONDS:g} seconds"
        try:
            with move_on_after(CUT_SECONDS, shield=True):
                is_known = is_known or await self._run_on_io_thread(has_grown)
                if is_known:
                    await self._change(cut, erase)
                    return
                if isinstance(error, StoreError) and not error.retryable:
                    return
                failure = "the request may still take effect"
        except Exception as raised:
            failure = raised
        error.add_note(
            f"{self.url} could not be cut to its former shape: along axis {axis}, the elements from {start} to {stop} "
            f"hold some of the appended values and the fill value ({failure})"
            if is_known
            else f"along axis {axis}, {self.url} may have grown from {start} to {stop} ({failure})"
        )

    async def info(self) -> ArrayInfo:
        """Return information about this array. If the store can list, the stored objects are counted, page by page.

        Raises:
            StoreError: the listing failed.
        """
        from aiozarr.hierarchy.info import ArrayInfo, count_objects

        counts = await self._run_on_io_thread(lambda access: count_objects(access, {"": self._metadata}))
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
            **counts,
        )

    def with_settings(self, **changes: Any) -> Array:
        """Return a handle of this array with other settings, without I/O: `await array.with_settings(timeout=2)[:4]`.

        `changes` are fields of `Settings`; all other fields are kept. Both handles share one store: closing the new
        handle does not close it, but closing the handle that opened it does. The document is not parsed again: `strict`
        and `v1_order_f` apply to it from the next `refresh`.

        Raises:
            TypeError: a setting is unknown, or a value has the wrong type.
            ValueError: a value is out of range, or changes a setting that is fixed when a store is opened.
        """
        settings = changed_settings(self.settings, changes)
        return self._with_metadata(self._metadata, self._options._replace(settings=settings, owns_store=False))

    def with_storage_transformer(self, transformer: StorageTransformer) -> Array:
        """Return a handle of this array whose chunks are read and written through `transformer`, without I/O.

        The transformer is not recorded in the metadata, so other handles and other programs do not use it. It is
        applied before the transformers in the metadata. `aiozarr.stores.CachingTransformer` caches chunks in memory.

        Raises:
            TypeError: it is not a `StorageTransformer`.
        """
        from aiozarr.stores.transformer import StorageTransformer

        if not isinstance(transformer, StorageTransformer):
            raise TypeError(f"transformer must be a StorageTransformer, not {type(transformer).__name__}")
        array = self._with_metadata(self._metadata)
        array._runtime_transformers = (*self._runtime_transformers, transformer)
        array._chunk_store = array._transformed_store(self._metadata)
        return array

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        raise unread_error(self, "numpy")

    def __dask_tokenize__(self) -> NoReturn:
        raise unread_error(self, "dask")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (*super().__reduce__()[1], self._runtime_transformers))

    def __repr__(self) -> str:
        return f"<aiozarr.Array {printable(self.url)} {self.dtype} {self.shape} {self._layout}>"

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks show. Makes no request."""
        from aiozarr.hierarchy.info import table

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
        return table("aiozarr.Array", facts, self._metadata.attributes)

    # --- for this package ----------------------------------------------------------------------------------------

    async def _write_first(self, values: ArrayLike) -> None:
        """Write the first values of a new array. If that fails, a note on the error says what is stored."""
        try:
            await self[...].write(values)
        except BaseException as error:
            error.add_note(
                f"{self.url} was created, and holds the fill value where its data were not written; "
                "overwrite=True creates it again"
            )
            raise

    def _whole(self) -> View:
        layout = self._layout
        return View(self, layout, layout.whole)

    def _with_metadata(self, metadata: ArrayMetadata, options: HandleOptions | None = None) -> Array:
        """Return another handle of this array with these metadata, and other `options` if given."""
        array = Array(self._store, self._path, metadata, options or self._options)
        array._erasures_seen, array._resizes_seen = self._erasures_seen, self._resizes_seen
        array._present_shape = self._present_shape
        array._runtime_transformers = self._runtime_transformers
        array._chunk_store = array._transformed_store(metadata)
        return array

    def _transformed_store(self, metadata: ArrayMetadata) -> Store:
        """Return the store of the chunks, with the transformers of the metadata and of this handle.

        Raises:
            UnsupportedMetadataError: the metadata name an unknown transformer.
        """
        if not metadata.storage_transformers and not self._runtime_transformers:
            return self._store
        from aiozarr.stores.transformer import resolve_transformers, wrap_store

        try:
            named = resolve_transformers(metadata.storage_transformers)
        except MetadataError as error:
            error.node = error.node or self.url
            raise
        return wrap_store(self._store, self._prefix, (*reversed(self._runtime_transformers), *named))

    def _check_axis(self, ndim: int, axis: int) -> int:
        if not -self.ndim <= axis < self.ndim:
            raise ValueError(f"axis {axis} is out of range for an array of {self.ndim} dimensions")
        if ndim != self.ndim:
            raise ValueError(f"values of {ndim} dimensions cannot be appended to an array of {self.ndim} dimensions")
        return axis % self.ndim

    def _require_kind(self, metadata: NodeMetadata) -> ArrayMetadata:
        if not isinstance(metadata, ArrayMetadata):
            raise NodeTypeError(f"{self.url} is now a group", url=self.url, path=self._path)
        # In the specification's spelling, which changes write.
        return self._resolve(metadata).metadata

    def _set_metadata(self, metadata: ArrayMetadata) -> None:
        # The layout is set first, because a reader in another thread must never see metadata without their layout.
        self._layout = self._resolve(metadata)
        self._mark_stored()
        if metadata.storage_transformers != self._metadata.storage_transformers:
            self._chunk_store = self._transformed_store(metadata)
        self._metadata = self._layout.metadata

    def _mark_stored(self) -> None:
        self._erasures_seen, self._resizes_seen = erasures.count, resizes.count
        self._present_shape = None

    def _note_resize(self, old: ArrayMetadata, new: ArrayMetadata) -> None:
        """Let the other handles of this array in this process know that its shape has changed."""
        if old.shape != new.shape:
            resizes.record(self._store, self._path)
            self._mark_stored()

    @fork_safe_cached_property
    def _lineage(self) -> frozenset[Hashable]:
        return lineage_of(self._store, self._path)

    async def _check_before_read(self) -> None:
        """Compare the stored document with this handle's if this process has erased the node since.

        Raises:
            ChangedError: the node was replaced by a group, or by an array with another type, chunks or codecs.
            NodeNotFoundError: it no longer exists.
        """
        count = erasures.count
        if self._options.checks_document and erasures.may_include(self._lineage, self._erasures_seen):
            await self._run_on_io_thread(self._compare_document)
        self._erasures_seen = count

    async def _check_before_write(self, layout: ArrayLayout, maps: Sequence[DimensionMap]) -> None:
        """Check that the elements `maps` of `layout` are inside the stored array, as far as this process knows it.

        The document is read before the first write of an opened handle, and before the first one after this process
        has erased the node, or has changed the array's shape through another handle.

        Raises:
            ChangedError: the stored array has another type, chunks or codecs, or does not have all of the elements.
            NodeNotFoundError: it no longer exists.
        """
        if self._options.checks_document and not self._is_compared():
            await self._run_on_io_thread(self._compare_before_write)
        present = self._present_shape or self.shape
        if present == layout.metadata.shape:
            return
        ends = [stop_of(each) for each in maps[: len(present)]]
        if any([end > length for end, length in zip(ends, present, strict=True)]):
            raise ChangedError(
                f"{self.url} now has the shape {present}, too small for values up to {tuple(ends)}; nothing was "
                "written; `await array.refresh()` loads the new shape",
                store=self._store.url,
            )

    def _is_compared(self) -> bool:
        """Return whether this process has changed nothing since the document was compared with this handle's."""
        seen = self._resizes_seen
        if seen is None:
            return False
        if seen != resizes.count and resizes.may_include(self._lineage, seen):
            return False
        since = self._erasures_seen
        return since == erasures.count or not erasures.may_include(self._lineage, since)

    async def _compare_before_write(self, access: NodeAccess) -> None:
        # Under the node's lock, so that only one of several first writes reads the document.
        async with access.lock():
            if not self._is_compared():
                counts = erasures.count, resizes.count
                try:
                    await self._compare_document(access)
                except (PermissionDeniedError, UnauthenticatedError):
                    # Some credentials may write chunks but read nothing.
                    self._erasures_seen, self._resizes_seen = counts

    async def _compare_document(self, access: NodeAccess) -> None:
        """Read the stored document, adopt its shape, and compare all else with this handle's metadata."""
        counts = erasures.count, resizes.count
        found = await read_explicit(access, self.zarr_format)
        try:
            if found is None:
                raise node_not_found_error(access.store, access.path)
            self._present_shape = self._check_not_replaced(found).shape
        except (ChangedError, NodeNotFoundError):
            if not erasures.may_include(self._lineage, self._erasures_seen):
                # Another process replaced the node: from now on, reads of all its handles compare the document, too.
                erasures.record(self._store, self._path)
            raise
        self._erasures_seen, self._resizes_seen = counts

    def _check_not_replaced(self, stored: NodeMetadata) -> ArrayMetadata:
        """Return the metadata `stored` of this array.

        Raises:
            ChangedError: they are of a group, or of an array with another type, chunks or codecs.
        """
        if isinstance(stored, ArrayMetadata) and self._has_layout_of(stored):
            return stored
        now = f"{stored.dtype} of shape {stored.shape}" if isinstance(stored, ArrayMetadata) else "a group"
        raise ChangedError(
            f"{self.url} was replaced since this handle was opened, and is now {now}; nothing was read or written; "
            "`await array.refresh()` loads the new metadata",
            store=self._store.url,
        )

    def _has_layout_of(self, stored: ArrayMetadata) -> bool:
        """Return whether this array stores its elements as `stored` does, apart from the shape."""
        known = self._metadata
        if len(stored.shape) != len(known.shape):
            return False
        if stored.shape != known.shape:
            from aiozarr.hierarchy.resize import resized_metadata

            known = resized_metadata(self._layout, stored.shape)
        return _equal_layouts(known, stored) or _equal_layouts(known, self._resolve(stored).metadata)

    def _resolve(self, metadata: ArrayMetadata) -> ArrayLayout:
        return ArrayLayout.resolve(metadata, node=self.url, settings=self.settings)


def _import_used(layout: ArrayLayout, store: Store, options: HandleOptions) -> None:
    """Import the modules that reads and writes of an array will need.

    Not during a read, because the child of a fork would wait forever for an import that another thread has begun.
    """
    if options.mode != "r":
        import aiozarr.engine.scheduled_store
        import aiozarr.engine.write_operation
        import aiozarr.hierarchy.casting
        import aiozarr.schedule.executor
    is_whole = layout.shard is None and layout.largest.pipeline.raw is None
    is_simple = is_whole and isinstance(store, BlockingStore)
    inner = layout.spec.shape if layout.shard is None else layout.shard.inner_shape
    if layout.largest.pipeline.raw is None and prod(inner) * layout.spec.dtype.itemsize > SMALL_CHUNK_BYTES:
        import numcodecs  # noqa: F401
    if not is_simple:
        import aiozarr.engine.chunk_request
        import aiozarr.engine.shard_index
        import aiozarr.engine.shard_read
        import aiozarr.grid.byte_runs
    if layout.inner_count != 1:
        import aiozarr.grid.byte_runs  # noqa: F401


def make_array(store: Store, path: str, metadata: NodeMetadata, options: HandleOptions) -> Array:
    """Return the handle of an array.

    Raises:
        NodeTypeError: the metadata describe a group.
    """
    if not isinstance(metadata, ArrayMetadata):
        raise wrong_kind_error(store.url_of(path), path, metadata)
    return Array(store, path, metadata, options)


def _restore(
    store: Store,
    path: str,
    metadata: ArrayMetadata,
    options: HandleOptions,
    run_time: tuple[StorageTransformer, ...],
) -> Array:
    array = Array(store, path, metadata, options)
    for transformer in run_time:
        array = array.with_storage_transformer(transformer)
    return array


def _equal_layouts(one: ArrayMetadata, other: ArrayMetadata) -> bool:
    """Return whether two arrays store the same elements in the same chunks; attributes and names may differ."""
    from aiozarr.metadata.formats import render_node

    same_rest = replace(one, attributes=other.attributes, extra=other.extra, dimension_names=other.dimension_names)
    # A data type of another package may compare by identity; its document says what it is.
    return same_rest == other or render_node(same_rest) == render_node(other)


def _with_length(layout: ArrayLayout, axis: int, length: int) -> ArrayMetadata:
    from aiozarr.hierarchy.resize import resized_metadata

    shape = layout.metadata.shape
    return resized_metadata(layout, [length if dimension == axis else n for dimension, n in enumerate(shape)])
