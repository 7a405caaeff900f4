"""One copy: workers pull the listing, and metadata documents follow when everything below their nodes is copied."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from itertools import groupby
from time import perf_counter

from aiozarr.concurrency import gather_all, map_concurrently
from aiozarr.engine import Engine, Progress
from aiozarr.errors import (
    CopyError,
    InvalidKeyError,
    NodeNotFoundError,
    PermissionDeniedError,
    StoreError,
    UnsupportedOperationError,
)
from aiozarr.metadata.format_rules import ARRAY_KEY, GROUP_KEY, META_KEY, V3_KEY, document_write_order
from aiozarr.model import JOURNAL_PREFIX, Entry, Version, check_key
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores import BlockingStore, LocalStore, Store
from aiozarr.stores.capabilities import NowaitStore
from aiozarr.transfer.copy_journal import CopyJournal, is_journal_key, size_hash
from aiozarr.transfer.copy_object import CopiedObject, ObjectCopier, content_tag, equal_bytes, has_content_tag
from aiozarr.transfer.copy_rules import CopyRules, ObjectSource
from aiozarr.transfer.destination import DestinationListing, Mirror
from aiozarr.transfer.download import Download
from aiozarr.transfer.replaced_nodes import DocumentChange, ReplacedNodes, compare_documents
from aiozarr.transfer.report import CopyCounters, CopyReport
from aiozarr.transfer.source_listing import StartedListing, list_objects

OBJECT_CONCURRENCY = 128
"""Objects that are copied concurrently if the number of requests adapts: twice its initial limit of 64 per store.

