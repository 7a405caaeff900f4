"""What the rules of specs compare: an array's metadata, stored or new, in the terms of specs, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aiozarr.driver.chunk_layout import ChunkLayout, Constraint, hard_shape
from aiozarr.driver.codec_resolve import chain_layout
from aiozarr.driver.codec_spec import SHARDING, CodecChainSpec, CodecSpec
from aiozarr.driver.data_types import FillValue, fill_json
from aiozarr.driver.index_domain import IndexDomain, repeated_label
from aiozarr.driver.json_members import JSON
from aiozarr.driver.metadata_constraints import UNITS, KeyEncoding
from aiozarr.driver.schema import CodecSchema
from aiozarr.driver.unit import Units, render_units
from aiozarr.metadata import DataType


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


def with_index_location(chain: CodecChainSpec) -> CodecChainSpec:
    """Return the chain with the location of every shard index, which documents omit if it is the end."""
    codec = chain.array_to_bytes
    if codec is None or codec.name != SHARDING:
        return chain
    options = {"index_location": "end", **codec.options, "codecs": with_index_location(chain.inner)}
    return replace(chain, array_to_bytes=CodecSpec(SHARDING, options))


def stored_chain(chain: CodecChainSpec) -> CodecChainSpec:
    """Return the chain as documents have it, without locations of shard indexes that are the end."""
    codec = chain.array_to_bytes
    if codec is None or codec.name != SHARDING:
        return chain
    options = {name: value for name, value in codec.options.items() if (name, value) != ("index_location", "end")}
    return replace(chain, array_to_bytes=CodecSpec(SHARDING, {**options, "codecs": stored_chain(chain.inner)}))
