"""The blocking forms of the coroutines that open."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, overload

from aiozarr.engine.open_store import Target
from aiozarr.hierarchy import open as asynchronous
from aiozarr.hierarchy.node import Mode
from aiozarr.settings import Settings
from aiozarr.sync.array import Array
from aiozarr.sync.wait import blocking_function, wait

if TYPE_CHECKING:
    from aiozarr.hierarchy.group import Group as AsyncGroup
    from aiozarr.sync.group import AnyNode, Group
    from aiozarr.sync.tensor_view import TensorView


def _group(node: AsyncGroup) -> Group:
    from aiozarr.sync.group import Group

    return Group(node)


open_array = blocking_function(asynchronous.open_array, Array)
open_group = blocking_function(asynchronous.open_group, _group)
require_array = blocking_function(asynchronous.require_array, Array)
require_group = blocking_function(asynchronous.require_group, _group)


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
    """Open a node, or the array of a TensorStore JSON spec; arguments and errors are the same as for `aiozarr.open`."""
    from aiozarr import driver
    from aiozarr.driver.open_target import open_any
    from aiozarr.sync.group import wrap_node
    from aiozarr.sync.tensor_view import TensorView

    found = wait(
        lambda _: open_any(
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
