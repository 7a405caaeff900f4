"""The metadata of a new zarr3 array from the constraints of a spec. Without I/O.

Chunk shapes are a pure function of the constraints and the shape of the array; the data type does not matter. They are
chosen by TensorStore's algorithm, and by a better one where that fails. Explicit lengths are adjusted so that read
chunks divide write chunks. Free dimensions get the largest lengths of the requested ratio whose product does not exceed
the requested number of elements.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from aiozarr.codecs.bytes import has_byte_order
from aiozarr.driver.chunk_layout import (
    WHOLE,
    ChunkLayout,
    Constraint,
    Grid,
    PerDimension,
    hard_shape,
    refuse_codec_chunk,
)
from aiozarr.driver.codec_resolve import Elements, chain_layout, resolve_chain
from aiozarr.driver.codec_spec import SHARDING, CodecChainSpec, CodecSpec, with_index_location
from aiozarr.driver.index_domain import IndexDomain
from aiozarr.driver.json_members import SpecConflictError, invalid
from aiozarr.driver.metadata_constraints import (
    SEPARATORS,
    ArrayFacts,
    KeyEncoding,
    MetadataConstraints,
    check_metadata,
    check_schema,
    domain_labels,
    merged_domain,
)
from aiozarr.driver.schema import Schema, declared_type, merge_units

DEFAULT_ELEMENTS = 1 << 20
MAX_PRODUCT = (1 << 63) - 1
MAX_LENGTH = float(1 << 62)
MAX_TRIAL_DIVISOR = 1 << 16
"""Larger prime factors are found only as the last quotient, which is enough for all lengths below 2**32."""
TRAP_RATIO = 64
"""Read chunks with this many times fewer elements than requested mean that a write length lacks suitable divisors."""


@dataclass(frozen=True)
class ChunkShapes:
    """The chosen shapes; each read length divides the write length."""

    read: tuple[int, ...]
    write: tuple[int, ...]


def choose_chunk_shapes(read: Grid, write: Grid, shape: Sequence[int], *, exact: bool = False) -> ChunkShapes:
    """Return the shapes of read and write chunks.

    Args:
        read: constraints on the chunks that can be read by themselves.
        write: constraints on the chunks that are stored as one object.
        shape: lengths of the array.
        exact: choose as TensorStore does even if the write length has no suitable divisor, such as a prime, and read
            chunks then have a few elements. Otherwise some dimensions of such a read chunk are as long as the write
            chunk.

    Raises:
        InvalidSpecError: hard constraints on both do not divide.
    """
    reads, writes = _known_lengths(read.shape, shape), _known_lengths(write.shape, shape)
    _reconcile(reads, writes, _hard(read.shape, len(shape)), _hard(write.shape, len(shape)))
    free = [not each for each in reads]
    chosen = _complete(reads, read, shape, lambda i, size: nearest_divisor(writes[i], size) if writes[i] else size)
    if not exact and any(free):
        wanted = _complete(reads, read, shape, lambda i, size: min(size, writes[i] or size))
        if prod(chosen) * TRAP_RATIO <= prod(wanted):
            chosen = _without_trap(chosen, free, writes, read)
    stored = _complete(writes, write, shape, lambda i, size: nearest_multiple(chosen[i], size))
    return ChunkShapes(tuple(chosen), tuple(stored))


def nearest_divisor(length: int, wanted: int) -> int:
    """Return the divisor of `length` that is nearest to `wanted`, the smaller one of two."""
    divisors = _divisors(length)
    position = bisect_right(divisors, wanted)
    return min(divisors[max(0, position - 1) : position + 1], key=lambda divisor: abs(divisor - wanted))


@lru_cache(maxsize=64)
def _divisors(length: int) -> Sequence[int]:
    """Return the divisors of `length` in ascending order, except products of prime factors that were not found."""
    found, rest = [1], length
    for factor in range(2, MAX_TRIAL_DIVISOR):
        if factor * factor > rest:
            break
        powers = [1]
        while rest % factor == 0:
            rest //= factor
            powers.append(powers[-1] * factor)
        if len(powers) > 1:
            found = [divisor * power for divisor in found for power in powers]
    if rest > 1:
        found += [divisor * rest for divisor in found]
    return sorted(found)


def nearest_multiple(length: int, wanted: int) -> int:
    """Return the positive multiple of `length` that is nearest to `wanted`, the smaller one of two."""
    below = wanted // length * length
    if not below:
        return length
    return below if wanted - below <= below + length - wanted else below + length


def _known_lengths(constraint: PerDimension[int], shape: Sequence[int]) -> list[int]:
    """Return the constrained lengths, 0 for free ones."""
    if constraint is None:
        return [0] * len(shape)
    return [
        0 if each is None else max(1, length) if each.value == WHOLE else each.value
        for each, length in zip(constraint, shape, strict=True)
    ]


def _hard(constraint: PerDimension[int], rank: int) -> list[bool]:
    return [False] * rank if constraint is None else [each is not None and each.hard for each in constraint]


def _reconcile(reads: list[int], writes: list[int], read_hard: Sequence[bool], write_hard: Sequence[bool]) -> None:
    """Change soft lengths until all read lengths divide the write lengths."""
    for i, (read, write) in enumerate(zip(reads, writes, strict=True)):
        if not read or not write or write % read == 0:
            continue
        if read_hard[i] and write_hard[i]:
            reason = f"read chunks of {read} do not divide write chunks of {write} in dimension {i}"
            raise invalid(f"schema.chunk_layout.read_chunk.shape[{i}]", reason)
        if read_hard[i]:
            writes[i] = nearest_multiple(read, write)
        else:
            reads[i] = nearest_divisor(write, read)


def _complete(known: Sequence[int], grid: Grid, shape: Sequence[int], fit: Callable[[int, int], int]) -> list[int]:
    """Return the lengths with those that are 0 chosen; `fit(i, size)` is the allowed length nearest to `size`."""
    free = [i for i, length in enumerate(known) if not length]
    if not free:
        return list(known)
    target = DEFAULT_ELEMENTS if grid.elements is None else grid.elements.value
    given = grid.aspect_ratio or (None,) * len(known)
    ratio = [1.0 if each is None else float(each.value) for each in given]
    longest = [min(float(target), max(1.0, float(length)), MAX_LENGTH) for length in shape]

    def lengths(factor: float) -> list[int]:
        return [length or fit(i, max(1, int(min(ratio[i] * factor, longest[i])))) for i, length in enumerate(known)]

    def count(factor: float) -> int:
        return min(prod(lengths(factor)), MAX_PRODUCT)

    step = min([1 / ratio[i] for i in free]) / 2
    low, high = step, 2 * max([longest[i] / ratio[i] for i in free])
    high_count = count(high)
    while low + step < high:
        middle = low + (high - low) / 2
        if not low < middle < high:
            break  # the step is smaller than the precision of these numbers
        total = count(middle)
        if total >= target:
            high, high_count = middle, total
        if total <= target:
            low = middle
    return lengths(high if high_count == target else low)


def _without_trap(chosen: Sequence[int], free: Sequence[bool], writes: Sequence[int], grid: Grid) -> list[int]:
    """Return read lengths that are not far too small because write lengths lack divisors.

    Beginning with the last dimension, each free one gets the longest divisor that keeps the chunk within the requested
    number of elements.
    """
    target = DEFAULT_ELEMENTS if grid.elements is None else grid.elements.value
    better = list(chosen)
    for i in reversed(range(len(better))):
        if free[i] and writes[i]:
            allowed = target // max(1, prod(better) // better[i])
            better[i] = max(better[i], _longest_divisor(writes[i], allowed))
    return better


def _longest_divisor(length: int, longest: int) -> int:
    divisors = _divisors(length)
    return divisors[max(1, bisect_right(divisors, longest)) - 1]


LAYOUT = "schema.chunk_layout"


def new_array(metadata: MetadataConstraints, schema: Schema, *, exact: bool = False) -> ArrayFacts:
    """Return the complete metadata of a new array.

    Args:
        metadata: constraints on the document.
        schema: constraints on the schema.
        exact: choose chunks and wrap codecs as TensorStore does, even where aiozarr does better.

    Raises:
        InvalidSpecError: the constraints do not determine an array, or contradict each other.
    """
    data_type = metadata.data_type or declared_type(schema.dtype, "metadata.data_type")
    domain = effective_domain(metadata, schema)
    if domain is None or not domain.is_finite:
        raise invalid("schema.domain", "the shape is unknown; set metadata.shape or schema.domain")
    shape = domain.shape
    fill = metadata.fill_value
    if fill is None:
        fill = schema.fill_of(data_type)
    units = merge_units(metadata.dimension_units, schema.dimension_units)
    chain = effective_chain(metadata, schema)
    layout = effective_layout(metadata, schema, len(shape), exact=exact)
    read, write, separate = _grids(metadata, layout, exact=exact)
    shapes = choose_chunk_shapes(read, write, shape, exact=exact)
    if shapes.read != shapes.write and (chain is None or not chain.sharding_height):
        options = {"chunk_shape": shapes.read} | ({} if chain is None else {"codecs": chain})
        chain = CodecChainSpec((), CodecSpec(SHARDING, options))
    elements = Elements(
        rank=len(shape),
        item_bytes=data_type.dtype.itemsize,
        has_byte_order=has_byte_order(data_type.dtype),
        chunk_shape=shapes.write,
        read_shape=shapes.read,
        inner_order=None if layout.inner_order is None else layout.inner_order.value,
    )
    codecs = resolve_chain(chain or CodecChainSpec(), elements, "metadata.codecs")
    facts = ArrayFacts(
        shape=shape,
        data_type=data_type,
        chunk_shape=shapes.write,
        chunk_key_encoding=metadata.chunk_key_encoding or KeyEncoding("default", SEPARATORS["default"]),
        fill_value=data_type.default_fill_value if fill is None else fill,
        codecs=with_index_location(codecs),
        dimension_names=_names(metadata, domain),
        dimension_units=units if units is not None and any(units) else None,
        attributes=metadata.attributes,
        extra=metadata.extra,
    )
    # For example, the order of elements may have added a transpose that the given codecs lack.
    wrapped = (
        separate and codecs.sharding_height and metadata.codecs is not None and not metadata.codecs.sharding_height
    )
    compared = replace(facts, codecs=facts.codecs.inner) if wrapped else facts
    check_metadata(compared, metadata)
    check_schema(facts, schema)
    return facts


def effective_domain(metadata: MetadataConstraints, schema: Schema) -> IndexDomain | None:
    """Return the domain that the constraints give together, with implicit upper bounds; None if they give none.

    Raises:
        SpecConflictError: they contradict each other, or the domain does not begin at 0.
    """
    names, shape = metadata.dimension_names, metadata.shape
    rank = schema.rank if metadata.rank is None else metadata.rank
    if shape is None and names is None and schema.domain is None:
        return IndexDomain(()) if rank == 0 else None
    assert rank is not None
    labels = None if names is None else domain_labels(names)
    return merged_domain(labels, shape, schema.domain, rank)


def effective_chain(metadata: MetadataConstraints, schema: Schema) -> CodecChainSpec | None:
    """Return the codecs that the metadata and the schema give together; None if they give none."""
    codec = schema.codec
    if codec is not None and codec.driver != "zarr3":
        raise invalid("schema.codec.driver", f"codecs of the driver {codec.driver!r} cannot be used with 'zarr3'")
    wanted = None if codec is None else codec.codecs
    if metadata.codecs is None or wanted is None:
        return wanted if metadata.codecs is None else metadata.codecs
    return metadata.codecs.merged(wanted, "schema.codec", strict=False)


def effective_layout(
    metadata: MetadataConstraints, schema: Schema, rank: int | None, *, exact: bool = False
) -> ChunkLayout:
    """Return the constraints on chunks of the schema together with those that the metadata imply.

    Raises:
        SpecConflictError: two hard constraints differ.
        InvalidSpecError: a hard shape for `codec_chunk`, which no codec has.
    """
    layout = schema.chunk_layout or ChunkLayout()
    refuse_codec_chunk(layout)
    if rank is None:
        return layout
    implied = ChunkLayout(rank, grid_origin=(Constraint(0),) * rank)
    if metadata.chunk_shape is not None:
        implied = replace(implied, write=hard_shape(metadata.chunk_shape))
    if metadata.codecs is not None:
        found = chain_layout(metadata.codecs, rank, metadata.chunk_shape)
        order = None if found.inner_order is None else Constraint(found.inner_order)
        read = Grid()
        if found.read_shape is not None and metadata.codecs.sharding_height:
            if len(found.read_shape) != rank:
                raise invalid("metadata.codecs", f"inner chunks of shape {list(found.read_shape)} need rank {rank}")
            if not exact or _names_serializer(metadata.codecs):
                read = hard_shape(found.read_shape)
        implied = replace(implied, inner_order=order, read=read)
    return layout.merged(implied, LAYOUT)


def _names_serializer(chain: CodecChainSpec) -> bool:
    """Return whether the innermost chain has a codec from arrays to bytes."""
    return _names_serializer(chain.inner) if chain.is_sharded else chain.array_to_bytes is not None


def _grids(metadata: MetadataConstraints, layout: ChunkLayout, *, exact: bool) -> tuple[Grid, Grid, bool]:
    """Return the constraints on read and write chunks, and whether they may differ.

    Both are the same if the metadata have codecs without shards, unless the spec requires different chunks.
    """
    if metadata.codecs is None or metadata.codecs.sharding_height:
        return layout.read, layout.write, True
    try:
        both = layout.write.merged(layout.read, f"{LAYOUT}.write_chunk")
    except SpecConflictError:
        if exact:
            raise
        return layout.read, layout.write, True
    return both, both, False


def _names(metadata: MetadataConstraints, domain: IndexDomain) -> tuple[str | None, ...]:
    given = metadata.dimension_names or (None,) * domain.rank
    return tuple([label or name for label, name in zip(domain.labels, given, strict=True)])
