"""Pages of GCS's listings: taken apart, and refused where they are none."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiozarr.errors import InvalidKeyError, StoreError
from aiozarr.model import Entry, Version, check_key

MAX_PAGE_BYTES = 32 << 20
"""More than the longest names of a page take, written in escapes."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a listing.

    Attributes:
        entries: the objects whose names can be keys, below the prefix that was asked for.
        prefixes: what is one level below it, each with a slash at its end.
        token: what leads to the next page; `""` for the last one.
    """

    entries: list[Entry]
    prefixes: list[str]
    token: str


def parse_page(body: bytes, prefix: str) -> Page:
    """Take a page apart.

    Raises:
        StoreError: it is none; another try may bring one.
    """
    try:
        page: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise StoreError("the server's listing is not valid JSON", retryable=True) from error
    if not isinstance(page, dict):
        raise _fault("is no JSON object")
    token = page.get("nextPageToken") or ""
    if not isinstance(token, str):
        raise _fault("has a token that is none")
    entries = [_entry(item, item["name"]) for item in _items(page) if _is_key(item["name"], prefix)]
    prefixes = page.get("prefixes") or []
    if not isinstance(prefixes, list) or not all(isinstance(name, str) for name in prefixes):
        raise _fault("has prefixes that are none")
    return Page(entries, [name for name in prefixes if _is_key(name.removesuffix("/"), prefix)], token)


def _items(page: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    items = page.get("items") or []
    if not isinstance(items, list):
        raise _fault("has items that are none")
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise _fault("has an item without a name")
        yield item


def _entry(item: Mapping[str, Any], name: str) -> Entry:
    size, generation = item.get("size"), item.get("generation")
    if size is not None:
        if isinstance(size, bool) or not (text := str(size)).isascii() or not text.isdigit() or len(text) > 19:
            raise _fault(f"has no size for {name!r}")
        size = int(text)
    if generation is not None and (isinstance(generation, bool) or not isinstance(generation, (str, int))):
        raise _fault(f"has no generation for {name!r}")
    return Entry(name, size, Version(generation=str(generation)) if generation else None)


def _is_key(name: str, prefix: str) -> bool:
    """Return whether an object's name can be a store's key; those that stand for folders cannot."""
    if not name.startswith(prefix) or name == prefix:
        return False
    try:
        check_key(name)
    except InvalidKeyError:
        return False
    return True


def _fault(words: str) -> StoreError:
    return StoreError(f"the server's listing {words}")
