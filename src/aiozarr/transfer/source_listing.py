"""The listing of a source. A listing that fails is started again and resumes behind the last key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack

from aiozarr.concurrency import cancel_and_wait, random_jitter
from aiozarr.errors import StoreError
from aiozarr.model import Entry
from aiozarr.schedule.retry import Attempts, RetryPolicy
from aiozarr.settings import Settings


async def list_objects(
    scan: Callable[[], AsyncIterator[Entry]], *, settings: Settings, store_url: str
) -> AsyncGenerator[Entry, None]:
    """Iterate over the entries of a listing as it streams in, and start it again after temporary failures.

    Entries up to the last one seen are then skipped. That needs no memory if the listing is in the order of its keys,
    as those of object stores are. A listing in another order raises instead.

    Args:
        scan: starts the listing.
        settings: `retries` and `retry_seconds`, counted from the last entry.
        store_url: the URL of the store, for errors.

    Raises:
        StoreError: the store could not be listed.
    """
    attempts = Attempts(RetryPolicy(settings.retries, settings.retry_seconds))
    clock = asyncio.get_running_loop().time
    last_key = ""
    is_ordered = True
    attempts.started = clock()
    while True:
        resume_after = last_key
        skipped_key = ""
        try:
            async with AsyncExitStack() as stack:
                listing = scan()
                if isinstance(listing, AsyncGenerator):
                    stack.push_async_callback(listing.aclose)
                async for entry in listing:
                    if attempts.attempts and entry.key <= resume_after:
                        if entry.key < skipped_key:
                            raise StoreError("the listing broke off, and began anew in another order", store=store_url)
                        skipped_key = entry.key
                        continue
                    is_ordered = is_ordered and entry.key > last_key
                    last_key = entry.key
                    yield entry
                    # After the yield: the time that the caller spends on an entry is not the listing's.
                    attempts.started = clock()
            return
        except StoreError as error:
            attempts.attempts = attempts.attempts + 1 if last_key == resume_after else 1
            delay = attempts.delay_after(error, clock(), random_jitter())
            if delay is None:
                raise
            if not is_ordered:
                error.attempts = attempts.attempts
                raise
        await asyncio.sleep(delay)


class StartedListing:
    """A listing that requests its first page at once, although its reader is not ready yet.

    Args:
        entries: the listing, not begun.
    """

    def __init__(self, entries: AsyncGenerator[Entry, None]) -> None:
        self._entries = entries
        self._first: asyncio.Future[Entry] | None = asyncio.ensure_future(anext(entries))

    def __aiter__(self) -> AsyncIterator[Entry]:
        return self

    async def __anext__(self) -> Entry:
        first, self._first = self._first, None
        return await (anext(self._entries) if first is None else first)

    async def aclose(self) -> None:
        """End the listing, also an unread one."""
        first, self._first = self._first, None
        if first is not None:
            await cancel_and_wait(first)
        await self._entries.aclose()
