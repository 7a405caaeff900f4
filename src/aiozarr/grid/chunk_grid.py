"""Chunk grids: the division of an array into chunks (v3 core specification, "Chunk grids").

Functions project a selection onto the chunks that it touches, count them, or bound their number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.grid.axes import Axis, RegularAxis, regular_axes
from aiozarr.grid.projection import ChunkSelections, Projection
from aiozarr.grid.transform import DimensionMap, Indexed
from aiozarr.plugins import ClassRegistry, NamedConfiguration, check_members

if TYPE_CHECKING:
    from aiozarr.grid.fields import Fields

LARGE_POINT_COUNT = 1 << 14
"""Number of points of an index array from which sorting runs in a worker and not on the event loop."""


def project(axes: Sequence[Axis], maps: Sequence[DimensionMap], fields: Fields | None = None) -> ChunkSelections:
    """Return the selections of all chunks that `maps` touch.

    Args:
        axes: one per dimension of the grid.
        maps: one per dimension of the grid, followed by one per dimension of `fields`.
        fields: the selected fields of each element; None for complete elements.
    """
    if fields is not None:
        from aiozarr.grid.fields import FieldProjections

        own = [RegularAxis(length, length) for length in fields.shape]
        return FieldProjections(project([*axes, *own], maps), fields, len(axes))
    basic = [each for each in maps if not isinstance(each, Indexed)]
    if len(basic) == len(maps):
        return Projection(axes, basic)
    from aiozarr.grid.points import PointProjections

    return PointProjections.of(axes, maps)


def count_chunks(axes: Sequence[Axis], maps: Sequence[DimensionMap]) -> int:
    """Return the number of chunks that `maps` touch. The time grows with index arrays only, not with the chunks.

    Any maps beyond the dimensions of the grid belong to fields, which add no chunks.
    """
    counts = []
    inside = maps[: len(axes)]
    for dimension, (axis, each) in enumerate(zip(axes, inside, strict=True)):
        if not isinstance(each, Indexed):
            counts.append(axis.count(each))
        elif each.group == dimension:
            from aiozarr.grid.index_groups import count_chunks_of_points, flat_indices, group_dims

            dims = group_dims(inside, dimension)
            counts.append(count_chunks_of_points([axes[other] for other in dims], flat_indices(maps, dims)))
    return prod(counts)


def chunk_count_bound(axes: Sequence[Axis], maps: Sequence[DimensionMap]) -> int:
    """Return an upper bound of `count_chunks` without reading the values of index arrays."""
    bounds = []
    inside = maps[: len(axes)]
    for dimension, (axis, each) in enumerate(zip(axes, inside, strict=True)):
        if not isinstance(each, Indexed):
            bounds.append(axis.count(each))
        elif each.group == dimension:
            from aiozarr.grid.index_groups import group_dims

            chunks = prod([axes[other].chunks for other in group_dims(inside, dimension)])
            bounds.append(min(each.indices.size, chunks))
    return prod(bounds)


def is_expensive(maps: Sequence[DimensionMap]) -> bool:
    """Return whether counting or sorting the index arrays would block an event loop noticeably."""
    return any([isinstance(each, Indexed) and each.indices.size >= LARGE_POINT_COUNT for each in maps])


_POINT = "chunk_grid"
_CHUNK_SHAPE = "chunk_grid.configuration.chunk_shape"
_END = 1 << 63

MAX_LENGTH_RUNS = 1 << 18
"""Maximum number of runs of equal chunk lengths, summed over the dimensions of one grid."""

GridClass = TypeVar("GridClass", bound="type[ChunkGrid]")


class ChunkGrid(ABC):
    """The chunks of one array: hyperrectangles that tile it (v3 core specification, "Chunk grids").

    Third parties subclass it and register the class with `register_chunk_grid`. The abstract methods suffice for grids
    whose chunk boundaries along one dimension are independent of the other dimensions.

    Attributes:
        name: the name in metadata documents.
    """

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Mapping[str, Any], shape: Sequence[int]) -> Self:
        """Build the grid of an array of `shape` from the `configuration` member.

        Raises:
            InvalidMetadataError: the configuration is invalid; `member` is the path from the document.
        """

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the `configuration` member."""

    @property
    @abstractmethod
    def array_shape(self) -> tuple[int, ...]:
        """Shape of the array."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Number of chunks along each dimension; 0 if the array has length 0."""

    @abstractmethod
    def edges(self, dimension: int) -> Sequence[int]:
        """Return the boundaries of the chunks along one dimension, ascending: chunk `i` is `[edges[i], edges[i + 1])`.

        There is one more boundary than there are chunks. The last chunk is complete, so its end may be past the end of
        the array.
        """

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.array_shape)

    @fork_safe_cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The dimensions of the grid, for readers and writers.

        Raises:
            UnsupportedMetadataError: a dimension has more than 262,144 chunks and the class does not override `axes`.
        """
        return tuple([_axis_of(self, dimension) for dimension in range(self.ndim)])

    @property
    def largest_chunk(self) -> tuple[int, ...]:
        """Shape of the largest chunk, with its elements past the end of the array."""
        return tuple([axis.longest() for axis in self.axes])

    def with_shape(self, shape: Sequence[int], multiple: Sequence[int] | None = None) -> ChunkGrid:
        """Return the grid of the array after a resize to `shape`.

        Args:
            shape: the new shape, of the same rank.
            multiple: per dimension the divisor of the lengths of added chunks, as shards require; None for any length.
        """
        return self.from_json(self.to_json(), shape)


class RegularGrid(ChunkGrid):
    """The grid `regular`: chunks of one shape (v3 core specification, "Regular grids").

    Chunks at the end of a dimension extend past it and are stored complete. A chunk length of 0 is allowed for a
    dimension of length 0 and counts as 1.

    Raises:
        ValueError: the shapes differ in rank, a length is negative, or a chunk length is 0.
    """

    name = "regular"

    def __init__(self, array_shape: Sequence[int], chunk_shape: Sequence[int]) -> None:
        if len(array_shape) != len(chunk_shape):
            raise ValueError(f"chunks of shape {tuple(chunk_shape)} do not fit an array of shape {tuple(array_shape)}")
        for length, chunk in zip(array_shape, chunk_shape, strict=True):
            if length < 0 or chunk < (1 if length else 0):
                raise ValueError(
                    f"chunks of shape {tuple(chunk_shape)} do not fit an array of shape {tuple(array_shape)}"
                )
        self._array_shape = tuple(array_shape)
        self.chunk_shape: tuple[int, ...] = tuple([max(chunk, 1) for chunk in chunk_shape])
        self._shape = tuple([-(-n // chunk) for n, chunk in zip(self._array_shape, self.chunk_shape, strict=True)])

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any], shape: Sequence[int]) -> Self:
        """Build the grid of an array of `shape` from `{"chunk_shape": [...]}`.

        Raises:
            InvalidMetadataError: `chunk_shape` is not a list of positive integers, or has another rank than the array.
            UnsupportedMetadataError: a length of 2^63 or more, or an unknown member.
        """
        check_members(configuration, ("chunk_shape",), point=_POINT, name=cls.name)
        chunk_shape = configuration.get("chunk_shape")
        if not isinstance(chunk_shape, list | tuple):
            raise InvalidMetadataError("expected a list of integers", member=_CHUNK_SHAPE)
        if len(chunk_shape) != len(shape):
            raise InvalidMetadataError(
                f"the chunks have {len(chunk_shape)} dimensions, the array has {len(shape)}", member=_CHUNK_SHAPE
            )
        for dimension, chunk in enumerate(chunk_shape):
            chunk_length(chunk, f"{_CHUNK_SHAPE}[{dimension}]")
        return cls(shape, chunk_shape)

    def to_json(self) -> dict[str, Any]:
        """Return `{"chunk_shape": [...]}`."""
        return {"chunk_shape": list(self.chunk_shape)}

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self._array_shape

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of chunks along each dimension; 0 if the array has length 0."""
        return self._shape

    @fork_safe_cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The dimensions of the grid."""
        return regular_axes(self.chunk_shape, self._array_shape)

    @property
    def largest_chunk(self) -> tuple[int, ...]:
        """Shape of every chunk."""
        return self.chunk_shape

    def edges(self, dimension: int) -> range:
        """Return the multiples of the chunk length, as a range of constant size."""
        chunk = self.chunk_shape[dimension]
        return range(0, self._shape[dimension] * chunk + 1, chunk)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RegularGrid):
            return NotImplemented
        return (self._array_shape, self.chunk_shape) == (other._array_shape, other.chunk_shape)

    def __hash__(self) -> int:
        return hash((self._array_shape, self.chunk_shape))

    def __repr__(self) -> str:
        return f"RegularGrid({self._array_shape}, {self.chunk_shape})"


_registry: ClassRegistry[ChunkGrid] = ClassRegistry(
    _POINT, ChunkGrid, package="aiozarr.grid", modules={"rectilinear": "rectilinear"}
)
_registry.register(RegularGrid)


def register_chunk_grid(grid: GridClass) -> GridClass:
    """Register a chunk grid under its `name` in this process. Also a class decorator.

    A later registration of a name replaces the earlier one, for arrays that are opened after it.

    Raises:
        TypeError: `grid` is not a concrete subclass of `ChunkGrid` with a name.
    """
    return _registry.register(grid)


def resolve_grid(config: NamedConfiguration, shape: Sequence[int]) -> ChunkGrid:
    """Return the chunk grid that the `chunk_grid` member `config` describes for an array of `shape`.

    Raises:
        InvalidMetadataError: the configuration is invalid; `member` is the path from the document.
        UnsupportedMetadataError: an unknown name, or a package that cannot be imported.
    """
    return _registry.resolve(config.name, member=f"{_POINT}.name").from_json(config.configuration, shape)


def chunk_length(given: Any, member: str) -> int:
    """Return `given` if it is a chunk length.

    Raises:
        InvalidMetadataError: not an integer, or less than 1.
        UnsupportedMetadataError: 2^63 or more.
    """
    # Python counts bool as int and 16.0 equals 16. Neither is an integer in JSON.
    if type(given) is not int:
        raise InvalidMetadataError("not an integer", member=member)
    if given < 1:
        raise InvalidMetadataError("a chunk length must be at least 1", member=member)
    if given >= _END:
        raise UnsupportedMetadataError("a chunk length must be less than 2^63", member=member)
    return given


def _axis_of(grid: ChunkGrid, dimension: int) -> Axis:
    from aiozarr.grid.run_length_axis import RunLengthAxis

    count = grid.shape[dimension]
    if count > MAX_LENGTH_RUNS:
        limit = f"a grid of another kind than 'regular' has up to {MAX_LENGTH_RUNS}"
        reason = f"dimension {dimension} has {count} chunks; {limit}"
        raise UnsupportedMetadataError(reason, member=_POINT, point=_POINT, name=grid.name)
    edges = grid.edges(dimension)
    lengths = [int(edges[at + 1]) - int(edges[at]) for at in range(count)]
    return RunLengthAxis([(length, 1) for length in lengths], grid.array_shape[dimension])
