"""The blocking twins of the coroutines that open, create, read and copy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, overload

from aiozarr import conversion, driver, hierarchy, transfer
from aiozarr.engine import Target
from aiozarr.hierarchy.node import Mode
from aiozarr.hierarchy.read_views import wrong_view_error
from aiozarr.hierarchy.view import AnyArray
from aiozarr.settings import Settings
from aiozarr.sync.array import Array, View
from aiozarr.sync.group import AnyNode, Group, wrap_node
from aiozarr.sync.tensor_view import TensorView
from aiozarr.sync.wait import blocking_function, blocking_operation, data_in_this_thread, unchanged, wait

open_array = blocking_function(hierarchy.open_array, Array)
open_group = blocking_function(hierarchy.open_group, Group)
create_array = data_in_this_thread(blocking_function(hierarchy.create_array, Array))
create_group = blocking_function(hierarchy.create_group, Group)
require_array = blocking_function(hierarchy.require_array, Array)
require_group = blocking_function(hierarchy.require_group, Group)
consolidate_metadata = blocking_function(hierarchy.consolidate_metadata, Group)
verify = blocking_operation(hierarchy.verify)
validate = blocking_function(hierarchy.validate, unchanged)
convert = blocking_operation(conversion.convert)
migrate = blocking_operation(conversion.migrate)
copy = blocking_operation(transfer.copy)
clean = blocking_function(transfer.clean, unchanged)
plan_conversion = blocking_function(conversion.plan_conversion, unchanged)


@overload
def open(  # noqa: A001  # the public name
    target: Mapping[str, Any],
    path: str = "",
    *,
    mode: Mode = "r",
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    schemes: Collection[str] | None = None,
) -> TensorView: ...
@overload
def open(  # noqa: A001  # the public name
    target: Target,
    path: str = "",
    *,
    mode: Mode = "r",
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    schemes: Collection[str] | None = None,
) -> AnyNode: ...
def open(  # noqa: A001  # the public name
    target: Target | Mapping[str, Any],
    path: str = "",
    *,
    mode: Mode = "r",
    zarr_format: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
    schemes: Collection[str] | None = None,
) -> AnyNode | TensorView:
    """Open a node, or what a TensorStore JSON spec describes; arguments and errors are those of `aiozarr.open`."""
    found = wait(
        lambda _: driver.open_any(
            target,
            path,
            mode=mode,
            zarr_format=zarr_format,
            storage_options=storage_options,
            settings=settings,
            schemes=schemes,
        )
    )
    return TensorView(found) if isinstance(found, driver.TensorView) else wrap_node(found)


def read_many(views: Sequence[View | Array]) -> list[AnyArray]:
    """Read several views as one schedule; arguments and errors are those of `aiozarr.read_many`."""
    requested = [_asynchronous(view) for view in views]
    return wait(lambda _: hierarchy.read_many(requested))


def _asynchronous(view: object) -> hierarchy.View | hierarchy.Array:
    if isinstance(view, View | Array):
        return view._async
    raise wrong_view_error("aiozarr.sync", view)
