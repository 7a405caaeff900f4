"""The chunk grid `rectilinear` of the registry of extensions: a list of chunk lengths per dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.grid.axes import Axis, RegularAxis
from aiozarr.grid.chunk_grid import MAX_LENGTH_RUNS, ChunkGrid, chunk_length, register_chunk_grid
from aiozarr.grid.run_length_axis import RunLengthAxis
from aiozarr.plugins import check_members

LengthRuns: TypeAlias = tuple[tuple[int, int], ...]
"""The chunks of one dimension as (length, count), in order."""
Lengths: TypeAlias = int | LengthRuns
"""The chunks of one dimension: one length for all chunks up to the end of the array, or runs."""

_POINT = "chunk_grid"
_CHUNK_SHAPES = "chunk_grid.configuration.chunk_shapes"


@register_chunk_grid
@dataclass(frozen=True)
class RectilinearGrid(ChunkGrid):
    """Chunks of listed lengths along each dimension. The last chunks may extend past the array or lie outside it.

    Attributes:
        lengths: the chunks of each dimension. Counts may be huge: memory and time grow with runs only.

    Raises:
        ValueError: another number of dimensions than the array, or chunks that end before the array.
    """

    name: ClassVar[str] = "rectilinear"
    _array_shape: tuple[int, ...]
    lengths: tuple[Lengths, ...]

    def __post_init__(self) -> None:
        if len(self._array_shape) != len(self.lengths):
            raise ValueError(
                f"an array of shape {self._array_shape} cannot have chunks in {len(self.lengths)} dimensions"
            )
        _ = self.axes

    @classmethod
    def from_json(cls, configuration: Mapping[str, Any], shape: Sequence[int]) -> Self:
        """Build the grid of an array of `shape` from `{"kind": "inline", "chunk_shapes": [...]}`.

        `chunk_shapes` has one element per dimension: an integer, or a list of integers and `[length, count]` pairs.

        Raises:
            InvalidMetadataError: another form, or lengths whose sum is less than the length of the array.
            UnsupportedMetadataError: another `kind`, a length of 2^63 or more, or more than 262,144 runs.
        """
        check_members(configuration, ("kind", "chunk_shapes"), point=_POINT, name=cls.name)
        kind = configuration.get("kind")
        if not isinstance(kind, str):
            raise InvalidMetadataError("expected 'inline'", member=f"{_POINT}.configuration.kind")
        if kind != "inline":
            reason = f"chunk shapes of the kind {kind!r} are not known; known is 'inline'"
            raise UnsupportedMetadataError(reason, member=f"{_POINT}.configuration.kind", point=_POINT, name=cls.name)
        given = configuration.get("chunk_shapes")
        if not isinstance(given, list | tuple):
            raise InvalidMetadataError("expected a list with the chunk lengths of each dimension", member=_CHUNK_SHAPES)
        if len(given) != len(shape):
            raise InvalidMetadataError(
                f"the chunks have {len(given)} dimensions, the array has {len(shape)}", member=_CHUNK_SHAPES
            )
        if sum([len(each) for each in given if isinstance(each, list | tuple)]) > MAX_LENGTH_RUNS:
            raise UnsupportedMetadataError(
                f"more than {MAX_LENGTH_RUNS} runs of chunks", member=_CHUNK_SHAPES, point=_POINT, name=cls.name
            )
        lengths: list[Lengths] = []
        for dimension, (each, extent) in enumerate(zip(given, shape, strict=True)):
            member = f"{_CHUNK_SHAPES}[{dimension}]"
            if not isinstance(each, list | tuple):
                lengths.append(chunk_length(each, member))
                continue
            runs = tuple([_run(item, f"{member}[{at}]") for at, item in enumerate(each)])
            end = sum([length * count for length, count in runs])
            if end < extent:
                reason = f"the chunks of dimension {dimension} reach to {end}, the array to {extent}"
                raise InvalidMetadataError(reason, member=member)
            lengths.append(runs)
        return cls(tuple(shape), tuple(lengths))

    def to_json(self) -> dict[str, Any]:
        """Return `{"kind": "inline", "chunk_shapes": [...]}` with runs of several chunks as `[length, count]`."""
        return {"kind": "inline", "chunk_shapes": [_to_json(each) for each in self.lengths]}

    @property
    def array_shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self._array_shape

    @fork_safe_cached_property
    def axes(self) -> tuple[Axis, ...]:
        """The dimensions of the grid."""
        return tuple(
            [
                RegularAxis(each, extent) if isinstance(each, int) else RunLengthAxis(each, extent)
                for each, extent in zip(self.lengths, self._array_shape, strict=True)
            ]
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of chunks along each dimension, without chunks outside the array."""
        return tuple([axis.chunks for axis in self.axes])

    @property
    def largest_chunk(self) -> tuple[int, ...]:
        """Shape of the largest chunk. For a dimension of length 0 the length of its first listed chunk."""
        return tuple(
            [
                each if isinstance(each, int) else axis.longest() if axis.chunks or not each else each[0][0]
                for each, axis in zip(self.lengths, self.axes, strict=True)
            ]
        )

    def edges(self, dimension: int) -> Sequence[int]:
        """Return the boundaries of the chunks along one dimension, as a lazy sequence."""
        return Edges(self.axes[dimension])

    def with_shape(self, shape: Sequence[int], multiple: Sequence[int] | None = None) -> RectilinearGrid:
        """Return the grid of the array after a resize.

        All chunks stay, also those outside a smaller array: an array that grows back finds its data again. If the array
        grows past the last chunk, chunks are added up to the new end, none longer than the longest existing chunk.

        Args:
            shape: the new shape, of the same rank.
            multiple: per dimension the divisor of the lengths of added chunks, as shards require; None for any length.
        """
        lengths: list[Lengths] = []
        for dimension, (each, extent) in enumerate(zip(self.lengths, shape, strict=True)):
            if isinstance(each, int):
                lengths.append(each)
                continue
            missing = extent - sum([length * count for length, count in each])
            if missing > 0:
                unit = 1 if multiple is None else multiple[dimension]
                longest = max([length for length, _ in each], default=-(-missing // unit) * unit)
                count, rest = divmod(missing, longest)
                each = _appended(each, longest, count)
                each = _appended(each, -(-rest // unit) * unit, 1 if rest else 0)
            lengths.append(each)
        return RectilinearGrid(tuple(shape), tuple(lengths))


class Edges(Sequence[int]):
    """The boundaries of the chunks of an axis, computed on access."""

    def __init__(self, axis: Axis) -> None:
        self._axis = axis

    def __len__(self) -> int:
        return self._axis.chunks + 1

    def __getitem__(self, index: Any) -> Any:
        count = self._axis.chunks + 1
        if isinstance(index, slice):
            return [self._axis.chunk_start(chunk) for chunk in range(*index.indices(count))]
        if not -count <= index < count:
            raise IndexError(f"edge {index} of {count}")
        return self._axis.chunk_start(index % count)


def _run(given: Any, member: str) -> tuple[int, int]:
    if not isinstance(given, list | tuple):
        return chunk_length(given, member), 1
    if len(given) != 2:
        raise InvalidMetadataError("a run of chunks must be a pair [length, count]", member=member)
    length, count = given
    if type(count) is not int or count < 1:
        raise InvalidMetadataError("the count of a run must be an integer of at least 1", member=f"{member}[1]")
    return chunk_length(length, f"{member}[0]"), count


def _appended(runs: LengthRuns, length: int, count: int) -> LengthRuns:
    """Return `runs` with `count` chunks appended, merged into the last run if it has the same length."""
    if not count:
        return runs
    if runs and runs[-1][0] == length:
        return (*runs[:-1], (length, runs[-1][1] + count))
    return (*runs, (length, count))


def _to_json(lengths: Lengths) -> int | list[int | list[int]]:
    if isinstance(lengths, int):
        return lengths
    return [length if count == 1 else [length, count] for length, count in lengths]
