"""The blocking twins of the coroutines that open, create, read and copy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, overload

from aiozarr import conversion, driver, hierarchy, transfer
from aiozarr.engine import ProgressLike, Target
from aiozarr.hierarchy.node import Mode
from aiozarr.hierarchy.read_views import wrong_view_error
from aiozarr.hierarchy.view import AnyArray
from aiozarr.settings import Settings
from aiozarr.sync.array import Array, View
from aiozarr.sync.group import AnyNode, Group, wrap_node
from aiozarr.sync.tensor_view import TensorView
from aiozarr.sync.wait import blocking_function, blocking_operation, data_in_this_thread, unchanged, wait
from aiozarr.transfer import CopyReport, OnError, Verify

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


def copy(
    source: Target,
    destination: Target,
    *,
    path: str = "",
    select: Mapping[str, Any] | None = None,
    include: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    overwrite: bool = False,
    resume: bool = False,
    verify: Verify = "size",
    delete: bool = False,
    skip_equal: bool = False,
    dry_run: bool = False,
    on_error: OnError = "raise",
    progress: ProgressLike = None,
    source_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> CopyReport:
    """Copy everything below `source` to `destination`; arguments and errors are those of `aiozarr.copy`."""
    return wait(
        lambda callback: transfer.copy(
            source,
            destination,
            path=path,
            select=select,
            include=include,
            exclude=exclude,
            overwrite=overwrite,
            resume=resume,
            verify=verify,
            delete=delete,
            skip_equal=skip_equal,
            dry_run=dry_run,
            on_error=on_error,
            progress=callback,
            source_options=source_options,
            destination_options=destination_options,
            settings=settings,
        ),
        progress,
    )


def _asynchronous(view: object) -> hierarchy.View | hierarchy.Array:
    if isinstance(view, View | Array):
        return view._async
    raise wrong_view_error("aiozarr.sync", view)
