"""Chunk layouts: hard and soft constraints on chunk shapes, element order and grid origin (TensorStore)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from aiozarr.driver.index_transform import DomainTransform, OutputMap
from aiozarr.driver.json_members import JSON, Members, SpecConflictError, integer, invalid, number, permutation, ranked
from aiozarr.driver.json_members import rank as parse_rank

T = TypeVar("T")
Usage: TypeAlias = Literal["read", "write", "codec"]
USAGES: tuple[Usage, ...] = ("read", "write", "codec")
SUFFIXES = {True: "", False: "_soft_constraint"}
"""The suffixes of the names of hard and soft constraints."""
WHOLE = -1
"""The chunk length that stands for the whole dimension; always a soft constraint."""
MIN_RATIO, MAX_RATIO = 2.0**-64, 2.0**64
"""Limits of aspect ratios: no ratio of two chunk lengths, from 1 to 2**62, is outside of them."""


@dataclass(frozen=True)
class Constraint(Generic[T]):
    """A value, and whether it must hold (hard) or is a preference (soft)."""

    value: T
    hard: bool = True


PerDimension: TypeAlias = tuple[Constraint[T] | None, ...] | None
"""One constraint or None per dimension; None if there is none at all."""


@dataclass(frozen=True)
class Grid:
    """The constraints on the chunks of one usage.

    Attributes:
        shape: chunk lengths in elements; -1 for the whole dimension.
        aspect_ratio: ratios of the chunk lengths to each other.
        elements: number of elements of a chunk.
    """

    shape: PerDimension[int] = None
    aspect_ratio: PerDimension[float] = None
    elements: Constraint[int] | None = None

    @property
    def rank(self) -> int | None:
        """The rank that the constraints have; None if they have none."""
        return next((len(each) for each in (self.shape, self.aspect_ratio) if each is not None), None)

    def merged(self, other: Grid, member: str) -> Grid:
        """Return both constraints together: hard ones replace soft ones, and the first of two soft ones holds.

        Raises:
            SpecConflictError: two hard ones differ.
        """
        return Grid(
            merge_vectors(self.shape, other.shape, f"{member}.shape"),
            merge_vectors(self.aspect_ratio, other.aspect_ratio, f"{member}.aspect_ratio"),
            merge_constraints(self.elements, other.elements, f"{member}.elements"),
        )

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON of the constraints."""
        elements = {} if self.elements is None else {f"elements{SUFFIXES[self.elements.hard]}": self.elements.value}
        return _vector_json("shape", self.shape) | _vector_json("aspect_ratio", self.aspect_ratio) | elements


