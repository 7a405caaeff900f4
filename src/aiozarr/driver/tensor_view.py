"""The view of an array that a spec opens, with the schema, domain and indexing of TensorStore."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from math import prod
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aiozarr.common.progress import Progress
from aiozarr.driver.chunk_layout import ChunkLayout, view_layout
from aiozarr.driver.index_domain import IndexDomain, repeated_label
from aiozarr.driver.index_transform import DomainTransform
from aiozarr.driver.json_members import JSON
from aiozarr.driver.schema import CodecSchema, Schema, Unit
from aiozarr.driver.selection import ArraySelection, array_selection, select, strided_selection
from aiozarr.driver.stored_array import StoredArray, is_stale, rechecked, resized, resolved
from aiozarr.errors import SelectionError, UnsupportedOperationError
from aiozarr.hierarchy import Array, View
from aiozarr.hierarchy.internal import Indexer, broadcast_values, converted, transformed_view

AnyArray: TypeAlias = NDArray[Any]
ProgressCallback: TypeAlias = Callable[[Progress], object]
V = TypeVar("V")


class ByDimension(Indexer[V]):
    """An operation with one argument per dimension: `view.translate_to[0, 0]`, or as a call."""

    __slots__ = ()

    def __getitem__(self, selection: Any) -> V:
        """Apply the operation."""
        return self._select(selection)

    def __call__(self, *arguments: Any) -> V:
        """Apply the operation."""
        return self[arguments[0] if len(arguments) == 1 else arguments]


class TensorView:
    """A view of an array, with a domain of indices. `await view` reads it, `.write(values)` writes it.

    Indices refer to the domain: they need not begin at 0, and negative indices do not count from the end. Indexing,
    translating, labelling and transposing make views without I/O. Reads and writes use the underlying array.
    """

    __slots__ = ("_last", "_stored", "_transform")

    # Without this, iteration would fall back to view[0], view[1], ...
    __iter__ = None

    def __init__(self, stored: StoredArray, transform: DomainTransform) -> None:
        self._stored = stored
        self._transform = transform
        # The view of the array, kept for the next read because making it is 3 % of the time of reading a small chunk.
        self._last: tuple[View, ArraySelection] | None = None

    # --- properties ----------------------------------------------------------------------------------------------

    @property
    def array(self) -> Array:
        """The whole stored array."""
        return self._stored.array

    @property
    def domain(self) -> IndexDomain:
        """The indices of the view: bounds, implicit flags and labels."""
        return self._transform.domain

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return self.domain.rank

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.domain.rank

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self.domain.shape

    @property
    def origin(self) -> tuple[int, ...]:
        """The first index of each dimension."""
        return self.domain.origin

    @property
    def size(self) -> int:
        """Number of elements, as an unbounded integer."""
        return prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements in memory."""
        return self.array.dtype

    @property
    def fill_value(self) -> Any:
        """The value of chunks that are not stored, as a numpy scalar."""
        return self.array.fill_value

    @property
    def dimension_units(self) -> tuple[Unit | None, ...]:
        """The unit of each dimension, multiplied by its stride; None if it is unknown."""
        units: list[Unit | None] = [None] * self.rank
        for output, unit in zip(self._transform.outputs, self._stored.facts.units, strict=True):
            if output.input_dimension is not None and unit is not None:
                units[output.input_dimension] = Unit(unit.multiplier * abs(output.stride), unit.base)
        return tuple(units)

    @property
    def chunk_layout(self) -> ChunkLayout:
        """The chunk layout, in coordinates of the view's domain."""
        return view_layout(self._stored.facts.chunk_layout, self._transform)

    @property
    def codec(self) -> CodecSchema:
        """The codecs of the array."""
        return self._stored.facts.codec

    @property
    def schema(self) -> Schema:
        """The schema of the view; `.to_json()` is its JSON."""
        facts = self._stored.facts
        return Schema(
            dtype=facts.data_type.name,
            rank=self.rank,
            domain=self.domain,
            chunk_layout=self.chunk_layout,
            codec=self.codec,
            fill_value=facts.fill_json,
            has_fill_value=True,
            dimension_units=self.dimension_units,
        )

    @property
    def readable(self) -> bool:
        """True if the view can be read."""
        return self._stored.spec.can_read

    @property
    def writable(self) -> bool:
        """True if the view can be written."""
        return self._stored.spec.can_write and not self.array.read_only

    @property
    def url(self) -> str:
        """The URL pipeline that opens the array, without secrets."""
        return f"{self.array.url.rstrip('/')}/|{self._stored.spec.format.adapter}:"

    def spec(self, *, minimal_spec: bool = False) -> dict[str, JSON]:
        """Return the JSON that opens this view again.

        Args:
            minimal_spec: leave out the metadata, so that the spec opens whatever is stored.
        """
        stored = self._stored
        found: dict[str, JSON] = {
            "driver": stored.spec.driver,
            "dtype": stored.facts.data_type.name,
            "kvstore": stored.spec.kvstore.to_json(),
            "transform": self._transform.to_json(),
            **stored.spec.non_defaults,
        }
        if not minimal_spec:
            found["metadata"] = stored.facts.to_json()
        if stored.spec.assume_metadata:
            found["assume_metadata"] = True
        return found

    # --- indexing ------------------------------------------------------------------------------------------------

    def __getitem__(self, selection: Any) -> TensorView:
        """Return the view of integers, slices, `...`, None (a new dimension), index arrays and masks, without I/O.

        `view[3:8:2]` has a domain that begins at 1 and a stride of 2. Index arrays broadcast against each other. Their
        dimensions replace the dimension of the first index array, or come first if a slice is between them.

        Raises:
            SelectionError: an index is outside the domain, or an item is not an index; also an `IndexError`.
        """
        return self._with(select(self._transform, selection))

    @property
    def oindex(self) -> ByDimension[TensorView]:
        """Orthogonal indexing: `view.oindex[[1, 5], [2, 3]]` selects along each dimension separately."""
        return ByDimension(lambda selection: self._with(select(self._transform, selection, "outer")))

    @property
    def vindex(self) -> ByDimension[TensorView]:
        """Pointwise indexing: the dimensions of index arrays come first."""
        return ByDimension(lambda selection: self._with(select(self._transform, selection, "vectorized")))

    @property
    def translate_to(self) -> ByDimension[TensorView]:
        """`view.translate_to[0, 0]`: the view whose domain begins there; one number applies to all dimensions."""
        return ByDimension(lambda origin: self._with(self._transform.translated(self._each(origin))))

    @property
    def translate_by(self) -> ByDimension[TensorView]:
        """`view.translate_by[5, -1]`: the view whose domain is moved by this; one number applies to all dimensions."""
        return ByDimension(self._translate_by)

    @property
    def translate_backward_by(self) -> ByDimension[TensorView]:
        """`view.translate_backward_by[5, 1]`: the view whose domain is moved back by these offsets."""
        return ByDimension(
            lambda offsets: self._translate_by([None if each is None else -each for each in self._each(offsets)])
        )

    @property
    def label(self) -> ByDimension[TensorView]:
        """`view.label["x", "y"]`: the view with these labels; "" means no label."""
        return ByDimension(self._label)

    def transpose(self, order: Sequence[int | str] | None = None) -> TensorView:
        """Return the view whose dimension `i` is the dimension `order[i]` of this one; None reverses them.

        Dimensions are given by number, negative from the end, or by label.

        Raises:
            SelectionError: `order` is not a permutation of the dimensions.
        """
        given = list(reversed(range(self.rank))) if order is None else [self._dimension(each) for each in order]
        if sorted(given) != list(range(self.rank)):
            raise SelectionError(f"{order!r} is not a permutation of the {self.rank} dimensions")
        return self._with(self._transform.transposed(given))

    @property
    def T(self) -> TensorView:  # noqa: N802  # numpy's name
        """The view with its dimensions reversed."""
        return self.transpose()

    # --- reading and writing -------------------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, Any, AnyArray]:
        return self.read().__await__()

    async def read(self, out: AnyArray | None = None, progress: ProgressCallback | None = None) -> AnyArray:
        """Read the elements; arguments and errors are the same as for `aiozarr.View.read`.

        Returns: an array of the view's shape, 0-dimensional if the view has no dimensions.

        Raises:
            OverflowError, TypeError, ValueError: `values` do not fit the data type; as `aiozarr.View.write`.
            SelectionError: the domain reaches beyond the stored array.
            UnsupportedOperationError: the view was opened for writing only.
        """
        if not self.readable:
            raise UnsupportedOperationError(f"{self.url} was opened with write=true only", store=self.array.store.url)
        if is_stale(self._stored):
            self._stored = await rechecked(self._stored)
        view, selection = self._view()
        target = out if out is None or not isinstance(out, np.ndarray) else selection.from_view(out)
        values = await view.read(target, progress)
        return selection.to_view(values) if out is None else out

    async def write(self, values: ArrayLike, progress: ProgressCallback | None = None) -> None:
        """Write `values`; arguments and errors are the same as for `aiozarr.View.write`.

        Chunks that end up equal to the fill value, bit by bit, are not stored.

        Raises:
            OverflowError, TypeError, ValueError: `values` do not fit the data type; as `aiozarr.View.write`.
            SelectionError: the domain reaches beyond the stored array.
            UnsupportedOperationError: the view was opened for reading only.
        """
        if not self._stored.spec.can_write:
            raise UnsupportedOperationError(f"{self.url} was opened with read=true only", store=self.array.store.url)
        if is_stale(self._stored):
            self._stored = await rechecked(self._stored)
        view, selection = self._view()
        if selection.order is not None:
            values = selection.from_view(broadcast_values(await converted(view, values), self.shape))
        await view.write(values, progress)

    async def resize(
        self,
        exclusive_max: Sequence[int | None] | None = None,
        *,
        inclusive_min: Sequence[int | None] | None = None,
        resize_metadata_only: bool = False,
        expand_only: bool = False,
        shrink_only: bool = False,
    ) -> TensorView:
        """Change the shape of the stored array, and return the view with the new bounds. This view keeps its own.

        Args:
            exclusive_max: the new ends of the dimensions of the domain; None keeps a bound.
            inclusive_min: the current origin, which cannot change; None keeps a bound.
            resize_metadata_only: do not erase chunks outside the new shape.
            expand_only: raise if a dimension would shrink.
            shrink_only: raise if a dimension would grow.

        Raises:
            ValueError: a bound cannot be changed, or `expand_only` or `shrink_only` forbids it.
            UnsupportedOperationError: the spec assumes metadata, or the view cannot be written.
            NodeNotFoundError: the document is no longer stored.
            SpecMismatchError: a different array is now stored.
        """
        stored = await resized(
            self._stored,
            self._transform,
            exclusive_max,
            inclusive_min,
            delete_chunks=not resize_metadata_only,
            expand_only=expand_only,
            shrink_only=shrink_only,
        )
        return TensorView(stored, self._transform.resolved(stored.facts.domain))

    async def resolve(self) -> TensorView:
        """Return the view with the bounds of the array as it is stored now.

        Raises:
            NodeNotFoundError, SpecMismatchError: as `resize`.
        """
        stored = await resolved(self._stored)
        return TensorView(stored, self._transform.resolved(stored.facts.domain))

    async def aclose(self) -> None:
        """Close the store that was created for the spec. May be called twice."""
        await self.array.aclose()

    async def __aenter__(self) -> TensorView:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        raise TypeError("a TensorView does not contain values; use `await view` or `await view.read()`")

    def __reduce__(self) -> tuple[Any, ...]:
        return (TensorView, (self._stored, self._transform))

    def __repr__(self) -> str:
        return f"<aiozarr.driver.TensorView {self.domain} {self.dtype} of {self.url}>"

    # --- for this package ----------------------------------------------------------------------------------------

    def _view(self) -> tuple[View, ArraySelection]:
        """Return the view of the array with the same elements, and its selection.

        Raises:
            SelectionError: the domain reaches beyond the array.
        """
        array = self._stored.array
        if self._last is None or self._last[0].array is not array:
            shape = self._stored.facts.shape
            selection = strided_selection(self._transform, shape)
            if selection is None:
                self._transform.check(shape)
                selection = array_selection(self._transform)
            self._last = transformed_view(array, selection.transform), selection
        return self._last

    def _with(self, transform: DomainTransform) -> TensorView:
        return TensorView(self._stored, transform)

    def _each(self, value: Any) -> Sequence[int | None]:
        """Return one number or None per dimension."""
        if isinstance(value, int | np.integer):
            return [int(value)] * self.rank
        found = list(value)
        if len(found) == 1:
            found *= self.rank
        if len(found) != self.rank:
            raise SelectionError(f"expected {self.rank} numbers, one per dimension, not {len(found)}")
        return found

    def _translate_by(self, offsets: Any) -> TensorView:
        pairs = zip(self.origin, self._each(offsets), strict=True)
        return self._with(self._transform.translated([None if by is None else at + by for at, by in pairs]))

    def _label(self, labels: Any) -> TensorView:
        names = [labels] if isinstance(labels, str) else list(labels)
        if len(names) != self.rank or not all(isinstance(name, str) for name in names):
            raise SelectionError(f"expected {self.rank} labels, not {labels!r}")
        if (repeated := repeated_label(names)) is not None:
            raise SelectionError(f"the label {repeated!r} is not unique")
        domain = self.domain.with_labels(names)
        return self._with(DomainTransform(domain, self._transform.outputs))

    def _dimension(self, name: int | str) -> int:
        if isinstance(name, str):
            if not name or name not in self.domain.labels:
                raise SelectionError(f"no dimension has the label {name!r}")
            return self.domain.labels.index(name)
        return name + self.rank if name < 0 else name
