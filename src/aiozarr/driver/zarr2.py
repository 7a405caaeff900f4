"""The rules of the `zarr` driver, for format 2: one grid of chunks, one compressor, no labels and no units."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from typing_extensions import Buffer

from aiozarr.common.formatting import shown
from aiozarr.driver.chunk_layout import ChunkLayout, Constraint, hard_shape
from aiozarr.driver.index_domain import IndexDomain
from aiozarr.driver.json_members import JSON, Members, SpecConflictError, as_json, invalid, lengths, one_of, same_json
from aiozarr.driver.metadata_constraints import check_schema, merged_domain, mismatch
from aiozarr.driver.new_array import choose_chunk_shapes
from aiozarr.driver.schema import NAMES, CodecSchema, FillValue, Schema, Units, declared_type, fill_json
from aiozarr.errors import InvalidMetadataError, MetadataError
from aiozarr.metadata.data_type import DataType
from aiozarr.metadata.format_rules import rules_of
from aiozarr.metadata.formats import parse_node
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.metadata.v2 import chunk_lengths
from aiozarr.metadata.v2_dtype import parse_dtype

KEY = rules_of(2).array_key
BLOSC = {"id": "blosc", "cname": "lz4", "clevel": 5, "blocksize": 0, "shuffle": -1}
LAYOUT = "schema.chunk_layout"


@dataclass(frozen=True)
class Zarr2Constraints:
    """Constraints on the members of a `.zarray`.

    Attributes:
        rank: number of dimensions; None if unknown.
        members: the given members, each as JSON.
        data_type: the type of the elements; None if unconstrained.
    """

    rank: int | None = None
    members: Mapping[str, JSON] = field(default_factory=dict)
    data_type: DataType | None = None

    @classmethod
    def parse(cls, value: JSON, path: str) -> Zarr2Constraints:
        """Parse the constraints from JSON.

        Raises:
            InvalidSpecError: a member is not valid.
            SpecConflictError: the type has fields, and the driver cannot select one.
        """
        parsers: dict[str, Any] = {
            "zarr_format": one_of(2),
            "shape": lambda each, where: list(lengths(each, where)),
            "chunks": lambda each, where: list(lengths(each, where, 1)),
            "order": one_of("C", "F"),
            "dimension_separator": one_of(".", "/"),
            "dtype": as_json,
            "compressor": _compressor,
            "filters": one_of(None),
            "fill_value": as_json,
        }
        with Members(value, path) as members:
            found = {name: members.take(name, parse, _MISSING) for name, parse in parsers.items()}
        given = {name: each for name, each in found.items() if each is not _MISSING}
        rank = _common_rank(given, path)
        data_type = _data_type(given["dtype"], f"{path}.dtype") if "dtype" in given else None
        if "fill_value" in given and data_type is None:
            raise invalid(f"{path}.fill_value", "fill_value needs dtype")
        return cls(rank, given, data_type)


_MISSING: Any = object()


@dataclass(frozen=True)
class Zarr2Facts:
    """The complete metadata of an array of format 2.

    Attributes:
        metadata: the metadata in the terms of the array.
        members: the members of the `.zarray`.
    """

    metadata: ArrayMetadata
    members: Mapping[str, JSON]

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the dimensions."""
        return self.metadata.shape

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def data_type(self) -> DataType:
        """Type of the elements."""
        return self.metadata.data_type

    @property
    def domain(self) -> IndexDomain:
        """The domain of the stored array, without labels."""
        return IndexDomain.of_shape(self.shape)

    @property
    def units(self) -> Units:
        """No unit for every dimension."""
        return (None,) * self.rank

    @property
    def fill_value(self) -> FillValue:
        """The fill value, as 0-d array of the type."""
        return self.metadata.fill_value

    @property
    def fill_json(self) -> JSON:
        """The fill value as in schemas; None if the document has none."""
        return fill_json(self.fill_value, self.data_type) if self.metadata.has_fill_value else None

    @property
    def chunk_layout(self) -> ChunkLayout:
        """The layout of the stored array; all constraints are hard."""
        order = tuple(range(self.rank))
        chunks = hard_shape(self.members["chunks"])
        inner = Constraint(order if self.members["order"] == "C" else order[::-1])
        return ChunkLayout(self.rank, inner, (Constraint(0),) * self.rank, chunks, chunks)

    @property
    def codec(self) -> CodecSchema:
        """The codec as in schemas."""
        return CodecSchema("zarr", None, {name: self.members[name] for name in ("compressor", "filters")})

    def to_json(self) -> dict[str, JSON]:
        """Return the metadata as in a spec: the members of the `.zarray`."""
        return dict(self.members)

    document = to_json

    def with_shape(self, shape: tuple[int, ...]) -> Zarr2Facts:
        """Return the metadata with another shape."""
        return Zarr2Facts(self.metadata.with_shape(shape), {**self.members, "shape": list(shape)})


