"""Node names and paths: which ones a hierarchy can have (v3 core, "Node names"; v2, "Logical storage paths")."""

from __future__ import annotations

import re

from aiozarr.errors import InvalidKeyError
from aiozarr.metadata.format_rules import rules_of
from aiozarr.model import check_key

_SLASHES = re.compile(r"[/\\]+")


def check_node_name(name: str, zarr_format: int = 3) -> str:
    """Return `name` if a node may have it.

    Names are compared by code points and never normalised: NFC and NFD spellings are two names.

    Raises:
        InvalidKeyError: it is empty, contains `/` or NUL, is that of a metadata document, is not valid Unicode, or is
            longer than a store key may be. In v3 also: it is made of periods only, or starts with `__`. In v2 and v1
            also: it is `.` or `..`, or contains a backslash, which these formats take as `/`.
    """
    if not isinstance(name, str):
        raise TypeError(f"a node name is a str, not {type(name).__name__}")
    reason = _name_fault(name, zarr_format)
    if reason is not None:
        raise InvalidKeyError(f"not a valid node name: {reason}", key=name)
    return check_key(name)


def check_path(path: str, zarr_format: int | None = 3) -> str:
    """Return `path` as keys begin with it: names separated by `/`, and `""` for the root, which is `""` or `"/"`.

    v3 gives each node one path: a leading `/` is taken off, and every empty name refused. Paths of v2 and v1 are
    normalised by `normalize_path` first. Where the format is not known yet, None, a path of either kind will do.

    Raises:
        InvalidKeyError: a name in it is not one that `check_node_name` allows, or it is longer than a store key may be.
    """
    if not isinstance(path, str):
        raise TypeError(f"a path is a str, not {type(path).__name__}")
    if zarr_format is None:
        try:
            return check_path(path, 3)
        except InvalidKeyError:
            zarr_format = 2
    normal = path.removeprefix("/") if zarr_format == 3 else normalize_path(path)
    if normal == "":
        return normal
    for name in normal.split("/"):
        reason = _name_fault(name, zarr_format)
        if reason is not None:
            raise InvalidKeyError(f"not a valid path: {reason}", key=path)
    return check_key(normal)


def normalize_path(path: str) -> str:
    r"""Return a logical path of v2 as the text normalises it: `\` is `/`, none at the ends, and no two in a row.

    Raises:
        InvalidKeyError: a name in it is `.` or `..`.
    """
    normal = _SLASHES.sub("/", path).strip("/")
    if not {".", ".."}.isdisjoint(normal.split("/")):
        raise InvalidKeyError("not a valid path: '.' and '..' are no names", key=path)
    return normal


def _name_fault(name: str, zarr_format: int) -> str | None:
    if name == "":
        return "it has an empty name"
    if "/" in name:
        return f"the name {name!r} contains '/'"
    # Such a child would lie where its parent's own documents lie: no file system can hold both.
    if name in rules_of(zarr_format).keys:
        return f"the name {name!r} is that of metadata documents"
    if zarr_format == 3:
        if not name.strip("."):
            return f"the name {name!r} is made of periods only"
        if name.startswith("__"):
            return f"the name {name!r} starts with '__', which is reserved"
    elif name in (".", ".."):
        return f"the name {name!r} is no name"
    elif "\\" in name:
        return f"the name {name!r} contains a backslash, which is another '/' in Zarr v2"
    return None
