"""Parse and render the metadata documents of a node. Only this module decides which format a node has."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from aiozarr.errors import InvalidMetadataError, LimitError, UnsupportedMetadataError, located
from aiozarr.metadata.consolidated import (
    check_node_count,
    document_of,
    parse_zmetadata,
    with_groups_between,
    zmetadata_members,
)
from aiozarr.metadata.document import Document, dump_document, load_document
from aiozarr.metadata.format_rules import (
    ARRAY_KEY,
    ATTRIBUTES_KEY,
    ATTRS_KEY,
    CONSOLIDATED_MEMBER,
    FORMATS,
    GROUP_KEY,
    META_KEY,
    V3_KEY,
    ZMETADATA_KEY,
)
from aiozarr.metadata.records import ArrayMetadata, Consolidated, GroupMetadata
from aiozarr.metadata.v3 import parse_v3, render_v3, v3_members
from aiozarr.plugins import unknown_extension
from aiozarr.settings import DEFAULT_SETTINGS, Settings

if TYPE_CHECKING:
    from typing_extensions import Buffer

NodeMetadata: TypeAlias = ArrayMetadata | GroupMetadata
Metadata = TypeVar("Metadata", ArrayMetadata, GroupMetadata, ArrayMetadata | GroupMetadata)

DOCUMENT_KEYS: dict[int, tuple[str, ...]] = {number: rules.keys for number, rules in FORMATS.items()}
"""The keys, relative to a node, of the documents of each format, newest format first."""

PROBE_KEYS: tuple[str, ...] = tuple(key for rules in FORMATS.values() for key in rules.keys)
"""The keys, relative to a node, of the documents of all formats; `open` fetches them concurrently."""


def probe_keys(zarr_format: int | None = None) -> tuple[str, ...]:
    """Return the document keys, relative to a node, of one format, or of all formats for None."""
    return PROBE_KEYS if zarr_format is None else DOCUMENT_KEYS[zarr_format]


def likely_keys(zarr_format: int) -> tuple[str, ...]:
    """Return the document keys, of this format and newer ones, to fetch first for a node that probably has this format.

    The newest format at a path wins, so no document of an older one matters if one of these is stored.
    """
    return tuple(key for number, keys in DOCUMENT_KEYS.items() if number >= zarr_format for key in keys)


def node_keys() -> tuple[str, ...]:
    """Return the document keys that make a path an array or a group, of all formats, relative to the node."""
    return tuple(dict.fromkeys(key for rules in FORMATS.values() for key in (rules.array_key, rules.group_key) if key))


def parse_node(
    documents: Mapping[str, Buffer | None],
    *,
    node: str,
    settings: Settings = DEFAULT_SETTINGS,
    zarr_format: int | None = None,
    storage_transformers: Container[str] | None = (),
    use_consolidated: bool = True,
) -> NodeMetadata | None:
    """Return the metadata of a node.

    Documents of the newest format win, and the documents of other formats are ignored: a damaged document must not
    bring back an older node. In v2 an array wins over a group.

    Args:
        documents: values by key relative to the node, for each of `probe_keys(zarr_format)`; None for missing ones.
        node: URL or path of the node, for errors.
        settings: `max_metadata_bytes`, `strict` and `v1_order_f` apply.
        zarr_format: the only format to consider; None for all formats.
        storage_transformers: names of the known storage transformers; None: all names, for callers that resolve them.
        use_consolidated: False to leave consolidated metadata unread, unless a group has no other document.

    Returns: the metadata, or None if the node has no document.

    Raises:
        InvalidMetadataError: a document violates its format. The error has `node`, `key` and possibly `member`.
        UnsupportedMetadataError: a document uses a feature that aiozarr lacks.
        LimitError: a document is larger than `max_metadata_bytes`.
    """
    reader = _Reader(documents, node, settings, use_consolidated=use_consolidated)
    for number, read in _READERS.items():
        if zarr_format in (None, number) and (metadata := read(reader)) is not None:
            return _with_known_transformers(metadata, storage_transformers, reader)
    return None


def render_node(metadata: NodeMetadata) -> dict[str, bytes]:
    """Return the documents of a node by key relative to it. Equal metadata give equal bytes.

    The document that makes the node comes last. Only a consolidated v2 group has a `.zmetadata`.

    Raises:
        TypeError: an attribute is not a JSON value.
        InvalidMetadataError: JSON cannot represent an attribute: too deep nesting; in v3 also NaN and infinities.
        UnsupportedMetadataError: the format cannot represent the metadata.
    """
    if metadata.zarr_format == 3:
        return {V3_KEY: render_v3(metadata)}
    members = _members(metadata)
    # The specifications do not restrict numbers in attributes, and real ones are NaN. So is a fill value of NaN in v1.
    data = {key: dump_document(members[key], finite=key in (ARRAY_KEY, GROUP_KEY)) for key in reversed(members)}
    if isinstance(metadata, GroupMetadata) and metadata.consolidated is not None:
        data[ZMETADATA_KEY] = dump_document(zmetadata_members(metadata.consolidated, members), finite=False)
    # Parse the result: a document that cannot be opened again must not be stored.
    size = max(map(len, data.values()))
    parse_node(data, node="", settings=replace(DEFAULT_SETTINGS, max_metadata_bytes=size))
    return data


def consolidate(zarr_format: int, nodes: Mapping[str, NodeMetadata]) -> Consolidated:
    """Return the consolidated metadata of a group with these nodes, by path relative to the group.

    Raises:
        ValueError: a node has another format, or format 1, which has no groups.
        MetadataError: the format cannot represent a node.
    """
    copies: dict[str, Mapping[str, Mapping[str, Any]]] = {}
    for path, metadata in nodes.items():
        if metadata.zarr_format != zarr_format or zarr_format not in (2, 3):
            raise ValueError(f"a group of format {zarr_format} cannot contain a node of format {metadata.zarr_format}")
        copies[path] = _members(_for_consolidation(metadata))
    return Consolidated(zarr_format, with_groups_between(zarr_format, copies))


def consolidated_node(
    consolidated: Consolidated,
    path: str,
    *,
    node: str,
    settings: Settings = DEFAULT_SETTINGS,
    storage_transformers: Container[str] | None = (),
) -> NodeMetadata | None:
    """Return the metadata of the node at `path` from consolidated metadata, with the errors of `parse_node`.

    A group gets the consolidated metadata of the nodes below it.

    Returns: the metadata, or None if the consolidated metadata do not contain the node.
    """
    copies = consolidated.nodes.get(path)
    if copies is None:
        return None
    documents = {key: document_of(consolidated, members) for key, members in copies.items()}
    reader = _Reader({}, node, settings, documents)
    metadata = _READERS[consolidated.zarr_format](reader)
    if isinstance(metadata, GroupMetadata):
        return replace(metadata, consolidated=consolidated.below(path))
    return metadata and _with_known_transformers(metadata, storage_transformers, reader)


class _Reader:
    """The documents of one node, parsed on access. Errors name the node and the document."""

    def __init__(
        self,
        data: Mapping[str, Buffer | None],
        node: str,
        settings: Settings,
        parsed: Mapping[str, Document] | None = None,
        *,
        use_consolidated: bool = True,
    ) -> None:
        self._data = data
        self._node = node
        self._parsed = dict(parsed or {})
        self.settings = settings
        self.use_consolidated = use_consolidated

    def document(self, key: str) -> Document | None:
        if key not in self._parsed and self._data.get(key) is not None:
            with self.located(key):
                return self.load(key)
        return self._parsed.get(key)

    def load(self, key: str) -> Document | None:
        """Return a document. Its errors do not name it: for callers that parse it at once."""
        data = self._data.get(key)
        if key not in self._parsed and data is not None:
            if key in (V3_KEY, ZMETADATA_KEY):
                check_node_count(data)
            self._parsed[key] = load_document(
                data, max_bytes=self.settings.max_metadata_bytes, strict=self.settings.strict
            )
        return self._parsed.get(key)

    def has(self, key: str) -> bool:
        """Return whether a document is stored."""
        return key in self._parsed or self._data.get(key) is not None

    def attributes(self, key: str) -> Mapping[str, Any]:
        document = self.document(key)
        if document is None:
            return {}
        from aiozarr.metadata.v2 import parse_attributes

        with self.located(key):
            return parse_attributes(document, self.settings)

    def parse(self, document: Document, parse: Callable[..., Metadata], *attributes: Mapping[str, Any]) -> Metadata:
        """Return `parse(document, *attributes, settings)`; unless strict, misspelled members are read."""
        try:
            return parse(document, *attributes, self.settings)
        except InvalidMetadataError:
            if self.settings.strict:
                raise
        from aiozarr.metadata.lenient import read_leniently

        return read_leniently(lambda read: parse(read, *attributes, self.settings), document)

    def add(self, key: str, document: Document) -> None:
        """Add a consolidated document, unless the document itself is stored."""
        if self.document(key) is None:
            self._parsed[key] = document

    @contextmanager
    def located(self, key: str) -> Iterator[None]:
        try:
            with located(node=self._node, key=key):
                yield
        except LimitError as error:
            raise LimitError(
                f"{error.message} (node {self._node}, key {key!r})",
                limit=error.limit,
                value=error.value,
                allowed=error.allowed,
            ) from None


def _read_v3(reader: _Reader) -> NodeMetadata | None:
    if not reader.has(V3_KEY):
        return None
    with reader.located(V3_KEY):
        document = reader.load(V3_KEY)
        assert document is not None
        if not reader.use_consolidated and CONSOLIDATED_MEMBER in document.members:
            members = {name: value for name, value in document.members.items() if name != CONSOLIDATED_MEMBER}
            document = document._replace(members=members)
        return reader.parse(document, parse_v3)


def _read_v2(reader: _Reader) -> NodeMetadata | None:
    if not any(map(reader.has, (ARRAY_KEY, GROUP_KEY, ZMETADATA_KEY))):
        return None
    from aiozarr.metadata.v2 import parse_v2_array, parse_v2_group

    document = reader.document(ARRAY_KEY)
    if document is not None:
        attributes = reader.attributes(ATTRIBUTES_KEY)
        with reader.located(ARRAY_KEY):
            return reader.parse(document, parse_v2_array, attributes)
    is_read = reader.use_consolidated or reader.document(GROUP_KEY) is None
    copies = reader.document(ZMETADATA_KEY) if is_read else None
    consolidated: Consolidated | None = None
    if copies is not None:
        with reader.located(ZMETADATA_KEY):
            consolidated, own = parse_zmetadata(copies, strict=reader.settings.strict)
        if GROUP_KEY in own and reader.document(GROUP_KEY) is None:
            # Some groups are published as their `.zmetadata` alone.
            for key in (GROUP_KEY, ATTRIBUTES_KEY):
                reader.add(key, document_of(consolidated, own.get(key, {})))
    document = reader.document(GROUP_KEY)
    if document is None:
        return None
    attributes = reader.attributes(ATTRIBUTES_KEY)
    with reader.located(GROUP_KEY):
        return replace(reader.parse(document, parse_v2_group, attributes), consolidated=consolidated)


def _read_v1(reader: _Reader) -> NodeMetadata | None:
    document = reader.document(META_KEY)
    if document is None:
        return None
    from aiozarr.metadata.v2 import parse_v1

    if reader.settings.strict and reader.document(ATTRS_KEY) is None:
        with reader.located(ATTRS_KEY):
            raise InvalidMetadataError("the document is missing")
    attributes = reader.attributes(ATTRS_KEY)
    with reader.located(META_KEY):
        return reader.parse(document, parse_v1, attributes)


_READERS: dict[int, Callable[[_Reader], NodeMetadata | None]] = {3: _read_v3, 2: _read_v2, 1: _read_v1}


def _members(metadata: NodeMetadata) -> dict[str, dict[str, Any]]:
    if metadata.zarr_format == 3:
        return {V3_KEY: v3_members(metadata)}
    from aiozarr.metadata.v2 import v1_members, v2_members

    if metadata.zarr_format == 2:
        return v2_members(metadata)
    if isinstance(metadata, GroupMetadata):
        raise UnsupportedMetadataError("format 1 does not support groups", point="zarr_format", name="1")
    return v1_members(metadata)


def _for_consolidation(metadata: NodeMetadata) -> NodeMetadata:
    """Return the metadata as consolidated. As in zarr-python, v3 groups then have empty consolidated metadata."""
    if isinstance(metadata, ArrayMetadata):
        return metadata
    empty = Consolidated(3, {}) if metadata.zarr_format == 3 else None
    return replace(metadata, consolidated=empty)


def _with_known_transformers(metadata: NodeMetadata, known: Container[str] | None, reader: _Reader) -> NodeMetadata:
    """Return `metadata`, if all its storage transformers are known or need not be understood."""
    if isinstance(metadata, GroupMetadata) or known is None:
        return metadata
    for i, transformer in enumerate(metadata.storage_transformers):
        if transformer.must_understand and transformer.name not in known:
            with reader.located(V3_KEY):
                member = f"storage_transformers[{i}]"
                raise unknown_extension("storage_transformer", transformer.name, (), member=member)
    return metadata
