"""What metadata documents say, as records of one model for every version of the format."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import index
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.metadata.data_type import DataType
from aiozarr.metadata.dimension_names import dimension_names_of
from aiozarr.metadata.document import Document

JSON: TypeAlias = Any
FillValue: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class NamedConfig:
    """An extension as a document names it: a codec, a chunk grid, a chunk key encoding, a storage transformer.

    Attributes:
        name: the name in the registry of its extension point.
        configuration: the `configuration` member, as written; empty where there is none.
        must_understand: False where the document says that a reader may ignore it.
    """

    name: str
    configuration: Mapping[str, JSON] = field(default_factory=dict)
    must_understand: bool = True

    def __hash__(self) -> int:
        # The configuration is JSON, which has no hash; equal records have equal names.
        return hash((self.name, self.must_understand))


@dataclass(frozen=True, slots=True, eq=False)
class ArrayMetadata:
    """An array's metadata (v3 core specification, "Array metadata"). Compares by value, fill values by their bits.

    Attributes:
        zarr_format: the version of the format that the node is stored in.
        shape: lengths of the dimensions; at most 32 of them, each less than 2^63.
        data_type: type of the elements.
        chunk_grid: where the chunks lie.
        chunk_key_encoding: which keys the chunks have.
        fill_value: what missing chunks hold: a read-only 0-d array of `data_type.dtype`.
        has_fill_value: False where the document leaves open what missing chunks hold, as v2's null does. They read as
            `fill_value`, the type's default, and no chunk is left out on writing because it equals that.
        codecs: how a chunk becomes bytes, in the order of encoding.
        attributes: the user's JSON; not to be changed in place.
        dimension_names: one name or None for each dimension; None where the document has no names.
        storage_transformers: what lies between array and store, in this order; `parse_node` refuses unknown ones.
        extra: unknown members that the document allows to ignore; written back as they are.
    """

    zarr_format: int
    shape: tuple[int, ...]
    data_type: DataType
    chunk_grid: NamedConfig
    chunk_key_encoding: NamedConfig
    fill_value: FillValue
    codecs: tuple[NamedConfig, ...]
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    dimension_names: tuple[str | None, ...] | None = None
    storage_transformers: tuple[NamedConfig, ...] = ()
    extra: Mapping[str, JSON] = field(default_factory=dict)
    has_fill_value: bool = True

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type of the elements, in native byte order."""
        return self.data_type.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def with_attributes(self, attributes: Mapping[str, JSON]) -> ArrayMetadata:
        """Return a copy with these attributes; `render_node` checks that they are JSON.

        In formats 1 and 2 attributes hold the names of dimensions, too.
        """
        if self.zarr_format == 3:
            return replace(self, attributes=dict(attributes))
        names = dimension_names_of(attributes, self.ndim)
        return replace(self, attributes=dict(attributes), dimension_names=names)

    def with_shape(self, shape: Iterable[SupportsIndex]) -> ArrayMetadata:
        """Return a copy with this shape.

        Raises:
            ValueError: another rank, or a length that is negative or not less than 2^63.
        """
        lengths = tuple(map(index, shape))
        if len(lengths) != self.ndim:
            raise ValueError(f"an array of {self.ndim} dimensions cannot get the shape {lengths}")
        if not all(0 <= length < 1 << 63 for length in lengths):
            raise ValueError(f"each length is at least 0 and less than 2^63, which {lengths} is not")
        return replace(self, shape=lengths)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArrayMetadata):
            return NotImplemented
        return self._key() == other._key() and (self.attributes, self.extra) == (other.attributes, other.extra)

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return (
            self.zarr_format,
            self.shape,
            self.data_type,
            self.chunk_grid,
            self.chunk_key_encoding,
            self.data_type.fill_key(self.fill_value) if self.has_fill_value else None,
            self.codecs,
            self.dimension_names,
            self.storage_transformers,
        )


@dataclass(frozen=True, eq=False)
class Consolidated:
    """Copies of the documents of all nodes below a group, as the group's own documents hold them.

    Attributes:
        zarr_format: the version of the format of the group and the nodes.
        nodes: by path relative to the group, without a leading `/`, the members of each of the node's documents by key
            relative to the node; not to be changed in place. `consolidated_node` parses those of one node.
        source: what is known of the document that they were read from, without its members.
    """

    zarr_format: int
    nodes: Mapping[str, Mapping[str, Mapping[str, JSON]]]
    source: Document | None = field(default=None, repr=False)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The paths of the nodes, sorted: what lies below one of them stands together."""
        return tuple(sorted(self.nodes))

    def below(self, path: str) -> Consolidated:
        """Return the copies of the nodes below `path`, by paths relative to it, at a cost in their number."""
        prefix = f"{path}/"
        # "0" is the character after "/".
        found = self.paths[bisect_left(self.paths, prefix) : bisect_left(self.paths, f"{path}0")]
        nodes = {each[len(prefix) :]: self.nodes[each] for each in found}
        return Consolidated(self.zarr_format, nodes, self.source)

    def __reduce__(self) -> tuple[object, ...]:
        # In another process objects have other ids, by which duplicate keys are known.
        return Consolidated, (self.zarr_format, self.nodes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Consolidated):
            return NotImplemented
        return (self.zarr_format, self.nodes) == (other.zarr_format, other.nodes)

    def __hash__(self) -> int:
        return hash((self.zarr_format, frozenset(self.nodes)))


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A group's metadata (v3 core specification, "Group metadata").

    Attributes:
        zarr_format: the version of the format that the node is stored in.
        attributes: the user's JSON; not to be changed in place.
        extra: unknown members that the document allows to ignore; written back as they are.
        consolidated: copies of the documents of all nodes below; None where the group has none. Who changes a node
            below keeps them up to date, or takes them away: what is stale misleads every reader.
    """

    zarr_format: int
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    extra: Mapping[str, JSON] = field(default_factory=dict)
    consolidated: Consolidated | None = None

    def with_attributes(self, attributes: Mapping[str, JSON]) -> GroupMetadata:
        """Return a copy with these attributes; `render_node` checks that they are JSON."""
        return replace(self, attributes=dict(attributes))

    def __hash__(self) -> int:
        # Attributes are JSON, which has no hash.
        return hash(self.zarr_format)