def new_zarr2(metadata: Zarr2Constraints, schema: Schema, *, exact: bool = False) -> Zarr2Facts:
    """Return the complete metadata of a new array of format 2.

    Raises:
        InvalidSpecError: the constraints do not determine an array, or contradict each other.
    """
    given = metadata.members
    data_type = metadata.data_type or declared_type(schema.dtype, "metadata.dtype")
    domain = zarr2_domain(metadata, schema)
    if domain is None or not domain.is_finite:
        raise invalid("schema.domain", "the shape is unknown; set metadata.shape or schema.domain")
    if schema.dimension_units is not None and any(schema.dimension_units):
        raise invalid("schema.dimension_units", "format 2 does not support units")
    layout = schema.chunk_layout or ChunkLayout()
    if "chunks" in given:
        layout = replace(layout, write=layout.write.merged(hard_shape(given["chunks"]), "metadata.chunks"))
    chunks = layout.read.merged(layout.write, f"{LAYOUT}.write_chunk")
    shapes = choose_chunk_shapes(chunks, chunks, domain.shape, exact=exact)
    codec = {} if schema.codec is None else schema.codec.options
    fill = schema.fill_of(data_type)
    members = {
        "chunks": list(shapes.write),
        "compressor": _completed(given.get("compressor", codec.get("compressor", BLOSC))),
        "dimension_separator": given.get("dimension_separator", "."),
        "dtype": given.get("dtype", _encoded(data_type)),
        "fill_value": given.get("fill_value", None if fill is None else fill_json(fill, data_type)),
        "filters": None,
        "order": given.get("order", _order(layout, domain.rank)),
        "shape": list(domain.shape),
        "zarr_format": 2,
    }
    try:
        facts = parse_zarr2(json.dumps(members).encode(), node="the new array")
    except MetadataError as error:
        raise invalid("metadata", error.message) from error
    check_zarr2(facts, metadata, schema)
    return facts


def zarr2_domain(metadata: Zarr2Constraints, schema: Schema) -> IndexDomain | None:
    """Return the domain that the constraints give together, without labels; None if they give none.

    Raises:
        SpecConflictError: they contradict each other, or the domain does not begin at 0.
    """
    shape = metadata.members.get("shape")
    if shape is None and schema.domain is None:
        return None
    # Format 2 has no labels.
    given = None if schema.domain is None else schema.domain.with_labels([""] * schema.domain.rank)
    return merged_domain(None, shape, given, len(shape or ()) if given is None else given.rank)


