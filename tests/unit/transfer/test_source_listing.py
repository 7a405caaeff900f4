"""Listings that fail and are started again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from aiozarr.errors import StoreError
from aiozarr.model import Entry, Supports, Value
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.testing.virtual_time import run_virtual
from aiozarr.transfer.source_listing import StartedListing, list_objects


class Pages(Store):
    """Lists each of `runs` in turn; an exception in it is raised there."""

    supports = Supports(listable=True)

    def __init__(self, *runs: list[str | Exception]) -> None:
        self.runs = list(runs)
        self.open = 0

    @property
    def url(self) -> str:
        return "test://pages"

    async def fetch(self, *_: object, **__: object) -> Value | None:
        return None

    async def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        self.open += 1
        try:
            for item in self.runs.pop(0):
                if isinstance(item, Exception):
                    raise item
                yield Entry(item, 1)
        finally:
            self.open -= 1


def listed(store: Pages, **settings: object) -> list[str]:
    async def scenario() -> list[str]:
        return [
            entry.key async for entry in list_objects(store.scan, settings=Settings(**settings), store_url=store.url)
        ]  # type: ignore[arg-type]

    return run_virtual(scenario())


def temporary() -> StoreError:
    return StoreError("broken off", retryable=True)


def test_a_failed_listing_resumes_behind_the_last_key() -> None:
    store = Pages(["a", "b", temporary()], ["a", "b", "c", temporary()], [temporary()], ["a", "aa", "b", "c", "d"])
    assert listed(store) == ["a", "b", "c", "d"]
    assert store.open == 0


def test_progress_resets_the_count_of_failures() -> None:
    runs = [[*"abcdefgh"[: n + 1], temporary()] for n in range(8)]
    assert listed(Pages(*runs, [*"abcdefghi"]), retries=1) == [*"abcdefghi"]


def test_an_unordered_listing_is_not_resumed() -> None:
    with pytest.raises(StoreError, match="broken off"):
        listed(Pages(["b", "a", temporary()], ["a", "b"]))


def test_a_listing_that_restarts_in_another_order_raises_instead_of_losing_keys() -> None:
    with pytest.raises(StoreError, match="another order"):
        listed(Pages(["a", "b", "c", temporary()], ["c", "a", "b", "d"]))


def test_a_permanent_failure_raises_at_once() -> None:
    store = Pages([StoreError("no")], ["a"])
    with pytest.raises(StoreError, match="no"):
        listed(store)
    assert len(store.runs) == 1


def test_a_listing_without_progress_is_an_error() -> None:
    store = Pages(*([["a", temporary()]] * 10))
    with pytest.raises(StoreError) as caught:
        listed(store, retries=3)
    assert caught.value.attempts == 4


async def test_leaving_early_closes_the_listing_of_the_store() -> None:
    store = Pages(["a", "b"])
    listing = list_objects(store.scan, settings=Settings(), store_url=store.url)
    assert (await anext(listing)).key == "a"
    await listing.aclose()
    assert store.open == 0


def started(store: Pages) -> StartedListing:
    return StartedListing(list_objects(store.scan, settings=Settings(), store_url=store.url))


async def test_a_started_listing_requests_its_first_page_before_it_is_read() -> None:
    store = Pages(["a", "b"])
    listing = started(store)
    await asyncio.sleep(0)
    assert store.open == 1
    assert [entry.key async for entry in listing] == ["a", "b"]
    assert store.open == 0


@pytest.mark.parametrize("run", [[], [StoreError("no")], ["a"]])
async def test_a_started_listing_that_nobody_reads_is_closed(run: list[str | Exception]) -> None:
    store = Pages(run)
    listing = started(store)
    await asyncio.sleep(0)
    await listing.aclose()
    assert store.open == 0


async def test_the_error_of_a_started_listing_is_raised_when_it_is_read() -> None:
    listing = started(Pages([StoreError("no")]))
    await asyncio.sleep(0)
    with pytest.raises(StoreError, match="no"):
        [entry.key async for entry in listing]
    await listing.aclose()
