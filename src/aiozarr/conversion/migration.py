"""`migrate`: format 3 documents for arrays and trees of formats 1 and 2, whose chunks stay as they are."""

from __future__ import annotations

import glob
import re
from collections.abc import AsyncIterator, Hashable, Mapping
from concurrent.futures import Executor
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import replace
from typing import Any

from aiozarr.common.concurrency import for_each, gather_all
from aiozarr.common.formatting import argument
from aiozarr.common.progress import ProgressLike, shown_progress
from aiozarr.conversion.conversion import check_executor, nodes_from, source_nodes
from aiozarr.conversion.conversion_journal import FOLDER, JOURNAL_KEY, ConversionReport
from aiozarr.conversion.conversion_plan import ConversionPlan
from aiozarr.conversion.conversion_planning import ConversionPlanner
from aiozarr.conversion.conversion_run import ConversionRun
from aiozarr.conversion.options import ConversionOptions
from aiozarr.engine import Engine, Target, bind_callback, run
from aiozarr.errors import NodeExistsError, NodeNotFoundError
from aiozarr.hierarchy import Array, Group, internal
from aiozarr.metadata import format_rules
from aiozarr.metadata.formats import PROBE_KEYS, render_node
from aiozarr.metadata.records import ArrayMetadata
from aiozarr.model import JOURNAL_HEADER_KEY, ByteRange, Entry, Value, Version
from aiozarr.schedule.events import current_recorder
from aiozarr.settings import Settings, settings_or_default
from aiozarr.stores import Store
from aiozarr.stores.wrapper_store import WrapperStore, entries_of
from aiozarr.transfer import CopyReport, copy
from aiozarr.transfer.copy import opened
from aiozarr.transfer.copy_rules import check_disjoint

OLD_FORMATS = (2, 1)
NEW_FORMAT = 3
_OLD_NODE_KEYS = frozenset({format_rules.ARRAY_KEY, format_rules.GROUP_KEY, format_rules.META_KEY})
# Chunk keys of formats 1 and 2, relative to the array.
_OLD_CHUNK_KEY = re.compile(r"\d+([./]\d+)*")


