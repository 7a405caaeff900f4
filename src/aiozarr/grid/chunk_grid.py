"""A chunk grid says where the chunks of an array lie (v3 core specification, "Chunk grids")."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.grid._configuration import NamedConfiguration, check_members
from aiozarr.plugins import check_class, load_class, unknown

_POINT = "chunk_grid"
_CHUNK_SHAPE = "chunk_grid.configuration.chunk_shape"
_END = 1 << 63


class ChunkGrid(ABC):
    """The chunks of one array: hyperrectangles that tile it, with whole-numbered coordinates from 0."""

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Mapping[str, Any], shape: Sequence[int]) -> Self:
        """Build the grid of an array of `shape` from the `configuration` member.

        Raises:
            InvalidMetadataError: with `member` counted from the document.
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
        """Number of chunks along each dimension; 0 where the array has length 0."""

    @abstractmethod
    def edges(self, dimension: int) -> Sequence[int]:
        """Return the boundaries of the chunks along one dimension, ascending: chunk `i` is `[edges[i], edges[i + 1])`.

        There is one more of them than chunks. The last chunk is whole, so its end may lie behind the array's.
        """

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.array_shape)


class RegularGrid(ChunkGrid):
    """Chunks of one shape; those at the end of a dimension reach past it and are stored whole.

    Raises:
        ValueError: the shapes differ in rank, or a length is negative, or a chunk length is 0. (It may be
            where the array's length is, as the specification says; it counts as 1 then: no arithmetic looks for zeros.)
    """

    name = "regular"
    __slots__ = ("_array_shape", "_shape", "chunk_shape")

    def __init__(self, array_shape: Sequence[int], chunk_shape: Sequence[int]) -> None:
        if len(array_shape) != len(chunk_shape):
            raise ValueError(f"an array of shape {tuple(array_shape)} has no chunks of shape {tuple(chunk_shape)}")
        for length, chunk in zip(array_shape, chunk_shape, strict=True):
            if length < 0 or chunk < (1 if length else 0):
                raise ValueError(f"no chunks of shape {tuple(chunk_shape)} in an array of shape {tuple(array_shape)}")
        self._array_shape = tuple(array_shape)
        self.chunk_shape: tuple[int, ...] = tuple([max(chunk, 1) for chunk in chunk_shape])
        self._shape = tuple([-(-n // chunk) for n, chunk in zip(self._array_shape, self.chunk_shape, strict=True)])

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any], shape: Sequence[int]) -> Self:
        """Build the grid of an array of `shape` from `{"chunk_shape": [...]}`.

        Raises:
            InvalidMetadataError: `chunk_shape` is no list of integers of at least 1 that has the array's rank.
            UnsupportedMetadataError: a length of 2^63 or more, or a member that is not known.
        """
        check_members(configuration, ("chunk_shape",), point=_POINT, name=cls.name)
        chunk_shape = configuration.get("chunk_shape")
        if not isinstance(chunk_shape, list | tuple):
            raise InvalidMetadataError("a list of integers is wanted here", member=_CHUNK_SHAPE)
        if len(chunk_shape) != len(shape):
            raise InvalidMetadataError(
                f"the chunks have {len(chunk_shape)} dimensions, the array has {len(shape)}", member=_CHUNK_SHAPE
            )
        for dimension, (chunk, length) in enumerate(zip(chunk_shape, shape, strict=True)):
            # bool is an int to Python, and 16.0 equals 16; neither is an integer in JSON.
            if type(chunk) is not int:
                raise InvalidMetadataError("not an integer", member=f"{_CHUNK_SHAPE}[{dimension}]")
            if chunk < (1 if length else 0):
                raise InvalidMetadataError("a chunk length is at least 1", member=f"{_CHUNK_SHAPE}[{dimension}]")
            if chunk >= _END:
                reason = "chunk lengths are less than 2^63 here"
                raise UnsupportedMetadataError(reason, member=f"{_CHUNK_SHAPE}[{dimension}]")
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
        """Number of chunks along each dimension; 0 where the array has length 0."""
        return self._shape

    def edges(self, dimension: int) -> range:
        """Return the multiples of the chunk length as a range: three numbers, however many chunks there are."""
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


_GRIDS: dict[str, type[ChunkGrid]] = {RegularGrid.name: RegularGrid}


def register_chunk_grid(grid: type[ChunkGrid]) -> type[ChunkGrid]:
    """Make `grid` the chunk grid of its `name`, in this process; also a class decorator.

    A name that is taken is replaced: the last registration holds, for arrays opened after it.

    Raises:
        TypeError: it is no concrete subclass of `ChunkGrid` with a name.
    """
    check_class(grid, ChunkGrid)
    _GRIDS[grid.name] = grid
    return grid


def resolve_grid(config: NamedConfiguration, shape: Sequence[int]) -> ChunkGrid:
    """Return the chunk grid that the `chunk_grid` member `config` describes for an array of `shape`.

    Raises:
        InvalidMetadataError: the configuration does not fit; `member` is counted from the document.
        UnsupportedMetadataError: there is no grid of that name, or its package cannot be used.
    """
    grid = _GRIDS.get(config.name)
    if grid is None:
        grid = load_class(_POINT, config.name, ChunkGrid)
    if grid is None:
        raise unknown(_POINT, config.name, _GRIDS, member=f"{_POINT}.name")
    return grid.from_json(config.configuration, shape)
