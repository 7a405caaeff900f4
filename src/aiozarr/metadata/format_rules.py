"""The document keys, the kinds of nodes and the names of nodes of each format.

Callers need no comparison of format numbers. Names and paths are checked and joined (v3 core specification, "Node
names"; v2, "Logical storage paths").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.errors import InvalidKeyError
from aiozarr.model import check_key

V3_KEY = "zarr.json"
ARRAY_KEY, GROUP_KEY, ATTRIBUTES_KEY, ZMETADATA_KEY = ".zarray", ".zgroup", ".zattrs", ".zmetadata"
META_KEY, ATTRS_KEY = "meta", "attrs"
CONSOLIDATED_MEMBER = "consolidated_metadata"


@dataclass(frozen=True, eq=False, repr=False)
class FormatRules:
    """The documents and the kinds of nodes of one format.

    Attributes:
        array_key: key, relative to the node, of the document of an array.
        group_key: key of the document of a group; None if the format has no groups.
        attributes_key: key of the separate document of attributes; None if the array or group document has them.
        consolidated_key: key of the document with consolidated metadata; None if the format has none.
        consolidated_member: member of the group document with consolidated metadata; None if they have their own.
        has_finite_attributes: True if new attributes hold neither NaN nor infinities, which JSON lacks.
    """

    array_key: str
    group_key: str | None
    attributes_key: str | None = None
    consolidated_key: str | None = None
    consolidated_member: str | None = None
    has_finite_attributes: bool = False

    @property
    def has_groups(self) -> bool:
        """True if the format has groups."""
        return self.group_key is not None

    @property
    def consolidated_in_own_document(self) -> bool:
        """True if consolidated metadata has their own document, so that a group can be stored without them."""
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
        has_finite_attributes=True,
    ),
    2: FormatRules(ARRAY_KEY, GROUP_KEY, attributes_key=ATTRIBUTES_KEY, consolidated_key=ZMETADATA_KEY),
    1: FormatRules(META_KEY, None, attributes_key=ATTRS_KEY),
}
"""The rules by format number, newest format first."""

_WRITE_ORDER = {key: rules.write_order(key) for rules in FORMATS.values() for key in rules.keys}

_SLASHES = re.compile(r"[/\\]+")


def check_node_name(name: str, zarr_format: int = 3) -> str:
    """Return `name` if it is a valid node name.

    Names are compared by code points without normalisation: NFC and NFD spellings are two names.

    Raises:
        TypeError: `name` is not a str.
        InvalidKeyError: the name is empty, contains `/` or NUL, is the key of a metadata document, is not valid
            Unicode, or is longer than a store key. In v3 also a name of periods only. In
            v2 and v1 also `.`, `..`, and names with a backslash, which these formats replace by `/`.
    """
    if not isinstance(name, str):
        raise TypeError(f"a node name must be a str, not {type(name).__name__}")
    reason = _name_fault(name, zarr_format)
    if reason is not None:
        raise InvalidKeyError(f"not a valid node name: {reason}", key=name)
    return check_key(name)


def check_path(path: str, zarr_format: int | None = 3) -> str:
    """Return `path` as key prefix without trailing `/`: names separated by `/`, and `""` for the root, `""` or `"/"`.

    In v3 one `/` at either end is removed and empty names are invalid. In v2 and v1 `normalize_path` applies first.
    For None, an unknown format, a path that is valid in any format is accepted.

    Raises:
        TypeError: `path` is not a str.
        InvalidKeyError: `check_node_name` rejects a name, or the path is longer than a store key.
    """
    if not isinstance(path, str):
        raise TypeError(f"a path must be a str, not {type(path).__name__}")
    if zarr_format is None:
        try:
            return check_path(path, 3)
        except InvalidKeyError:
            zarr_format = 2
    normal = path.removeprefix("/") if zarr_format == 3 else normalize_path(path)
    if normal != "/":
        normal = normal.removesuffix("/")
    if normal == "":
        return normal
    for name in normal.split("/"):
        reason = _name_fault(name, zarr_format)
        if reason is not None:
            raise InvalidKeyError(f"not a valid path: {reason}", key=path)
    return check_key(normal)


def check_new_path(path: str, zarr_format: int) -> str:
    """Return `path` if its last name may be that of a new node. In v3, names that begin with `__` are reserved.

    Nodes of such names are still read, and get children: xarray writes them.

    Raises:
        InvalidKeyError: the name is reserved.
    """
    name = path.rpartition("/")[2]
    if zarr_format == 3 and name.startswith("__"):
        raise InvalidKeyError(
            f"{name!r} is not a name for a new node: names that begin with '__' are reserved", key=path
        )
    return path


def normalize_path(path: str) -> str:
    r"""Return a normalised logical path of v2: `\` becomes `/`, without `/` at the ends and without repeated `/`.

    Raises:
        InvalidKeyError: a name is `.` or `..`.
    """
    normal = _SLASHES.sub("/", path).strip("/")
    if not {".", ".."}.isdisjoint(normal.split("/")):
        raise InvalidKeyError("not a valid path: '.' and '..' are not allowed", key=path)
    return normal


def _name_fault(name: str, zarr_format: int) -> str | None:
    if name == "":
        return "it has an empty name"
    if "/" in name:
        return f"the name {name!r} contains '/'"
    # The keys of such a child would begin with a document key of its parent, which no file system can store.
    if name in rules_of(zarr_format).keys:
        return f"the name {name!r} is that of metadata documents"
    if zarr_format == 3:
        if not name.strip("."):
            return f"the name {name!r} is made of periods only"
    elif name in (".", ".."):
        return f"the name {name!r} is no name"
    elif "\\" in name:
        return f"the name {name!r} contains a backslash, which is another '/' in Zarr v2"
    return None


def join_path(path: str, name: str, zarr_format: int | None = 3) -> str:
    """Return the path of the node `name`, such as `"a/b"`, below the node at `path`, by the rules of this format.

    Raises:
        InvalidKeyError: `name` is not a valid node name.
    """
    name = check_path(name, zarr_format)
    return f"{path}/{name}" if path and name else path or name


def child_path(path: str, name: str, zarr_format: int) -> str:
    """Return the path of a node below the node at `path`, as `join_path` does.

    Raises:
        InvalidKeyError: `name` is not a valid node name.
        ValueError: `name` is empty.
    """
    child = join_path(path, name, zarr_format)
    if child == path:
        raise ValueError("the name of the node is empty")
    return child


def relative_name(path: str, ancestor: str) -> str:
    """Return the name of the node at `path` relative to the node at `ancestor`, which is above it or the same."""
    return path[len(ancestor) + 1 :] if ancestor else path


def key_prefix(path: str) -> str:
    """Return the prefix of all keys of the node at `path`."""
    return f"{path}/" if path else ""


def ancestors(path: str) -> list[str]:
    """Return the paths of all nodes above `path`, the root first. The root itself has none."""
    parts = path.split("/") if path else []
    return ["/".join(parts[:count]) for count in range(len(parts))]
