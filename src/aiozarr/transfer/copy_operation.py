"""One copy: workers pull the listing, and metadata documents follow when everything below their nodes is copied.

The destination before and after it is in `copy_destination.py`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from aiozarr.common.concurrency import for_each, for_each_of, gather_all, map_concurrently
from aiozarr.common.formatting import argument
from aiozarr.common.progress import Progress
from aiozarr.engine import StartedListing
from aiozarr.engine.copy import CopiedObject, CopyRoute, Download, ObjectCopier
from aiozarr.errors import ChangedError, CopyError, InvalidKeyError, NodeNotFoundError, StoreError
from aiozarr.metadata.format_rules import ancestors
from aiozarr.model import Entry, Value, check_key
from aiozarr.schedule.events import add_operation, network_requests
from aiozarr.stores import BlockingStore
from aiozarr.transfer.copy_destination import CopyDestination
from aiozarr.transfer.copy_rules import (
    CopyRules,
    document_levels,
    is_document,
    is_folder_marker,
    node_of,
)
from aiozarr.transfer.document_changes import DocumentChanges
from aiozarr.transfer.journal import is_journal_key
from aiozarr.transfer.report import CopyCounters, CopyReport

if TYPE_CHECKING:
    from aiozarr.transfer.node_tree import NodeTree

OBJECT_CONCURRENCY = 128
"""Objects that are copied concurrently if the number of requests adapts: twice its initial limit of 64 per store.

