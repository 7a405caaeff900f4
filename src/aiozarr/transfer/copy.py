"""`copy`: copies everything below one location to another, as it is stored; and one object to a key of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any

from aiozarr.common.formatting import argument
from aiozarr.common.progress import ProgressLike, shown_progress
from aiozarr.engine import Engine, StartedListing, Target, bind_callback, close_own_store, opened_store, run
from aiozarr.engine.copy import CopyPolicy, ObjectCopier, Verify, have_equal_bytes
from aiozarr.errors import CopyError, PreconditionFailedError, UnsupportedOperationError
from aiozarr.model import Entry
from aiozarr.schedule.events import current_recorder, name_operation, nested_report, network_requests, observed
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores import Store
from aiozarr.stores.blocking import in_thread
from aiozarr.transfer.copy_rules import CopyRules, KeyFilter, OnError, check_disjoint
from aiozarr.transfer.report import CopyCounters, CopyReport

if TYPE_CHECKING:
    from aiozarr.transfer.node_tree import NodeTree


@observed("copy", lambda *_: None)
async def copy(
    source: Target,
    destination: Target,
    *,
    path: str = "",
    include: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    overwrite: bool = False,
    resume: bool = False,
    verify: Verify = "size",
    delete: bool = False,
    skip_equal: bool = False,
    size_only: bool = False,
    dry_run: bool = False,
    on_error: OnError = "raise",
    progress: ProgressLike = None,
    source_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> CopyReport:
    """Copy everything below `source` to `destination`, with the same keys and bytes, many objects at a time.

    Each object appears whole or not at all. Metadata documents are written last, beginning with the deepest nodes and
    ending with the root. A document is written only if everything below its node was copied, so a reader that sees a
    node at the destination sees everything below it. A copy that is interrupted or fails leaves no half-written object,
    and none of the later documents.

    The copy has one consistent state of the source. Objects that change after the source was listed are copied again,
    until documents and chunks match. If the source only grows, the copy has an earlier state.

    A destination that contains objects is refused unless `overwrite` is true. Objects with the same key are then
    replaced. Documents and chunks of the copied nodes that the source does not have are removed, so that each copied
    node reads equal to its source. All other objects remain.

    Consolidated metadata of groups above the destination are invalidated before the first object is stored, and
    rewritten at the end. An interrupted copy, or one with failed objects, leaves none; a resumed copy completes them.
    Consolidated metadata of groups inside the destination that the source does not have are not changed.

    The listing is streamed: memory is bounded by `Settings.max_bytes_in_flight`; beyond that it grows only with the
    number of metadata documents. Objects are stored whole, so each is held in memory whole. An object larger than the
    limit is copied alone.

    Args:
        source: a URL, a local path, or a `Store`: a hierarchy, a node, or any other objects.
        destination: the location of the copy, in the same forms.
        path: the node or other prefix of the source to copy; `""` copies everything.
        include: patterns of keys to copy, such as `"air/*"`; without a pattern, all keys. `*` also matches slashes.
            Consolidated metadata of the copy lists only nodes that are copied or that the destination already has.
        exclude: patterns of keys not to copy, even if `include` matches them.
        overwrite: copy to a destination that contains objects, replacing copied nodes and objects with the same key. A
            destination that may not be listed is not checked, and keeps chunks that the source does not have.
        resume: continue an interrupted copy. Objects that it copied are skipped, unless their size or ETag in the
            source or their size at the destination has changed. After a complete copy, nothing remains to be done;
            objects are then compared by their MD5 or by reading both sides.
        verify: "size": each stored object has as many bytes as its source reports, all of one version. If an object was
            replaced after it was listed, its new version is copied and `CopyReport.changed` names it. "checksum": in
            addition, all stored bytes are compared with the fetched bytes: by the MD5 that the destination reports, or
            by reading them back. None: neither.
        delete: make the destination a mirror: objects that only the destination has are removed at the end, unless an
            object failed or the source is empty. `include` and `exclude` protect the objects that they leave out. Equal
            objects are skipped, as with `skip_equal`.
        skip_equal: skip objects that are equal at the destination: with the same size, and with the same MD5 if servers
            report it, or with the same bytes in local files. If a server does not report the MD5, a record at the
            destination lists the versions that an earlier copy with `skip_equal` or `delete` has made equal. If the
            source has no listing, its objects are read and compared. Requires `overwrite` or `delete`.
        size_only: like `skip_equal`, but chunks of the same size count as equal. Documents are still compared.
        dry_run: write and delete nothing. The report counts and names the objects that would be copied and deleted.
        on_error: "raise" stops at the first object that cannot be copied; "continue" copies the others, and
            `CopyReport.failed` names it.
        progress: called with `Progress`, objects and their bytes. The totals grow while the listing streams. If it
            raises an exception, the copy ends with it. True draws a progress bar (needs the extra `cli`).
        source_options: options of the source, for a URL, as fsspec's users pass them.
        destination_options: options of the destination, for a URL.
        settings: limits and policies.

    Raises:
        CopyError: an object could not be copied, the source could not be listed or kept changing, it contains links or
            names that cannot be followed, or the destination contains objects and `overwrite` is false. No request is
            in flight when it is raised.
        NodeNotFoundError: there is nothing at `source`.
        UnsupportedOperationError: the source can neither be listed, as over HTTP, nor has consolidated metadata that
            lists its arrays; or the destination cannot be written.
        StoreTimeoutError: it took longer than `Settings.timeout`.
        UnknownSchemeError: no store opens such URLs.
        TypeError, ValueError: an argument has a wrong type or value; source and destination are the same, or one is
            inside the other.
    """
    if verify not in ("size", "checksum", None):
        raise ValueError(f"verify must be 'size', 'checksum' or None, not {verify!r}")
    if on_error not in ("raise", "continue"):
        raise ValueError(f"on_error must be 'raise' or 'continue', not {on_error!r}")
    if (skip_equal or size_only) and not (overwrite or delete):
        name = "skip_equal" if skip_equal else "size_only"
        raise ValueError(f"{argument(name, True)} needs {argument('overwrite', True)} or {argument('delete', True)}")
    if not isinstance(path, str):
        raise TypeError(f"path must be a str, not {type(path).__name__}")
    rules = CopyRules(
        KeyFilter(include, exclude),
        overwrite=overwrite,
        resume=resume,
        verify=verify,
        delete=delete,
        skip_equal=skip_equal,
        size_only=size_only,
        dry_run=dry_run,
        on_error=on_error,
    )
    settings = settings_or_default(settings)
    outer = current_recorder()

    async def work(engine: Engine) -> CopyReport:
        # A separate record, because the result counts this copy alone.
        report = nested_report(outer)

        async with AsyncExitStack() as stack:
            source_store = child_store(await opened(stack, source, source_options, settings), path)
            listing = None
            if source_store.supports.readable and source_store.supports.listable:
                scan = engine.scheduled(source_store, settings, report).scan
                listing = StartedListing(scan(faults=True))
                stack.push_async_callback(listing.aclose)
            # Imported in a thread, while the first page is received.
            await in_thread(lambda: import_module("aiozarr.transfer.copy_operation"))
            from aiozarr.transfer.copy_operation import CopyOperation

            destination_store = await opened(stack, destination, destination_options, settings)
            name_operation(destination_store.url)
            await _check(source_store, destination_store, read_back=verify == "checksum")
            objects: NodeTree | None = None
            if listing is None:
                # Imported here because a copy of listed objects needs no numpy.
                from aiozarr.transfer.node_tree import load_tree

                objects = await load_tree(engine, source_store, settings, outer)
            policy = CopyPolicy(verify, may_be_missing=objects is not None)
            copier = ObjectCopier(engine, source_store, destination_store, policy, settings=settings, report=report)
            operation = CopyOperation(copier, rules, progress=report_progress, objects=objects, listing=listing)
            return await operation.run()

    with shown_progress(progress, "copying") as shown:
        report_progress = bind_callback(shown)
        return await run(work, timeout=settings.timeout, callback=report_progress)


async def opened(stack: AsyncExitStack, target: Target, options: Mapping[str, Any] | None, settings: Settings) -> Store:
    """Return the store of a target. `stack` closes a store that is made here.

    Raises:
        TypeError, ValueError, UnknownSchemeError: as `open`.
    """
    async with opened_store(target, options, settings) as (store, is_made_here):
        if is_made_here:
            stack.push_async_callback(close_own_store, store)
        return store


def child_store(store: Store, path: str) -> Store:
    """Return the part of `store` below the node `path`, as a store of the same kind if possible."""
    path = path.strip("/")
    if not path:
        return store
    child = store.child_store(path)
    if child is None:
        # Imported here because most programs need no wrapper.
        from aiozarr.stores.prefix_store import PrefixStore

        child = PrefixStore(store, path)
    return child


async def _check(source: Store, destination: Store, *, read_back: bool) -> None:
    if not source.supports.readable:
        raise UnsupportedOperationError("the source cannot be read", store=source.url)
    if not destination.supports.writable:
        raise UnsupportedOperationError("the destination cannot be written", store=destination.url)
    if read_back and not destination.supports.readable:
        message = f"{argument('verify', 'checksum')} reads objects back, but the destination cannot be read"
        raise UnsupportedOperationError(message, store=destination.url)
    await check_disjoint(source, destination)


async def copy_one(
    engine: Engine, source: Store, entry: Entry, destination: Store, key: str, rules: CopyRules, settings: Settings
) -> CopyReport:
    """Copy the object `entry` of `source` to `key` of `destination`. Runs on the I/O thread.

    An object that is stored there is kept, unless the rules say otherwise. If they resume or compare, an equal one is
    skipped.

    Raises:
        CopyError: another object is stored there and may not be replaced.
        FileNotFoundError: the object is gone.
        StoreError: the object could not be copied.
    """
    started, report = perf_counter(), nested_report(current_recorder())
    counters = CopyCounters(is_dry_run=rules.dry_run)
    counters.add_listed(entry)
    policy = CopyPolicy(rules.verify, if_absent=not rules.may_replace)
    copier = ObjectCopier(engine, source, destination, policy, settings=settings, report=report)
    to_store = copier.scheduled_destination
    url, overwrite = destination.url_of(key), argument("overwrite", True)
    occupied = CopyError(f"{url} already exists; {overwrite} replaces it")
    is_compared = rules.resume or rules.compares
    stored = await to_store.stat(key) if is_compared or not rules.may_replace else None
    is_equal = rules.size_only and stored is not None and stored.size == entry.size is not None
    if stored is not None and is_compared and not is_equal:
        is_equal = await have_equal_bytes(copier.scheduled_source, entry, to_store, stored)
    if is_equal:
        counters.add("skipped", entry, entry.size or 0)
    elif stored is not None and not rules.may_replace:
        raise occupied
    elif rules.dry_run:
        counters.add_copied(entry)
    else:
        try:
            copied = await copier.copy(entry, key)
        except PreconditionFailedError:
            # Another process has stored an object since.
            raise occupied from None
        if copied is None:
            raise FileNotFoundError(f"there is no object {source.url_of(entry.key)}")
        counters.add_copied(entry, copied.size, is_changed=copied.changed)
    return counters.report(seconds=perf_counter() - started, requests=network_requests(report), metadata_documents=0)