def parse_zarr2(data: Buffer, *, node: str) -> Zarr2Facts:
    """Return the metadata of a stored `.zarray`.

    Raises:
        InvalidMetadataError, UnsupportedMetadataError: the document does not describe an array that the driver reads.
    """
    metadata = parse_node({KEY: bytes(data)}, node=node, zarr_format=2)
    assert isinstance(metadata, ArrayMetadata)
    members = json.loads(bytes(data))
    if metadata.data_type.name not in NAMES:
        reason = f"the driver does not support the data type {metadata.data_type.name!r}; use aiozarr.open_array"
        raise InvalidMetadataError(reason, node=node, key=KEY, member="dtype")
    # Readers treat a missing member as null, and the chunk length 0 of an empty dimension as 1.
    defaults = {"dimension_separator": ".", "compressor": None, "filters": None}
    return Zarr2Facts(metadata, {**defaults, **members, "chunks": chunk_lengths(metadata)})


def check_zarr2(facts: Zarr2Facts, metadata: Zarr2Constraints, schema: Schema) -> None:
    """Check that the metadata satisfy the constraints.

    Raises:
        SpecConflictError: they do not.
        InvalidSpecError: `codec` is of another driver.
    """
    for name, wanted in metadata.members.items():
        found = facts.members.get(name)
        both = isinstance(wanted, Mapping) and isinstance(found, Mapping)
        compared = {key: found.get(key) for key in wanted} if both and isinstance(found, Mapping) else found
        if not same_json(wanted, compared):
            raise mismatch(f"metadata.{name}", wanted, found)
    check_schema(facts, schema)
    if schema.codec is not None:
        for name, wanted in schema.codec.options.items():
            if not same_json(_completed(wanted), facts.members[name]):
                raise mismatch(f"schema.codec.{name}", wanted, facts.members[name])


def _compressor(value: JSON, path: str) -> JSON:
    if value is not None and (not isinstance(value, Mapping) or not isinstance(value.get("id"), str)):
        raise invalid(path, f"expected null or an object with an 'id', not {shown(value)}")
    return None if value is None else dict(value)


def _completed(compressor: JSON) -> JSON:
    """Return the compressor with the defaults of its options."""
    if not isinstance(compressor, Mapping):
        return compressor
    levels: dict[str, dict[str, JSON]] = {key: {"level": 1} for key in ("zlib", "gzip", "bz2", "zstd")}
    return {**{**levels, "blosc": BLOSC}.get(compressor["id"], {}), **compressor}


def _common_rank(given: Mapping[str, JSON], path: str) -> int | None:
    ranks = {name: len(given[name]) for name in ("shape", "chunks") if name in given}
    if len(set(ranks.values())) > 1:
        raise invalid(f"{path}.chunks", f"expected {ranks['shape']} chunk lengths, not {ranks['chunks']}")
    return next(iter(ranks.values()), None)


def _data_type(value: JSON, path: str) -> DataType:
    try:
        data_type = DataType.from_numpy(parse_dtype(value))
    except (MetadataError, TypeError, ValueError) as error:
        raise invalid(path, f"unknown data type {shown(value)}") from error
    if data_type.dtype.names is not None:
        fields = ", ".join(data_type.dtype.names)
        raise SpecConflictError(
            f"the data type has the fields {fields}, which the driver does not support; use aiozarr.open_array",
            member=path,
            expected="a type without fields",
            found=value,
        )
    if data_type.name not in NAMES:
        raise invalid(path, f"the driver does not support {shown(value)}")
    return data_type


def _encoded(data_type: DataType) -> str:
    """Return the type as documents write it: numpy's types by kind and size, others by name."""
    dtype = data_type.dtype
    return dtype.name if dtype.isbuiltin == 2 else np.dtype(dtype.newbyteorder("<")).str


def _order(layout: ChunkLayout, rank: int) -> str:
    if layout.inner_order is None:
        return "C"
    order, wanted = tuple(range(rank)), layout.inner_order.value
    if wanted == order:
        return "C"
    if wanted == order[::-1]:
        return "F"
    if not layout.inner_order.hard:
        return "C"
    raise invalid(f"{LAYOUT}.inner_order", f"format 2 stores elements in C or F order, not in {list(wanted)}")
