"""The document keys and the kinds of nodes of each format, so that callers need no comparison of format numbers."""

from __future__ import annotations

from dataclasses import dataclass

from aiozarr.common.fork_safe import fork_safe_cached_property

V3_KEY = "zarr.json"
ARRAY_KEY, GROUP_KEY, ATTRIBUTES_KEY, ZMETADATA_KEY = ".zarray", ".zgroup", ".zattrs", ".zmetadata"
META_KEY, ATTRS_KEY = "meta", "attrs"
CONSOLIDATED_MEMBER = "consolidated_metadata"


@dataclass(frozen=True)
class FormatRules:
    """The documents and the kinds of nodes of one format.

    Attributes:
        array_key: key, relative to the node, of the document of an array.
        group_key: key of the document of a group; None if the format has no groups.
        attributes_key: key of the separate document of attributes; None if the array or group document has them.
        consolidated_key: key of the document with consolidated metadata; None if the format has none.
        consolidated_member: member of the group document with consolidated metadata; None if they have their own.
        has_implicit_groups: True if a path above a node is a group even without a document.
        has_finite_attributes: True if new attributes hold neither NaN nor infinities, which JSON lacks.
    """

    array_key: str
    group_key: str | None
    attributes_key: str | None = None
    consolidated_key: str | None = None
    consolidated_member: str | None = None
    has_implicit_groups: bool = False
    has_finite_attributes: bool = False

    @property
    def has_groups(self) -> bool:
        """True if the format has groups."""
        return self.group_key is not None

    @property
    def consolidated_in_own_document(self) -> bool:
        """True if consolidated metadata have their own document, so that a group can be stored without them."""
        return self.consolidated_key is not None and self.consolidated_member is None

    @fork_safe_cached_property
    def keys(self) -> tuple[str, ...]:
        """The keys of all documents, those of arrays and groups first."""
        return _distinct(self.array_key, self.group_key, self.attributes_key, self.consolidated_key)

    @fork_safe_cached_property
    def own_keys(self) -> tuple[str, ...]:
        """The keys of the documents about the node itself, without the own document of consolidated metadata."""
        return tuple(
            key for key in self.keys if not (key == self.consolidated_key and self.consolidated_in_own_document)
        )

    @fork_safe_cached_property
    def ancestor_keys(self) -> tuple[str, ...]:
        """The keys to fetch for an ancestor of a node: its kind and its consolidated metadata; empty without groups."""
        return tuple(key for key in self.keys if key != self.attributes_key) if self.has_groups else ()

    @property
    def consolidated_keys(self) -> tuple[str, ...]:
        """The keys to fetch for the consolidated metadata of an ancestor of a node."""
        return _distinct(self.consolidated_key)

    def write_order(self, key: str) -> int:
        """Return the order of writing a document of a node: 0 attributes, 1 array or group, 2 consolidated metadata.

        A reader that finds a node then finds its attributes, and all nodes of its consolidated metadata.
        """
        if key in (self.array_key, self.group_key):
            return 1
        return 0 if key == self.attributes_key else 2


def rules_of(zarr_format: int) -> FormatRules:
    """Return the rules of a format."""
    return FORMATS[zarr_format]


def document_write_order(key: str) -> int | None:
    """Return the order of writing the document `key` of a node, or None if it is not the key of a document."""
    return _WRITE_ORDER.get(key.rpartition("/")[2])


def _distinct(*keys: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for key in keys if key is not None))


FORMATS: dict[int, FormatRules] = {
    3: FormatRules(
        V3_KEY,
        V3_KEY,
        consolidated_key=V3_KEY,
        consolidated_member=CONSOLIDATED_MEMBER,
        has_implicit_groups=True,
        has_finite_attributes=True,
    ),
    2: FormatRules(ARRAY_KEY, GROUP_KEY, attributes_key=ATTRIBUTES_KEY, consolidated_key=ZMETADATA_KEY),
    1: FormatRules(META_KEY, None, attributes_key=ATTRS_KEY),
}
"""The rules by format number, newest format first."""

_WRITE_ORDER = {key: rules.write_order(key) for rules in FORMATS.values() for key in rules.keys}
