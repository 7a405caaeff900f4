"""A view is a selection of an array that is read, written, planned or streamed; making one does no I/O."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aiozarr.engine import (
    NO_READ,
    ArrayLayout,
    BlockStream,
    Callback,
    Engine,
    FirstRows,
    Plan,
    Progress,
    Read,
    Thrift,
    Write,
    callback_here,
    check_size,
    plan_bounds,
    run,
    split_limit,
    surely_fits,
)
from aiozarr.errors import SelectionError, StoreTimeoutError
from aiozarr.grid import (
    BasicSelection,
    FieldNames,
    Fields,
    IndexTransform,
    Strided,
    select_orthogonal,
    select_pointwise,
)
from aiozarr.grid.arrangement import core_array, new_array, view_region
from aiozarr.grid.projection import CoreRegion
from aiozarr.grid.touched import LONG, takes_long
from aiozarr.hierarchy.indexer import Indexer, split_fields
from aiozarr.hierarchy.location import key_prefix
from aiozarr.hierarchy.values.written import broadcast_values, convert_values
from aiozarr.memory import owner_of
from aiozarr.schedule import Report, current_recorder
from aiozarr.settings import Settings

if TYPE_CHECKING:
    from aiozarr.hierarchy.array import Array

AnyArray: TypeAlias = NDArray[Any]
T = TypeVar("T")
Region: TypeAlias = tuple[slice | AnyArray, ...]
FieldSelection: TypeAlias = FieldNames | list[str] | tuple[Any, ...]
ProgressCallback: TypeAlias = Callable[[Progress], object]


class View:
    """Elements of an array, as numpy's indexing selects them. `await view` reads them.

    Views are made by brackets, of an array or of another view: `[...]` as numpy's basic indexing, `.oindex[...]` axis
    by axis, `.vindex[...]` point by point. Names of fields in any of them select parts of structured elements.

    A view belongs to the array as it was when the view was made: a later `resize` does not move it, and what the resize
    has erased reads as the fill value.
    """

    __slots__ = ("_array", "_fields", "_layout", "_scalar", "_transform")

    # Without this, Python would try view[0], view[1], ... as it does for whatever can be indexed.
    __iter__ = None

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
        self._layout = layout
        self._transform = transform
        # numpy gives a scalar where integers alone have led to one element, and a 0-d array after `...`.
        self._scalar = scalar
        # The transform has the dimensions of fields behind those of the array.
        self._fields = fields

    @property
    def array(self) -> Array:
        """The array that this is a view of."""
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
        """Number of elements; exact at any size."""
        return self._transform.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements in memory."""
        return self._layout.metadata.dtype if self._fields is None else self._fields.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the elements in memory."""
        return self.size * self.dtype.itemsize

    def __getitem__(self, selection: BasicSelection | FieldSelection) -> View:
        """Return a view of this view, without I/O: integers, slices, `...`, None (a new axis), names of fields.

        `view["a"]` is the field `a` of structured elements, `view[["a", "b"]]` the structure of two fields, and
        `view["a", :3]` is `view["a"][:3]`. The axes of a sub-array come last, as in numpy.

        Raises:
            SelectionError: the selection does not fit; also an `IndexError`.
        """
        return self._select(IndexTransform.select, selection)

    @property
    def oindex(self) -> Indexer[View]:
        """Orthogonal indexing: `view.oindex[[1, 5], :, mask]` takes each axis by itself, as numpy's `np.ix_`.

        Each axis takes an integer, a slice, a list of integers in any order and number, or a mask of its length.
        """
        return Indexer(lambda selection: self._select(select_orthogonal, selection))

    @property
    def vindex(self) -> Indexer[View]:
        """Pointwise indexing: `view.vindex[i, j]` has the element `i[k], j[k]` at `k`, as numpy's index arrays.

        Index arrays broadcast against each other; a mask stands for as many axes as it has. The axes that
        they make come first, before those of slices. Costs grow with the number of points, not of chunks.
        """
        return Indexer(lambda selection: self._select(select_pointwise, selection))

    def __await__(self) -> Generator[Any, Any, AnyArray]:
        return self.read().__await__()

    async def read(self, out: AnyArray | None = None, progress: ProgressCallback | None = None) -> AnyArray:
        """Read the elements: an array of the view's shape, or a numpy scalar where numpy's indexing gives one.

        Args:
            out: a writeable array of the view's shape and dtype, of any strides; it is filled and returned. If the read
                fails, what it holds is undefined. Of subclasses the memory is filled, and a mask is left as it is.
            progress: called with `Progress` as chunks land, on the calling event loop. What it raises ends the read.

        Raises:
            StoreError: bytes could not be had.
            CodecError: bytes did not decode.
            MissingChunkError: a chunk is not stored, and `Settings.missing` is "raise".
            LimitError: the view has more than `Settings.max_chunks` chunks, or one of them decodes to more than
                `Settings.max_chunk_bytes`.
            TypeError, ValueError: `out` does not fit.
            TimeoutError: `Settings.timeout` has passed.
        """
        await self._check_size()
        target = self._output(out)
        if self.size:
            read, landing = self._reading(target, new=out is None)
            recorder, callback = current_recorder(), callback_here(progress)
            await self._run(
                lambda engine: engine.read([read], settings=self._settings, progress=callback, recorder=recorder),
                callback,
            )
            if landing is not target:
                # Here new axes of length 1 are repeated as often as an index array has them.
                await self._run(lambda engine: engine.work(lambda: np.copyto(target, landing)))
        return out if out is not None else self._result(target)

    async def write(self, values: ArrayLike, progress: ProgressCallback | None = None) -> None:
        """Write `values`, broadcast and cast as numpy assignment does, but by the rule `same_kind`.

        A chunk that is written whole is not read first; one that is written in part is read, changed and stored again,
        guarded against other writers. Where the view has an element repeatedly, the last of its values stays. `values`
        must not be changed before this returns.

        Args:
            values: an array of a shape that broadcasts to the view's, or what numpy makes one of.
            progress: called with `Progress` as chunks are stored, on the calling event loop. What it raises ends the
                write.

        Raises:
            UnsupportedOperationError: the array is read-only.
            TypeError: the values are of another kind, such as float for an integer array.
            ValueError: they do not broadcast to the view's shape.
            OverflowError: a Python integer does not fit the dtype.
            StoreError, CodecError, LimitError, TimeoutError: as `read`.
        """
        self._array._check_writeable()
        await self._check_size()
        fitted = broadcast_values(convert_values(values, self.dtype), self.shape)
        if not self.size:
            return
        transform, last = self._transform.unrepeated(), self._transform.last_of_repeated(fitted)
        core = core_array(transform, last)
        if core is None:
            core = await self._run(lambda engine: engine.work(lambda: core_array(transform, last, may_copy=True)))
        assert core is not None
        write = Write(self._layout, self._array._chunk_store, self._prefix, self._transform.maps, core, self._fields)
        recorder, callback = current_recorder(), callback_here(progress)
        await self._run(
            lambda engine: engine.write([write], settings=self._settings, progress=callback, recorder=recorder),
            callback,
        )

    @overload
    def plan(self, *, probe: Literal[False] = False) -> Plan: ...
    @overload
    def plan(self, *, probe: Literal[True]) -> Coroutine[Any, Any, Plan]: ...
    @overload
    def plan(self, *, probe: bool) -> Plan | Coroutine[Any, Any, Plan]: ...
    def plan(self, *, probe: bool = False) -> Plan | Coroutine[Any, Any, Plan]:
        """Return what a read of this view costs.

        Without `probe`: bounds, without I/O. With `probe=True`: an awaitable of the exact requests and bytes,
        for which shard indexes and sizes are fetched. `print` shows either as a table.
        """
        return self._probe() if probe else self._bounds()

    def stream(self, prefetch: int | None = None) -> AsyncGenerator[tuple[Region, AnyArray], None]:
        """Iterate over the blocks of the view as they land, in no promised order.

        Yields `(region, block)`, such that `result[region] = block` for each of them makes up the view: `region` has
        one slice per axis of the view, or one index array per axis where index arrays have made the view and
        the block's elements do not lie together. Leaving the loop early cancels what is under way;
        `contextlib.aclosing` does so at a definite point.

        Args:
            prefetch: how many blocks may be fetched ahead; None: as many as the byte budget allows.

        Raises:
            ValueError: `prefetch` is below 1.
        """
        if prefetch is not None and prefetch < 1:
            raise ValueError(f"prefetch is at least 1 or None, not {prefetch}")
        return self._blocks(prefetch, current_recorder())

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        raise TypeError("a View holds no values; `await view` or `await view.read()` gives the array")

    def __repr__(self) -> str:
        return f"<aiozarr.View {self.shape} {self.dtype} of {self._array.url}>"

    def __reduce__(self) -> tuple[Any, ...]:
        array = self._array if self._array._layout is self._layout else self._array._at(self._layout.metadata)
        return (_restore, (array, self._transform, self._scalar, self._fields))

    # --- for this package ----------------------------------------------------------------------------------------

    def _select(self, select: Callable[[IndexTransform, Any], IndexTransform], selection: Any) -> View:
        """Return the view that `select` makes of `selection`, less the fields that this names."""
        fields, transform, scalar = self._fields, self._transform, self._scalar
        try:
            names, rest = split_fields(selection)
            if names is not None:
                fields = Fields.of(self.dtype, names, before=fields)
                added = fields.shape if self._fields is None else fields.shape[len(self._fields.shape) :]
                transform = transform.extended(added)
                scalar = scalar and not added
            if names is None or rest:
                transform = select(transform, rest)
                # numpy gives a scalar for `a[1, 2]`, and an array without axes for `a[1, 2, ...]`.
                scalar = not transform.shape and not any(item is Ellipsis for item in rest)
        except SelectionError as error:
            error.add_note(f"selecting from a view of shape {self.shape} of {self._array.url}")
            raise
        return View(self._array, self._layout, transform, scalar=scalar, fields=fields)

    @property
    def _settings(self) -> Settings:
        return self._array.settings

    @property
    def _prefix(self) -> str:
        return key_prefix(self._array.path)

    async def _check_size(self) -> None:
        """Raise `LimitError` where the view touches too many chunks."""
        layout, touched, settings = self._layout, self._touched(), self._settings
        if takes_long(touched) and not surely_fits(layout, touched, settings):
            await self._run(lambda engine: engine.work(lambda: check_size(layout, touched, settings)))
        else:
            check_size(layout, touched, settings)

    def _output(self, out: AnyArray | None) -> AnyArray:
        """Return `out` if it fits, or a new array."""
        if out is None:
            return new_array(self._transform, self.dtype)
        if not isinstance(out, np.ndarray):
            raise TypeError(f"out is a numpy array, not {type(out).__name__}")
        if out.shape != self.shape or out.dtype != self.dtype:
            raise ValueError(
                f"out has shape {out.shape} and dtype {out.dtype}, the view has {self.shape} and {self.dtype}"
            )
        if not out.flags.writeable:
            raise ValueError("out is read-only")
        return out.view(np.ndarray)  # what brackets mean is for subclasses to say

    def _reading(self, target: AnyArray, *, new: bool) -> tuple[Read, AnyArray]:
        """Return the read of the view into `target`, or into another array that is to be copied to it, and which.

        `new` says that `target` was made by `_output` just now.
        """
        transform = self._transform
        core = None if transform.repeats else core_array(transform, target)
        if core is None:
            transform = transform.unrepeated()
            target, new = new_array(transform, self.dtype), True
            core = core_array(transform, target)
        assert core is not None
        fresh = owner_of(target) if new else None
        read = Read(self._layout, self._array._chunk_store, self._prefix, transform.maps, core, self._fields, fresh)
        return read, target

    def _result(self, target: AnyArray) -> AnyArray:
        return target[()] if self._scalar else target

    def _touched(self) -> tuple[Any, ...]:
        """Return the maps; empty ones for a new axis that was sliced to nothing, which they do not know of."""
        maps = self._transform.maps
        return maps if self.size else tuple([Strided(0, 1, 0)] * len(maps))

    async def _dry_read(self) -> Read:
        """Return a read without memory behind it, for what only looks at shapes."""
        await self._check_size()
        nothing = np.broadcast_to(np.empty((), self.dtype), self._transform.core_shape)
        return Read(self._layout, self._array._chunk_store, self._prefix, self._touched(), nothing, self._fields)

    def _bounds(self) -> Plan:
        plan, store = NO_READ, self._array._chunk_store
        if self.size:
            layout, touched, limit = self._layout, self._touched(), split_limit(store, self._settings)
            thrift, suffix_reads = Thrift.of(store, self._settings), store.supports.suffix_reads
            plan = plan_bounds(layout, touched, suffix_reads=suffix_reads, split_limit=limit, thrift=thrift)
            plan = replace(plan, first=FirstRows(layout, touched, self._prefix, limit, thrift))
        return replace(plan, array=self._array.url, shape=self.shape)

    async def _probe(self) -> Plan:
        if not self.size:
            return self._bounds()
        recorder = current_recorder()
        read = await self._dry_read()
        plan = await self._run(lambda engine: engine.probe(read, settings=self._settings, recorder=recorder))
        return replace(plan, array=self._array.url, shape=self.shape)

    async def _blocks(
        self, prefetch: int | None, recorder: Report | None
    ) -> AsyncGenerator[tuple[Region, AnyArray], None]:
        if not self.size:
            return
        read = await self._dry_read()

        async def start(engine: Engine) -> BlockStream:
            await engine.sort([read])
            return engine.stream(read, settings=self._settings, prefetch=prefetch, recorder=recorder)

        stream = await run(start)
        try:
            while (step := await self._run(lambda engine: stream.next())) is not None:
                yield await self._placed(*step)
        finally:
            await run(lambda engine: stream.aclose())

    async def _placed(self, region: CoreRegion, block: AnyArray) -> tuple[Region, AnyArray]:
        """Return a block of the core and its place as `stream` hands them out."""
        if block.size < LONG or not takes_long(self._transform.maps):
            return view_region(self._transform, region, block)
        return await self._run(lambda engine: engine.work(lambda: view_region(self._transform, region, block)))

    async def _run(self, function: Callable[[Engine], Awaitable[T]], callback: Callback[Progress] | None = None) -> T:
        try:
            return await run(function, timeout=self._settings.timeout, callback=callback)
        except StoreTimeoutError as error:
            # The clock of an operation knows neither the store nor the array.
            if error.store is None:
                error.store, error.key = self._array.store.url, self._array.path or None
            raise


def _restore(array: Array, transform: IndexTransform, scalar: bool, fields: Fields | None = None) -> View:
    return View(array, array._layout, transform, scalar=scalar, fields=fields)
