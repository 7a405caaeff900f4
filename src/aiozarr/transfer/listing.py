"""The listing of a source, taken up again where it broke off."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

from aiozarr.engine import Session
from aiozarr.errors import StoreError
from aiozarr.model import Entry
from aiozarr.schedule.retry import RetryPolicy
from aiozarr.settings import Settings
from aiozarr.stores import Store


async def list_all(store: Store, settings: Settings, session: Session | None = None) -> AsyncGenerator[Entry, None]:
    """Iterate over all objects of a store as its listing streams in.

    A listing that fails in passing begins anew, and what was seen before is left out. That takes no memory of it where
    the listing is in the order of its keys, as those of object stores are; one that is not in order raises instead.
    With a `session` of the store, each begin counts as a request there.

    Raises:
        StoreError: the store could not be listed.
    """
    policy = RetryPolicy(settings.retries, settings.retry_seconds)
    clock = asyncio.get_running_loop().time
    last = ""
    ordered = True
    failures, moved = 0, clock()
    while True:
        seen_before = last
        again = ""
        try:
            async with AsyncExitStack() as stack:
                listing = store.scan() if session is None else session.scan()
                close = getattr(listing, "aclose", None)
                if close is not None:
                    stack.push_async_callback(close)
                async for entry in listing:
                    if failures and entry.key <= seen_before:
                        _check_order(entry, again, store)
                        again = entry.key
                        continue
                    ordered = ordered and entry.key > last
                    last = entry.key
                    yield entry
                    # Not before: how long the entry was worked on says nothing about the listing.
                    moved = clock()
            return
        except StoreError as error:
            failures = failures + 1 if last == seen_before else 1
            delay = policy.delay(error, attempt=failures, elapsed=clock() - moved, jitter=random.random())
            if delay is None or not ordered:
                error.attempts = failures
                raise
        await asyncio.sleep(delay)


def _check_order(entry: Entry, before: str, store: Store) -> None:
    if entry.key < before:
        raise StoreError("the listing broke off, and began anew in another order", store=store.url)
