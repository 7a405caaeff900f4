"""Parse and render consolidated metadata: copies of the documents of all nodes below a group.

In v2 they are in `.zmetadata`, in v3 in the member `consolidated_metadata` of the document of the group. This is a
convention of zarr-python, GDAL and others and not part of a specification. The copies are only sorted by node here, so
that in a tree of 10^5 nodes those that are never opened are not parsed.

Some writers leave out groups that have no document. They are added here, so that every path above a node is a group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from aiozarr.common.formatting import clip
from aiozarr.errors import InvalidMetadataError
from aiozarr.metadata.document import CHECKS, Document, integral, respelled_number
from aiozarr.metadata.extensions import may_be_ignored, unsupported_member
from aiozarr.metadata.format_rules import ARRAY_KEY, ATTRIBUTES_KEY, CONSOLIDATED_MEMBER, FORMATS, GROUP_KEY, V3_KEY
from aiozarr.metadata.records import Consolidated, ImplicitNode
from aiozarr.model import MAX_KEY_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_NODES = 1 << 17
"""Maximum number of nodes of one consolidated tree."""

_V2_KEYS = (ARRAY_KEY, GROUP_KEY, ATTRIBUTES_KEY)
# No empty segment, no name of periods or of a document, no NUL.
_PATHS = {
    number: re.compile(
        rf"(?:(?!(?:{periods}|{'|'.join(map(re.escape, FORMATS[number].keys))})(?:/|\Z))[^/\x00]+(?:/(?!\Z)|\Z))+"
    )
    for number, periods in ((2, r"\.{1,2}"), (3, r"\.+"))
}


def with_groups_between(
    zarr_format: int, nodes: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> dict[str, Mapping[str, Mapping[str, Any]]]:
    """Return the nodes of consolidated metadata, with an `ImplicitNode` for each missing group above one of them.

    Raises:
        UnsupportedMetadataError: more than `MAX_NODES` nodes.
    """
    inline = inline_member(Consolidated(3, {}))
    members = {"zarr_format": 3, "node_type": "group", "attributes": {}, CONSOLIDATED_MEMBER: inline}
    group = {V3_KEY: members} if zarr_format == 3 else {GROUP_KEY: {"zarr_format": 2}}
    # Attributes alone do not make a node.
    complete = {path: node for path, node in nodes.items() if node.keys() != {ATTRIBUTES_KEY}}
    level: Iterable[str] = complete
    while level := {path.rpartition("/")[0] for path in level} - complete.keys() - {""}:
        complete.update({path: ImplicitNode({**group, **nodes.get(path, {})}) for path in level})
        if len(complete) > MAX_NODES:
            raise _too_many()
    return complete


def check_node_count(data: Buffer) -> None:
    """Reject a document with too many consolidated nodes before it is parsed.

    Raises:
        UnsupportedMetadataError: more than `MAX_NODES` nodes.
    """
    if memoryview(data).nbytes > 8 * MAX_NODES:
        raw = bytes(data)
        # Each node has at least one document with `zarr_format`, and at most three documents in v2.
        if raw.count(b'"zarr_format"') > 2 * MAX_NODES or raw.count(b"/.z") > 4 * MAX_NODES:
            raise _too_many()


def parse_zmetadata(
    document: Document, *, strict: bool = False
) -> tuple[Consolidated, Mapping[str, Mapping[str, Any]]]:
    """Return the nodes of a `.zmetadata`, and the members of the documents of the group itself by key.

    Raises:
        InvalidMetadataError: the document is invalid, or has a key outside the group.
        UnsupportedMetadataError: more than `MAX_NODES` nodes.
    """
    members = document.members
    version = members.get("zarr_consolidated_format", 1)  # Parquet references of kerchunk lack it
    if (type(version) is not int if strict else isinstance(version, bool)) or integral(respelled_number(version)) != 1:
        raise InvalidMetadataError(
            "only format 1 of consolidated metadata is supported", member="zarr_consolidated_format"
        )
    copies = _object(members.get("metadata"), "metadata", document)
    nodes: dict[str, dict[str, Any]] = {}
    own: dict[str, Any] = {}
    for key, value in copies.items():
        path, slash, name = key.rpartition("/")
        if slash:
            _check_path(path, key, "metadata", 2)
        # Other keys, such as those of NCZarr, are not documents of the format.
        if name not in _V2_KEYS or (value is None and name == ATTRIBUTES_KEY and not strict):
            if name.rpartition("\\")[2] in _V2_KEYS and name not in _V2_KEYS:
                _check_path(key, key, "metadata", 2)
            continue
        node = nodes.setdefault(path, {}) if slash else own
        if not isinstance(value, dict) or (document.duplicates and name != ATTRIBUTES_KEY):
            _object(value, _member_path("metadata", key), document)
        node[name] = value
        if len(nodes) > MAX_NODES:
            raise _too_many()
    return Consolidated(2, with_groups_between(2, nodes), document._replace(members={})), own


def zmetadata_members(consolidated: Consolidated, own: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the members of a `.zmetadata`. `own` are the members of the documents of the group itself."""
    copies: dict[str, Any] = dict(own)
    for path, node in sorted(consolidated.nodes.items()):
        copies |= {f"{path}/{key}": members for key, members in node.items()}
    return {"zarr_consolidated_format": 1, "metadata": copies}


