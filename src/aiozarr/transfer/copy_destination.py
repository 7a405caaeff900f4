"""The destination of one copy: its listing before, its preparation for the first object, and removals at the end."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Collection, Coroutine, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from aiozarr.common.concurrency import for_each_of, gather_all, map_concurrently
from aiozarr.common.formatting import argument
from aiozarr.engine.copy import ObjectCopier, content_tag, equal_bytes, has_content_tag, have_equal_bytes
from aiozarr.errors import CopyError, PermissionDeniedError, StoreError, UnsupportedOperationError
from aiozarr.metadata.format_rules import ARRAY_KEY, GROUP_KEY, META_KEY, V3_KEY, ZMETADATA_KEY, ancestors, key_prefix
from aiozarr.model import JOURNAL_PREFIX, UPLOAD_RECORD_PREFIX, Entry, Version
from aiozarr.stores import BlockingStore, LocalStore
from aiozarr.stores.blocking import in_thread
from aiozarr.transfer.copy_rules import (
    CopyRules,
    is_document,
    is_folder_marker,
    is_node_document,
    node_of,
)
from aiozarr.transfer.journal import HEADER_KEY, CopyJournal, Mirror, is_journal_key
from aiozarr.transfer.replaced_nodes import (
    DocumentChange,
    ReplacedNodes,
    compare_documents,
    edit_consolidated,
    has_consolidated_above,
)
from aiozarr.transfer.report import CopyCounters
from aiozarr.transfer.sync_record import RECORD_KEY, SyncRecord

if TYPE_CHECKING:
    from aiozarr.hierarchy.internal import ConsolidatedAncestors
    from aiozarr.transfer.node_tree import NodeTree

KIND_KEYS = (V3_KEY, ARRAY_KEY, GROUP_KEY, META_KEY)
"""Documents of all formats that make a node."""
MAX_ERASED_KEYS = 1000
"""Keys that are removed together: a bulk delete of S3."""
COMPARE_CONCURRENCY = 32
"""Objects that are compared concurrently by reading both sides."""
MAX_COUNTED_OBJECTS = 10_000
"""Objects of the destination that an error message counts: ten pages of a listing."""


class _DifferentError(Exception):
    """The destination lacks an object of the source, or has another one in its place."""


@dataclass
class DestinationListing:
    """The objects that a destination holds before a copy.

    Attributes:
        count: number of objects, without those of a journal.
        first: the key of the first of them.
        journal_keys: keys of the journal of an interrupted copy.
        is_allowed: False if the credentials may not list the destination.
    """

    count: int = 0
    first: str = ""
    journal_keys: list[str] = field(default_factory=list)
    is_allowed: bool = True

    def add(self, entry: Entry) -> None:
        """Count an object."""
        if not is_journal_key(entry.key):
            self.count += 1
            self.first = self.first or entry.key
        elif entry.key.startswith(JOURNAL_PREFIX) and not entry.key.startswith((UPLOAD_RECORD_PREFIX, RECORD_KEY)):
            self.journal_keys.append(entry.key)


@dataclass(eq=False)
class CopyDestination:
    """The destination of one copy. Used on the I/O thread only.

    Args:
        copier: copies the objects, between the same stores.
        rules: which objects are copied, and how.
        counters: count removed objects.
        objects: the objects of a source that is not listed, derived from metadata, without sizes and versions.

    Attributes:
        journal: the records of copied objects.
        is_prepared: False until `prepare` has stored what must be there before the first object.
        mirror: compares the destination with the source; None if nothing is skipped or removed.
        replaced: the nodes of the source.
        record: the states of objects that an earlier copy has found, or made, equal.
        copied_documents: the keys of documents that were copied.
    """

    copier: ObjectCopier
    rules: CopyRules
    counters: CopyCounters
    objects: NodeTree | None

    def __post_init__(self) -> None:
        rules, self._store = self.rules, self.copier.destination
        self.source, self.destination = self.copier.scheduled_source, self.copier.scheduled_destination
        self._preparation = asyncio.Lock()
        # The documents of nodes, and whether they are behind a link; None if they were not listed.
        self._stored_documents: dict[str, bool] | None = None
        # The paths of arrays whose documents were removed, because new chunks would be misread with them.
        self._withdrawn: set[str] = set()
        supports = self._store.supports
        is_kept = bool(supports.readable and supports.writable and supports.listable)
        self.journal = CopyJournal(self.destination, self.source.store.url, is_kept=is_kept)
        self.is_prepared = True
        self._old_journal: list[str] | None = None
        is_recorded = is_kept and rules.compares and self.objects is None
        self.record = SyncRecord(self.copier.source, self.destination, is_kept=is_recorded)
        has_mirror = rules.compares or (self.journal.is_kept and (rules.may_replace or rules.resume))
        self.mirror = Mirror() if has_mirror else None
        self.replaced = ReplacedNodes(self.source)
        self.copied_documents: list[str] = []
        self._has_consolidated_above = False
        self._ancestors: ConsolidatedAncestors | None = None

    # --- before the first object -------------------------------------------------------------------------------------

    async def begin(self) -> CopyCounters | None:
        """List the destination, and begin or continue the journal.

        Returns: the counts of the copy if it is complete already; None if objects are to be copied.

        Raises:
            CopyError: the destination holds objects that may not be overwritten.
        """
        if self.rules.dry_run:
            return await self._begin()
        coroutines: list[Coroutine[Any, Any, Any]] = [
            self._begin(),
            has_consolidated_above(self.copier.engine, self._store, self.destination.settings, self.copier.report),
        ]
        counts: CopyCounters | None
        counts, is_above = await gather_all(coroutines)
        if counts is None and (is_above or self.journal.invalidated):
            self._has_consolidated_above, self.is_prepared = True, False
        return counts

    async def _begin(self) -> CopyCounters | None:
        rules = self.rules
        if rules.resume and not self.journal.is_kept:
            raise UnsupportedOperationError(
                f"{argument('resume', True)} needs a destination that can list and erase", store=self._store.url
            )
        if (rules.resume or rules.compares) and isinstance(self._store, LocalStore) and not rules.dry_run:
            await self._store._sweep(None)
        found = await self._look()
        if not (found.count or rules.compares):
            self.mirror = None  # there is nothing to remove
        is_occupied = found.count > 0 and found.is_allowed and not rules.may_replace
        if is_occupied and not (rules.resume and found.journal_keys):
            counts = await self._counts_if_complete() if rules.resume else None
            if counts is None:
                raise CopyError(self._occupied_message(found))
            return counts
        if not self.journal.is_kept:
            return None
        if found.journal_keys and rules.resume:
            await self.journal.resume(found.journal_keys)
        else:
            self._old_journal = found.journal_keys
            if HEADER_KEY in found.journal_keys:
                await self.journal.read_header()
        self.is_prepared = rules.dry_run
        return None

    async def _look(self) -> DestinationListing:
        """List the destination, as far as the rules need it."""
        rules, found = self.rules, DestinationListing()
        may_replace = rules.may_replace
        if not self._store.supports.listable or (may_replace and not self.journal.is_kept and not rules.compares):
            return found
        # A resumed copy and a mirror need all objects; an overwritten destination is searched for an old journal.
        looks_at_all = not may_replace or rules.resume or rules.compares
        prefix = "" if looks_at_all else JOURNAL_PREFIX
        documents: dict[str, bool] = {}
        if isinstance(self._store, BlockingStore):
            await self.record.load()
        try:
            async with aclosing(self.destination.scan(prefix)) as entries:
                async for entry in entries:
                    found.add(entry)
                    if entry.key == RECORD_KEY and not isinstance(self._store, BlockingStore):
                        await self.record.load()  # servers list it before the keys of nodes
                    self.record.add_stored(entry)
                    if is_node_document(entry.key):
                        documents[entry.key] = entry.below_link > 0
                    if self.mirror is not None:
                        # Metadata do not have the sizes of chunks.
                        self.mirror.add_stored(entry if self.objects is None else Entry(entry.key, None))
                    if not rules.resume and not rules.compares and found.count == MAX_COUNTED_OBJECTS:
                        break
            if looks_at_all:
                self._stored_documents = documents
            else:
                async with aclosing(self.destination.scan()) as entries:
                    async for entry in entries:
                        if not is_journal_key(entry.key):
                            found.add(entry)
                            break
        except PermissionDeniedError:
            # Credentials that may only write cannot check it.
            found.is_allowed = False
        is_tree = bool(found.journal_keys) or not all(documents.values())
        if rules.delete and found.count and not is_tree:
            raise CopyError(
                f"{self._store.url} contains {found.count:,} objects, such as {found.first!r}, but no Zarr node; "
                f"{argument('delete', True)} would remove objects that are not copies; empty the destination "
                "first if it is the right one"
            )
        return found

    async def _counts_if_complete(self) -> CopyCounters | None:
        """Return the counts of a copy that skips everything; None if the destination lacks an object of the source."""
        counters = CopyCounters()

        async def compare(entry: Entry) -> None:
            if entry.fault and self.rules.keys.may_match_at(entry.key):
                raise _DifferentError
            if is_journal_key(entry.key) or is_folder_marker(entry) or not self.rules.keys.matches(entry.key):
                return
            # Consolidated metadata of a filtered copy name only the copied nodes.
            is_edited = self.rules.keys and is_document(entry.key) and await self.fetch_stored(entry.key) is not None
            if is_edited or self.may_have(entry):
                if not (is_edited or await self.is_up_to_date(entry, may_read=True)):
                    raise _DifferentError
                counters.add_listed(entry)
                counters.add("skipped", entry, entry.size or 0)
            elif self.objects is None or await self.source.stat(entry.key) is not None:
                raise _DifferentError

        async with aclosing(
            self.source.scan(faults=True) if self.objects is None else self.objects.entries()
        ) as entries:
            try:
                await for_each_of(compare, entries, concurrency=COMPARE_CONCURRENCY)
            except _DifferentError:
                return None
        return counters if counters.listed else None

    def may_have(self, entry: Entry) -> bool:
        """Return whether the destination had an object of equal key and size before the copy."""
        return self.mirror is not None and self.mirror.may_have(entry)

    async def is_up_to_date(self, entry: Entry, *, may_read: bool = False) -> bool:
        """Return whether the destination has an object: by MD5 or size, by the record, or by comparing local bytes.

        With `may_read`, objects that these do not show to be equal are read from both sides.
        """
        mirror = self.mirror
        if mirror is None or not mirror.may_have(entry):
            return False
        if self.rules.size_only and entry.size is not None and not is_document(entry.key):
            return True
        if mirror.is_stored(entry) or self.record.has(entry):
            return True
        source, destination, version = self.source.store, self._store, entry.version
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

        is_equal, is_tagged = False, version is not None and has_content_tag(version)
        if read_source is not None or (read_stored is not None and is_tagged):
            with suppress(StoreError):  # copying it shows what is wrong
                is_equal = await self.copier.engine.run_in_worker(compare, size)
        either = Entry(entry.key, None)
        return is_equal or (may_read and await have_equal_bytes(self.source, either, self.destination, either))

    def _occupied_message(self, found: DestinationListing) -> str:
        count = found.count
        is_exact = count < MAX_COUNTED_OBJECTS or self.rules.resume
        number = f"{'' if is_exact else 'at least '}{count:,} object{'' if count == 1 else 's'}"
        resume, overwrite = argument("resume", True), argument("overwrite", True)
        message = f"{self._store.url} already contains {number}, such as {found.first!r}; "
        if found.journal_keys:
            return message + f"an interrupted copy stored them; {resume} continues it, and {overwrite} starts over"
        if self.rules.resume:
            message += f"there is no journal of an interrupted copy, so {resume} cannot continue one; "
        return message + f"{overwrite} replaces objects with the same key and keeps all others"

    async def prepare(self) -> None:
        """Prepare the first object: store a new journal's header, invalidate consolidated metadata, withdraw documents.

        Later calls do nothing.
        """
        async with self._preparation:
            if not self.is_prepared:
                await self._prepare()
                self.is_prepared = True

    async def _prepare(self) -> None:
        try:
            if self._old_journal is not None:
                await self.journal.begin(self._old_journal)
            if self._has_consolidated_above:
                await self._invalidate_consolidated()
            await self._withdraw_documents()
        except StoreError as error:
            raise CopyError(f"{self._store.url} could not be written: {error}") from error

    async def _invalidate_consolidated(self) -> None:
        # Imported here, in a thread, because other copies need no numpy.
        await in_thread(lambda: import_module("aiozarr.hierarchy.internal"))
        from aiozarr.hierarchy.internal import ConsolidatedAncestors, NodeAccess

        self._ancestors = ConsolidatedAncestors(
            NodeAccess(self.copier.engine, self._store, "", self.destination.settings, self.copier.report)
        )
        await self._ancestors.invalidate(self.journal.invalidated, self.journal.record_invalidated)

    async def _withdraw_documents(self) -> None:
        """Remove documents by which new chunks would be misread, so that an interrupted copy does not look complete.

        Chunks of such arrays are removed, too, because local files may have the names of new directories. They stay if
        the journal may name some of them as copied, or if the copy keeps those that are equal to the source's.
        """
        # Also for a resumed copy, because the interrupted one may have stored no more than the header.
        if not self.journal.is_kept or not (self.rules.may_replace or self.rules.resume):
            return
        source, limit = self.source, self.destination.settings.max_metadata_bytes

        async def compare(key: str) -> DocumentChange:
            stored = await self.destination.fetch(key, max_bytes=limit)
            if stored is None:
                return DocumentChange()
            copied = await source.fetch(key, max_bytes=limit)
            if copied is None:
                prefix = key_prefix(node_of(key))
                others = await map_concurrently(lambda name: source.fetch(prefix + name, max_bytes=limit), KIND_KEYS)
                if not any(other is not None for other in others):
                    return DocumentChange()  # another node
            return compare_documents(stored.data, None if copied is None else copied.data)

        documents = self._stored_documents
        try:
            if documents is None:
                async with aclosing(self.destination.scan()) as entries:
                    documents = {
                        entry.key: entry.below_link > 0 async for entry in entries if is_node_document(entry.key)
                    }
            matching = [key for key in documents if self.rules.keys.matches(key)]
            found = zip(matching, await map_concurrently(compare, matching), strict=True)
        except PermissionDeniedError:
            # Credentials that may only write cannot see what they replace.
            return
        changes = {key: change for key, change in found if change.misreads_chunks}
        if changes:
            from aiozarr.hierarchy.internal import erasures  # most copies need nothing of the hierarchy

            await self.destination.erase_values([key for key in changes if not documents[key]])
            for key, change in changes.items():
                if documents[key]:
                    await self.destination.erase(key)
                erasures.record(self._store, node_of(key))
                if change.was_array:
                    self.replaced.add_former_array(node_of(key))
                    self._withdrawn.add(node_of(key))
            await self._forget_consolidated(changes)
            self.counters.add_deleted([key for key, change in changes.items() if change.is_removed])
        if self.journal.has_records or self.rules.compares:
            return
        for key, change in changes.items():
            is_erasable = not (change.is_removed or self.rules.keys or documents[key])
            if is_erasable and change.was_array and key.endswith(V3_KEY):
                await self.destination.erase_prefix(key.removesuffix(V3_KEY) + "c/")

    async def _forget_consolidated(self, removed: Collection[str]) -> None:
        """Remove nodes without their documents from consolidated metadata inside the destination."""

        async def member_of(key: str, member: Any) -> Any:
            return None if key in removed else member

        paths = {path for key in removed for path in ancestors(node_of(key))}
        for key in [key_prefix(path) + name for path in sorted(paths) for name in (V3_KEY, ZMETADATA_KEY)]:
            stored = await self.destination.fetch(key)
            prefix = key_prefix(node_of(key))
            edited = None if stored is None else await edit_consolidated(bytes(stored.data), prefix, member_of)
            if edited is not None:
                await self.destination.set(key, edited)

    async def begin_again(self) -> None:
        """Prepare another pass over the source, which has changed."""
        await self.journal.restart()
        if self._store.supports.listable:
            self.mirror = self.mirror or Mirror()  # an object of the previous pass may have to be removed
            self.mirror.forget_keys()
        self.replaced = ReplacedNodes(self.source)
        if self.is_prepared:
            await self._withdraw_documents()

    async def fetch_stored(self, key: str) -> bytes | None:
        """Return the object that the destination had before the copy, or None."""
        if not (self.rules.may_replace or self.rules.resume) or not self._store.supports.readable:
            return None
        stored = await self.destination.fetch(key)
        return None if stored is None else bytes(stored.data)

    # --- files in the places of directories ---------------------------------------------------------------------------

    def is_obstructed(self, error: Exception) -> bool:
        """Return whether an object was not stored because a directory has its name, or a file that of its directory."""
        cause = error.__cause__
        is_name = isinstance(cause, OSError) and cause.errno in (errno.EISDIR, errno.ENOTDIR)
        return is_name and self.mirror is not None

    async def clear_places(self, keys: Iterable[str]) -> None:
        """Remove files above objects, and objects below them, if the copy replaces or mirrors what these belong to."""
        for key in keys:
            obstacles = [entry async for entry in self.destination.scan(f"{key}/", faults=True)]
            above = await map_concurrently(self.destination.stat, ancestors(key)[1:])
            obstacles += [entry for entry in above if entry is not None]
            if all(await map_concurrently(partial(self._is_extra, of_any_layout=True), obstacles)):
                await self._erase([entry.key for entry in obstacles])

    async def _is_extra(self, entry: Entry, *, of_any_layout: bool = False) -> bool:
        """Return whether the copy removes an object because the source does not have it."""
        key = entry.key
        if entry.fault or entry.below_link or is_journal_key(key) or not self.rules.keys.matches(key):
            return False
        if self.mirror is None or key in self.mirror:
            return False
        return self.rules.delete or await self.replaced.has(key, of_any_layout=of_any_layout)

    # --- after the last one ------------------------------------------------------------------------------------------

    async def delete_extra(self) -> None:
        """Remove objects of the destination that the source does not have, the documents of a page first.

        Unless the copy deletes all of them, only objects of copied nodes are removed: chunks that would be read with
        the new documents, and documents that would take precedence. A link to a directory is removed if all objects
        behind it would be; objects behind a link are never removed.
        """
        mirror = self.mirror
        if mirror is None:
            return
        batch: list[str] = []
        # Links to directories, and whether something behind one of them stays.
        links: dict[str, bool] = {}
        async with aclosing(self.destination.scan()) as entries:
            async for entry in entries:
                self.record.add_final(entry)
                if entry.below_link:
                    link = entry.key.rsplit("/", entry.below_link)[0]
                    stays = entry.key in mirror or not (self.rules.delete and self.rules.keys.matches(entry.key))
                    links[link] = links.get(link, False) or stays
                elif await self._is_extra(entry):
                    batch.append(entry.key)
                    if len(batch) == MAX_ERASED_KEYS:
                        await self._erase(batch)
                        batch = []
        await self._erase(batch)
        for link in [link for link, stays in links.items() if not stays]:
            self.counters.add_deleted([link])
            if not self.rules.dry_run:
                if self._has_consolidated_above:
                    await self.prepare()
                await self.destination.erase_prefix(f"{link}/")

    async def delete_misread(self) -> None:
        """After failures, remove only old chunks that the source does not have and a new document would misread."""
        if self.mirror is None:
            return
        await self.prepare()
        for path in sorted(self._withdrawn):
            stale = [entry async for entry in self.destination.scan(key_prefix(path)) if await self._is_extra(entry)]
            await self._erase([entry.key for entry in stale if not is_document(entry.key)])

    async def _erase(self, keys: list[str]) -> None:
        self.counters.add_deleted(keys)
        if keys and not self.rules.dry_run:
            if self._has_consolidated_above:
                await self.prepare()
            for part in (list(filter(is_document, keys)), [key for key in keys if not is_document(key)]):
                if part:
                    try:
                        await self.destination.erase_values(part)
                    except StoreError as error:
                        raise CopyError(f"{self._store.url} still contains objects to delete: {error}") from error

    async def finish(self) -> None:
        """Rewrite consolidated metadata and remove the journal. After failures, leave both to a resumed copy."""
        if self._has_consolidated_above and not self.counters.failed:
            if self.journal.invalidated:
                await self.prepare()  # nothing but consolidated metadata may be left to write
            if self._ancestors is not None:
                try:
                    await self._ancestors.rewrite()
                except StoreError as error:
                    message = f"consolidated metadata above {self._store.url} could not be rewritten: {error}"
                    raise CopyError(message) from error
        if not self.rules.dry_run:
            if self.record.is_kept:
                await self._store_record()
            await (self.journal.flush() if self.counters.failed else self.journal.remove())
        if self.rules.resume and isinstance(self._store, LocalStore) and not self.rules.dry_run:
            # Temporary files of a process that was killed just before this one began were too new then.
            await self._store._sweep(None)

    async def _store_record(self) -> None:
        if self.counters.failed:
            # The objects that were copied are equal, so the next copy does not transfer them again.
            with suppress(StoreError):
                async with aclosing(self.destination.scan()) as entries:
                    async for listed in entries:
                        self.record.add_final(listed)
        documents = [] if self.rules.delete else self.copied_documents  # else they were stored before the last listing
        for entry in await map_concurrently(self.destination.stat, documents):
            if entry is not None:
                self.record.add_final(entry)
        with suppress(StoreError):  # the next copy then finds no record, and compares or copies
            await self.record.store()

    async def close(self) -> None:
        """Stop writing the journal, and allow other changes of the groups above."""
        await self.journal.close()
        if self._ancestors is not None:
            await self._ancestors.close()
