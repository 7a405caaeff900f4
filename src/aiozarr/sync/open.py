"""The blocking twins of the coroutines that open, create and read."""

from __future__ import annotations

from collections.abc import Sequence

from aiozarr import hierarchy
from aiozarr.hierarchy.many import refusal
from aiozarr.hierarchy.view import AnyArray
from aiozarr.sync.array import Array
from aiozarr.sync.group import Group, wrap_node
from aiozarr.sync.view import View
from aiozarr.sync.wait import blocking, wait

open = blocking(hierarchy.open, wrap_node)  # noqa: A001  # the public name
open_array = blocking(hierarchy.open_array, Array)
open_group = blocking(hierarchy.open_group, Group)
create_array = blocking(hierarchy.create_array, Array)
create_group = blocking(hierarchy.create_group, Group)
consolidate_metadata = blocking(hierarchy.consolidate_metadata, Group)


def read_many(views: Sequence[View | Array]) -> list[AnyArray]:
    """Read several views as one schedule; arguments and errors are those of `aiozarr.read_many`."""
    asked = [_asynchronous(view) for view in views]
    return wait(lambda _: hierarchy.read_many(asked))


def _asynchronous(view: object) -> hierarchy.View | hierarchy.Array:
    if isinstance(view, View | Array):
        return view._async
    raise refusal("aiozarr.sync", view)
