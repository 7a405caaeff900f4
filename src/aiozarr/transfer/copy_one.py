"""Copies one object to a key of its own: the command line's copy of a target that is no node."""

from __future__ import annotations

from time import perf_counter

from aiozarr.common.formatting import argument
from aiozarr.engine import Engine
from aiozarr.engine.copy import CopyPolicy, ObjectCopier, have_equal_bytes
from aiozarr.errors import CopyError, PreconditionFailedError
from aiozarr.model import Entry
from aiozarr.schedule.events import Report, current_recorder
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.transfer.copy_rules import CopyRules
from aiozarr.transfer.report import CopyCounters, CopyReport


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
    started, report = perf_counter(), Report(outer=current_recorder())
    counters = CopyCounters(None, plans=rules.dry_run)
    counters.add_listed(entry)
    policy = CopyPolicy(rules.verify, if_absent=not rules.may_replace)
    from_store, to_store = [engine.scheduled(store, settings, report) for store in (source, destination)]
    url, overwrite = destination.url_of(key), argument("overwrite", True)
    occupied = CopyError(f"there is an object {url}; {overwrite} replaces it")
    is_compared = rules.resume or rules.compares
    stored = await to_store.stat(key) if is_compared or not rules.may_replace else None
    if stored is not None and is_compared and await have_equal_bytes(from_store, entry, to_store, stored):
        counters.add_skipped(entry)
    elif stored is not None and not rules.may_replace:
        raise occupied
    elif rules.dry_run:
        counters.add_copied(entry, entry.size or 0, is_changed=False, is_document=False)
    else:
        copier = ObjectCopier(engine, source, destination, policy, settings=settings, report=report)
        try:
            copied = await copier.copy(entry, key)
        except PreconditionFailedError:
            # Another process has stored an object since.
            raise occupied from None
        if copied is None:
            raise FileNotFoundError(f"there is no object {source.url_of(entry.key)}")
        counters.add_copied(entry, copied.size, is_changed=copied.changed, is_document=False)
    return counters.report(seconds=perf_counter() - started, requests=report.requests, is_dry_run=rules.dry_run)
