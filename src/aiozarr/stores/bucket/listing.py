"""Pages of listings: parsed, checked, and followed to the end by their continuation tokens."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias
from xml.etree.ElementTree import Element, ParseError, XMLParser

from aiozarr.errors import InvalidKeyError, StoreError
from aiozarr.model import Entry, Version, check_key
from aiozarr.stores.http.object_client import HTML_PAGE, error_for, is_html_page

MAX_PAGE_BYTES = 32 << 20
"""More than a page of the longest names takes, with each byte escaped."""

MAX_TAGS = 1 << 19
"""Tags of a page, several hundred for each of a thousand objects. A parsed tag takes more memory than its bytes."""

MAX_SIZE_DIGITS = 19


@dataclass(frozen=True, slots=True)
class ListingPage:
    """A page of a listing.

    Attributes:
        entries: the objects below the requested prefix whose names can be keys.
        prefixes: the prefixes one level below it, each with a slash at its end.
        token: the continuation token of the next page; `""` for the last page.
    """

    entries: list[Entry]
    prefixes: list[str]
    token: str


MAX_EMPTY_PAGES = 1000
"""Consecutive pages without a name. A page of S3 may skip a thousand deleted objects, so these are a million."""

FetchPage: TypeAlias = Callable[[], Awaitable[ListingPage]]

page_requests: ContextVar[Callable[[FetchPage], Awaitable[ListingPage]] | None] = ContextVar(
    "aiozarr_page_requests", default=None
)
"""Requests a page, and repeats a failed request; if it is None, pages are requested once."""


class PaginationLoopGuard:
    """Detects that the pages of a listing repeat, by Brent's algorithm, which holds one name for any loop."""

    def __init__(self) -> None:
        self._marker: str | None = None
        self._pages = 0
        self._next_marker = 1

    def check(self, names: Collection[str], last: str) -> None:
        """Record a page.

        Args:
            names: names that no other page contains: its keys, or its continuation token.
            last: one of them.

        Raises:
            StoreError: the page was there before.
        """
        if self._marker in names:
            raise StoreError("the pages of the server's listing form a loop")
        self._pages += 1
        if self._pages == self._next_marker:
            self._marker, self._next_marker = last, 2 * self._next_marker


def is_key(name: str, prefix: str) -> bool:
    """Return whether an object's name below `prefix` can be a store's key; those that mark folders cannot."""
    if not name.startswith(prefix) or name == prefix:
        return False
    try:
        check_key(name)
    except InvalidKeyError:
        return False
    return True


def listing_error(fault: str) -> StoreError:
    """Return the error of a page that is not valid."""
    return StoreError(f"the server's listing {fault}")


def parse_size(text: str, name: str) -> int:
    """Return the size of the object `name`, as a page contains it.

    Raises:
        StoreError: it is not a size.
    """
    if not text.isascii() or not text.isdigit() or len(text) > MAX_SIZE_DIGITS:
        raise listing_error(f"has no size for {name!r}")
    return int(text)


async def iterate_pages(fetch_page: Callable[[str], Awaitable[ListingPage]]) -> AsyncGenerator[ListingPage, None]:
    """Iterate over the pages that `fetch_page` returns for their continuation tokens, beginning with `""`.

    Raises:
        StoreError: tokens or keys repeat, or the pages are empty without an end.
    """
    token, tokens, keys = "", PaginationLoopGuard(), PaginationLoopGuard()
    empty = 0
    while True:
        request = page_requests.get()
        page = await (fetch_page(token) if request is None else request(partial(fetch_page, token)))
        empty = 0 if page.entries or page.prefixes else empty + 1
        if empty > MAX_EMPTY_PAGES:
            raise listing_error(f"has {MAX_EMPTY_PAGES} empty pages in a row and announces more")
        if page.entries:
            keys.check({entry.key for entry in page.entries}, page.entries[-1].key)
        yield page
        token = page.token
        if not token:
            return
        tokens.check((token,), token)


# --- XML -------------------------------------------------------------------------------------------------------------


def parse_xml(body: bytes, root: str) -> Element:
    """Parse a page of a listing, or another document, whose root element is `root`, in any namespace.

    The document is bounded, and may have no declarations that could expand entities or fetch documents.

    Raises:
        StoreError: it is not a listing; retryable if it is not valid XML.
    """
    if is_html_page(body):
        raise StoreError(HTML_PAGE)
    # The encoding is fixed below, and UTF-16 contains zeros: every declaration is found here.
    if b"<!DOCTYPE" in body or b"\0" in body:
        raise listing_error("contains declarations, which are not allowed in listings")
    if body.count(b"<") > MAX_TAGS:
        raise listing_error(f"has more than {MAX_TAGS} tags")
    parser = XMLParser(encoding="utf-8")
    try:
        parser.feed(body)
        element = parser.close()
    except (ParseError, ValueError, LookupError) as error:
        raise StoreError("the server's listing is not valid XML, or was cut short", retryable=True) from error
    name = local_name(element)
    if name == "Error":  # sent with the status of a success
        raise error_for(200, {}, body)
    if name != root:
        raise listing_error(f"is not a {root}, but {name[:40]!r}")
    return element


def etag_version(text: str) -> Version | None:
    """Return the version of an ETag in a document, with or without its quotes, or None if it is empty."""
    etag = text.strip()
    if not etag.strip('"'):
        return None
    return Version(etag if etag.endswith('"') else f'"{etag}"')


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace: servers use several, or none."""
    return element.tag.rpartition("}")[2]


def child_texts(element: Element) -> dict[str, str]:
    """Return the text of each child of `element` by its name."""
    return {local_name(child): child.text or "" for child in element}