def parse_inline(value: object, document: Document) -> Consolidated | None:
    """Return the consolidated metadata in the `consolidated_metadata` member of a v3 group.

    Returns: the consolidated metadata, or None for null and for an unknown kind that may be ignored.

    Raises:
        InvalidMetadataError: a path outside the group, or a copy that is not an object.
        UnsupportedMetadataError: an unknown kind that must be understood, or more than `MAX_NODES` nodes.
    """
    # Some releases of zarr-python write null for none.
    if value is None:
        return None
    if not isinstance(value, dict) or value.get("kind") != "inline":
        if may_be_ignored(value):
            return None
        raise unsupported_member(CONSOLIDATED_MEMBER, "consolidated metadata must be an object of the kind 'inline'")
    if id(value) in document.duplicates:
        raise InvalidMetadataError("duplicate member", member=f"{CONSOLIDATED_MEMBER}.{document.duplicates[id(value)]}")
    for name, part in value.items():
        if name not in ("kind", "must_understand", "metadata") and not may_be_ignored(value):
            raise unsupported_member(clip(f"{CONSOLIDATED_MEMBER}.{name}"), "unknown member")
        if name != "metadata":
            document.check(part, clip(f"{CONSOLIDATED_MEMBER}.{name}"))
    member = f"{CONSOLIDATED_MEMBER}.metadata"
    copies = _object(value.get("metadata"), member, document)
    if len(copies) > MAX_NODES:
        raise _too_many()
    nodes: dict[str, dict[str, Any]] = {}
    for path, node in copies.items():
        if not path:
            continue  # the group itself
        _check_path(path, path, member, 3)
        if not isinstance(node, dict) or document.duplicates:
            _object(node, _member_path(member, path), document)
        nodes[path] = {V3_KEY: node}
    return Consolidated(3, with_groups_between(3, nodes), document._replace(members={}))


def inline_member(consolidated: Consolidated) -> dict[str, Any]:
    """Return the `consolidated_metadata` member of a v3 group."""
    nodes = {path: node[V3_KEY] for path, node in sorted(consolidated.nodes.items())}
    return {"kind": "inline", "must_understand": False, "metadata": nodes}


def document_of(consolidated: Consolidated, members: Mapping[str, Any]) -> Document:
    """Return the members of a consolidated document as a document."""
    # Duplicate keys are recorded by the id of their object, so a dict must stay the same object.
    given = members if isinstance(members, dict) else dict(members)
    return Document(given) if consolidated.source is None else consolidated.source._replace(members=given)


def _object(value: object, member: str, document: Document) -> dict[str, Any]:
    found = CHECKS.check(value, member, dict, "an object")
    if id(found) in document.duplicates:
        raise InvalidMetadataError("duplicate member", member=clip(f"{member}.{document.duplicates[id(found)]}"))
    return found


def _check_path(path: str, key: str, member: str, zarr_format: int) -> None:
    # In v2 a backslash is another `/`.
    is_name = zarr_format == 3 or "\\" not in path
    # The length in characters first: it is at most the length in bytes, and bounds the cost of the pattern.
    if is_name and len(path) <= MAX_KEY_BYTES and _PATHS[zarr_format].fullmatch(path) is not None:
        if path.isascii():
            return
        try:
            if len(path.encode()) <= MAX_KEY_BYTES:
                return
        except UnicodeEncodeError:
            pass
    raise InvalidMetadataError(
        "this is not the path of a node below the group; open_group(use_consolidated=False) reads the nodes themselves",
        member=_member_path(member, key),
    )


def _member_path(member: str, key: str) -> str:
    return clip(f"{member}.{key}".encode("utf-8", "backslashreplace").decode())


def _too_many() -> Exception:
    return unsupported_member("metadata", f"consolidated metadata of at most {MAX_NODES} nodes are read")
