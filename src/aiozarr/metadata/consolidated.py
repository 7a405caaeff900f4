"""Consolidated metadata: a group's documents hold copies of those of all nodes below it.

In v2 they lie in `.zmetadata`, in v3 in the member `consolidated_metadata` of the group's own document. No
specification has them; this is what zarr-python, GDAL and others write. Here copies are only sorted by node: in a tree
of 10^5 nodes, those that nobody opens are not parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from typing_extensions import Buffer

from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.document import Document, clip
from aiozarr.metadata.extensions import beyond, may_be_ignored
from aiozarr.metadata.format_rules import ARRAY_KEY, ATTRIBUTES_KEY, GROUP_KEY, V3_KEY
from aiozarr.metadata.format_rules import CONSOLIDATED as MEMBER
from aiozarr.metadata.records import Consolidated
from aiozarr.model import MAX_KEY_BYTES

MAX_NODES = 1 << 17
"""Nodes of one consolidated tree."""

_V2_KEYS = (ARRAY_KEY, GROUP_KEY, ATTRIBUTES_KEY)
# No segment is empty, `.` or `..`; there is no NUL, and no backslash, which v2 takes as another `/`.
_PATH = re.compile(r"(?:(?!\.{1,2}(?:/|\Z))[^/\\\x00]+(?:/(?!\Z)|\Z))+")


def check_node_count(data: Buffer) -> None:
    """Refuse, before it is parsed, a document with copies of more nodes than are read.

    Raises:
        UnsupportedMetadataError: there are more than `MAX_NODES`.
    """
    if memoryview(data).nbytes > 8 * MAX_NODES:
        raw = bytes(data)
        # Each node has a document with its format, and at most three documents in v2.
        if raw.count(b'"zarr_format"') > 2 * MAX_NODES or raw.count(b"/.z") > 4 * MAX_NODES:
            raise _too_many()


def parse_zmetadata(document: Document) -> tuple[Consolidated, Mapping[str, Mapping[str, Any]]]:
    """Return what a `.zmetadata` holds: the nodes below its group, and copies of the group's own documents by key.

    Raises:
        InvalidMetadataError: it is no such document, or a key in it is no key below the group.
        UnsupportedMetadataError: it has more than `MAX_NODES` nodes.
    """
    members = document.members
    version = members.get("zarr_consolidated_format")
    if type(version) is not int or version != 1:
        raise InvalidMetadataError("consolidated metadata of format 1 are read", member="zarr_consolidated_format")
    copies = _object(members.get("metadata"), "metadata", document)
    nodes: dict[str, dict[str, Any]] = {}
    own: dict[str, Any] = {}
    for key, value in copies.items():
        path, slash, name = key.rpartition("/")
        if slash:
            _check_path(path, key, "metadata")
        # Other keys, such as those of NCZarr, are no documents of the format.
        if name not in _V2_KEYS:
            continue
        node = nodes.setdefault(path, {}) if slash else own
        if not isinstance(value, dict) or (document.duplicates and name != ATTRIBUTES_KEY):
            _object(value, _place("metadata", key), document)
        node[name] = value
        if len(nodes) > MAX_NODES:
            raise _too_many()
    # What has attributes and nothing else is no node.
    nodes = {path: node for path, node in nodes.items() if len(node) > 1 or ATTRIBUTES_KEY not in node}
    return Consolidated(2, nodes, replace(document, members={})), own


def zmetadata_members(consolidated: Consolidated, own: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the members of the `.zmetadata` of a group whose own documents have the members `own`."""
    copies: dict[str, Any] = dict(own)
    for path, node in sorted(consolidated.nodes.items()):
        copies |= {f"{path}/{key}": members for key, members in node.items()}
    return {"zarr_consolidated_format": 1, "metadata": copies}


def parse_inline(value: object, document: Document) -> Consolidated | None:
    """Return what the `consolidated_metadata` of a v3 group holds; None for null, and for what may be ignored.

    Raises:
        InvalidMetadataError: a path in it is not one below the group, or a copy is no object.
        UnsupportedMetadataError: it is of another kind and must be understood, or has more than `MAX_NODES` nodes.
    """
    # Releases of zarr-python write null for "there are none".
    if value is None:
        return None
    if not isinstance(value, dict) or value.get("kind") != "inline":
        if may_be_ignored(value):
            return None
        raise beyond(MEMBER, "consolidated metadata are an object of the kind 'inline'")
    if id(value) in document.duplicates:
        raise InvalidMetadataError("the member is there twice", member=f"{MEMBER}.{document.duplicates[id(value)]}")
    for name, part in value.items():
        if name not in ("kind", "must_understand", "metadata") and not may_be_ignored(value):
            raise beyond(clip(f"{MEMBER}.{name}"), "the member is not known")
        if name != "metadata":
            document.check(part, clip(f"{MEMBER}.{name}"))
    place = f"{MEMBER}.metadata"
    copies = _object(value.get("metadata"), place, document)
    if len(copies) > MAX_NODES:
        raise _too_many()
    nodes: dict[str, dict[str, Any]] = {}
    for path, node in copies.items():
        _check_path(path, path, place)
        if not isinstance(node, dict) or document.duplicates:
            _object(node, _place(place, path), document)
        nodes[path] = {V3_KEY: node}
    return Consolidated(3, nodes, replace(document, members={}))


def inline_member(consolidated: Consolidated) -> dict[str, Any]:
    """Return the `consolidated_metadata` member of a v3 group."""
    nodes = {path: node[V3_KEY] for path, node in sorted(consolidated.nodes.items())}
    return {"kind": "inline", "must_understand": False, "metadata": nodes}


def document_of(consolidated: Consolidated, members: Mapping[str, Any]) -> Document:
    """Return a copy as the document that it was."""
    # Duplicate keys are known by the identity of the object that has them.
    given = members if isinstance(members, dict) else dict(members)
    return Document(given) if consolidated.source is None else replace(consolidated.source, members=given)


def _object(value: object, member: str, document: Document) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidMetadataError("an object is wanted here", member=member)
    if id(value) in document.duplicates:
        raise InvalidMetadataError("a member is there twice", member=clip(f"{member}.{document.duplicates[id(value)]}"))
    return value


def _check_path(path: str, key: str, member: str) -> None:
    # Every character has at least one byte, so a path that is too long costs nothing.
    if len(path) <= MAX_KEY_BYTES and _PATH.fullmatch(path) is not None:
        if path.isascii():
            return
        try:
            if len(path.encode()) <= MAX_KEY_BYTES:
                return
        except UnicodeEncodeError:
            pass
    raise InvalidMetadataError("this is not the path of a node below the group", member=_place(member, key))


def _place(member: str, key: str) -> str:
    return clip(f"{member}.{key}".encode("utf-8", "backslashreplace").decode())


def _too_many() -> Exception:
    return beyond("metadata", f"consolidated metadata of at most {MAX_NODES} nodes are read")