@dataclass(frozen=True)
class ChunkLayout:
    """Constraints on the layout of chunks, or the layout of an array, whose constraints are all hard.

    Attributes:
        rank: number of dimensions; None if unknown.
        inner_order: dimensions in the order of elements in a chunk, the slowest first.
        grid_origin: index of the first element of a chunk.
        read: the smallest chunks that can be read separately: the inner chunks of shards.
        write: chunks that are stored as one object: shards, if the array has them.
        codec: blocks inside chunks, which no codec of the driver supports.
    """

    rank: int | None = None
    inner_order: Constraint[tuple[int, ...]] | None = None
    grid_origin: PerDimension[int] = None
    read: Grid = field(default_factory=Grid)
    write: Grid = field(default_factory=Grid)
    codec: Grid = field(default_factory=Grid)

    @classmethod
    def parse(cls, value: JSON, path: str) -> ChunkLayout:
        """Parse a layout from JSON.

        Raises:
            InvalidSpecError: a member is not valid.
            SpecConflictError: two hard constraints differ.
        """
        with Members(value, path) as members:
            layout = cls(rank=members.take("rank", parse_rank, None))
            for hard, suffix in SUFFIXES.items():
                origin = members.take(f"grid_origin{suffix}", _vector(_origin, hard), None)
                order = members.take(f"inner_order{suffix}", permutation, None)
                layout = layout.merged(
                    cls(inner_order=None if order is None else Constraint(order, hard), grid_origin=origin), path
                )
            layout = layout._with_grid(("read", "write"), members.take("chunk", _grid, Grid()), members.at("chunk"))
            for usage in USAGES:
                name = f"{usage}_chunk"
                layout = layout._with_grid((usage,), members.take(name, _grid, Grid()), members.at(name))
        return layout

    def merged(self, other: ChunkLayout, member: str) -> ChunkLayout:
        """Return the merged layout: hard constraints replace soft ones, and the first of two soft constraints wins.

        Raises:
            SpecConflictError: two hard constraints or the ranks differ.
        """
        rank = _merged_rank(self.rank, other.rank, member)
        merged = ChunkLayout(
            rank,
            merge_constraints(self.inner_order, other.inner_order, f"{member}.inner_order"),
            merge_vectors(self.grid_origin, other.grid_origin, f"{member}.grid_origin"),
            self.read.merged(other.read, f"{member}.read_chunk"),
            self.write.merged(other.write, f"{member}.write_chunk"),
            self.codec.merged(other.codec, f"{member}.codec_chunk"),
        )
        return merged._with_known_rank(member)

    def grid(self, usage: Usage) -> Grid:
        """Return the constraints on chunks for `usage`."""
        return {"read": self.read, "write": self.write, "codec": self.codec}[usage]

    @property
    def read_chunk_shape(self) -> tuple[int, ...] | None:
        """Lengths of the smallest chunks that can be read; None if a dimension is unconstrained."""
        return _values(self.read.shape)

    @property
    def write_chunk_shape(self) -> tuple[int, ...] | None:
        """Lengths of the chunks that are stored as one object; None if a dimension is unconstrained."""
        return _values(self.write.shape)

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON of the layout."""
        found: dict[str, JSON] = dict(_vector_json("grid_origin", self.grid_origin)) if self.rank else {}
        if self.inner_order is not None and self.rank:
            found[f"inner_order{SUFFIXES[self.inner_order.hard]}"] = list(self.inner_order.value)
        for usage in USAGES:
            if grid := self.grid(usage).to_json():
                found[f"{usage}_chunk"] = grid
        return {"rank": self.rank} if not found and self.rank is not None else found

    def _with_grid(self, usages: Sequence[Usage], grid: Grid, member: str) -> ChunkLayout:
        layout = self
        for usage in usages:
            changed: dict[str, Any] = {usage: layout.grid(usage).merged(grid, member)}
            layout = replace(layout, **changed)
        return layout._with_known_rank(member)

    def _with_known_rank(self, member: str) -> ChunkLayout:
        rank = self.rank
        order = None if self.inner_order is None else len(self.inner_order.value)
        origin = None if self.grid_origin is None else len(self.grid_origin)
        for each in (order, origin, self.read.rank, self.write.rank, self.codec.rank):
            rank = _merged_rank(rank, each, member)
        return replace(self, rank=rank)


def refuse_codec_chunk(layout: ChunkLayout) -> None:
    """Refuse a hard shape for `codec_chunk`, which no codec has."""
    if any(each is not None and each.hard for each in layout.codec.shape or ()):
        raise invalid("schema.chunk_layout.codec_chunk.shape", "no codec of this driver supports codec chunks")


def hard_shape(shape: Sequence[int]) -> Grid:
    """Return the constraint that chunks have exactly this shape."""
    return Grid(shape=tuple([Constraint(length) for length in shape]))


def merge_constraints(
    a: Constraint[T] | None, b: Constraint[T] | None, member: str, dimension: int | None = None
) -> Constraint[T] | None:
    """Return the one of two constraints that holds.

    Raises:
        SpecConflictError: both are hard and differ.
    """
    if a is None or b is None:
        return b if a is None else a
    if a.hard and b.hard and a.value != b.value:
        where = "" if dimension is None else f" of dimension {dimension}"
        path = member if dimension is None else f"{member}[{dimension}]"
        raise SpecConflictError(
            f"conflicting constraints{where}: {a.value} and {b.value}", member=path, expected=a.value, found=b.value
        )
    return b if b.hard and not a.hard else a


def merge_vectors(a: PerDimension[T], b: PerDimension[T], member: str) -> PerDimension[T]:
    """Merge the constraints on each dimension by `merge_constraints`."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b):
        raise SpecConflictError(
            f"constraints have different ranks: {len(a)} and {len(b)}", member=member, expected=len(a), found=len(b)
        )
    pairs = enumerate(zip(a, b, strict=True))
    return tuple([merge_constraints(x, y, member, dimension) for dimension, (x, y) in pairs])


def _merged_rank(a: int | None, b: int | None, member: str) -> int | None:
    if a is not None and b is not None and a != b:
        raise SpecConflictError(f"constraints have different ranks: {a} and {b}", member=member, expected=a, found=b)
    return b if a is None else a


