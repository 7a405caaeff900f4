"""Pages of GCS's listings, parsed and checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from aiozarr.errors import StoreError
from aiozarr.model import Entry, Version
from aiozarr.stores.object.listing import ListingPage, is_key, listing_error, parse_size


def parse_page(body: bytes, prefix: str) -> ListingPage:
    """Parse a page.

    Raises:
        StoreError: it is not valid.
    """
    try:
        page: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise StoreError("the server's listing is not valid JSON", retryable=True) from error
    if not isinstance(page, dict):
        raise listing_error("is not a JSON object")
    token = page.get("nextPageToken") or ""
    if not isinstance(token, str):
        raise listing_error("has an invalid token")
    entries = [_entry(item, item["name"]) for item in _items(page) if is_key(item["name"], prefix)]
    prefixes = page.get("prefixes") or []
    if not isinstance(prefixes, list) or not all(isinstance(name, str) for name in prefixes):
        raise listing_error("has invalid prefixes")
    return ListingPage(entries, [name for name in prefixes if is_key(name.removesuffix("/"), prefix)], token)


def _items(page: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    items = page.get("items") or []
    if not isinstance(items, list):
        raise listing_error("has invalid items")
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise listing_error("has an item without a name")
        yield item


def _entry(item: Mapping[str, Any], name: str) -> Entry:
    size, generation = item.get("size"), item.get("generation")
    if size is not None:
        size = parse_size("" if isinstance(size, bool) else str(size), name)
    if generation is not None and (isinstance(generation, bool) or not isinstance(generation, (str, int))):
        raise listing_error(f"has no generation for {name!r}")
    return Entry(name, size, Version(generation=str(generation)) if generation else None)
