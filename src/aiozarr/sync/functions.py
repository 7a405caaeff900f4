"""The blocking forms of the coroutines that create, check, read and copy."""

from __future__ import annotations

from collections.abc import Sequence

from aiozarr import conversion, hierarchy, transfer
from aiozarr.hierarchy.functions import wrong_view_error
from aiozarr.hierarchy.view import AnyArray
from aiozarr.sync.array import Array, View
from aiozarr.sync.conversion_plan import ConversionPlan
from aiozarr.sync.group import Group
from aiozarr.sync.wait import blocking_function, blocking_operation, data_in_this_thread, unchanged, wait

create_array = data_in_this_thread(blocking_function(hierarchy.create_array, Array))
create_group = blocking_function(hierarchy.create_group, Group)
consolidate_metadata = blocking_function(hierarchy.consolidate_metadata, Group)
verify = blocking_operation(hierarchy.verify)
validate = blocking_function(hierarchy.validate, unchanged)
convert = blocking_operation(conversion.convert)
copy = blocking_operation(transfer.copy)
clean = blocking_function(transfer.clean, unchanged)
plan_conversion = blocking_function(conversion.plan_conversion, lambda plan: ConversionPlan(**vars(plan)))


def read_many(views: Sequence[View | Array]) -> list[AnyArray]:
    """Read several views in one schedule; arguments and errors are the same as for `aiozarr.read_many`."""
    requested = [_asynchronous(view) for view in views]
    return wait(lambda _: hierarchy.read_many(requested))


def _asynchronous(view: object) -> hierarchy.View | hierarchy.Array:
    if isinstance(view, View | Array):
        return view._async
    raise wrong_view_error("aiozarr.sync", view)