def _grid(value: JSON, path: str) -> Grid:
    grid = Grid()
    with Members(value, path) as members:
        for hard, suffix in SUFFIXES.items():
            shape = members.take(f"shape{suffix}", _vector(_length, hard), None)
            ratio = members.take(f"aspect_ratio{suffix}", _vector(_ratio, hard), None)
            elements = members.take(f"elements{suffix}", lambda each, where: integer(each, where, 0), None)
            added = Grid(shape, ratio, None if elements is None else Constraint(elements, hard))
            grid = grid.merged(added, path)
    if grid.shape is not None and grid.aspect_ratio is not None and len(grid.shape) != len(grid.aspect_ratio):
        raise invalid(path, f"shape has rank {len(grid.shape)}, but aspect_ratio has {len(grid.aspect_ratio)}")
    return grid


def _vector(parse: Callable[[JSON, str], T | None], hard: bool) -> Callable[[JSON, str], PerDimension[T]]:
    def parse_vector(value: JSON, path: str) -> PerDimension[T]:
        found = ranked(value, path, parse)
        return tuple([None if each is None else Constraint(each, hard and each != WHOLE) for each in found])

    return parse_vector


def _length(value: JSON, path: str) -> int | None:
    return None if value is None else integer(value, path, WHOLE) or None


def _ratio(value: JSON, path: str) -> float | None:
    if value is None:
        return None
    found = number(value, path)
    if found and not MIN_RATIO <= found <= MAX_RATIO:
        raise invalid(path, f"an aspect ratio must be 0, or from {MIN_RATIO:g} to {MAX_RATIO:g}, not {found:g}")
    return found or None


def _origin(value: JSON, path: str) -> int | None:
    return None if value is None else integer(value, path)


def _values(vector: PerDimension[int]) -> tuple[int, ...] | None:
    if vector is None:
        return None
    found = [each.value for each in vector if each is not None]
    return tuple(found) if len(found) == len(vector) else None


def _vector_json(name: str, vector: PerDimension[Any]) -> dict[str, JSON]:
    if not vector:
        return {}
    found: dict[str, JSON] = {}
    for hard, suffix in SUFFIXES.items():
        if any(each is not None and each.hard is hard for each in vector):
            found[name + suffix] = [each.value if each is not None and each.hard is hard else None for each in vector]
    return found


# --- views ----------------------------------------------------------------------------------------------------------


def view_layout(layout: ChunkLayout, transform: DomainTransform) -> ChunkLayout:
    """Return the layout in the domain of the view. Dimensions along none or several of the array have no chunks."""
    rank = transform.domain.rank
    along: dict[int, list[int]] = {}
    indexed: set[int] = set()
    for output, each in enumerate(transform.outputs):
        if each.input_dimension is not None and each.stride:
            along.setdefault(each.input_dimension, []).append(output)
        elif each.index_array is not None:
            indexed |= {dimension for dimension, length in enumerate(each.index_array.shape) if length != 1}
    only = {
        dimension: outputs[0] for dimension, outputs in along.items() if len(outputs) == 1 and dimension not in indexed
    }
    order = layout.inner_order
    if order is not None:
        last = len(order.value)
        places = {
            dimension: min([order.value.index(output) for output in outputs]) for dimension, outputs in along.items()
        }
        order = Constraint(tuple(sorted(range(rank), key=lambda each: (places.get(each, last), each))), order.hard)
    return ChunkLayout(
        rank,
        order,
        _per_dimension(layout.grid_origin, transform, only, _view_origin),
        Grid(_per_dimension(layout.read.shape, transform, only, _view_length)),
        Grid(_per_dimension(layout.write.shape, transform, only, _view_length)),
    )


def _per_dimension(
    values: PerDimension[int],
    transform: DomainTransform,
    only: dict[int, int],
    convert: Callable[[int, OutputMap], int],
) -> PerDimension[int]:
    """Convert constraints on dimensions of the array, one by one, into constraints on dimensions of the view."""
    found: list[Constraint[int] | None] = []
    for dimension in range(transform.domain.rank):
        each = None if values is None or dimension not in only else values[only[dimension]]
        if each is not None:
            each = Constraint(convert(each.value, transform.outputs[only[dimension]]), each.hard)
        found.append(each)
    return tuple(found) if any(found) else None


def _view_length(length: int, output: OutputMap) -> int:
    """Return the length of chunks: with a stride, a chunk has fewer indices."""
    return length // gcd(length, abs(output.stride))


def _view_origin(origin: int, output: OutputMap) -> int:
    """Return the first index whose element is in the chunk, even if the indices run backwards."""
    distance = origin - output.offset
    return -(-distance // output.stride) if output.stride > 0 else distance // output.stride + 1
