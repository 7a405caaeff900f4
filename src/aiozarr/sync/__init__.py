"""The blocking names: they submit to the I/O thread and wait; Ctrl-C cancels the work and is raised once it has ended.

They work in scripts, in notebooks and any other thread with a running event loop, and from several threads at once.
"""

from aiozarr.schedule import record
from aiozarr.sync.array import Array
from aiozarr.sync.copy import copy
from aiozarr.sync.group import Group
from aiozarr.sync.open import (
    consolidate_metadata,
    create_array,
    create_group,
    open,  # noqa: A004  # the public name
    open_array,
    open_group,
    read_many,
)
from aiozarr.sync.view import View

__all__ = [
    "Array",
    "Group",
    "View",
    "consolidate_metadata",
    "copy",
    "create_array",
    "create_group",
    "open",
    "open_array",
    "open_group",
    "read_many",
    "record",
]