Each sends its requests by itself; more of them would make other readers wait longer for their turn.
"""
DEFERRED_CONCURRENCY = 16
KIND_KEYS = (V3_KEY, ARRAY_KEY, GROUP_KEY, META_KEY)
"""Documents of all formats that make a node."""
MAX_BATCH_OBJECTS = 64
MAX_UPLOADED_OBJECTS = 8
"""Small files that one worker reads together for uploads; each is a request of its own."""
MAX_BATCH_BYTES = 1 << 20
"""Small files that a worker copies in one call: for each call a worker waits once for the loop."""
MAX_ERASED_KEYS = 1000
"""Keys that are removed together: a bulk delete of S3."""
MAX_COUNTED_OBJECTS = 10_000
"""Objects of the destination that an error message counts: ten pages of a listing."""


class CopyOperation:
    """One copy between two disjoint stores. Lives on the I/O thread.

    Args:
        engine: the engine.
        source: the source.
        destination: the destination.
        rules: what is copied, and how.
        settings: limits and policies.
        report: receives the totals of the requests, which are then those of the result.
        progress: called when an object is finished.
        objects: the objects of the source, if its own listing does not have them.
        listing: the listing of the source, if it has begun.
    """

    def __init__(
        self,
        engine: Engine,
        source: Store,
        destination: Store,
        rules: CopyRules | None = None,
        *,
        settings: Settings,
        report: Report | None = None,
        progress: Callable[[Progress], None] | None = None,
        objects: ObjectSource | None = None,
        listing: StartedListing | None = None,
    ) -> None:
        self.source = source
        self.destination = destination
        self._engine = engine
        self._settings = settings
        self._rules = rules or CopyRules(overwrite=True)
        self._report = report or Report()
        self._has_source = False
        self._counters = CopyCounters(progress, plans=self._rules.dry_run)
        self._objects = objects
        self._listing = listing
        verify = self._rules.verify
        self._copier = ObjectCopier(
            engine,
            source,
            destination,
            verify=verify,
            settings=settings,
            report=self._report,
            may_be_missing=objects is not None,
        )
        self._scheduled_destination = engine.scheduled(destination, settings, self._report)
        description = {"source": source.url, "part": self._rules.part}
        self._journal = CopyJournal(self._scheduled_destination, description) if self._can_have_journal() else None
        self._old_journal: list[str] | None = None
        self._stored_documents: list[str] | None = None
        may_have_others = rules is not None and (rules.may_replace or rules.resume)
        self._mirror = Mirror() if may_have_others and (self._journal is not None or self._rules.compares) else None
        self._replaced = ReplacedNodes(engine.scheduled(source, settings, self._report), settings)
        self._is_complete = False
        self._incomplete_nodes: set[str] = set()
        self._download: Download | None = None

    async def run(self) -> CopyReport:
        """Copy everything.

        Raises:
            NodeNotFoundError: the source is empty.
            CopyError: an object could not be copied, the source could not be listed, or the destination holds objects
                that may not be overwritten.
        """
        started = perf_counter()
        try:
            with self._engine.request_limit(self._settings, self.source, self.destination):
                await self._begin()
                try:
                    if not self._is_complete:
                        await self._copy()
                except Exception:
                    if self._journal is not None:
                        await self._journal.flush()
                    raise
                finally:
                    if self._journal is not None:
                        await self._journal.close()
        finally:
            seconds = perf_counter() - started
            self._report.operation(seconds=seconds)
        return self._counters.report(
            seconds=seconds,
            requests=self._report.requests,
            is_dry_run=self._rules.dry_run,
            server_side=self._copier.server_side,
            rewritten=0 if self._objects is None else self._objects.rewritten,
        )

    async def _copy(self) -> None:
        documents = await self._copy_data()
        # A misspelled source must not empty the destination of a mirror.
        may_be_none = self._rules.delete and self._has_source
        if self._counters.listed == self._counters.folder_markers and not may_be_none:
            url = self.source.url
            message = f"there is nothing to copy at {url}"
            if self._rules.keys.include:
                message = f"nothing at {url} matches include={', '.join(map(repr, self._rules.keys.include))}"
            raise NodeNotFoundError(message, url=url, path="")
        mirror = None if self._counters.failed else self._mirror
        if mirror is not None and not self._rules.delete:
            # Before the documents: a reader of the new ones reads no older chunk.
            await self._delete_extra(mirror)
        await self._copy_documents(documents)
        if mirror is not None and self._rules.delete and not self._counters.failed:
            await self._delete_extra(mirror)
        if self._journal is not None and not self._rules.dry_run:
            await (self._journal.flush() if self._counters.failed else self._journal.remove())
        if self._rules.resume and isinstance(self.destination, LocalStore) and not self._rules.dry_run:
            # Those of a process that was killed just before this one began were too new then.
            await self.destination.sweep(None)

    # --- the destination ---------------------------------------------------------------------------------------------

    def _can_have_journal(self) -> bool:
        supports = self.destination.supports
        return bool(self._rules.is_journaled and supports.readable and supports.writeable and supports.listable)

    async def _begin(self) -> None:
        """Look at the destination, and begin or continue the journal.

        Raises:
            CopyError: the destination holds objects that may not be overwritten.
        """
        rules = self._rules
        if rules.resume and self._journal is None:
            raise UnsupportedOperationError(
                "resume=True needs a destination that can be listed and erased", store=self.destination.url
            )
        if (rules.resume or rules.compares) and isinstance(self.destination, LocalStore) and not rules.dry_run:
            await self.destination.sweep(None)
        found = await self._look_at_destination()
        if not (found.count or rules.compares):
            self._mirror = None  # there is nothing to remove
        if self._journal is None or self._is_complete:
            return
        if found.journal_keys and rules.resume:
            await self._journal.resume(found.journal_keys, found.size_hashes)
        else:
            self._old_journal = found.journal_keys

    async def _before_writing(self) -> None:
        """Store the header of a new journal, before the first object."""
        if self._journal is not None and self._old_journal is not None and not self._rules.dry_run:
            old, self._old_journal = self._old_journal, None
            try:
                await self._journal.begin(old)
                if self._rules.may_replace:
                    await self._withdraw_documents()
            except StoreError as error:
                raise CopyError(f"{self.destination.url} could not be written: {error}") from error

    async def _withdraw_documents(self) -> None:
        """Remove documents by which new chunks would be read wrongly: an interrupted copy must not look complete.

        Chunks of such arrays are removed, too: local files of theirs may have the names of new directories.
        """
        source = self._engine.scheduled(self.source, self._settings, self._report)
        limit = self._settings.max_metadata_bytes

        async def compare(key: str) -> DocumentChange:
            stored = await self._scheduled_destination.fetch(key, max_bytes=limit)
            if stored is None:
                return DocumentChange()
            copied = await source.fetch(key, max_bytes=limit)
            if copied is None:
                prefix = f"{node_of(key)}/" if node_of(key) else ""
                others = await map_concurrently(lambda name: source.fetch(prefix + name, max_bytes=limit), KIND_KEYS)
                if not any(other is not None for other in others):
                    return DocumentChange()  # another node
            return compare_documents(stored.data, None if copied is None else copied.data)

        documents = self._stored_documents
        try:
            if documents is None:
                async with aclosing(self._list_destination("")) as entries:
                    documents = [entry.key async for entry in entries if is_node_document(entry.key)]
            documents = [key for key in documents if self._rules.keys.matches(key)]
            found = zip(documents, await map_concurrently(compare, documents), strict=True)
        except PermissionDeniedError:
            # Credentials that may only write cannot see what they replace.
            return
        changes = {key: change for key, change in found if change.misreads_chunks}
        if changes:
            await self._scheduled_destination.erase_values(list(changes))
            self._counters.add_deleted([key for key, change in changes.items() if change.is_removed])
        for key, change in changes.items():
            if change.was_array and not change.is_removed and key.endswith(V3_KEY) and not self._rules.keys:
                await self._scheduled_destination.erase_prefix(key.removesuffix(V3_KEY) + "c/")

    async def _look_at_destination(self) -> DestinationListing:
        """List the destination, as far as the rules need it.

        Raises:
            CopyError: it holds objects that may not be overwritten.
        """
        rules, found = self._rules, DestinationListing()
        may_replace = rules.may_replace
        if not self.destination.supports.listable or (may_replace and self._journal is None and not rules.compares):
            return found
        # A resumed copy and a mirror look at all objects, an overwritten destination is asked for an old journal.
        looks_at_all = not may_replace or rules.resume or rules.compares
        prefix = "" if looks_at_all else JOURNAL_PREFIX
        documents: list[str] = []
        try:
            async with aclosing(self._list_destination(prefix)) as entries:
                async for entry in entries:
                    found.add(entry)
                    if is_node_document(entry.key):
                        documents.append(entry.key)
                    if rules.resume:
                        # Metadata do not have the sizes of chunks.
                        known = entry if self._objects is None else Entry(entry.key, None)
                        found.size_hashes.add(size_hash(known))
                    if self._mirror is not None and rules.compares:
                        self._mirror.add_stored(entry)
                    if not rules.resume and not rules.compares and found.count == MAX_COUNTED_OBJECTS:
                        break
            if looks_at_all:
                self._stored_documents = documents
            else:
                async with aclosing(self._list_destination("")) as entries:
                    async for entry in entries:
                        if not is_journal_key(entry.key):
                            found.add(entry)
                            break
        except PermissionDeniedError:
            # Credentials that may only write cannot check it.
            return found
        if found.count and not may_replace and not (rules.resume and found.journal_keys):
            if rules.resume and await self._has_all():
                self._is_complete = True
                return found
            raise CopyError(self._occupied_message(found))
        return found

    async def _has_all(self) -> bool:
        """Return whether the destination has all objects of the source: of a complete copy. Count them as skipped."""
        if self._objects is not None:
            return False
        mirror, counters = Mirror(), CopyCounters(None)
        async with aclosing(self._list_destination("")) as stored:
            async for entry in stored:
                mirror.add_stored(entry)
        async with aclosing(self._list_source()) as listing:
            async for entry in listing:
                if is_journal_key(entry.key) or is_folder_marker(entry) or not self._rules.keys.matches(entry.key):
                    continue
                if not (mirror.may_have(entry) and await self._is_up_to_date(mirror, entry)):
                    return False
                counters.add_listed(entry)
                counters.add_skipped(entry)
        self._counters = counters
        return bool(counters.listed)

    def _occupied_message(self, found: DestinationListing) -> str:
        count = found.count
        is_exact = count < MAX_COUNTED_OBJECTS or self._rules.resume
        number = f"{'' if is_exact else 'at least '}{count:,} object{'' if count == 1 else 's'}"
        message = f"{self.destination.url} holds {number}, among them {found.first!r}; "
        if found.journal_keys:
            return message + "they are of an interrupted copy: resume=True continues it, overwrite=True begins anew"
        if self._rules.resume:
            message += "there is no journal of an interrupted copy, so resume=True cannot continue one; "
        return message + "overwrite=True replaces objects of the same key and keeps the others"

    def _list_destination(self, prefix: str) -> AsyncGenerator[Entry, None]:
        url = self.destination.url
        return list_objects(lambda: self._scheduled_destination.scan(prefix), settings=self._settings, store_url=url)

    def _list_source(self) -> AsyncGenerator[Entry, None]:
        scheduled = self._engine.scheduled(self.source, self._settings, self._report)
        return list_objects(scheduled.scan, settings=self._settings, store_url=self.source.url)

    async def _delete_extra(self, mirror: Mirror) -> None:
        """Remove objects of the destination that the source does not have: documents of a page first.

        Unless the copy deletes all of them, they are those of copied nodes: chunks that would be read with the new
        documents, and documents that would take precedence.
        """
        batch: list[str] = []
        async with aclosing(self._list_destination("")) as entries:
            async for entry in entries:
                key = entry.key
                if is_journal_key(key) or key in mirror or not self._rules.keys.matches(key):
                    continue
                if not (self._rules.delete or await self._replaced.has(key)):
                    continue
                batch.append(key)
                if len(batch) == MAX_ERASED_KEYS:
                    await self._erase(batch)
                    batch = []
        await self._erase(batch)

    async def _erase(self, keys: list[str]) -> None:
        self._counters.add_deleted(keys)
        if keys and not self._rules.dry_run:
            for part in (list(filter(is_document, keys)), [key for key in keys if not is_document(key)]):
                if part:
                    try:
                        await self._scheduled_destination.erase_values(part)
                    except StoreError as error:
                        raise CopyError(f"{self.destination.url} still holds objects to delete: {error}") from error

    # --- objects -----------------------------------------------------------------------------------------------------

    async def _copy_data(self) -> list[Entry]:
        """Copy everything but the metadata documents. Return their entries, the only ones that are held in memory."""
        documents: dict[str, Entry] = {}
        listing = self._objects.entries() if self._objects is not None else self._listing or self._list_source()
        download = self._download = self._new_download()
        async with aclosing(listing), aclosing(self._partition(listing, documents)) as data:
            try:
                if download is None:
                    is_upload = isinstance(self.source, BlockingStore) and not isinstance(
                        self.destination, BlockingStore
                    )
                    # Batches of uploads together are as many requests as a queue sends at most.
                    concurrency = self._object_concurrency() // (2 if is_upload else 1)
                    await self._copy_all(data, max(1, concurrency))
                else:
                    await gather_all([download.run(), self._feed(data, download, documents)])
                    async with aclosing(_iterate(download.deferred)) as deferred:
                        await self._copy_all(deferred, DEFERRED_CONCURRENCY)
            except StoreError as error:
                raise CopyError(f"{self.source.url} could not be listed: {error}") from error
        return list(documents.values())

    def _new_download(self) -> Download | None:
        source, destination = self.source, self.destination
        if (
            isinstance(source, NowaitStore)
            and isinstance(destination, BlockingStore)
            and self._settings.on_event is None  # Events need one request at a time.
            and not self._rules.dry_run
        ):
            return Download(
                self._engine,
                source,
                destination,
                verify=self._rules.verify,
                settings=self._settings,
                report=self._report,
                on_copied=self._add_copied,
                on_failed=self._fail,
                on_missing=None if self._objects is None else self._add_missing,
            )
        return None

    async def _feed(
        self, data: AsyncIterator[tuple[Entry, ...]], download: Download, documents: dict[str, Entry]
    ) -> None:
        await self._copy_all(data, self._object_concurrency())
        download.close()
        # Behind the requests for the last chunks, so that no further round trip follows these.
        await self._copier.prefetch(documents.values())

    async def _copy_documents(self, documents: list[Entry]) -> None:
        if documents:
            await self._before_writing()
        if self._download is None and not self._rules.dry_run and len(documents) > 1:
            # At once, and not level by level.
            await self._copier.prefetch(documents)
        for level in document_levels(documents):
            ready = [entry for entry in level if node_of(entry.key) not in self._incomplete_nodes]
            async with aclosing(_iterate(ready)) as batches:
                await self._copy_all(batches, min(len(ready), self._object_concurrency()))
            for entry in level:
                if entry not in ready:
                    self._fail(entry, CopyError("not written, because something below its node was not copied"))

    async def _partition(
        self, listing: AsyncIterator[Entry], documents: dict[str, Entry]
    ) -> AsyncGenerator[tuple[Entry, ...], None]:
        """Yield the entries that are copied at once, in batches, and collect metadata documents in `documents`."""
        batch: list[Entry] = []
        batch_bytes = 0
        most = MAX_BATCH_OBJECTS if isinstance(self.destination, BlockingStore) else MAX_UPLOADED_OBJECTS
        keys, journal, mirror, download = self._rules.keys, self._journal, self._mirror, self._download
        async for entry in listing:
            key = entry.key
            self._has_source = True
            if is_journal_key(key) or (keys and not keys.matches(key)):
                continue
            self._counters.add_listed(entry)
            if is_folder_marker(entry):
                self._counters.add_folder_marker(entry)
                continue
            try:
                # A key such as `../x` must not lead out of the destination.
                check_key(key, store=self.source.url)
            except InvalidKeyError as error:
                self._fail(entry, error)
                continue
            if mirror is not None:
                mirror.add_key(key)
                if is_document(key):
                    self._replaced.add_document(key)
            is_there = journal is not None and journal.take(entry)
            if is_there or (mirror is not None and mirror.may_have(entry) and await self._is_up_to_date(mirror, entry)):
                self._counters.add_skipped(entry)
            elif is_document(key):
                documents[key] = entry
            elif self._rules.dry_run:
                self._counters.add_copied(entry, entry.size or 0, is_changed=False, is_document=False)
            else:
                if self._old_journal is not None:
                    await self._before_writing()
                if download is not None and download.accepts(entry):
                    await download.put(entry)
                elif self._copier.accepts_batch(entry):
                    batch.append(entry)
                    batch_bytes += entry.size or 0
                    if len(batch) == most or batch_bytes >= MAX_BATCH_BYTES:
                        yield tuple(batch)
                        batch, batch_bytes = [], 0
                else:
                    yield (entry,)
        if batch:
            yield tuple(batch)

    async def _is_up_to_date(self, mirror: Mirror, entry: Entry) -> bool:
        """Return whether the destination has the bytes of an object: by their MD5, or by comparing local ones."""
        if mirror.is_stored(entry):
            return True
        source, destination, version = self.source, self.destination, entry.version
        read_source = source.fetch_now if isinstance(source, BlockingStore) else None
        read_stored = destination.fetch_now if isinstance(destination, BlockingStore) else None
        size = entry.size or 0

        def compare() -> bool:
            stored = None if read_stored is None else read_stored(entry.key)
            if read_source is None:
                assert version is not None
                return stored is not None and version.etag == content_tag(stored.data)
            value = read_source(entry.key)
            if value is None or memoryview(value.data).nbytes != size:
                return False
            if read_stored is None:
                return mirror.is_stored(Entry(entry.key, size, Version(content_tag(value.data))))
            return stored is not None and equal_bytes(stored.data, value.data)

        if read_source is None and (read_stored is None or version is None or not has_content_tag(version)):
            return False
        try:
            return await self._engine.run_in_worker(compare, size)
        except StoreError:
            return False  # copying it shows what is wrong

    async def _copy_all(self, batches: AsyncIterator[tuple[Entry, ...]], concurrency: int) -> None:
        """Copy all entries; workers pull batches of them."""
        lock = asyncio.Lock()

        async def pull() -> tuple[Entry, ...] | None:
            async with lock:
                return await anext(batches, None)

        async def work() -> None:
            while (batch := await pull()) is not None:
                if len(batch) == 1:
                    await self._copy_one(batch[0])
                else:
                    await self._copy_batch(batch)

        await gather_all(work() for _ in range(concurrency))

    async def _copy_batch(self, batch: tuple[Entry, ...]) -> None:
        for entry, outcome in zip(batch, await self._copier.copy_batch(batch), strict=True):
            if outcome is True:
                self._add_copied(entry, entry.size or 0)
            elif outcome is False:
                await self._copy_one(entry)
            elif isinstance(outcome, Exception):
                self._fail(entry, outcome)
            else:
                raise outcome

    async def _copy_one(self, entry: Entry) -> None:
        if self._rules.dry_run:
            copied: CopiedObject | None = CopiedObject(entry.size or 0)
        else:
            try:
                copied = await self._copier.copy(entry)
            except Exception as error:
                # Any exception of a store, also of one that is not ours, is a failure of this object.
                self._fail(entry, error)
                return
        if copied is None:
            self._add_missing(entry)
            return
        document = is_document(entry.key)
        self._counters.add_copied(entry, copied.size, is_changed=copied.changed, is_document=document)
        if self._journal is not None and not copied.changed and not self._rules.dry_run:
            self._journal.add(entry)

    def _add_missing(self, entry: Entry) -> None:
        if self._objects is not None:
            self._counters.add_missing_chunk(entry)
            if self._mirror is not None:
                self._mirror.discard_key(entry.key)
        else:
            self._counters.add_folder_marker(entry)

    def _add_copied(self, entry: Entry, size: int) -> None:
        """Count an object that was copied as it was listed."""
        self._counters.add_copied(entry, size, is_changed=False, is_document=False)
        if self._journal is not None:
            self._journal.add(entry)

    def _fail(self, entry: Entry, error: Exception) -> None:
        if self._rules.on_error == "raise":
            raise CopyError(
                f"{self.source.url} was not copied to {self.destination.url}: {entry.key!r}: {error}",
                failed=((entry.key, error),),
            ) from error
        self._incomplete_nodes.update(paths_above(entry.key))
        self._counters.add_failed(entry, error)

    def _object_concurrency(self) -> int:
        return OBJECT_CONCURRENCY if self._settings.max_requests == "auto" else 2 * self._settings.max_requests


def is_document(key: str) -> bool:
    """Return whether `key` is that of a metadata document of any format."""
    return document_write_order(key) is not None


def is_node_document(key: str) -> bool:
    """Return whether `key` is that of a document that says how chunks are decoded."""
    return key.rpartition("/")[2] in (V3_KEY, ARRAY_KEY, META_KEY)


def is_folder_marker(entry: Entry) -> bool:
    """Return whether `entry` is an empty object that a tool made to show a folder, such as `a/b/`."""
    return entry.key.endswith("/") and not entry.size


def node_of(key: str) -> str:
    """Return the path of the node that the metadata document `key` belongs to; `""` is the root."""
    return key.rpartition("/")[0]


def paths_above(key: str) -> Iterator[str]:
    """Iterate over the paths of all nodes above `key`, the root last."""
    path = key
    while path := path.rpartition("/")[0]:
        yield path
    yield ""


def document_levels(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Iterate over metadata documents in groups, each of which may be stored after the previous ones.

    The deepest nodes come first and the root last: a reader that sees a node sees everything below it.
    """
    for _, level in groupby(sorted(entries, key=_storing_order), key=_storing_order):
        yield list(level)


def _storing_order(entry: Entry) -> tuple[int, int]:
    return -entry.key.count("/"), document_write_order(entry.key) or 0


async def _iterate(entries: Iterable[Entry]) -> AsyncGenerator[tuple[Entry, ...], None]:
    """Yield each entry as a batch of its own."""
    for entry in entries:
        yield (entry,)
