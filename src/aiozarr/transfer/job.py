"""One copy at work: the listing is pulled by workers, metadata documents follow when all below them is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from time import perf_counter
from typing import Literal, TypeAlias

from aiozarr.engine import Engine, Progress
from aiozarr.errors import CopyError, InvalidKeyError, NodeNotFoundError, StoreError
from aiozarr.model import Entry, check_key
from aiozarr.schedule.call import Call, Source
from aiozarr.schedule.events import Report
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.stores.tasks import together
from aiozarr.transfer.carry import Carrier, Verify
from aiozarr.transfer.keys import is_folder_marker, is_metadata, metadata_levels, node_of, paths_above
from aiozarr.transfer.listing import list_all
from aiozarr.transfer.report import CopyReport, Tally

OnError: TypeAlias = Literal["raise", "continue"]

WIDTH = 128
"""Objects under way where the number of requests adapts: as many as fill the first limit of 64 at both stores.

Each is a caller of its own to the scheduler; more of them would let other readers wait longer for their turn.
"""


class CopyJob:
    """One copy between two stores that lie apart. Lives on the I/O thread."""

    def __init__(
        self,
        engine: Engine,
        source: Store,
        destination: Store,
        *,
        verify: Verify = "size",
        on_error: OnError = "raise",
        settings: Settings,
        recorder: Report | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.source = source
        self.destination = destination
        self._engine = engine
        self._settings = settings
        self._on_error = on_error
        # Not the caller's record itself: the report counts this copy alone.
        self._recorder = Report(outer=recorder)
        self._tally = Tally(progress)
        self._carrier = Carrier(engine, source, destination, verify=verify, settings=settings, recorder=self._recorder)
        self._incomplete: set[str] = set()

    async def run(self) -> CopyReport:
        """Copy everything.

        Raises:
            NodeNotFoundError: the source holds nothing.
            CopyError: an object could not be copied, or the source not be listed.
        """
        begun = perf_counter()
        try:
            with self._limited():
                documents = await self._copy_data()
                if self._tally.listed == self._tally.folder_markers:
                    url = self.source.url
                    raise NodeNotFoundError(f"there is nothing to copy at {url}", url=url, path="")
                await self._copy_metadata(documents)
        finally:
            seconds = perf_counter() - begun
            self._recorder.operation(seconds=seconds)
        return self._tally.report(seconds=seconds, requests=self._recorder.requests)

    async def _copy_data(self) -> list[Entry]:
        """Copy all but the metadata documents, which are returned: of the listing they alone are held in memory."""
        documents: dict[str, Entry] = {}
        session = self._engine.session(self.source, self._settings, self._recorder)
        listing = list_all(self.source, self._settings, session)
        async with aclosing(listing), aclosing(self._sift(listing, documents)) as data:
            try:
                await self._carry_all(data, self._width())
            except StoreError as error:
                raise CopyError(f"{self.source.url} could not be listed: {error}") from error
        return list(documents.values())

    async def _copy_metadata(self, documents: list[Entry]) -> None:
        for level in metadata_levels(documents):
            ready = [entry for entry in level if node_of(entry.key) not in self._incomplete]
            await self._carry_all(_each(ready), min(len(ready), self._width()))
            for entry in level:
                if entry not in ready:
                    self._failed(entry, CopyError("not written, because something below its node was not copied"))

    async def _sift(self, listing: AsyncIterator[Entry], documents: dict[str, Entry]) -> AsyncGenerator[Entry, None]:
        """Pass on what may be copied now, and lay metadata documents aside."""
        async for entry in listing:
            self._tally.found(entry)
            if is_folder_marker(entry):
                self._tally.marker(entry)
                continue
            try:
                # A key such as `../x` must not lead out of the destination, whatever wrote the listing.
                check_key(entry.key, store=self.source.url)
            except InvalidKeyError as error:
                self._failed(entry, error)
                continue
            if is_metadata(entry.key):
                documents[entry.key] = entry
            else:
                yield entry

    async def _carry_all(self, entries: AsyncIterator[Entry], width: int) -> None:
        """Carry all entries; `width` workers pull them, one at a time."""
        turn = asyncio.Lock()

        async def pull() -> Entry | None:
            async with turn:
                return await anext(entries, None)

        async def work() -> None:
            while (entry := await pull()) is not None:
                await self._carry_one(entry)

        await together(work() for _ in range(width))

    async def _carry_one(self, entry: Entry) -> None:
        try:
            carried = await self._carrier.carry(entry)
        except Exception as error:
            # Whatever a store raises, ours or somebody else's, is this object's failure.
            self._failed(entry, error)
            return
        if carried is None:
            self._tally.marker(entry)
        else:
            self._tally.copied(entry, carried.size, changed=carried.changed, metadata=is_metadata(entry.key))

    def _failed(self, entry: Entry, error: Exception) -> None:
        if self._on_error == "raise":
            raise CopyError(
                f"{self.source.url} was not copied to {self.destination.url}: {entry.key!r}: {error}",
                failed=((entry.key, error),),
            ) from error
        self._incomplete.update(paths_above(entry.key))
        self._tally.lost(entry, error)

    def _width(self) -> int:
        return WIDTH if self._settings.max_requests == "auto" else 2 * self._settings.max_requests

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Let a fixed limit of requests hold at both stores while the copy is at work."""
        presence = _Presence(self._settings)
        scheduler = self._engine.desk.scheduler
        origins = [scheduler.origin(store.origin) for store in (self.source, self.destination)]
        for origin in origins:
            origin.enter(presence)
        try:
            yield
        finally:
            for origin in origins:
                origin.leave(presence)


class _Presence(Source):
    """A caller who has a limit, and whose requests come one by one as callers of their own."""

    def __init__(self, settings: Settings) -> None:
        self.max_requests = None if settings.max_requests == "auto" else settings.max_requests
        self.max_bytes = settings.max_bytes_in_flight

    def next(self) -> Call | None:
        return None

    def pending(self) -> int:
        return 0


async def _each(entries: Iterable[Entry]) -> AsyncIterator[Entry]:
    for entry in entries:
        yield entry
