"""Listings of all clouds: pages are followed to the end, and pages that repeat or are not listings are errors."""

from __future__ import annotations

import pytest

from aiozarr.errors import StoreError
from aiozarr.model import Entry
from aiozarr.stores.bucket.listing import (
    ListingPage,
    PaginationLoopGuard,
    is_key,
    iterate_pages,
    parse_size,
    parse_xml,
)


def page(*keys: str, prefixes: tuple[str, ...] = (), token: str = "") -> ListingPage:
    return ListingPage([Entry(key, 1, None) for key in keys], list(prefixes), token)


async def test_pages_are_followed_by_their_tokens() -> None:
    pages = {"": page("a", prefixes=("p/",), token="1"), "1": page(token="2"), "2": page("b", prefixes=("p/", "q/"))}

    async def fetch(token: str) -> ListingPage:
        return pages[token]

    assert [found async for found in iterate_pages(fetch)] == list(pages.values())


@pytest.mark.parametrize("length", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("lead", [0, 1, 10])
def test_a_loop_of_any_length_is_found_within_a_few_rounds(length: int, lead: int) -> None:
    guard, pages = PaginationLoopGuard(), 0
    with pytest.raises(StoreError, match="the pages of the server's listing form a loop"):
        for number in range(1000):
            pages += 1
            name = f"lead {number}" if number < lead else f"loop {(number - lead) % length}"
            guard.check((name,), name)
    assert pages <= 4 * (length + lead) + 2


def test_a_long_listing_without_a_loop_passes() -> None:
    guard = PaginationLoopGuard()
    for number in range(10_000):
        guard.check((str(number),), str(number))


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("p/a", True),
        ("p/a/b", True),
        ("p/", False),
        ("p/a/", False),
        ("q/a", False),
        ("p//a", False),
        ("p/../a", False),
    ],
)
def test_names_that_can_be_keys_below_the_prefix_are_listed(name: str, accepted: bool) -> None:
    assert is_key(name, "p/") is accepted


@pytest.mark.parametrize("text", ["", "-1", "1.5", "٣", "9" * 100, "x"])
def test_a_size_is_a_number_of_ascii_digits(text: str) -> None:
    assert parse_size("17", "k") == 17
    with pytest.raises(StoreError, match="size for 'k'"):
        parse_size(text, "k")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"<!DOCTYPE x [<!ENTITY e 'v'>]><List>&e;</List>", "declarations"),
        ("<List/>".encode("utf-16"), "declarations"),
        (b"<Other/>", "is not a List"),
        (b"<List>", "cut short"),
        (b"<!doctype html><html></html>", "HTML page"),
    ],
)
def test_a_body_that_is_not_the_listing_is_an_error_that_says_so(body: bytes, fault: str) -> None:
    with pytest.raises(StoreError, match=fault):
        parse_xml(body, "List")


def test_a_listing_is_read_in_any_namespace() -> None:
    element = parse_xml(b'<List xmlns="http://example/2006"><Key>a</Key></List>', "List")
    assert [child.text for child in element] == ["a"]
