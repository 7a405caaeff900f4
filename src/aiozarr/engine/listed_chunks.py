"""Chunks that a caller lists by key, shape and indices, for libraries that have grids of their own.

Nothing here depends on the shape of an array, its chunk grid or its chunk keys: an array may have been resized since
its layout was resolved. The entries of the engine are the same as for views: `Engine.read` and `Engine.write`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from aiozarr.engine.layout import ArrayLayout, ObjectLayout
from aiozarr.errors import SelectionError
from aiozarr.grid.key_encoding import ChunkKeyEncoding
from aiozarr.grid.numpy_selection import BoxSelector, NumpyIndex, output_extents, select_by_numpy
from aiozarr.grid.projection import ChunkSelection
from aiozarr.grid.transform import DimensionMap


class ListedChunk(NamedTuple):
    """Elements of one stored object: `out[out_index] = chunk[chunk_index]`.

    Attributes:
        key: the object's key in the store.
        shape: the shape of the chunk or shard.
        chunk_index: the elements, one item per dimension.
        out_index: their positions in the output.
        is_complete: True if these are all elements of the chunk that lie inside the array.
    """

    key: str
    shape: tuple[int, ...]
    chunk_index: NumpyIndex
    out_index: NumpyIndex
    is_complete: bool


@dataclass(frozen=True, eq=False)
class ListedLayout(ArrayLayout):
    """The layout of an array of which only the listed chunks exist; their numbers are their coordinates."""

    shapes: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(cls, layout: ArrayLayout, keys: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> Self:
        """Return the layout of chunks of these keys and shapes, with the codecs of `layout`."""
        distinct = set(shapes)
        single = layout.single
        if len(distinct) == 1:
            (shape,) = distinct
            single = layout.largest if shape == layout.spec.shape else layout.object_of_shape(shape)
        elif distinct:
            single = None
        values = {name: getattr(layout, name) for name in layout.__dataclass_fields__}
        values.update(
            key_encoding=_ListedKeys(keys),
            largest=layout.largest if single is None else single,
            single=single,
            # One key may hold chunks of other shapes after another grid was stored.
            decoding_id=layout.decoding_id if single is layout.largest else f"{sorted(distinct)}{layout.decoding_id}",
        )
        return cls(**values, shapes=tuple(shapes))

    def object_of(self, projection: ChunkSelection) -> ObjectLayout:
        """Return the layout of a chunk."""
        return self.single or self.object_of_shape(self.shapes[_number(projection.coords)])

    def _largest_touched(self, maps: Sequence[DimensionMap] | None) -> tuple[int, ...]:
        if self.single is not None:
            return self.single.spec.shape
        return tuple([max(lengths) for lengths in zip(*self.shapes, strict=True)])


def _number(coords: Iterable[int]) -> int:
    """Return the number of a listed chunk. Without dimensions there are no coordinates, and one chunk."""
    return next(iter(coords), 0)


class _ListedKeys(ChunkKeyEncoding):
    """The keys of listed chunks in the store, by their numbers."""

    name = "listed"

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any], ndim: int) -> Self:
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        raise NotImplementedError

    def encode(self, coords: Iterable[int]) -> str:
        return self._keys[_number(coords)]


class ListedChunks:
    """The selections of listed chunks, with the layout that has their keys and shapes.

    Raises:
        SelectionError: a pair of indices is none that chunks are split by.
    """

    def __init__(self, layout: ArrayLayout, chunks: Sequence[ListedChunk], dropped: Sequence[int] = ()) -> None:
        boxes = BoxSelector()
        self._selections = [
            _selected(number, chunk, dropped, boxes)
            for number, chunk in enumerate(chunks if layout.grid.shape else chunks[:1])
        ]
        self.layout = ListedLayout.of(layout, [chunk.key for chunk in chunks], [chunk.shape for chunk in chunks])

    @property
    def output_extents(self) -> tuple[int, ...]:
        """The least shape of an output that has all positions."""
        return output_extents(self._selections)

    def __len__(self) -> int:
        return len(self._selections)

    def __iter__(self) -> Iterator[ChunkSelection]:
        return iter(self._selections)


def _selected(number: int, chunk: ListedChunk, dropped: Sequence[int], boxes: BoxSelector) -> ChunkSelection:
    _, shape, inside, outside, is_complete = chunk
    selection: ChunkSelection | None = None
    if not dropped:
        selection = boxes.select(number, shape, inside, outside, is_complete=is_complete)
    if selection is None:
        selection = select_by_numpy(number, shape, inside, outside, is_complete=is_complete, dropped=dropped)
    if selection is None:
        raise SelectionError(
            f"the index {chunk.chunk_index} of the chunk {chunk.key!r} and the index {chunk.out_index} of the output "
            "must be two slices, two orthogonal index arrays or two pointwise index arrays"
        )
    return selection
