"""Constraints on the metadata of an array, stored or new.

The `metadata` of a zarr3 spec is a `zarr.json` of which every member may be missing. Metadata and constraints are
compared as JSON, in the form in which specs write them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aiozarr.driver.chunk_layout import ChunkLayout, Constraint, hard_shape, refuse_codec_chunk
from aiozarr.driver.codec_resolve import chain_layout
from aiozarr.driver.codec_spec import CodecChainSpec, stored_chain
from aiozarr.driver.index_domain import INFINITY, Dimension, IndexDomain, repeated_label
from aiozarr.driver.json_members import (
    JSON,
    Members,
    SpecConflictError,
    array,
    as_json,
    invalid,
    lengths,
    one_of,
    ranked,
    same_json,
    text,
)
from aiozarr.driver.schema import (
    CodecSchema,
    FillValue,
    Schema,
    Units,
    fill_json,
    merge_units,
    parse_data_type,
    parse_metadata_fill,
    parse_stored_units,
    render_units,
    same_bits,
)
from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.data_type import DataType
from aiozarr.metadata.document import check_json

SEPARATORS = {"default": "/", "v2": "."}
UNITS = "dimension_units"


@dataclass(frozen=True)
class KeyEncoding:
    """A chunk key encoding with its separator."""

    name: str
    separator: str

    @classmethod
    def parse(cls, value: JSON, path: str) -> KeyEncoding:
        """Parse an encoding from JSON; a missing separator is the default of the encoding."""
        with Members(value, path) as members:
            name: str = members.require("name", one_of(*SEPARATORS))
            with Members(members.take("configuration", as_json, {}), members.at("configuration")) as configuration:
                return cls(name, configuration.take("separator", one_of(".", "/"), SEPARATORS[name]))

    def to_json(self) -> dict[str, JSON]:
        """Return the JSON, without a separator that is the default of the encoding."""
        if self.separator == SEPARATORS[self.name]:
            return {"name": self.name}
        return {"configuration": {"separator": self.separator}, "name": self.name}


@dataclass(frozen=True)
class MetadataConstraints:
    """Constraints on the members of a `zarr.json`; None is unconstrained.

    Attributes:
        rank: number of dimensions.
        shape: lengths of the dimensions.
        data_type: the type of the elements.
        chunk_shape: lengths of the stored chunks.
        chunk_key_encoding: the encoding of chunk keys.
        fill_value: the fill value, as 0-d array of the type.
        codecs: the chain, possibly partial.
        dimension_names: the stored names, which a name or null must equal.
        dimension_units: the stored units, which null does not constrain.
        attributes: the other attributes, which the stored ones contain.
        extra: unknown members that may be ignored, which the stored ones contain.
    """

    rank: int | None = None
    shape: tuple[int, ...] | None = None
    data_type: DataType | None = None
    chunk_shape: tuple[int, ...] | None = None
    chunk_key_encoding: KeyEncoding | None = None
    fill_value: FillValue | None = None
    codecs: CodecChainSpec | None = None
    dimension_names: tuple[str | None, ...] | None = None
    dimension_units: Units | None = None
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    extra: Mapping[str, JSON] = field(default_factory=dict)

    @classmethod
    def parse(cls, value: JSON, path: str) -> MetadataConstraints:
        """Parse the constraints from JSON.

        Raises:
            InvalidSpecError: a member is not valid.
        """
        members = Members(value, path)
        members.take("zarr_format", one_of(3), 3)
        members.take("node_type", one_of("array"), "array")
        data_type = members.take("data_type", parse_data_type, None)
        fill: Any = None
        if "fill_value" in members:
            if data_type is None:
                raise invalid(members.at("fill_value"), "fill_value needs data_type")
            fill = members.require("fill_value", lambda each, where: parse_metadata_fill(each, data_type, where))
        shape = members.take("shape", lengths, None)
        names = members.take(
            "dimension_names",
            lambda each, where: ranked(each, where, lambda name, at: None if name is None else text(name, at)),
            None,
        )
        encoding = members.take("chunk_key_encoding", KeyEncoding.parse, None)
        chunk_shape = members.take("chunk_grid", _chunk_shape, None)
        codecs = members.take("codecs", CodecChainSpec.parse, None)
        members.take("storage_transformers", _no_transformers, None)
        nothing: tuple[Mapping[str, JSON], Units | None] = ({}, None)
        attributes, units = members.take("attributes", _attributes, nothing)
        rank: int | None = None
        given = {"shape": shape, "dimension_names": names, "chunk_grid": chunk_shape, f"attributes.{UNITS}": units}
        for name, each in given.items():
            if each is not None and rank is not None and len(each) != rank:
                raise invalid(members.at(name), f"expected {rank} items, one per dimension, not {len(each)}")
            rank = len(each) if each is not None else rank
        extra = members.rest()
        for name, each in extra.items():
            if not isinstance(each, Mapping) or each.get("must_understand") is not False:
                reason = f'unknown member {name!r}; an extension must have {{"must_understand": false}}'
                raise invalid(members.at(str(name)), reason)
        return cls(rank, shape, data_type, chunk_shape, encoding, fill, codecs, names, units, dict(attributes), extra)


def _chunk_shape(value: JSON, path: str) -> tuple[int, ...]:
    with Members(value, path) as members:
        members.require("name", one_of("regular"))
        with Members(members.require("configuration", as_json), members.at("configuration")) as configuration:
            return configuration.require("chunk_shape", lambda shape, at: lengths(shape, at, 1))


def _no_transformers(value: JSON, path: str) -> None:
    if array(value, path):
        raise invalid(path, "storage transformers are not supported")


def _attributes(value: JSON, path: str) -> tuple[Mapping[str, JSON], Units | None]:
    members = Members(value, path)
    units = members.take(UNITS, parse_stored_units, None)
    attributes = {name: as_json(each, path) for name, each in members.rest().items()}
    try:
        check_json(attributes, path, finite=False)
    except InvalidMetadataError as error:
        raise invalid(error.member or path, error.message) from None
    return attributes, units


_COMPARED: dict[str, tuple[str, Callable[[Any], JSON]]] = {
    "data_type": ("data_type", lambda data_type: data_type.to_json()),
    "shape": ("shape", list),
    "chunk_shape": ("chunk_grid.configuration.chunk_shape", list),
    "chunk_key_encoding": ("chunk_key_encoding", KeyEncoding.to_json),
    "dimension_names": ("dimension_names", list),
}
"""The constraints that stored metadata must equal, with the member and the form in which they are compared."""


def check_metadata(facts: ArrayFacts, metadata: MetadataConstraints) -> None:
    """Check the constraints on the document.

    Shape, data type, chunk shape, chunk keys, fill value and names must be equal. Attributes and extensions must be
    contained. Codecs must be the same, with at least the given options.

    Raises:
        SpecConflictError: one is not satisfied.
    """
    for name, (member, render) in _COMPARED.items():
        wanted = getattr(metadata, name)
        if wanted is not None:
            _equal(f"metadata.{member}", render(wanted), render(getattr(facts, name)))
    if metadata.fill_value is not None and not same_bits(metadata.fill_value, facts.fill_value):
        raise mismatch("metadata.fill_value", fill_json(metadata.fill_value, facts.data_type), facts.fill_json)
    if metadata.codecs is not None:
        facts.codecs.merged(metadata.codecs, "metadata.codecs", strict=True)
    _contained("metadata.attributes", metadata.attributes, facts.attributes)
    for unit, found in zip(metadata.dimension_units or (), facts.units, strict=False):
        if unit is not None and unit != found:
            expected = render_units(metadata.dimension_units or ())
            raise mismatch(f"metadata.attributes.{UNITS}", expected, render_units(facts.units))
    _contained("metadata", metadata.extra, facts.extra)


def check_schema(facts: Any, schema: Schema) -> None:
    """Check the constraints on the schema.

    Args:
        facts: the metadata of an array, such as `ArrayFacts`.
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
            reason = f"codecs of the driver {schema.codec.driver!r} cannot be used with {facts.codec.driver!r}"
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
    return SpecConflictError(f"expected {expected!r}, not {found!r}", member=member, expected=expected, found=found)


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

    def with_shape(self, shape: tuple[int, ...]) -> ArrayFacts:
        """Return the metadata with another shape."""
        return replace(self, shape=shape)

    def to_json(self) -> dict[str, JSON]:
        """Return the metadata as specs write them, with the location of shard indexes."""
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
