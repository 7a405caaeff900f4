"""The rules by which the metadata of an array, stored or new, satisfy the constraints of a spec.

They compare facts: the metadata in the terms of specs, and as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiozarr.driver.chunk_layout import ChunkLayout, Constraint, hard_shape, refuse_codec_chunk
from aiozarr.driver.codec_resolve import chain_layout
from aiozarr.driver.codec_spec import CodecChainSpec, stored_chain
from aiozarr.driver.data_types import FillValue, fill_json, same_bits
from aiozarr.driver.index_domain import INFINITY, Dimension, IndexDomain, repeated_label
from aiozarr.driver.json_members import JSON, SpecConflictError, invalid, same_json
from aiozarr.driver.metadata_constraints import UNITS, KeyEncoding, MetadataConstraints
from aiozarr.driver.schema import CodecSchema, Schema
from aiozarr.driver.unit import Units, merge_units, render_units
from aiozarr.metadata.data_type import DataType


def check_metadata(facts: ArrayFacts, metadata: MetadataConstraints) -> None:
    """Check the constraints on the document.

    Shape, data type, chunk shape, chunk keys, fill value and names must be equal. Attributes and extensions must be
    contained. Codecs must be the same, with at least the given options.

    Raises:
        SpecConflictError: one is not satisfied.
    """
    if metadata.data_type is not None:
        _equal("metadata.data_type", metadata.data_type.to_json(), facts.data_type.to_json())
    if metadata.fill_value is not None and not same_bits(metadata.fill_value, facts.fill_value):
        expected = fill_json(metadata.fill_value, facts.data_type)
        raise mismatch("metadata.fill_value", expected, facts.fill_json)
    if metadata.shape is not None:
        _equal("metadata.shape", list(metadata.shape), list(facts.shape))
    if metadata.chunk_shape is not None:
        member = "metadata.chunk_grid.configuration.chunk_shape"
        _equal(member, list(metadata.chunk_shape), list(facts.chunk_shape))
    if metadata.chunk_key_encoding is not None:
        encoding = facts.chunk_key_encoding
        _equal("metadata.chunk_key_encoding", metadata.chunk_key_encoding.to_json(), encoding.to_json())
    if metadata.codecs is not None:
        facts.codecs.merged(metadata.codecs, "metadata.codecs", strict=True)
    if metadata.dimension_names is not None:
        _equal("metadata.dimension_names", list(metadata.dimension_names), list(facts.dimension_names))
    _contained("metadata.attributes", metadata.attributes, facts.attributes)
    for wanted, found in zip(metadata.dimension_units or (), facts.units, strict=False):
        if wanted is not None and wanted != found:
            expected = render_units(metadata.dimension_units or ())
            raise mismatch(f"metadata.attributes.{UNITS}", expected, render_units(facts.units))
    _contained("metadata", metadata.extra, facts.extra)


def check_schema(facts: Any, schema: Schema) -> None:
    """Check the constraints on the schema.

    Args:
        facts: the metadata of a format: `ArrayFacts`, or the like.
        schema: the constraints.

    Raises:
        SpecConflictError: one is not satisfied.
        InvalidSpecError: `codec` is of another driver, or there is a hard shape for `codec_chunk`.
    """
    if schema.rank is not None:
        _equal("schema.rank", schema.rank, facts.rank)
    if schema.domain is not None:
        schema.domain.merged(facts.domain, "schema.domain")
    if schema.dtype is not None:
        _equal("schema.dtype", schema.dtype, facts.data_type.name)
    if schema.chunk_layout is not None:
        check_layout(schema.chunk_layout, facts.chunk_layout)
    if schema.has_fill_value:
        fill = schema.fill_of(facts.data_type)
        if facts.fill_json is None or not same_bits(fill, facts.fill_value):
            raise mismatch("schema.fill_value", fill_json(fill, facts.data_type), facts.fill_json)
    if schema.codec is not None:
        if schema.codec.driver != facts.codec.driver:
            reason = f"the codecs of {schema.codec.driver!r} are not those of {facts.codec.driver!r}"
            raise invalid("schema.codec.driver", reason)
        if schema.codec.codecs is not None:
            facts.codec.codecs.merged(schema.codec.codecs, "schema.codec.codecs", strict=False)
    merge_units(facts.units, schema.dimension_units)


def check_layout(wanted: ChunkLayout, layout: ChunkLayout) -> None:
    """Check the hard constraints on chunks.

    Raises:
        SpecConflictError: one is not satisfied.
        InvalidSpecError: there is a hard shape for `codec_chunk`, which no codec has.
    """
    refuse_codec_chunk(wanted)
    try:
        wanted.merged(layout, "schema.chunk_layout")
    except SpecConflictError as error:
        raise mismatch(error.member or "schema.chunk_layout", error.expected, error.found) from None


def merged_domain(
    labels: Sequence[str] | None, shape: Sequence[int] | None, given: IndexDomain | None, rank: int
) -> IndexDomain:
    """Return the domain that a document and a schema give together, with implicit upper bounds.

    Raises:
        SpecConflictError: they contradict each other, or the domain does not begin at 0.
    """
    ends = (INFINITY,) * rank if shape is None else shape
    names = ("",) * rank if labels is None else labels
    stored = IndexDomain(tuple([Dimension(0, end, name, False, True) for end, name in zip(ends, names, strict=True)]))
    return (stored if given is None else given.merged(stored, "schema.domain")).resizable()


def _equal(member: str, expected: JSON, found: JSON) -> None:
    if not same_json(expected, found):
        raise mismatch(member, expected, found)


def _contained(member: str, wanted: Mapping[str, JSON], found: Mapping[str, JSON]) -> None:
    for name, value in wanted.items():
        if name not in found or not same_json(value, found[name]):
            raise mismatch(f"{member}.{name}", value, found.get(name))


def mismatch(member: str, expected: JSON, found: JSON) -> SpecConflictError:
    """Return the error of a member that has another value."""
    return SpecConflictError(f"{expected!r} is expected, not {found!r}", member=member, expected=expected, found=found)


@dataclass(frozen=True)
class ArrayFacts:
    """The complete metadata of a zarr3 array.

    Attributes:
        shape: lengths of the dimensions.
        data_type: type of the elements.
        chunk_shape: lengths of the stored chunks.
        chunk_key_encoding: encoding of chunk keys.
        fill_value: the fill value, as 0-d array of the type.
        codecs: the complete chain, with the location of every shard index.
        dimension_names: the stored names.
        dimension_units: the stored units; None if there are none.
        attributes: the other attributes.
        extra: unknown members that may be ignored.
    """

    shape: tuple[int, ...]
    data_type: DataType
    chunk_shape: tuple[int, ...]
    chunk_key_encoding: KeyEncoding
    fill_value: FillValue
    codecs: CodecChainSpec
    dimension_names: tuple[str | None, ...]
    dimension_units: Units | None = None
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    extra: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def domain(self) -> IndexDomain:
        """The domain of the stored array. If a name is not unique, no dimension has a label."""
        return IndexDomain.of_shape(self.shape, domain_labels(self.dimension_names))

    @property
    def units(self) -> Units:
        """One unit or None per dimension."""
        return self.dimension_units or (None,) * self.rank

    @property
    def chunk_layout(self) -> ChunkLayout:
        """The layout of the stored array; all constraints are hard."""
        found = chain_layout(self.codecs, self.rank, self.chunk_shape)
        order = found.inner_order or tuple(range(self.rank))
        return ChunkLayout(
            self.rank,
            Constraint(order),
            tuple([Constraint(0)] * self.rank),
            hard_shape(found.read_shape or self.chunk_shape),
            hard_shape(self.chunk_shape),
        )

    @property
    def codec(self) -> CodecSchema:
        """The codec as in schemas."""
        return CodecSchema("zarr3", self.codecs)

    @property
    def fill_json(self) -> JSON:
        """The fill value as in documents."""
        return fill_json(self.fill_value, self.data_type)

    def to_json(self) -> dict[str, JSON]:
        """Return the metadata as in a spec: those of the document, with the location of shard indexes."""
        return {**self.document(), "codecs": self.codecs.to_json()}

    def document(self) -> dict[str, JSON]:
        """Return the members of the `zarr.json`."""
        members: dict[str, JSON] = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": list(self.shape),
            "data_type": self.data_type.to_json(),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self.chunk_shape)}},
            "chunk_key_encoding": self.chunk_key_encoding.to_json(),
            "fill_value": self.fill_json,
            "codecs": stored_chain(self.codecs).to_json(),
        }
        attributes = dict(self.attributes)
        if self.dimension_units is not None and any(self.dimension_units):
            attributes[UNITS] = render_units(self.dimension_units)
        if attributes:
            members["attributes"] = attributes
        if any(name is not None for name in self.dimension_names):
            members["dimension_names"] = list(self.dimension_names)
        return {**members, **self.extra}


def domain_labels(names: tuple[str | None, ...]) -> tuple[str, ...]:
    """Return the labels of stored names; all "" if a name is not unique."""
    labels = tuple([name or "" for name in names])
    return labels if repeated_label(labels) is None else ("",) * len(labels)
