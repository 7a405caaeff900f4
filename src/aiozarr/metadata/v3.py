"""Parse and render Zarr v3 documents, `zarr.json` (v3 core specification, "Metadata")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from aiozarr.common.formatting import clip
from aiozarr.errors import InvalidMetadataError, UnsupportedMetadataError
from aiozarr.metadata.data_type import DataType
from aiozarr.metadata.document import (
    CHECKS,
    Document,
    check_version,
    checked_document,
    parse_lengths,
    required,
)
from aiozarr.metadata.extensions import (
    ELEMENTS,
    may_be_ignored,
    parse_extension,
    parse_extensions,
    refuse_pickle,
    render_extension,
)
from aiozarr.metadata.format_rules import CONSOLIDATED_MEMBER
from aiozarr.metadata.records import ArrayMetadata, FillValue, GroupMetadata, NamedConfig
from aiozarr.plugins import SharedResults
from aiozarr.settings import DEFAULT_SETTINGS, Settings

_REQUIRED = ("shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs")
_ARRAY_MEMBERS = {
    *("zarr_format", "node_type", *_REQUIRED),
    *("attributes", "dimension_names", "storage_transformers"),
}
_GROUP_MEMBERS = {"zarr_format", "node_type", "attributes", CONSOLIDATED_MEMBER}


def parse_v3(document: Document, settings: Settings) -> ArrayMetadata | GroupMetadata:
    """Return the metadata of a `zarr.json`.

    Raises:
        InvalidMetadataError: the document violates the format; `member` names the member, if it is one.
        UnsupportedMetadataError: the document uses a feature that aiozarr lacks.
    """
    _check_format_members(document, settings)
    members = document.members
    check_version(members, 3)
    node_type = required(members, "node_type")
    if node_type not in ("array", "group"):
        raise InvalidMetadataError("a node is an 'array' or a 'group'", member="node_type")
    attributes = _parse_attributes(document, settings)
    if node_type == "array":
        return _parse_array(members, attributes, settings)
    extra = _parse_extra(members, _GROUP_MEMBERS)
    consolidated = None
    if members.get(CONSOLIDATED_MEMBER) is not None:
        from aiozarr.metadata.consolidated import parse_inline

        consolidated = parse_inline(members[CONSOLIDATED_MEMBER], document)
    return GroupMetadata(3, attributes, extra, consolidated)


def render_v3(metadata: ArrayMetadata | GroupMetadata) -> bytes:
    """Return the document of `metadata`, its members in the order of the specification.

    Raises:
        TypeError: an attribute is not a JSON value.
        MetadataError: `parse_v3` would reject the document, or an attribute is nested too deep.
    """
    # NaN in stored attributes, which zarr-python writes, is written back. Attributes of callers have been checked for
    # it.
    data, document = checked_document(v3_members(metadata), finite=False)
    # Parse the result: a document that cannot be opened again must not be stored.
    parse_v3(document, DEFAULT_SETTINGS)
    return data


def v3_members(metadata: ArrayMetadata | GroupMetadata) -> dict[str, Any]:
    """Return the members of the document of `metadata`, in the order of the specification.

    Raises:
        MetadataError: the fill value cannot be represented.
    """
    if isinstance(metadata, GroupMetadata):
        members: dict[str, Any] = {"zarr_format": 3, "node_type": "group"}
    else:
        members = _array_members(metadata)
    members |= {"attributes": dict(metadata.attributes), **metadata.extra}
    if isinstance(metadata, GroupMetadata) and metadata.consolidated is not None:
        from aiozarr.metadata.consolidated import inline_member

        members[CONSOLIDATED_MEMBER] = inline_member(metadata.consolidated)
    return members


def _check_format_members(document: Document, settings: Settings) -> None:
    """Check that the members that the format defines are strict JSON."""
    if id(document.members) in document.duplicates:
        raise InvalidMetadataError("duplicate member", member=document.duplicates[id(document.members)])
    if document.is_strict:
        return
    for name, value in document.members.items():
        if name not in ("attributes", CONSOLIDATED_MEMBER):
            # zarr-python reads NaN and infinities as bare tokens, which the specification does not allow.
            document.check(value, name, finite=settings.strict or name != "fill_value")


def _parse_attributes(document: Document, settings: Settings) -> Mapping[str, Any]:
    attributes = CHECKS.check(document.members.get("attributes", {}), "attributes", dict, "an object")
    # Real attributes have NaN tokens, duplicate keys and lone surrogates. All are read; the last duplicate wins.
    if settings.strict:
        document.check(attributes, "attributes")
    return attributes


def _parse_array(members: Mapping[str, Any], attributes: Mapping[str, Any], settings: Settings) -> ArrayMetadata:
    shape, *described = (required(members, name) for name in _REQUIRED)
    extra = _parse_extra(members, _ARRAY_MEMBERS)
    lengths = parse_lengths(shape, "shape", 0)
    described.append(members.get("storage_transformers", []))
    strict = settings.strict
    elements = _shared.get(described, strict, make=lambda: _parse_elements(*described, strict=strict))
    names = _parse_dimension_names(members, len(lengths), settings)
    return ArrayMetadata(3, lengths, *elements[:5], attributes, names, elements.storage_transformers, extra)


class _Elements(NamedTuple):
    """The members of an array that are equal in many arrays, parsed."""

    data_type: DataType
    chunk_grid: NamedConfig
    chunk_key_encoding: NamedConfig
    fill_value: FillValue
    codecs: tuple[NamedConfig, ...]
    storage_transformers: tuple[NamedConfig, ...]


_shared: SharedResults[_Elements] = SharedResults()


def _parse_elements(
    data_type: object,
    chunk_grid: object,
    chunk_key_encoding: object,
    fill_value: object,
    codecs: object,
    storage_transformers: object,
    *,
    strict: bool,
) -> _Elements:
    parsed_type = DataType.from_json(data_type, strict=strict)
    chain = parse_extensions(codecs, "codecs")
    for i, codec in enumerate(chain):
        refuse_pickle(codec.name, f"codecs[{i}]")
        if codec.name == ELEMENTS:
            raise InvalidMetadataError(f"format 3 does not have the codec {ELEMENTS!r}", member=f"codecs[{i}]")
    if not chain:
        raise InvalidMetadataError("the list is empty; an array -> bytes codec is required", member="codecs")
    # GDAL writes null, which no core type allows, for "no fill value". Its arrays must be readable.
    is_null = fill_value is None and not strict
    return _Elements(
        parsed_type,
        parse_extension(chunk_grid, "chunk_grid"),
        parse_extension(chunk_key_encoding, "chunk_key_encoding"),
        parsed_type.default_fill_value if is_null else parsed_type.parse_fill_value(fill_value, strict=strict),
        chain,
        parse_extensions(storage_transformers, "storage_transformers"),
    )


def _parse_dimension_names(members: Mapping[str, Any], ndim: int, settings: Settings) -> tuple[str | None, ...] | None:
    if "dimension_names" not in members:
        return None
    names = members["dimension_names"]
    # Early releases of zarr-python wrote null for "no names".
    if names is None and not settings.strict:
        return None
    expected = f"a list of {ndim} strings or nulls"
    names = CHECKS.check(names, "dimension_names", list, expected, lambda items: len(items) == ndim)
    for i, name in enumerate(names):
        CHECKS.check(name, f"dimension_names[{i}]", (str, type(None)), "a string or null")
    return tuple(names)


def _parse_extra(members: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    extra = {name: value for name, value in members.items() if name not in known}
    for name, value in extra.items():
        if not may_be_ignored(value):
            raise _unknown_member(name)
    return extra


def _unknown_member(name: str) -> UnsupportedMetadataError:
    reason = f"the member {clip(name)!r} is not known, and does not say that it may be ignored"
    return UnsupportedMetadataError(reason, member=clip(name), point="member", name=clip(name))


def _array_members(metadata: ArrayMetadata) -> dict[str, Any]:
    members: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(metadata.shape),
        "data_type": metadata.data_type.to_json(),
        "chunk_grid": render_extension(metadata.chunk_grid),
        "chunk_key_encoding": render_extension(metadata.chunk_key_encoding),
        "fill_value": metadata.data_type.render_fill_value(metadata.fill_value),
        "codecs": [render_extension(codec) for codec in metadata.codecs],
    }
    if metadata.dimension_names is not None:
        members["dimension_names"] = list(metadata.dimension_names)
    if metadata.storage_transformers:
        members["storage_transformers"] = [render_extension(each) for each in metadata.storage_transformers]
    return members
