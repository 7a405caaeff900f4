"""What the formats differ in beyond the text of their documents: facts to ask for, so that nobody asks for a number."""

from __future__ import annotations

from dataclasses import dataclass

V3_KEY = "zarr.json"
ARRAY_KEY, GROUP_KEY, ATTRIBUTES_KEY, ZMETADATA_KEY = ".zarray", ".zgroup", ".zattrs", ".zmetadata"
META_KEY, ATTRS_KEY = "meta", "attrs"
CONSOLIDATED = "consolidated_metadata"


@dataclass(frozen=True, slots=True)
class FormatRules:
    """The documents of one format, and what nodes it has.

    Attributes:
        array_key: the document, by its key relative to the node, that makes a node an array.
        group_key: the one that makes it a group; None where the format has no groups.
        attributes_key: the document that holds nothing but the attributes; None where they have none of their own.
        copies_key: the document that holds consolidated metadata; None where no group can be consolidated.
        copies_member: the member of the group's own document that they are; None where they lie apart, in their own.
        has_implicit_groups: whether what lies above a node is a group without a document.
    """

    array_key: str
    group_key: str | None
    attributes_key: str | None = None
    copies_key: str | None = None
    copies_member: str | None = None
    has_implicit_groups: bool = False

    @property
    def has_groups(self) -> bool:
        """Whether there are groups in this format."""
        return self.group_key is not None

    @property
    def copies_lie_apart(self) -> bool:
        """Whether consolidated metadata have a document to themselves: a group can be stored without touching them."""
        return self.copies_key is not None and self.copies_member is None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all documents, those that make a node first."""
        return _distinct(self.array_key, self.group_key, self.attributes_key, self.copies_key)

    @property
    def own_keys(self) -> tuple[str, ...]:
        """The keys of the documents that speak of the node itself; copies that lie apart speak of others."""
        return tuple(key for key in self.keys if not (key == self.copies_key and self.copies_lie_apart))

    @property
    def keys_above(self) -> tuple[str, ...]:
        """The keys, at a place above a node, that tell what is there and what it has copies of; none without groups."""
        return tuple(key for key in self.keys if key != self.attributes_key) if self.has_groups else ()

    @property
    def copies_keys(self) -> tuple[str, ...]:
        """The keys, at a place above a node, that tell what it has copies of."""
        return _distinct(self.copies_key)

    def turn(self, key: str) -> int:
        """Return when a document is stored, of those of one node: attributes, then what makes a node, then copies.

        Whoever sees a node finds its attributes there, and whoever sees copies finds all that they speak of.
        """
        if key in (self.array_key, self.group_key):
            return 1
        return 0 if key == self.attributes_key else 2


def rules_of(zarr_format: int) -> FormatRules:
    """Return the rules of the format of this number."""
    return FORMATS[zarr_format]


def document_turn(key: str) -> int | None:
    """Return when the document `key` is stored, of those of one node in any format; None: it is no document."""
    return _TURNS.get(key.rpartition("/")[2])


def _distinct(*keys: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for key in keys if key is not None))


FORMATS: dict[int, FormatRules] = {
    3: FormatRules(V3_KEY, V3_KEY, copies_key=V3_KEY, copies_member=CONSOLIDATED, has_implicit_groups=True),
    2: FormatRules(ARRAY_KEY, GROUP_KEY, attributes_key=ATTRIBUTES_KEY, copies_key=ZMETADATA_KEY),
    1: FormatRules(META_KEY, None, attributes_key=ATTRS_KEY),
}
"""The rules of each format by its number, newest format first."""

_TURNS = {key: rules.turn(key) for rules in FORMATS.values() for key in rules.keys}