Each sends its own requests; more of them would make other readers wait longer.
"""
DEFERRED_CONCURRENCY = 16
MAX_PASSES = 4
"""Passes over a source whose documents change, before that is an error."""
MAX_BATCH_OBJECTS = 64
MAX_UPLOADED_OBJECTS = 8
"""Small files that one worker reads together for uploads; each is a request of its own."""
MAX_BATCH_BYTES = 1 << 20
"""Small files that a worker copies in one call, because for each call a worker waits for the loop once."""


@dataclass(eq=False)
class CopyOperation:
    """One copy between two disjoint stores. Used on the I/O thread only.

    Args:
        copier: copies the objects. Its report counts the requests, and these counts become part of the result.
        rules: which objects are copied, and how.
        progress: called when an object is finished.
        objects: the objects of the source, if its own listing does not have them.
        listing: the listing of the source, if it has begun.
    """

    copier: ObjectCopier
    rules: CopyRules
    _: KW_ONLY
    progress: Callable[[Progress], None] | None = None
    objects: NodeTree | None = None
    listing: StartedListing | None = None

    def __post_init__(self) -> None:
        self._has_source = False
        self._counters = CopyCounters(self.progress, is_dry_run=self.rules.dry_run)
        self._copy_destination = CopyDestination(self.copier, self.rules, self._counters, self.objects)
        most = self.copier.settings.max_requests
        self._concurrency = OBJECT_CONCURRENCY if most == "auto" else 2 * most
        self._incomplete_nodes: set[str] = set()
        self._download: Download | None = None
        self._is_repeat = False
        self._obstructed: list[Entry] = []
        self._is_second_attempt = False
        self._changes = DocumentChanges(self._copy_destination)

    async def run(self) -> CopyReport:
        """Copy everything.

        Raises:
            NodeNotFoundError: the source is empty.
            CopyError: an object could not be copied, the source could not be listed, or the destination holds objects
                that may not be overwritten.
        """
        started = perf_counter()
        try:
            with self.copier.engine.request_limit(self.copier.settings, self.copier.source, self.copier.destination):
                counts = await self._copy_destination.begin()
                try:
                    if counts is None:
                        await self._copy()
                    else:
                        self._counters = counts
                except Exception:
                    await self._copy_destination.journal.flush()
                    raise
                finally:
                    await self._copy_destination.close()
        finally:
            seconds = perf_counter() - started
            add_operation(self.copier.totals, seconds=seconds)
        return self._counters.report(
            seconds=seconds,
            requests=network_requests(self.copier.totals),
            server_side=self.copier.server_side,
        )

    async def _copy(self) -> None:
        documents = await self._copy_data()
        # A misspelled source must not empty the destination of a mirror.
        may_be_none = self.rules.delete and self._has_source
        if self._counters.listed == self._counters.counts["folder_markers"] and not may_be_none:
            url = self.copier.source.url
            message = f"there is nothing to copy at {url}"
            if self.rules.keys.include:
                message = f"nothing at {url} matches {argument('include', self.rules.keys.include)}"
            raise NodeNotFoundError(message, url=url, path="")
        documents = await self._copy_until_settled(documents)
        # Before the documents, so that a reader of the new ones reads no older chunk.
        if self._counters.failed:
            if documents and not self.rules.dry_run:
                await self._copy_destination.delete_misread()
        elif not self.rules.delete:
            await self._copy_destination.delete_extra()
        await self._copy_documents(documents)
        if self.rules.delete and not self._counters.failed:
            await self._copy_destination.delete_extra()
        await self._copy_destination.finish()

    async def _copy_until_settled(self, documents: list[Entry]) -> list[Entry]:
        """Copy what has changed again while documents of the source change. Return the documents.

        Each further pass lists the source after the documents were read, so it finds all chunks that these describe.
        """
        changed: set[str] = set()
        for _ in range(0 if self.rules.dry_run else MAX_PASSES):
            if self._counters.changed:
                self.copier.prefetched.clear()  # they may be older than a changed object
            if not (changed := await self._changes.find(documents)):
                return documents
            await self._copy_destination.begin_again()
            self._is_repeat = True
            # They may be older than the documents that have changed, such as those of groups above these.
            self.copier.prefetched.clear()
            documents = await self._copy_data()
        for entry in [entry for entry in documents if entry.key in changed]:
            self._fail(entry, ChangedError("it changed during every attempt to copy it", store=self.copier.source.url))
            documents.remove(entry)
        return documents

    # --- objects -----------------------------------------------------------------------------------------------------

    async def _copy_data(self) -> list[Entry]:
        """Copy everything but the metadata documents. Return their entries, the only ones that are held in memory."""
        documents: dict[str, Entry] = {}
        listing: AsyncGenerator[Entry, None] | StartedListing
        if self.objects is not None:
            listing = self.objects.entries()
        else:
            listing, self.listing = self.listing or self.copier.scheduled_source.scan(faults=True), None
        download = self._download = self._new_download()
        async with aclosing(listing), aclosing(self._partition(listing, documents)) as data:
            try:
                if download is None:
                    # Batches of uploads together are as many requests as a queue sends at most.
                    is_upload = self.copier.facts.blocks and not self.copier.facts.blocks_writer
                    concurrency = max(1, self._concurrency // (2 if is_upload else 1))
                    await for_each_of(self._copy_batch, data, concurrency=concurrency)
                else:
                    await gather_all([download.run(), self._feed(data, download, documents)])
                    await for_each(self._copy_one, download.deferred, concurrency=DEFERRED_CONCURRENCY)
            except StoreError as error:
                raise CopyError(f"{self.copier.source.url} could not be listed: {error}") from error
        await self._copy_obstructed(self._copy_one)
        return list(documents.values())

    async def _copy_obstructed(self, copy: Callable[[Entry], Awaitable[None]]) -> None:
        """Copy the objects again whose places files or directories of the destination took, after their removal."""
        obstructed, self._obstructed = self._obstructed, []
        await self._copy_destination.clear_places([entry.key for entry in obstructed])
        self._is_second_attempt = True
        await for_each(copy, obstructed)
        self._is_second_attempt = False

    def _new_download(self) -> Download | None:
        facts = self.copier.facts
        is_unseen = not (facts.is_observed or self.rules.dry_run)
        if is_unseen and facts.sends_nowait and facts.blocks_writer:
            return Download(self.copier, self._add_copied, self._fail, self._add_missing)
        return None

    async def _feed(
        self, data: AsyncIterator[tuple[Entry, ...]], download: Download, documents: dict[str, Entry]
    ) -> None:
        await for_each_of(self._copy_batch, data, concurrency=self._concurrency)
        download.close()
        # Behind the requests for the last chunks, so that no further round trip follows these.
        await self.copier.prefetch([entry for entry in documents.values() if entry.key not in self._changes.kept])

    async def _copy_documents(self, documents: list[Entry]) -> None:
        equal = await map_concurrently(self._is_equal, documents)
        documents = [entry for entry, is_equal in zip(documents, equal, strict=True) if not is_equal]
        if documents:
            await self._copy_destination.prepare()
        for level in document_levels(documents):
            ready = [entry for entry in level if node_of(entry.key) not in self._incomplete_nodes]
            await for_each(self._copy_document, ready, concurrency=self._concurrency)
            await self._copy_obstructed(self._copy_document)
            for entry in level:
                if entry not in ready:
                    self._fail(entry, CopyError("not written, because an object below its node was not copied"))

    async def _copy_document(self, entry: Entry) -> None:
        """Copy a document, as it was listed, or as it was when the copied chunks were listed."""
        value = None
        if not self.rules.dry_run:
            try:
                value = await self._changes.edited(entry)
            except StoreError as error:
                self._fail(entry, error)
                return
        if value is not None and self.rules.keys and await self._copy_destination.fetch_stored(entry.key) == value:
            self._add_skipped(entry)
        else:
            await self._copy_one(entry, value=value)

    async def _partition(
        self, listing: AsyncIterator[Entry], documents: dict[str, Entry]
    ) -> AsyncGenerator[tuple[Entry, ...], None]:
        """Yield the entries that are copied at once, in batches, and collect metadata documents in `documents`."""
        batch: list[Entry] = []
        batch_bytes = 0
        most = MAX_BATCH_OBJECTS if isinstance(self.copier.destination, BlockingStore) else MAX_UPLOADED_OBJECTS
        keys, download, changes = self.rules.keys, self._download, self._changes
        destination = self._copy_destination
        journal, mirror = destination.journal, destination.mirror
        changes.begin_pass()
        async for entry in listing:
            key = entry.key
            self._has_source = True
            changes.add_listed(entry)
            if is_journal_key(key) or not (keys.may_match_at(key) if entry.fault else keys.matches(key)):
                continue
            if not self._is_repeat:
                self._counters.add_listed(entry)
            if entry.fault:
                self._fail(entry, StoreError(entry.fault, store=self.copier.source.url, key=key))
                continue
            if is_folder_marker(entry):
                self._counters.add("folder_markers", entry)
                continue
            try:
                # A key such as `../x` must not lead out of the destination.
                check_key(key, store=self.copier.source.url)
            except InvalidKeyError as error:
                self._fail(entry, error)
                continue
            if mirror is not None:
                mirror.add_key(key)
            if is_document(key):
                destination.replaced.add_document(key)
                changes.add_document(entry)
            # Without a version, nothing shows that an object is still the one of the previous pass.
            is_there = journal.take(entry) and (entry.version if self._is_repeat else destination.may_have(entry))
            may_be_equal = self.rules.compares and destination.may_have(entry)
            if is_there or (may_be_equal and self.objects is None and await destination.is_up_to_date(entry)):
                if is_document(key):
                    changes.skipped.append(entry)
                if is_there:
                    destination.record.add(entry)
                self._add_skipped(entry)
            elif may_be_equal and self.objects is not None and not is_document(key):
                # Compared by the workers, because it takes a request.
                yield (entry,)
            elif is_document(key):
                documents[key] = entry
            elif self.rules.dry_run:
                self._counters.add_copied(entry)
            else:
                if not destination.is_prepared:
                    await destination.prepare()
                route = self.copier.route(entry)
                if download is not None and route is CopyRoute.QUEUED:
                    await download.put(entry)
                elif route is CopyRoute.BATCH:
                    batch.append(entry)
                    batch_bytes += entry.size or 0
                    if len(batch) == most or batch_bytes >= MAX_BATCH_BYTES:
                        yield tuple(batch)
                        batch, batch_bytes = [], 0
                else:
                    yield (entry,)
        if batch:
            yield tuple(batch)
        if not self.rules.dry_run:
            await changes.check_listing(documents.values())

    def _add_skipped(self, entry: Entry) -> None:
        if not self._is_repeat:
            self._counters.add("skipped", entry, entry.size or 0)

    async def _copy_batch(self, batch: tuple[Entry, ...]) -> None:
        if len(batch) == 1:
            await self._copy_one(batch[0])
            return
        for entry, outcome in zip(batch, await self.copier.copy_batch(batch), strict=True):
            if outcome is True:
                self._add_copied(entry, entry.size or 0)
            elif isinstance(outcome, Exception):
                self._fail(entry, outcome)
            else:
                await self._copy_one(entry)

    async def _is_equal(self, entry: Entry) -> bool:
        """Return whether the destination has an object of a source without a listing, and count it then."""
        if self.objects is None or not self.rules.compares:
            return False
        is_equal = await self._copy_destination.is_up_to_date(entry, may_read=True)
        if is_equal:
            self._add_skipped(entry)
        return is_equal

    async def _copy_one(self, entry: Entry, value: bytes | None = None) -> None:
        if not is_document(entry.key):
            if await self._is_equal(entry):
                return
            if not self.rules.dry_run:
                await self._copy_destination.prepare()
        if self.rules.dry_run:
            copied: CopiedObject | None = CopiedObject(entry.size or 0)
        else:
            listed = entry
            if value is not None:
                listed = Entry(entry.key, len(value))
                self.copier.prefetched[entry.key] = Value(value, None, len(value))
            try:
                copied = await self.copier.copy(listed, pinned=is_document(entry.key))
            except Exception as error:
                # Any exception of a store, which may be the user's own, is a failure of this object.
                self._fail(entry, error)
                return
        if copied is None:
            self._add_missing(entry)
            return
        is_changed = copied.changed or entry.key in self._changes.later
        is_as_listed = value is None or entry.key in self._changes.confirmed
        self._add_copied(entry, copied.size, is_changed=is_changed, is_recorded=is_as_listed and not is_changed)

    def _add_missing(self, entry: Entry) -> None:
        if self.objects is not None:
            self._counters.add("missing_chunks", entry)
            if self._copy_destination.mirror is not None:
                self._copy_destination.mirror.discard_key(entry.key)
        else:
            self._counters.add("folder_markers", entry)

    def _add_copied(self, entry: Entry, size: int, *, is_changed: bool = False, is_recorded: bool = True) -> None:
        """Count an object that was copied; `is_recorded`: as it was listed."""
        if self._is_repeat:
            self._counters.add_listed(entry)
        self._changes.add_copied(entry.key)
        self._counters.add_copied(entry, size, is_changed=is_changed)
        if is_document(entry.key):
            self._copy_destination.copied_documents.append(entry.key)
        if is_recorded and not self.rules.dry_run:
            self._copy_destination.journal.add(entry)
            self._copy_destination.record.add(entry)

    def _fail(self, entry: Entry, error: Exception) -> None:
        if not self._is_second_attempt and self._copy_destination.is_obstructed(error):
            self._obstructed.append(entry)
            return
        if self.rules.on_error == "raise":
            raise CopyError(
                f"{self.copier.source.url} was not copied to {self.copier.destination.url}: {entry.key!r}: {error}",
                failed=((entry.key, error),),
            ) from error
        self._incomplete_nodes.update(["", *ancestors(entry.key)])
        self._counters.add_failed(entry, error)
