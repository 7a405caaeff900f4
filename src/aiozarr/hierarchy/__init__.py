"""Arrays, groups and views, and the coroutines that open and create them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.hierarchy.array import Array
    from aiozarr.hierarchy.consolidate import consolidate_metadata
    from aiozarr.hierarchy.functions import create_array, create_group, read_many
    from aiozarr.hierarchy.group import Group
    from aiozarr.hierarchy.info import ArrayInfo, GroupInfo
    from aiozarr.hierarchy.open import open_array, open_group, require_array, require_group
    from aiozarr.hierarchy.validation import Finding, ValidateReport, validate
    from aiozarr.hierarchy.verification import BadObject, VerifyReport, verify
    from aiozarr.hierarchy.view import View
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            ".array": "Array",
            ".consolidate": "consolidate_metadata",
            ".functions": "create_array create_group read_many",
            ".group": "Group",
            ".info": "ArrayInfo GroupInfo",
            ".open": "open_array open_group require_array require_group",
            ".validation": "Finding ValidateReport validate",
            ".verification": "BadObject VerifyReport verify",
            ".view": "View",
        },
    )

__all__ = [
    "Array",
    "ArrayInfo",
    "BadObject",
    "Finding",
    "Group",
    "GroupInfo",
    "ValidateReport",
    "VerifyReport",
    "View",
    "consolidate_metadata",
    "create_array",
    "create_group",
    "open_array",
    "open_group",
    "read_many",
    "require_array",
    "require_group",
    "validate",
    "verify",
]
