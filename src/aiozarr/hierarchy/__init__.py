"""Arrays, groups and views, and the coroutines that open and create them."""

from aiozarr.hierarchy.array import Array, read_many
from aiozarr.hierarchy.consolidate import consolidate_metadata
from aiozarr.hierarchy.create import create_array, create_group
from aiozarr.hierarchy.group import Group
from aiozarr.hierarchy.info import ArrayInfo, GroupInfo
from aiozarr.hierarchy.open import open, open_array, open_group, require_array, require_group  # noqa: A004  # the public name
from aiozarr.hierarchy.view import View

__all__ = [
    "Array",
    "ArrayInfo",
    "Group",
    "GroupInfo",
    "View",
    "consolidate_metadata",
    "create_array",
    "create_group",
    "open",
    "open_array",
    "open_group",
    "read_many",
    "require_array",
    "require_group",
]
