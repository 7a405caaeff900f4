"""Node names and paths: which ones a hierarchy can have (v3 core specification, "Node names")."""

from __future__ import annotations

from aiozarr.errors import InvalidKeyError
from aiozarr.model import check_key

# A child of this name would lie where its parent's own document lies: no file system can hold both.
_DOCUMENT = "zarr.json"


def check_node_name(name: str) -> str:
    """Return `name` if a node may have it.

    Names are compared by code points and never normalised: NFC and NFD spellings are two names.

    Raises:
        InvalidKeyError: it is empty, contains `/` or NUL, is made of periods only, starts with `__`, is `zarr.json`, is
            not valid Unicode, or is longer than a store key may be.
    """
    if not isinstance(name, str):
        raise TypeError(f"a node name is a str, not {type(name).__name__}")
    reason = _name_fault(name)
    if reason is not None:
        raise InvalidKeyError(f"not a valid node name: {reason}", key=name)
    return check_key(name)


def check_path(path: str) -> str:
    """Return `path` without a leading `/`: names separated by `/`, and `""` for the root, which is `""` or `"/"`.

    A trailing `/` is refused with every other empty name: the specification gives each node one path.

    Raises:
        InvalidKeyError: a name in it is not one that `check_node_name` allows, or it is longer than a store key may be.
    """
    if not isinstance(path, str):
        raise TypeError(f"a path is a str, not {type(path).__name__}")
    normal = path.removeprefix("/")
    if normal == "":
        return normal
    for name in normal.split("/"):
        reason = _name_fault(name)
        if reason is not None:
            raise InvalidKeyError(f"not a valid path: {reason}", key=path)
    return check_key(normal)


def _name_fault(name: str) -> str | None:
    if name == "":
        return "it has an empty name"
    if "/" in name:
        return f"the name {name!r} contains '/'"
    if not name.strip("."):
        return f"the name {name!r} is made of periods only"
    if name.startswith("__"):
        return f"the name {name!r} starts with '__', which is reserved"
    if name == _DOCUMENT:
        return f"the name {name!r} is that of metadata documents"
    return None
