"""`copy`: what is stored in one place, as it is stored, to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from aiozarr.engine import Engine, Progress, callback_here, run
from aiozarr.engine.target import Target, opened_store
from aiozarr.errors import UnsupportedOperationError
from aiozarr.schedule import current_recorder
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores import Store
from aiozarr.stores.blocking import in_thread
from aiozarr.transfer.carry import Verify
from aiozarr.transfer.job import CopyJob, OnError
from aiozarr.transfer.places import check_apart
from aiozarr.transfer.report import CopyReport


async def copy(
    source: Target,
    destination: Target,
    *,
    verify: Verify = "size",
    on_error: OnError = "raise",
    progress: Callable[[Progress], object] | None = None,
    source_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> CopyReport:
    """Copy everything below `source` to `destination`: keys and bytes as they are stored, many objects at once.

    Each object appears whole or not at all. Metadata documents are written last, those of the deepest nodes first and
    the root's at the very end, and only where everything below their node was copied: whoever sees a node at the
    destination sees all that lies below it. A copy that is interrupted or fails leaves no half-written object, and none
    of the documents that it had not come to.

    Objects of the destination are replaced by those of the same key, and others stay. Where those could be taken for
    chunks of the copy, erase them first.

    The listing streams: memory is bounded by `Settings.max_bytes_in_flight`, and beside that grows with the number of
    metadata documents only. An object is held whole, for it is stored whole; one that is larger than the limit travels
    alone.

    Args:
        source: a URL, a local path, or a `Store`: a hierarchy, a node, or any other objects.
        destination: where to; likewise.
        verify: "size": an object that is stored has as many bytes as its source says, and is of one version. An object
            that was replaced since it was listed is copied as it is now, and named in `CopyReport.changed`.
            "checksum": moreover, each object is read back and all its bytes are compared, those that have just been
            fetched with those that are stored. None: neither.
        on_error: "raise" stops at the first object that cannot be copied; "continue" copies the others, and
            `CopyReport.failed` names it.
        progress: called with `Progress`, objects and their bytes; the totals grow while the listing goes on. What it
            raises ends the copy.
        source_options: how to reach the source, for a URL: what fsspec's users pass.
        destination_options: how to reach the destination, for a URL.
        settings: limits and policies.

    Raises:
        CopyError: an object could not be copied, or the source not be listed; nothing is under way any more.
        NodeNotFoundError: there is nothing at `source`.
        UnsupportedOperationError: the source cannot be listed, as over HTTP, or the destination not be written.
        StoreTimeoutError: it took longer than `Settings.timeout`.
        UnknownSchemeError: no store opens such URLs.
        TypeError, ValueError: an argument is not what it should be; source and destination are the same, or one lies
            inside the other.
    """
    if verify not in ("size", "checksum", None):
        raise ValueError(f"verify is 'size', 'checksum' or None, not {verify!r}")
    if on_error not in ("raise", "continue"):
        raise ValueError(f"on_error is 'raise' or 'continue', not {on_error!r}")
    settings = settings_or_default(settings)
    recorder = current_recorder()
    report_progress = callback_here(progress)

    async def work(engine: Engine) -> CopyReport:
        async with AsyncExitStack() as stack:
            stores = []
            for target, options in ((source, source_options), (destination, destination_options)):
                store, owned = await stack.enter_async_context(opened_store(target, options, settings))
                stores.append(store)
                if owned:
                    stack.push_async_callback(store.aclose)
            await _check(*stores, read_back=verify == "checksum")
            job = CopyJob(
                engine,
                *stores,
                verify=verify,
                on_error=on_error,
                settings=settings,
                recorder=recorder,
                progress=report_progress,
            )
            return await job.run()

    return await run(work, timeout=settings.timeout, callback=report_progress)


async def _check(source: Store, destination: Store, *, read_back: bool) -> None:
    if not source.supports.listable:
        raise UnsupportedOperationError(
            "the source cannot be listed, so nobody knows what to copy from it", store=source.url
        )
    if not source.supports.readable:
        raise UnsupportedOperationError("the source cannot be read", store=source.url)
    if not destination.supports.writeable:
        raise UnsupportedOperationError("the destination cannot be written", store=destination.url)
    if read_back and not destination.supports.readable:
        raise UnsupportedOperationError("verify='checksum' reads back, which this store cannot", store=destination.url)
    # Links of a file system are resolved there, which may wait for a disk.
    await in_thread(lambda: check_apart(source, destination))
