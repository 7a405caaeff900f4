"""The metadata model: immutable records for arrays and groups of all formats."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from operator import index
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.metadata.data_type import DataType
from aiozarr.metadata.document import Document

JSON: TypeAlias = Any
FillValue: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class NamedConfig:
    """An extension in a document: a codec, chunk grid, chunk key encoding or storage transformer.

    See the v3 core specification, "Extension points".

    Attributes:
        name: the name at its extension point.
        configuration: the `configuration` member as stored; empty if the document has none.
        must_understand: False if a reader may ignore the extension.
    """

    name: str
    configuration: Mapping[str, JSON] = field(default_factory=dict)
    must_understand: bool = True

    def copied(self) -> NamedConfig:
        """Return a copy with a configuration of its own, because arrays of one kind share theirs."""
        return NamedConfig(self.name, deepcopy(dict(self.configuration)), self.must_understand)

    def __hash__(self) -> int:
        # The configuration is JSON and not hashable. Equal records have equal names.
        return hash((self.name, self.must_understand))


@dataclass(frozen=True, slots=True, eq=False)
class ArrayMetadata:
    """Metadata of an array (v3 core specification, "Array metadata"). Compares by value, fill values bit by bit.

    Attributes:
        zarr_format: format of the documents: 1, 2 or 3.
        shape: lengths of the dimensions, at most 32, each less than 2^63.
        data_type: type of the elements.
        chunk_grid: division of the array into chunks.
        chunk_key_encoding: mapping of chunk coordinates to keys.
        fill_value: value of missing chunks, a read-only 0-d array of `data_type.dtype`.
        has_fill_value: False if the document leaves missing chunks undefined, as null in v2. They read as `fill_value`,
            the default of the type, and a write stores all chunks, also those equal to it.
        codecs: the codecs in the order of encoding.
        attributes: user attributes, which must not be changed in place.
        dimension_names: a name or None per dimension; None if the document has no names.
        storage_transformers: transformers between array and store, in order. `parse_node` rejects unknown ones.
        extra: unknown members that may be ignored. They are stored again unchanged.
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
        """The numpy type of the elements in native byte order."""
        return self.data_type.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def copied(self) -> ArrayMetadata:
        """Return a copy with configurations of its own."""
        return replace(
            self,
            chunk_grid=self.chunk_grid.copied(),
            chunk_key_encoding=self.chunk_key_encoding.copied(),
            codecs=tuple([codec.copied() for codec in self.codecs]),
            storage_transformers=tuple([each.copied() for each in self.storage_transformers]),
        )

    def with_attributes(self, attributes: Mapping[str, JSON]) -> ArrayMetadata:
        """Return a copy with these attributes; `render_node` checks that they are JSON.

        In formats 1 and 2 the attributes contain the dimension names.
        """
        if self.zarr_format == 3:
            return replace(self, attributes=dict(attributes))
        names = dimension_names_of(attributes, self.ndim)
        return replace(self, attributes=dict(attributes), dimension_names=names)

    def with_shape(self, shape: Iterable[SupportsIndex]) -> ArrayMetadata:
        """Return a copy with this shape.

        Raises:
            ValueError: another rank, or a length outside 0 to 2^63 - 1.
        """
        lengths = tuple(map(index, shape))
        if len(lengths) != self.ndim:
            raise ValueError(f"an array of {self.ndim} dimensions cannot have the shape {lengths}")
        if not all(0 <= length < 1 << 63 for length in lengths):
            raise ValueError(f"each length of {lengths} must be at least 0 and less than 2^63")
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


class ImplicitNode(dict[str, Mapping[str, JSON]]):
    """The members of the documents of a group that consolidated metadata lack, although they have nodes below it."""


@dataclass(frozen=True, eq=False)
class Consolidated:
    """Consolidated metadata: copies of the documents of all nodes below a group.

    Attributes:
        zarr_format: format of the group and the nodes.
        nodes: by path relative to the group, without leading `/`: the members of the documents by key relative to the
            node. They must not be changed in place. `consolidated_node` parses those of one node. Every path above a
            node is a node.
        source: the document that contained them, without its members.
    """

    zarr_format: int
    nodes: Mapping[str, Mapping[str, Mapping[str, JSON]]]
    source: Document | None = field(default=None, repr=False)

    @fork_safe_cached_property
    def paths(self) -> tuple[str, ...]:
        """The sorted paths of the nodes. Descendants of a node are adjacent."""
        return tuple(sorted(self.nodes))

    def below(self, path: str) -> Consolidated:
        """Return the consolidated metadata of the nodes below `path`. The cost grows with their number."""
        prefix = f"{path}/"
        # "0" is the character after "/".
        found = self.paths[bisect_left(self.paths, prefix) : bisect_left(self.paths, f"{path}0")]
        nodes = {each[len(prefix) :]: self.nodes[each] for each in found}
        return Consolidated(self.zarr_format, nodes, self.source)

    def __reduce__(self) -> tuple[object, ...]:
        # Without the source: it identifies duplicate keys by object ids, which differ in another process.
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
        zarr_format: format of the documents: 2 or 3.
        attributes: user attributes, which must not be changed in place.
        extra: unknown members that may be ignored. They are stored again unchanged.
        consolidated: consolidated metadata of all nodes below the group; None if the group has none. Any change of a
            node below must update or remove them.
    """

    zarr_format: int
    attributes: Mapping[str, JSON] = field(default_factory=dict)
    extra: Mapping[str, JSON] = field(default_factory=dict)
    consolidated: Consolidated | None = None

    def copied(self) -> GroupMetadata:
        """Return the same record, because groups share no configurations."""
        return self

    def with_attributes(self, attributes: Mapping[str, JSON]) -> GroupMetadata:
        """Return a copy with these attributes; `render_node` checks that they are JSON."""
        return replace(self, attributes=dict(attributes))

    def __hash__(self) -> int:
        # Attributes are JSON, which has no hash.
        return hash(self.zarr_format)


ATTRIBUTE = "_ARRAY_DIMENSIONS"


def dimension_names_of(attributes: Mapping[str, Any], ndim: int) -> tuple[str | None, ...] | None:
    """Return the dimension names in the attributes, or None if they have no valid names for `ndim` dimensions."""
    names = attributes.get(ATTRIBUTE)
    if not isinstance(names, list | tuple) or len(names) != ndim:
        return None
    if not all(name is None or isinstance(name, str) for name in names):
        return None
    return tuple(names)


def with_dimension_names(attributes: Mapping[str, Any], names: tuple[str | None, ...] | None) -> dict[str, Any]:
    """Return the attributes with these dimension names; None leaves the attributes unchanged."""
    result = dict(attributes)
    if names is not None and dimension_names_of(attributes, len(names)) != names:
        result[ATTRIBUTE] = list(names)
    return result