async def migrate(
    source: Target,
    destination: Target | None = None,
    *,
    erase_old: bool = False,
    dry_run: bool = False,
    executor: Executor | None = None,
    max_memory: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: ProgressLike = None,
    source_options: Mapping[str, Any] | None = None,
    destination_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> ConversionReport:
    """Migrate an array or a tree of format 1 or 2 to format 3, in place or to `destination`.

    In place, documents of format 3 are written beside the old ones, and chunks are not touched. Every reader that
    prefers format 3 then reads the same values. The attribute `_ARRAY_DIMENSIONS` becomes `dimension_names`, and
    consolidated metadata are written if the source has them. With a destination, chunks are copied as they are stored.

    An array whose codecs format 3 cannot describe, such as structures in big-endian order, is encoded again; the report
    says which, and why. The root's document is written last.

    Args:
        source: a URL, a local path, or a `Store`.
        destination: the location of the migrated tree; None: in place.
        erase_old: in place only: erase the old documents at the end, and old chunks of arrays that were encoded again.
            After a complete migration, only this is done.
        dry_run: write nothing; the report says what would be done, and names the documents.
        executor: where arrays are encoded again, as in `convert`.
        max_memory: as in `convert`.
        overwrite: with a destination: first erase everything stored there. In place: replace documents of format 3.
        resume: continue an interrupted migration. After a complete one in place, only `erase_old` is left to do.
        progress: called with `Progress`. True draws a bar, with the extra `cli`.
        source_options: options of the source, for a URL.
        destination_options: options of the destination, for a URL.
        settings: limits and policies.

    Raises:
        NodeNotFoundError: there is no node of format 1 or 2 at `source`.
        NodeExistsError: there are documents of format 3 already, or the destination is not empty.
        UnsupportedMetadataError: an array has a data type that format 3 lacks.
        UnsupportedOperationError: the store cannot be listed or not be written.
        CopyError, StoreError, CodecError, TypeError, ValueError: as `convert`.
    """
    if erase_old and destination is not None:
        raise ValueError(f"{argument('erase_old')} goes with a migration in place; the source of a copy stays as it is")
    check_executor(executor)
    settings = settings_or_default(settings)
    options = ConversionOptions(NEW_FORMAT, max_memory=max_memory, max_amplification=float("inf"))
    if destination is None and destination_options is not None:
        raise TypeError(f"{argument('destination_options')} go with a destination")
    report = current_recorder()

    async def work(engine: Engine) -> ConversionReport:
        async with AsyncExitStack() as stack:
            origin = result = await opened(stack, source, source_options, settings)
            if destination is not None:
                result = await opened(stack, destination, destination_options, settings)
                await check_disjoint(origin, result)
            may_be_done = destination is None and (erase_old or resume) and not overwrite
            old = internal.NodeAccess(engine, origin, "", settings, report)
            try:
                nodes = await _old_nodes(old, may_be_done=may_be_done)
            except NodeNotFoundError:
                if not (may_be_done and erase_old and not dry_run and await _erase_remains(old)):
                    raise
                return ConversionReport()
            reencoded: dict[str, str] = {}
            plan = ConversionPlanner(result, result, options, settings).plan(nodes, reencoded)
            access = internal.NodeAccess(engine, result, "", settings, report)
            is_done = may_be_done and await _is_migrated(access, nodes)
            counts = ConversionReport(arrays=plan.arrays, groups=plan.groups, notes=plan.notes)
            if dry_run:
                planned = _planned(plan, nodes, reencoded, is_done=is_done, erase_old=erase_old)
                return replace(counts, reencoded={} if is_done else reencoded, planned=planned)
            if is_done:
                internal.check_store_writable(result)
                if erase_old:
                    await _erase_old(access, nodes)
                return counts
            execution = ConversionRun(engine, plan, settings=settings, report=report, progress=callback)
            copied = CopyReport()
            if destination is None:
                if not (overwrite or resume):
                    await _check_not_migrated(access, nodes)
                await execution.prepare(resume=resume, in_place=True)
            else:
                await execution.prepare(overwrite=overwrite, resume=resume)
                copied = await _copy_chunks(origin, result, reencoded, settings)
            await execution.run(executor)
            done = await execution.finish()
            if erase_old:
                await _erase_old(access, nodes)
            return replace(
                done,
                reencoded=reencoded,
                copied=copied.objects,
                bytes_read=done.bytes_read + copied.bytes,
                bytes_written=done.bytes_written + copied.bytes,
                requests=done.requests + copied.requests,
            )

    with shown_progress(progress, "migrating") as shown:
        callback = bind_callback(shown)
        return await run(work, timeout=settings.timeout, callback=callback)


class OldDocumentsStore(WrapperStore):
    """A store without its documents of format 3: the tree as it was before a migration wrote them."""

    @property
    def identity(self) -> Hashable:
        """Another than the inner store's, because the values differ."""
        return (OldDocumentsStore, self._store.identity)

    async def fetch(
        self, key: str, range: ByteRange | None = None, *, if_match: Version | None = None, max_bytes: int | None = None
    ) -> Value | None:
        if _is_new(key):
            return None
        return await super().fetch(key, range, if_match=if_match, max_bytes=max_bytes)

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        async with entries_of(self._store, prefix) as entries:
            async for entry in entries:
                if not _is_new(entry.key):
                    yield entry


def _is_new(key: str) -> bool:
    return key.rpartition("/")[2] in format_rules.rules_of(NEW_FORMAT).keys


async def _old_nodes(access: internal.NodeAccess, *, may_be_done: bool) -> dict[str, Array | Group]:
    """Return the nodes of format 2, or the array of format 1, by path.

    A folder without a document, and with nodes below it, is a group of format 2. Nodes that have only format 3 are left
    out.

    Args:
        access: the access to the root.
        may_be_done: whether the root of an earlier migration counts as such a folder, too.

    Raises:
        NodeNotFoundError: there are no such nodes.
    """
    store, options = access.store, internal.HandleOptions(access.settings, "r")
    old = access._replace(store=OldDocumentsStore(store))
    found: dict[str, Array | Group] = {}
    for zarr_format in OLD_FORMATS:
        with suppress(NodeNotFoundError):
            found = found or await source_nodes(old.store, access.settings, zarr_format)
    # A folder counts even if a migration was interrupted there, but not if a copy was.
    may_be_folder = not found and store.supports.listable and await access.scheduled.fetch(JOURNAL_HEADER_KEY) is None
    if (
        may_be_folder
        and (may_be_done or await internal.read_explicit(access) is None)
        and await internal.find_format_below(old) is not None
    ):
        found = await nodes_from(internal.make_group(old.store, "", internal.implicit_group(2), options))
    if not found:
        other = await internal.read_explicit(access)
        raise internal.node_not_found_error(store, "", OLD_FORMATS[0], other)
    return {path: internal.make_node(store, path, node.metadata, options) for path, node in found.items()}


async def _is_migrated(access: internal.NodeAccess, nodes: Mapping[str, Array | Group]) -> bool:
    """Return whether an earlier migration in place is complete: only old documents are left to erase."""
    found = await gather_all(internal.read_explicit(access.sibling(path), NEW_FORMAT) for path in nodes)
    if any(
        new is None
        or isinstance(new, ArrayMetadata) != isinstance(node, Array)
        or (isinstance(new, ArrayMetadata) and new.shape != node.metadata.shape)  # type: ignore[union-attr]
        for new, node in zip(found, nodes.values(), strict=True)
    ):
        return False
    return await access.scheduled.fetch(JOURNAL_KEY) is None


def _planned(
    plan: ConversionPlan,
    nodes: Mapping[str, Array | Group],
    reencoded: Mapping[str, str],
    *,
    is_done: bool,
    erase_old: bool,
) -> tuple[tuple[str, str], ...]:
    """Return the actions of a migration: documents to write and to erase, and arrays to encode again."""
    planned: list[tuple[str, str]] = []
    for path, metadata in () if is_done else plan._nodes.items():
        planned += [("encode", path or ".")] if path in reencoded else []
        planned += [("write", format_rules.key_prefix(path) + key) for key in render_node(metadata)]
    for path, node in nodes.items() if erase_old else ():
        rules = format_rules.rules_of(node.zarr_format)
        kind = rules.array_key if isinstance(node, Array) else rules.group_key
        planned.append(("erase", f"{format_rules.key_prefix(path)}{kind}"))
    return tuple(planned)


async def _check_not_migrated(access: internal.NodeAccess, nodes: Mapping[str, Array | Group]) -> None:
    async def has_new(path: str) -> bool:
        documents = await internal.read_documents(access.sibling(path), format_rules.rules_of(NEW_FORMAT).keys)
        return any(value is not None for value in documents.values())

    found = await gather_all(has_new(path) for path in nodes)
    migrated = [path for path, is_new in zip(nodes, found, strict=True) if is_new]
    if migrated:
        raise NodeExistsError(
            f"{len(migrated)} of {len(nodes)} nodes at {access.url} have documents of format 3 already, the first is "
            f"{migrated[0] or '.'!r}; {argument('resume', True)} continues a migration, and "
            f"{argument('overwrite', True)} replaces these documents",
            url=access.url,
            path=migrated[0],
        )


async def _copy_chunks(
    source: Store, destination: Store, reencoded: Mapping[str, str], settings: Settings
) -> CopyReport:
    """Copy everything but documents, and chunks of the arrays that are encoded again."""
    excluded = [f"{FOLDER}/*", *PROBE_KEYS, *[f"*/{key}" for key in PROBE_KEYS]]
    excluded += [f"{glob.escape(path)}/*" if path else "*" for path in reencoded]
    try:
        return await copy(source, destination, exclude=excluded, overwrite=True, settings=settings)
    except NodeNotFoundError:
        # No array has stored chunks that stay as they are.
        return CopyReport()


async def _erase_old(access: internal.NodeAccess, nodes: Mapping[str, Array | Group]) -> None:
    """Erase the old documents, the root's first, and the old chunks of arrays that were encoded again."""
    for path, node in sorted(nodes.items(), key=lambda item: item[0].count("/") + bool(item[0])):
        at = access.sibling(path)
        rules = format_rules.rules_of(node.zarr_format)
        # Attributes of format 1 are erased first: any file may have their name, so `_erase_remains` does not erase
        # them.
        for key in sorted(rules.keys, key=rules.write_order, reverse=rules.consolidated_key is not None):
            await at.scheduled.erase(at.prefix + key)
    await _erase_remains(access)


async def _erase_remains(access: internal.NodeAccess) -> bool:
    """Erase the old attributes of migrated nodes, and their chunks with old keys.

    Returns: whether there were any, as after an interrupted erasure.
    """
    documents: dict[str, set[str]] = {}
    async for entry in access.scheduled.scan():
        path, _, name = entry.key.rpartition("/")
        if format_rules.document_write_order(name) is not None:
            documents.setdefault(path, set()).add(name)
    migrated = {
        path for path, names in documents.items() if format_rules.V3_KEY in names and not names & _OLD_NODE_KEYS
    }
    remains = [
        access.sibling(path).prefix + name
        for path in migrated
        for name in documents[path] & {format_rules.ATTRIBUTES_KEY, format_rules.ZMETADATA_KEY}
    ]
    was_encoded: dict[str, bool] = {}
    async with aclosing(access.scheduled.scan()) as entries:
        async for entry in entries:
            path = entry.key.rpartition("/")[0]
            while path and path not in documents:
                path = path.rpartition("/")[0]  # chunks of the separator "/" are in folders of their own
            if path not in migrated or not _OLD_CHUNK_KEY.fullmatch(entry.key[len(access.sibling(path).prefix) :]):
                continue
            if path not in was_encoded:
                new = await internal.read_explicit(access.sibling(path), NEW_FORMAT)
                was_encoded[path] = isinstance(new, ArrayMetadata) and new.chunk_key_encoding.name == "default"
            if was_encoded[path]:
                remains.append(entry.key)
    await for_each(access.scheduled.erase, remains)
    return bool(remains)
