"""Blocking functions and classes, which run operations on the I/O thread and wait for them.

They work in scripts, in notebooks and other threads with a running event loop, and in several threads at once. Ctrl-C
cancels the operation and is raised once it has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.common.lazy_names import lazy_names

if TYPE_CHECKING:
    from aiozarr.schedule.events import record
    from aiozarr.sync.array import Array, View
    from aiozarr.sync.conversion_plan import ConversionPlan
    from aiozarr.sync.functions import (
        clean,
        consolidate_metadata,
        convert,
        copy,
        create_array,
        create_group,
        plan_conversion,
        read_many,
        validate,
        verify,
    )
    from aiozarr.sync.group import Group
    from aiozarr.sync.opening import open, open_array, open_group, require_array, require_group  # noqa: A004  # public name
    from aiozarr.sync.tensor_view import TensorView
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "aiozarr.schedule.events": "record",
            ".array": "Array View",
            ".conversion_plan": "ConversionPlan",
            ".functions": (
                "clean consolidate_metadata convert copy create_array create_group plan_conversion read_many "
                "validate verify"
            ),
            ".group": "Group",
            ".opening": "open open_array open_group require_array require_group",
            ".tensor_view": "TensorView",
        },
    )

__all__ = [
    "Array",
    "ConversionPlan",
    "Group",
    "TensorView",
    "View",
    "clean",
    "consolidate_metadata",
    "convert",
    "copy",
    "create_array",
    "create_group",
    "open",
    "open_array",
    "open_group",
    "plan_conversion",
    "read_many",
    "record",
    "require_array",
    "require_group",
    "validate",
    "verify",
]
