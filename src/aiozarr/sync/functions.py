"""The blocking twins of the coroutines that create, check, read and copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aiozarr import conversion, hierarchy, transfer
from aiozarr.engine.open_store import Target
from aiozarr.engine.progress import ProgressLike
from aiozarr.hierarchy.read_views import wrong_view_error
from aiozarr.hierarchy.view import AnyArray
from aiozarr.settings import Settings
from aiozarr.sync.array import Array, View
from aiozarr.sync.group import Group
from aiozarr.sync.wait import blocking_function, blocking_operation, data_in_this_thread, unchanged, wait
from aiozarr.transfer import CopyReport, OnError, Verify

create_array = data_in_this_thread(blocking_function(hierarchy.create_array, Array))
create_group = blocking_function(hierarchy.create_group, Group)
consolidate_metadata = blocking_function(hierarchy.consolidate_metadata, Group)
verify = blocking_operation(hierarchy.verify)
validate = blocking_function(hierarchy.validate, unchanged)
convert = blocking_operation(conversion.convert)
migrate = blocking_operation(conversion.migrate)
clean = blocking_function(transfer.clean, unchanged)
plan_conversion = blocking_function(conversion.plan_conversion, unchanged)


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
