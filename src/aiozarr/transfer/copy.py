"""`copy`: copies everything below one location to another, as it is stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from aiozarr.engine import Engine, bind_callback, run
from aiozarr.engine.open_store import Target, opened_store
from aiozarr.engine.progress_bar import ProgressLike, shown_progress
from aiozarr.errors import UnsupportedOperationError
from aiozarr.schedule import current_recorder
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores import Store
from aiozarr.stores.blocking import in_thread
from aiozarr.transfer.copy_object import Verify
from aiozarr.transfer.copy_operation import CopyOperation, OnError
from aiozarr.transfer.overlap import check_disjoint
from aiozarr.transfer.report import CopyReport


async def copy(
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
    dry_run: bool = False,
    on_error: OnError = "raise",
    progress: ProgressLike = None,
    source_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> CopyReport:
    """Copy everything below `source` to `destination`: keys and bytes as they are stored, many objects at once.

    Each object appears whole or not at all. Metadata documents are written last, those of the deepest nodes first and
    the root's at the very end. A document is written only if everything below its node was copied, so a reader that
    sees a node at the destination sees everything below it. A copy that is interrupted or fails leaves no half-written
    object, and none of the later documents.

    A destination that holds objects is refused unless `overwrite` is true. Objects of the same key are then replaced,
    and others remain. If those could be taken for chunks of the copy, erase them first.

    The listing streams: memory is bounded by `Settings.max_bytes_in_flight`, and beyond that grows with the number of
    metadata documents only. Objects are stored whole, so each is held in memory whole. An object larger than the limit
    is copied alone.

    Args:
        source: a URL, a local path, or a `Store`: a hierarchy, a node, or any other objects.
        destination: the location of the copy; likewise.
        overwrite: copy onto a destination that holds objects, replacing those of the same key. A destination that
            may not be listed is not checked.
        verify: "size": a stored object has as many bytes as its source reports, and is of one version. An object that
            was replaced since it was listed is copied as it is now, and named in `CopyReport.changed`. "checksum": in
            addition, each object is read back, and all bytes are compared with the fetched ones. None: neither.
        on_error: "raise" stops at the first object that cannot be copied; "continue" copies the others, and
            `CopyReport.failed` names it.
        progress: called with `Progress`, objects and their bytes. The totals grow while the listing streams. Its
            exception ends the copy. True draws a bar, with the extra `cli`.
        source_options: options of the source, for a URL, as fsspec's users pass them.
        destination_options: options of the destination, for a URL.
        settings: limits and policies.

    Raises:
        CopyError: an object could not be copied, the source could not be listed, or the destination holds objects and
            `overwrite` is false. No request is in flight any more.
        NodeNotFoundError: there is nothing at `source`.
        UnsupportedOperationError: the source cannot be listed, as over HTTP, or the destination not be written.
        StoreTimeoutError: it took longer than `Settings.timeout`.
        UnknownSchemeError: no store opens such URLs.
        TypeError, ValueError: an argument has a wrong type or value; source and destination are the same, or one is
            inside the other.
    """
    if verify not in ("size", "checksum", None):
        raise ValueError(f"verify is 'size', 'checksum' or None, not {verify!r}")
    if on_error not in ("raise", "continue"):
        raise ValueError(f"on_error is 'raise' or 'continue', not {on_error!r}")
    if path or select or include or exclude or resume or delete or dry_run:
        raise NotImplementedError("this argument is not supported yet")
    settings = settings_or_default(settings)
    report = current_recorder()

    async def work(engine: Engine) -> CopyReport:
        async with AsyncExitStack() as stack:
            stores = []
            for target, options in ((source, source_options), (destination, destination_options)):
                store, owned = await stack.enter_async_context(opened_store(target, options, settings))
                stores.append(store)
                if owned:
                    stack.push_async_callback(store.aclose)
            await _check(*stores, read_back=verify == "checksum")
            operation = CopyOperation(
                engine,
                *stores,
                overwrite=overwrite,
                verify=verify,
                on_error=on_error,
                settings=settings,
                report=report,
                progress=report_progress,
            )
            return await operation.run()

    with shown_progress(progress, "copying") as shown:
        report_progress = bind_callback(shown)
        return await run(work, timeout=settings.timeout, callback=report_progress)


async def _check(source: Store, destination: Store, *, read_back: bool) -> None:
    if not source.supports.listable:
        raise UnsupportedOperationError("the source cannot be listed, so its objects cannot be found", store=source.url)
    if not source.supports.readable:
        raise UnsupportedOperationError("the source cannot be read", store=source.url)
    if not destination.supports.writeable:
        raise UnsupportedOperationError("the destination cannot be written", store=destination.url)
    if read_back and not destination.supports.readable:
        raise UnsupportedOperationError("verify='checksum' reads back, which this store cannot", store=destination.url)
    # In a thread: resolving symbolic links may wait for a disk.
    await in_thread(lambda: check_disjoint(source, destination))
