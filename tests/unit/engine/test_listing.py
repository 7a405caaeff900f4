"""Listings that fail and are started again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import pytest

import aiozarr
from aiozarr.engine.call_requests import PageRequests, StartedListing, list_objects
from aiozarr.errors import StoreError
from aiozarr.model import Entry, Supports, Value
from aiozarr.schedule.executor import RequestExecutor
from aiozarr.schedule.requests import RetryPolicy
from aiozarr.settings import Settings
from aiozarr.stores import Store
from aiozarr.stores.bucket.listing import MAX_EMPTY_PAGES, ListingPage, iterate_pages
from aiozarr.testing.fakes import Call, FakeStore
from aiozarr.testing.virtual_time import run_virtual


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


def listing_of(store: Pages, retries: int = 5) -> AsyncGenerator[Entry, None]:
    policy = RetryPolicy(retries)
    return list_objects(store.scan, PageRequests(RequestExecutor(), policy, Settings()), policy, store_url=store.url)


def listed(store: Pages, retries: int = 5) -> list[str]:
    async def scenario() -> list[str]:
        return [entry.key async for entry in listing_of(store, retries)]

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


class Bucket:
    """A bucket of `count` pages with one key each. `faults` has the errors of the next requests of a page."""

    def __init__(self, count: int, faults: dict[int, list[StoreError]]) -> None:
        self.count = count
        self.faults = faults
        self.requests: list[int] = []

    async def page(self, token: str) -> ListingPage:
        number = int(token or 0)
        self.requests.append(number)
        if self.faults.get(number):
            raise self.faults[number].pop()
        following = str(number + 1) if number + 1 < self.count else ""
        return ListingPage([Entry(f"k{number}", 1)], [], following)

    async def scan(self) -> AsyncIterator[Entry]:
        async for page in iterate_pages(self.page):
            for entry in page.entries:
                yield entry


def test_only_the_page_that_failed_is_requested_again() -> None:
    bucket = Bucket(4, {0: [temporary()], 2: [temporary(), temporary()]})
    policy = RetryPolicy(2)
    pages = PageRequests(RequestExecutor(), policy, Settings())

    async def scenario() -> list[str]:
        return [entry.key async for entry in list_objects(bucket.scan, pages, policy, store_url="")]

    assert run_virtual(scenario()) == ["k0", "k1", "k2", "k3"]
    assert bucket.requests == [0, 0, 1, 2, 2, 2, 3]
    assert pages.attempts == 7
    bucket.faults[1] = [temporary() for _ in range(9)]
    bucket.requests.clear()
    with pytest.raises(StoreError) as caught:
        run_virtual(scenario())
    assert (bucket.requests, caught.value.attempts) == ([0, 1, 1, 1], 3)


def test_empty_pages_without_an_end_are_an_error() -> None:
    requests: list[str] = []

    async def page(token: str) -> ListingPage:
        requests.append(token)
        return ListingPage([], [], f"{len(requests)}")

    async def scenario() -> None:
        async for _ in iterate_pages(page):
            pass

    with pytest.raises(StoreError, match="empty pages in a row"):
        run_virtual(scenario())
    assert len(requests) == MAX_EMPTY_PAGES + 1


@pytest.mark.parametrize("name", ["delete", "move", "info", "list"])
async def test_one_failure_of_a_listing_ends_no_operation(name: str) -> None:
    store = FakeStore(latency=0)
    group = await aiozarr.create_group(store)
    array = await group.create_array("a", data=[1, 2, 3], chunks=(1,))
    failed: list[str] = []

    def fail_listings_once(call: Call) -> StoreError | None:
        if call.operation == "list" and call.key not in failed:
            failed.append(call.key)
            return StoreError("busy", status=503, retryable=True)
        return None

    store.faults = fail_listings_once
    operations: dict[str, Callable[[], Awaitable[object]]] = {
        "delete": lambda: group.delete("a"),
        "move": lambda: group.move("a", "b"),
        "info": array.info,
        "list": group.tree,
    }
    await operations[name]()
    assert failed


async def test_leaving_early_closes_the_listing_of_the_store() -> None:
    store = Pages(["a", "b"])
    listing = listing_of(store)
    assert (await anext(listing)).key == "a"
    await listing.aclose()
    assert store.open == 0


def started(store: Pages) -> StartedListing:
    return StartedListing(listing_of(store))


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
