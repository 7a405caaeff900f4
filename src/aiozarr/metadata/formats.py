"""Which format a node is stored in is decided here, and nowhere else: its documents to the model and back."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

from typing_extensions import Buffer

from aiozarr.errors import InvalidMetadataError, LimitError, MetadataError, UnsupportedMetadataError
from aiozarr.metadata.consolidated import (
    check_node_count,
    document_of,
    parse_zmetadata,
    zmetadata_members,
)
from aiozarr.metadata.document import Document, dump_document, load_document
from aiozarr.metadata.format_rules import (
    ARRAY_KEY,
    ATTRIBUTES_KEY,
    ATTRS_KEY,
    FORMATS,
    GROUP_KEY,
    META_KEY,
    V3_KEY,
    ZMETADATA_KEY,
)
from aiozarr.metadata.records import ArrayMetadata, Consolidated, GroupMetadata
from aiozarr.metadata.v1 import parse_v1, v1_members
from aiozarr.metadata.v2.documents import (
    parse_attributes,
    parse_v2_array,
    parse_v2_group,
    v2_members,
)
from aiozarr.metadata.v3 import parse_v3, render_v3, v3_members
from aiozarr.plugins import unknown
from aiozarr.settings import DEFAULT_SETTINGS, Settings

NodeMetadata: TypeAlias = ArrayMetadata | GroupMetadata

DOCUMENT_KEYS: dict[int, tuple[str, ...]] = {number: rules.keys for number, rules in FORMATS.items()}
"""The keys, relative to a node, of the documents of each format, newest format first."""

PROBE_KEYS: tuple[str, ...] = tuple(key for rules in FORMATS.values() for key in rules.keys)
"""The keys, relative to a node, whose documents tell what it is; they are fetched at once."""


def probe_keys(zarr_format: int | None = None) -> tuple[str, ...]:
    """Return the keys, relative to a node, that tell what it is, where its format is known, or None."""
    return PROBE_KEYS if zarr_format is None else DOCUMENT_KEYS[zarr_format]


def is_document(key: str, zarr_format: int | None = None) -> bool:
    """Return whether a key, relative to a node, is that of one of its documents, in one format or in any."""
    return key in probe_keys(zarr_format)


def parse_node(
    documents: Mapping[str, Buffer | None],
    *,
    node: str,
    settings: Settings = DEFAULT_SETTINGS,
    zarr_format: int | None = None,
    storage_transformers: Container[str] = (),
) -> NodeMetadata | None:
    """Return what the documents say of a node; None where there is none of them.

    Where there are documents of several formats, the newest format holds, and the others are not looked at: a document
    that cannot be read must not bring back the node that was there before it. In v2 an array holds before a group.

    Args:
        documents: by key relative to the node, for each of `probe_keys(zarr_format)`; None where nothing is stored.
        node: the node's URL or path, for errors.
        settings: `max_metadata_bytes`, `strict` and `v1_order_f` are looked at.
        zarr_format: the only format to look for; None: any.
        storage_transformers: names of the storage transformers that are known.

    Raises:
        InvalidMetadataError: with node, key and, where there is one, member.
        UnsupportedMetadataError: as above.
        LimitError: a document is larger than `max_metadata_bytes`.
    """
    reader = _Reader(documents, node, settings)
    for number, read in _READERS.items():
        if zarr_format in (None, number) and (metadata := read(reader)) is not None:
            if isinstance(metadata, ArrayMetadata):
                with reader.naming(V3_KEY):
                    _check_storage_transformers(metadata, storage_transformers)
            return metadata
    return None


def render_node(metadata: NodeMetadata) -> dict[str, bytes]:
    """Return the documents of a node by key relative to it; the same metadata give the same bytes.

    What makes it a node comes last. A group has a `.zmetadata` only where it is consolidated.

    Raises:
        TypeError: an attribute is no JSON value.
        InvalidMetadataError: an attribute cannot be written as JSON: a lone surrogate, too deep, and, in v3, NaN and
            infinities.
        UnsupportedMetadataError: the format cannot say what the metadata says.
    """
    if metadata.zarr_format == 3:
        return {V3_KEY: render_v3(metadata)}
    members = _members(metadata)
    # The texts leave open what numbers attributes hold, and real ones hold NaN. v1 writes a fill value of NaN so, too.
    data = {key: dump_document(members[key], finite=key in (ARRAY_KEY, GROUP_KEY)) for key in reversed(members)}
    if isinstance(metadata, GroupMetadata) and metadata.consolidated is not None:
        data[ZMETADATA_KEY] = dump_document(zmetadata_members(metadata.consolidated, members), finite=False)
    # Whoever made this metadata, nothing is stored that could not be opened again.
    size = max(map(len, data.values()))
    parse_node(data, node="", settings=replace(DEFAULT_SETTINGS, max_metadata_bytes=size))
    return data


def consolidate(zarr_format: int, nodes: Mapping[str, NodeMetadata]) -> Consolidated:
    """Return copies of these nodes, which are given by path relative to their group, as its `consolidated`.

    Raises:
        ValueError: a node is stored in another format, or in format 1, which has no groups.
        MetadataError: a node cannot be written.
    """
    copies: dict[str, Mapping[str, Mapping[str, Any]]] = {}
    for path, metadata in nodes.items():
        if metadata.zarr_format != zarr_format or zarr_format not in (2, 3):
            raise ValueError(f"a node of format {metadata.zarr_format} in a group of format {zarr_format}")
        copies[path] = _members(_without_copies(metadata))
    return Consolidated(zarr_format, copies)


def consolidated_node(
    consolidated: Consolidated,
    path: str,
    *,
    node: str,
    settings: Settings = DEFAULT_SETTINGS,
    storage_transformers: Container[str] = (),
) -> NodeMetadata | None:
    """Return what the copies say of the node at `path`, as `parse_node` does; None where there is no such node.

    A group's `consolidated` are the copies of what lies below it.
    """
    copies = consolidated.nodes.get(path)
    if copies is None:
        return None
    documents = {key: document_of(consolidated, members) for key, members in copies.items()}
    reader = _Reader({}, node, settings, documents)
    metadata = _READERS[consolidated.zarr_format](reader)
    if isinstance(metadata, GroupMetadata):
        return replace(metadata, consolidated=consolidated.below(path))
    if metadata is not None:
        with reader.naming(V3_KEY):
            _check_storage_transformers(metadata, storage_transformers)
    return metadata


class _Reader:
    """The documents of one node, each parsed when it is asked for; errors say which one they speak of."""

    def __init__(
        self,
        data: Mapping[str, Buffer | None],
        node: str,
        settings: Settings,
        parsed: Mapping[str, Document] | None = None,
    ) -> None:
        self._data = data
        self._node = node
        self._parsed = dict(parsed or {})
        self.settings = settings

    def document(self, key: str) -> Document | None:
        if key not in self._parsed:
            data = self._data.get(key)
            if data is None:
                return None
            with self.naming(key):
                if key in (V3_KEY, ZMETADATA_KEY):
                    check_node_count(data)
                self._parsed[key] = load_document(data, max_bytes=self.settings.max_metadata_bytes)
        return self._parsed[key]

    def attributes(self, key: str) -> Mapping[str, Any]:
        document = self.document(key)
        if document is None:
            return {}
        with self.naming(key):
            return parse_attributes(document, self.settings)

    def add(self, key: str, document: Document) -> None:
        """Take a copy where the document itself is not there."""
        if self.document(key) is None:
            self._parsed[key] = document

    @contextmanager
    def naming(self, key: str) -> Iterator[None]:
        try:
            yield
        except MetadataError as error:
            error.node, error.key = self._node, key
            raise
        except LimitError as error:
            raise LimitError(
                f"{error.message} (node {self._node}, key {key!r})",
                limit=error.limit,
                value=error.value,
                allowed=error.allowed,
            ) from None


def _read_v3(reader: _Reader) -> NodeMetadata | None:
    document = reader.document(V3_KEY)
    if document is None:
        return None
    with reader.naming(V3_KEY):
        return parse_v3(document, reader.settings)


def _read_v2(reader: _Reader) -> NodeMetadata | None:
    document = reader.document(ARRAY_KEY)
    if document is not None:
        attributes = reader.attributes(ATTRIBUTES_KEY)
        with reader.naming(ARRAY_KEY):
            return parse_v2_array(document, attributes, reader.settings)
    copies = reader.document(ZMETADATA_KEY)
    consolidated: Consolidated | None = None
    if copies is not None:
        with reader.naming(ZMETADATA_KEY):
            consolidated, own = parse_zmetadata(copies)
        if GROUP_KEY in own and reader.document(GROUP_KEY) is None:
            # Such a group may be published as its `.zmetadata` alone.
            for key in (GROUP_KEY, ATTRIBUTES_KEY):
                reader.add(key, document_of(consolidated, own.get(key, {})))
    document = reader.document(GROUP_KEY)
    if document is None:
        return None
    attributes = reader.attributes(ATTRIBUTES_KEY)
    with reader.naming(GROUP_KEY):
        return replace(parse_v2_group(document, attributes, reader.settings), consolidated=consolidated)


def _read_v1(reader: _Reader) -> NodeMetadata | None:
    document = reader.document(META_KEY)
    if document is None:
        return None
    if reader.settings.strict and reader.document(ATTRS_KEY) is None:
        with reader.naming(ATTRS_KEY):
            raise InvalidMetadataError("the document is missing")
    attributes = reader.attributes(ATTRS_KEY)
    with reader.naming(META_KEY):
        return parse_v1(document, attributes, reader.settings)


_READERS: dict[int, Callable[[_Reader], NodeMetadata | None]] = {3: _read_v3, 2: _read_v2, 1: _read_v1}


def _members(metadata: NodeMetadata) -> dict[str, dict[str, Any]]:
    if metadata.zarr_format == 3:
        return {V3_KEY: v3_members(metadata)}
    if metadata.zarr_format == 2:
        return v2_members(metadata)
    if isinstance(metadata, GroupMetadata):
        raise UnsupportedMetadataError("Zarr v1 has no groups", point="zarr_format", name="1")
    return v1_members(metadata)


def _without_copies(metadata: NodeMetadata) -> NodeMetadata:
    """Return a group as its copy is written: v3's say of themselves that they hold no copies, as zarr-python's do."""
    if isinstance(metadata, ArrayMetadata):
        return metadata
    empty = Consolidated(3, {}) if metadata.zarr_format == 3 else None
    return replace(metadata, consolidated=empty)


def _check_storage_transformers(metadata: ArrayMetadata, known: Container[str]) -> None:
    for i, transformer in enumerate(metadata.storage_transformers):
        if transformer.must_understand and transformer.name not in known:
            raise unknown("storage_transformer", transformer.name, (), member=f"storage_transformers[{i}]")
