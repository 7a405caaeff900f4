"""A view: a selection of an array that can be read, written, planned or streamed. Making one does no I/O."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import numpy as np

# Imported here because the engine would import it on the I/O thread, and block its loop.
import aiozarr.engine.array_read  # noqa: F401
from aiozarr.common.formatting import printable
from aiozarr.engine import (
    ArrayLayout,
    Callback,
    Engine,
    Read,
    bind_callback,
    check_size,
    fits_upper_bound,
    read_directly,
    read_directly_blocking,
    run,
)
from aiozarr.engine.read import MAX_OUT_BYTES
from aiozarr.errors import SelectionError
from aiozarr.grid.axis_layout import core_array, new_array, view_region
from aiozarr.grid.chunk_grid import LARGE_POINT_COUNT, is_expensive
from aiozarr.grid.projection import CoreRegion
from aiozarr.grid.transform import BasicSelection, IndexTransform, Strided, is_basic
from aiozarr.hierarchy.changes import erasures
from aiozarr.hierarchy.indexer import Indexer, length_of, select_as_numpy, split_fields
from aiozarr.hierarchy.node_access import timeouts_located
from aiozarr.hierarchy.unread_values import UnreadValues, unread_error
from aiozarr.memory import owner_of
from aiozarr.schedule.events import Report, current_recorder, has_observers, observed, observed_stream
from aiozarr.stores import BlockingStore

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from aiozarr.common.progress import Progress, ProgressLike
    from aiozarr.engine import BlockStream, Plan
    from aiozarr.grid.fields import FieldNames, Fields
    from aiozarr.hierarchy.array import Array
    from aiozarr.hierarchy.number_casts import Casting

AnyArray: TypeAlias = "NDArray[Any]"
T = TypeVar("T")
Region: TypeAlias = "tuple[slice | AnyArray, ...]"
FieldSelection: TypeAlias = "FieldNames | list[str] | list[int] | list[bool] | AnyArray | tuple[Any, ...]"
"""`BasicSelection`, names of fields, or one list of integers or mask."""


class View(UnreadValues):
    """Selected elements of an array, indexed as in numpy. `await view` reads them.

    Indexing an array or another view makes a view: `[...]` is numpy's basic indexing, `.oindex[...]` selects axis by
    axis, `.vindex[...]` point by point. Field names in any of them select parts of structured elements.

    A view refers to the array as it was when the view was made. A later `resize` does not change it; chunks that the
    resize has erased read as the fill value.
    """

    __slots__ = ("_array", "_fields", "_layout", "_scalar", "_settings", "_transform")

    if TYPE_CHECKING:
        __iter__ = None
    else:
        __iter__ = UnreadValues._refuse_iteration

    def __init__(
        self,
        array: Array,
        layout: ArrayLayout,
        transform: IndexTransform,
        *,
        scalar: bool = False,
        fields: Fields | None = None,
    ) -> None:
        self._array = array
        self._settings = array._options.settings
        self._layout = layout
        self._transform = transform
        # numpy returns a scalar if integers alone select one element, and a 0-d array after `...`.
        self._scalar = scalar
        # In the transform, the dimensions of the array come first, then the dimensions of the fields.
        self._fields = fields

    @property
    def array(self) -> Array:
        """The array of the view."""
        return self._array

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the view's axes."""
        return self._transform.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._transform.ndim

    @property
    def size(self) -> int:
        """Number of elements, as an unbounded integer."""
        return self._transform.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements in memory."""
        return self._layout.spec.dtype if self._fields is None else self._fields.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in memory."""
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        """Return the length of the first axis; a `TypeError` without axes."""
        return length_of(self.shape)

    def __getitem__(self, selection: BasicSelection | FieldSelection) -> View:
        """Return a view of this view, without I/O: integers, slices, `...`, None (a new axis), names of fields.

        `view["a"]` is the field `a` of structured elements, `view[["a", "b"]]` the structure of two fields, and
        `view["a", :3]` is `view["a"][:3]`. The axes of a sub-array come last, as in numpy.
        One list of integers or one mask selects as in numpy. For several of them, use `oindex` or `vindex`.

        Raises:
            SelectionError: the selection does not fit; also an `IndexError`.
        """
        if not is_basic(selection):
            return self._select(select_as_numpy, selection)
        try:
            transform = self._transform.select(selection)
        except SelectionError as error:
            self._note_selection(error)
            raise
        items = selection if type(selection) is tuple else (selection,)
        scalar = not transform.shape and Ellipsis not in items
        return View(self._array, self._layout, transform, scalar=scalar, fields=self._fields)

    @property
    def oindex(self) -> Indexer[View]:
        """Orthogonal indexing: `view.oindex[[1, 5], :, mask]` selects along each axis separately, like `np.ix_`.

        Each axis accepts an integer, a slice, a list of integers in any order, repeated or not, or a mask of its
        length.
        """
        from aiozarr.grid.advanced import select_orthogonal

        return Indexer(lambda selection: self._select(select_orthogonal, selection))

    @property
    def vindex(self) -> Indexer[View]:
        """Pointwise indexing: `view.vindex[i, j]` has the element `i[k], j[k]` at `k`, as numpy's index arrays.

        Index arrays broadcast against each other; a mask replaces as many axes as it has. The axes of the index arrays
        come first, then the axes of slices. The cost grows with the number of points, not with the number of chunks.
        """
        from aiozarr.grid.advanced import select_pointwise

        return Indexer(lambda selection: self._select(select_pointwise, selection))

    def __await__(self) -> Generator[Any, Any, AnyArray]:
        return self.read().__await__()

    @observed("read", lambda _, view, *rest: view._array.url)
    async def read(self, out: AnyArray | None = None, progress: ProgressLike = None) -> AnyArray:
        """Read the elements.

        Args:
            out: a writable array of the view's shape and dtype, of any strides and byte order, that is filled and
                returned. If the read fails, its content is undefined. For a subclass only the memory is filled; a mask
                is not changed.
            progress: called with `Progress` as chunks complete, on the calling event loop. If it raises an exception,
                the read ends with it. True draws a progress bar (needs the extra `cli`).

        Returns: an array of the view's shape, or a numpy scalar if numpy's indexing would return one.

        Raises:
            ChangedError: this process has replaced the array since this handle was opened.
            NodeNotFoundError: this process has deleted it.
            StoreError: the store could not be read.
            CodecError: a chunk could not be decoded.
            MissingChunkError: a chunk is not stored, and `Settings.missing_chunks` is "raise".
            LimitError: the view has more than `Settings.max_chunks` chunks, or one of them decodes to more than
                `Settings.max_chunk_bytes`.
            TypeError, ValueError: `out` does not fit.
            TimeoutError: it took longer than `Settings.timeout`.
        """
        if self._array._erasures_seen != erasures.count:
            await self._array._check_before_read()
        if progress is None and self._may_be_direct():
            found = await read_directly(self._array._chunk_store, self._settings, lambda: self._direct_read(out))
            if found is not None:
                return found
        await self._check_size()
        target = new_array(self._transform, self.dtype) if out is None else self._checked_output(out)
        if 0 not in self._transform.shape:
            read, filled = self._reading(target, new=out is None)
            report = current_recorder()
            fill = partial(Engine.read, reads=(read,), settings=self._settings, report=report)
            if progress is None:
                await self._run(fill)
            else:
                from aiozarr.common.progress import shown_progress

                with shown_progress(progress, f"reading {self._array.name}") as shown:
                    callback = bind_callback(shown)
                    await self._run(partial(fill, progress=callback), callback)
            if filled is not target:
                # Elements that index arrays repeat were read once, and are copied to their repetitions here. So are
                # values to an `out` of the other byte order.
                await self._copy(filled, target)
        return out if out is not None else self._result(target)

    @observed("write", lambda _, view, *rest: view._array.url)
    async def write(self, values: ArrayLike, progress: ProgressLike = None, casting: Casting = "checked") -> None:
        """Write `values`, broadcast as in numpy's assignment, and cast by the rule `casting`.

        A chunk that is written whole is not read. A chunk that is written in part, or that crosses the edge of the
        array, is read, changed and stored again, guarded against concurrent writers, who may have grown the array. If
        the view repeats an element, its last value is stored. `values` must not be changed before this returns.

        Args:
            values: an array, or values that numpy converts to an array, with a shape that broadcasts to the view's.
            progress: called with `Progress` as chunks are stored; as in `read`.
            casting: "checked": numpy's `same_kind`, unless a value overflows, or any cast that keeps every value;
                "same_value", "same_kind", "unsafe": numpy's rules.

        Raises:
            UnsupportedOperationError: the array is read-only.
            ChangedError: the array was replaced since this handle was opened, or has shrunk and no longer has some of
                the elements. This is checked by the first write, and by the first write after a change in this process.
            NodeNotFoundError: the array was deleted since then.
            TypeError: the cast would lose a fraction or an imaginary part; the error names the first such value.
            ValueError: `values` do not broadcast to the view's shape.
            OverflowError: a value is out of the dtype's range, or is NaN and the dtype has no NaN. The error names the
                first such value and its index in `values`. Nothing was stored.
            StoreError, CodecError, LimitError, TimeoutError: as `read`.
        """
        from aiozarr.common.progress import shown_progress
        from aiozarr.engine import Write
        from aiozarr.hierarchy.casting import broadcast_values

        self._array._require_writable()
        await self._check_size()
        converted = await self._converted(values, casting)
        fitted = broadcast_values(converted, self.shape)
        if not self.size:
            return
        await self._array._check_before_write(self._layout, self._transform.maps)
        transform, last = self._transform.unrepeated(), self._transform.last_of_repeated(fitted)
        core = core_array(transform, last)
        if core is None:
            core = await self._run(
                lambda engine: engine.run_in_worker(lambda: core_array(transform, last, may_copy=True))
            )
        assert core is not None
        write = Write(
            self._layout, self._array._chunk_store, self._array._prefix, self._transform.maps, core, self._fields
        )
        report = current_recorder()
        with shown_progress(progress, f"writing {self._array.name}") as shown:
            callback = bind_callback(shown)
            await self._run(
                lambda engine: engine.write(write, settings=self._settings, progress=callback, report=report),
                callback,
            )

    def plan(self) -> Plan:
        """Return bounds of the cost of reading this view, from the metadata and without I/O. `print` shows a table."""
        from aiozarr.engine import NO_READ, LazyRows, MergeLimitBounds, plan_bounds
        from aiozarr.schedule.coalesce import split_limit

        plan, store = NO_READ, self._array._chunk_store
        if self.size:
            layout, touched, limit = self._layout, self._touched(), split_limit(store, self._settings)
            merge_bounds, suffix_reads = MergeLimitBounds.of(store, self._settings), store.supports.suffix_reads
            plan = plan_bounds(layout, touched, suffix_reads=suffix_reads, split_limit=limit, merge_bounds=merge_bounds)
            plan = replace(plan, first=LazyRows(layout, touched, self._array._prefix, limit, merge_bounds))
        return replace(plan, array=self._array.url, shape=self.shape)

    async def probe(self) -> Plan:
        """Return the exact requests and bytes of reading this view, after fetching shard indexes and sizes.

        Raises:
            StoreError, LimitError: as `read`.
        """
        if not self.size:
            return self.plan()
        report = current_recorder()
        read = await self._shape_only_read()
        plan = await self._run(lambda engine: engine.probe(read, settings=self._settings, report=report))
        return replace(plan, array=self._array.url, shape=self.shape)

    def stream(self, prefetch: int | None = None) -> AsyncGenerator[tuple[Region, AnyArray], None]:
        """Iterate over the blocks of the view as they complete, in no particular order.

        Yields `(region, block)`: `result[region] = block` for each of them fills the view. `region` has one slice per
        axis of the view. If index arrays made the view, and the block's elements are not adjacent, it has one index
        array per axis. Leaving the loop early cancels the requests in flight; `contextlib.aclosing` does so at a
        definite point.

        Args:
            prefetch: the number of blocks to fetch ahead; None: as many as the byte budget allows.

        Raises:
            ValueError: `prefetch` is below 1.
        """
        if prefetch is not None and prefetch < 1:
            raise ValueError(f"prefetch must be at least 1 or None, not {prefetch}")
        return observed_stream(self._array.url, lambda report: self._blocks(prefetch, report))

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        raise unread_error(self, "numpy")

    def __dask_tokenize__(self) -> NoReturn:
        raise unread_error(self, "dask")

    def __repr__(self) -> str:
        # asyncio shows the text in the error of `create_task(view)`.
        return f"<aiozarr.View {self.shape} {self.dtype} of {printable(self._array.url)}; await it, or its .read()>"

    def __reduce__(self) -> tuple[Any, ...]:
        array = (
            self._array if self._array._layout is self._layout else self._array._with_metadata(self._layout.metadata)
        )
        return (_restore, (array, self._transform, self._scalar, self._fields))

    # --- for this package ----------------------------------------------------------------------------------------

    def _select(self, select: Callable[[IndexTransform, Any], IndexTransform], selection: Any) -> View:
        """Return the view of `selection`; field names in it are applied here, the rest by `select`."""
        fields, transform, scalar = self._fields, self._transform, self._scalar
        try:
            names, rest = split_fields(selection)
            if names is not None:
                from aiozarr.grid.fields import Fields

                fields = Fields.of(self.dtype, names, before=fields)
                added = fields.shape if self._fields is None else fields.shape[len(self._fields.shape) :]
                transform = transform.extended(added)
                scalar = scalar and not added
            if names is None or rest:
                transform = select(transform, rest)
                # numpy returns a scalar for `a[1, 2]`, and a 0-d array for `a[1, 2, ...]`.
                scalar = not transform.shape and not any(item is Ellipsis for item in rest)
        except SelectionError as error:
            self._note_selection(error)
            raise
        return View(self._array, self._layout, transform, scalar=scalar, fields=fields)

    def _note_selection(self, error: SelectionError) -> None:
        error.add_note(f"selecting from a view of shape {self.shape} of {self._array.url}")

    async def _converted(self, values: ArrayLike, casting: Casting = "checked") -> AnyArray:
        """Return `values` cast to the type of the view; many of them in a worker."""
        from aiozarr.hierarchy.casting import convert_values, is_large_cast

        dtype = self.dtype
        if not is_large_cast(values, dtype):
            return convert_values(values, dtype, casting, is_element=self._scalar)
        natural = np.asarray(values)

        async def work(engine: Engine) -> AnyArray:
            return await engine.run_in_worker(lambda: convert_values(natural, dtype, casting), natural.nbytes)

        return await self._run(work)

    async def _check_size(self) -> None:
        """Raise `LimitError` if the view touches too many chunks."""
        layout, touched, settings = self._layout, self._touched(), self._settings
        if fits_upper_bound(layout, touched, settings):
            return
        if is_expensive(touched):
            await self._run(lambda engine: engine.run_in_worker(lambda: check_size(layout, touched, settings)))
        else:
            check_size(layout, touched, settings)

    def _checked_output(self, out: AnyArray) -> AnyArray:
        """Return `out` as an array of numpy if a read can fill it."""
        if not isinstance(out, np.ndarray):
            raise TypeError(f"out must be a numpy array, not {type(out).__name__}")
        if out.shape != self.shape or not _is_same_type(out.dtype, self.dtype):
            raise ValueError(
                f"out has shape {out.shape} and dtype {out.dtype}, but the view has {self.shape} and "
                f"{self.dtype}; read without out= and cast the result"
            )
        if not out.flags.writeable:
            raise ValueError("out is read-only; pass a writable array")
        return out.view(np.ndarray)  # A subclass may override indexing.

    def _reading(self, target: AnyArray, *, new: bool) -> tuple[Read, AnyArray]:
        """Return the read of the view, and the array that it fills: `target`, or one to be copied to it.

        `new`: whether `target` was made by `new_array`.
        """
        transform = self._transform
        core = None if transform.repeats or target.dtype != self.dtype else core_array(transform, target)
        if core is None:
            transform = transform.unrepeated()
            target, new = new_array(transform, self.dtype), True
            core = core_array(transform, target)
        assert core is not None
        fresh = owner_of(target) if new else None
        read = Read(
            self._layout, self._array._chunk_store, self._array._prefix, transform.maps, core, self._fields, fresh
        )
        return read, target

    def _copy(self, source: AnyArray, target: AnyArray) -> Coroutine[Any, Any, None]:
        """Return the coroutine in which a worker copies `source` to `target`."""
        return self._run(lambda engine: engine.run_in_worker(lambda: np.copyto(target, source)))

    def _may_be_direct(self) -> bool:
        """Return whether the elements are few, and may be read without the I/O thread."""
        # Only cached chunks, and stores whose calls block, need no requests.
        if not self._settings.chunk_cache_bytes and not isinstance(self._array._chunk_store, BlockingStore):
            return False
        # A read that is recorded or observed needs the I/O thread.
        if not 0 < self.nbytes <= MAX_OUT_BYTES or current_recorder() is not None or has_observers():
            return False
        # After an erasure, the ordinary read compares the document first.
        return self._array._erasures_seen == erasures.count and not is_expensive(self._transform.maps)

    def _direct_read(self, out: AnyArray | None) -> tuple[Read, Callable[[], AnyArray]]:
        """Return a read, and a function that returns its elements when it is done."""
        check_size(self._layout, self._touched(), self._settings)
        target = new_array(self._transform, self.dtype) if out is None else self._checked_output(out)
        read, filled = self._reading(target, new=out is None)

        def finish() -> AnyArray:
            if filled is not target:
                np.copyto(target, filled)
            return out if out is not None else self._result(target)

        return read, finish

    def _read_directly_blocking(self, out: AnyArray | None) -> AnyArray | None:
        """Return the elements of a small read in the calling thread; None if `read` has to be called."""
        if not self._may_be_direct():
            return None
        return read_directly_blocking(self._array._chunk_store, self._settings, lambda: self._direct_read(out))

    def _result(self, target: AnyArray) -> AnyArray:
        return target[()] if self._scalar else target

    def _touched(self) -> tuple[Any, ...]:
        """Return the maps; empty ones if a new axis is empty, which the maps do not contain."""
        maps = self._transform.maps
        return tuple([Strided(0, 1, 0)] * len(maps)) if 0 in self._transform.shape else maps

    async def _shape_only_read(self) -> Read:
        """Return a read without memory, for callers that use only its shapes."""
        if self._array._erasures_seen != erasures.count:
            await self._array._check_before_read()
        await self._check_size()
        nothing = np.broadcast_to(np.empty((), self.dtype), self._transform.core_shape)
        return Read(self._layout, self._array._chunk_store, self._array._prefix, self._touched(), nothing, self._fields)

    async def _blocks(
        self, prefetch: int | None, report: Report | None
    ) -> AsyncGenerator[tuple[Region, AnyArray], None]:
        if not self.size:
            return
        read = await self._shape_only_read()

        async def start(engine: Engine) -> BlockStream:
            await engine.prepare([read], self._settings)
            return engine.stream(read, settings=self._settings, prefetch=prefetch, report=report)

        stream = await run(start)
        try:
            while (step := await self._run(lambda engine: stream.next())) is not None:
                yield await self._to_view_region(*step)
        finally:
            await run(lambda engine: stream.aclose())

    async def _to_view_region(self, region: CoreRegion, block: AnyArray) -> tuple[Region, AnyArray]:
        """Return a block and its region in the view, from a block and its region in the array."""
        if block.size < LARGE_POINT_COUNT or not is_expensive(self._transform.maps):
            return view_region(self._transform, region, block)
        return await self._run(lambda engine: engine.run_in_worker(lambda: view_region(self._transform, region, block)))

    def _run(
        self, function: Callable[[Engine], Coroutine[Any, Any, T]], callback: Callback[Progress] | None = None
    ) -> Coroutine[Any, Any, T]:
        """Return the coroutine that awaits `function` on the I/O thread."""
        if self._settings.timeout is None:
            return run(function, callback=callback)
        return self._run_within_timeout(function, callback)

    async def _run_within_timeout(
        self, function: Callable[[Engine], Coroutine[Any, Any, T]], callback: Callback[Progress] | None
    ) -> T:
        with timeouts_located([self._array.store], self._array.path):
            return await run(function, timeout=self._settings.timeout, callback=callback)


def _is_same_type(dtype: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Return whether two types are equal, in either byte order. Some, such as variable text, have none."""
    return dtype == wanted or (dtype.kind != "T" and dtype.newbyteorder("=") == wanted)


def _restore(array: Array, transform: IndexTransform, scalar: bool, fields: Fields | None = None) -> View:
    return View(array, array._layout, transform, scalar=scalar, fields=fields)
