"""The metadata of a new zarr3 array from the constraints of a spec; without I/O."""

from __future__ import annotations

from dataclasses import replace

from aiozarr.codecs.serializers.storage_type import has_byte_order
from aiozarr.driver.chunk_layout import ChunkLayout, Constraint, Grid, hard_shape, refuse_codec_chunk
from aiozarr.driver.chunk_shape import choose_chunk_shapes
from aiozarr.driver.codec_resolve import Elements, chain_layout, resolve_chain
from aiozarr.driver.codec_spec import SHARDING, CodecChainSpec, CodecSpec, with_index_location
from aiozarr.driver.data_types import declared_type
from aiozarr.driver.index_domain import IndexDomain
from aiozarr.driver.json_members import SpecConflictError, invalid
from aiozarr.driver.matching import ArrayFacts, check_metadata, check_schema, domain_labels, merged_domain
from aiozarr.driver.metadata_constraints import SEPARATORS, KeyEncoding, MetadataConstraints
from aiozarr.driver.schema import Schema
from aiozarr.driver.unit import merge_units

LAYOUT = "schema.chunk_layout"


def new_array(metadata: MetadataConstraints, schema: Schema, *, exact: bool = False) -> ArrayFacts:
    """Return the complete metadata of a new array.

    Args:
        metadata: constraints on the document.
        schema: constraints on the schema.
        exact: choose chunks and wrap codecs as TensorStore does, also where aiozarr does better.

    Raises:
        InvalidSpecError: the constraints do not determine an array, or contradict each other.
    """
    data_type = metadata.data_type or declared_type(schema.dtype, "metadata.data_type")
    domain = effective_domain(metadata, schema)
    if domain is None or not domain.is_finite:
        raise invalid("schema.domain", "the shape is unknown; metadata.shape or schema.domain gives it")
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
    # An order of elements may have put a transpose where the given codecs have none, for example.
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
        raise invalid("schema.codec.driver", f"the codecs of {codec.driver!r} are not those of 'zarr3'")
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
                raise invalid("metadata.codecs", f"inner chunks of shape {list(found.read_shape)} have another rank")
            if not exact or _names_serializer(metadata.codecs):
                read = hard_shape(found.read_shape)
        implied = replace(implied, inner_order=order, read=read)
    return layout.merged(implied, LAYOUT)


def _names_serializer(chain: CodecChainSpec) -> bool:
    """Return whether the innermost chain says how arrays become bytes."""
    return _names_serializer(chain.inner) if chain.is_sharded else chain.array_to_bytes is not None


def _grids(metadata: MetadataConstraints, layout: ChunkLayout, *, exact: bool) -> tuple[Grid, Grid, bool]:
    """Return the constraints on read and write chunks, and whether they may differ.

    Codecs of metadata without shards make both the same, unless the spec asks for different ones.
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
