"""One copy: workers pull the listing, and metadata documents follow when everything below their nodes is copied."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from itertools import groupby
from time import perf_counter
from typing import Literal, TypeAlias, cast

from aiozarr.concurrency import gather_all
from aiozarr.engine import Engine, Progress
from aiozarr.errors import CopyError, InvalidKeyError, NodeNotFoundError, PermissionDeniedError, StoreError
from aiozarr.metadata import document_write_order
from aiozarr.model import Entry, check_key
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.transfer.copy_object import ObjectCopier, Verify
from aiozarr.transfer.report import CopyCounters, CopyReport
from aiozarr.transfer.source_listing import list_objects

OnError: TypeAlias = Literal["raise", "continue"]

OBJECT_CONCURRENCY = 128
"""Objects that are copied concurrently if the number of requests adapts: twice its initial limit of 64 per store.

Each sends its requests by itself; more of them would make other readers wait longer for their turn.
"""
MAX_COUNTED_OBJECTS = 10_000
"""Objects of the destination that an error message counts: ten pages of a listing."""


class CopyOperation:
    """One copy between two disjoint stores. Lives on the I/O thread."""

    def __init__(
        self,
        engine: Engine,
        source: Store,
        destination: Store,
        *,
        overwrite: bool = True,
        verify: Verify = "size",
        on_error: OnError = "raise",
        settings: Settings,
        report: Report | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.source = source
        self.destination = destination
        self._engine = engine
        self._settings = settings
        self._overwrite = overwrite
        self._on_error = on_error
        # A record of its own: the result counts this copy alone.
        self._report = Report(outer=report)
        self._counters = CopyCounters(progress)
        self._copier = ObjectCopier(engine, source, destination, verify=verify, settings=settings, report=self._report)
        self._incomplete_nodes: set[str] = set()

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
                if not self._overwrite:
                    await self._check_destination()
                documents = await self._copy_data()
                if self._counters.listed == self._counters.folder_markers:
                    url = self.source.url
                    raise NodeNotFoundError(f"there is nothing to copy at {url}", url=url, path="")
                await self._copy_documents(documents)
        finally:
            seconds = perf_counter() - started
            self._report.operation(seconds=seconds)
        return self._counters.report(seconds=seconds, requests=self._report.requests)

    async def _check_destination(self) -> None:
        """Raise `CopyError` if the destination holds objects; the message counts them."""
        if not self.destination.supports.listable:
            return
        scheduled = self._engine.scheduled(self.destination, self._settings, self._report)
        first, count = "", 0
        try:
            async with aclosing(cast("AsyncGenerator[Entry, None]", scheduled.scan())) as entries:
                async for entry in entries:
                    first = first or entry.key
                    count += 1
                    if count == MAX_COUNTED_OBJECTS:
                        break
        except PermissionDeniedError:
            # Credentials that may only write cannot check it.
            return
        if count:
            number = f"{'at least ' if count == MAX_COUNTED_OBJECTS else ''}{count:,} object{'' if count == 1 else 's'}"
            raise CopyError(
                f"{self.destination.url} holds {number}, among them {first!r}; overwrite=True replaces objects of the "
                "same key and keeps the others"
            )

    async def _copy_data(self) -> list[Entry]:
        """Copy everything but the metadata documents. Return their entries, the only ones that are held in memory."""
        documents: dict[str, Entry] = {}
        scheduled = self._engine.scheduled(self.source, self._settings, self._report)
        listing = list_objects(scheduled.scan, settings=self._settings, store_url=self.source.url)
        async with aclosing(listing), aclosing(self._partition(listing, documents)) as data:
            try:
                await self._copy_all(data, self._object_concurrency())
            except StoreError as error:
                raise CopyError(f"{self.source.url} could not be listed: {error}") from error
        return list(documents.values())

    async def _copy_documents(self, documents: list[Entry]) -> None:
        for level in document_levels(documents):
            ready = [entry for entry in level if node_of(entry.key) not in self._incomplete_nodes]
            await self._copy_all(_iterate(ready), min(len(ready), self._object_concurrency()))
            for entry in level:
                if entry not in ready:
                    self._fail(entry, CopyError("not written, because something below its node was not copied"))

    async def _partition(
        self, listing: AsyncIterator[Entry], documents: dict[str, Entry]
    ) -> AsyncGenerator[Entry, None]:
        """Yield the entries that are copied at once, and collect metadata documents in `documents`."""
        async for entry in listing:
            self._counters.add_listed(entry)
            if is_folder_marker(entry):
                self._counters.add_folder_marker(entry)
                continue
            try:
                # A key such as `../x` must not lead out of the destination.
                check_key(entry.key, store=self.source.url)
            except InvalidKeyError as error:
                self._fail(entry, error)
                continue
            if is_document(entry.key):
                documents[entry.key] = entry
            else:
                yield entry

    async def _copy_all(self, entries: AsyncIterator[Entry], concurrency: int) -> None:
        """Copy all entries; workers pull them, one at a time."""
        lock = asyncio.Lock()

        async def pull() -> Entry | None:
            async with lock:
                return await anext(entries, None)

        async def work() -> None:
            while (entry := await pull()) is not None:
                await self._copy_one(entry)

        await gather_all(work() for _ in range(concurrency))

    async def _copy_one(self, entry: Entry) -> None:
        try:
            copied = await self._copier.copy(entry)
        except Exception as error:
            # Any exception of a store, also of one that is not ours, is a failure of this object.
            self._fail(entry, error)
            return
        if copied is None:
            self._counters.add_folder_marker(entry)
        else:
            self._counters.add_copied(entry, copied.size, is_changed=copied.changed, is_document=is_document(entry.key))

    def _fail(self, entry: Entry, error: Exception) -> None:
        if self._on_error == "raise":
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


async def _iterate(entries: Iterable[Entry]) -> AsyncIterator[Entry]:
    for entry in entries:
        yield entry
