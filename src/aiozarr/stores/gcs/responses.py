"""What responses of GCS contain: pages of listings, errors, and the CRC32C of objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from aiozarr.errors import StoreError, UnauthenticatedError
from aiozarr.http1.response_check import HASH_HEADER, Headers
from aiozarr.model import Entry, Version
from aiozarr.stores.bucket.body_checksum import BodyChecksum
from aiozarr.stores.bucket.listing import ListingPage, is_key, listing_error, parse_size
from aiozarr.stores.gcs.credentials import HINT
from aiozarr.stores.http.errors import error_code, error_for, showable


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


def gcs_error(status: int, headers: Mapping[bytes, bytes], body: bytes) -> StoreError:
    """Return the error for a response; the store adds its URL, the key and the range."""
    reason, message = (None, None) if error_code(body) else _reason_and_message(body)
    error = error_for(status, headers, body, reason)
    text = None if message is None else showable(message)
    if text is not None:
        error.message += f", {text!r}"
    if status == 404 and b"bucket does not exist" in body:
        error.message = error.message.replace("not found", "the bucket does not exist", 1)
    if isinstance(error, UnauthenticatedError):
        error.message += f"; {HINT}"
    elif status == 400 and (b"UserProjectMissing" in body or b"requester pays" in body):
        error.message += "; requester_pays='PROJECT' names the project that pays"
    elif error.status == 400 and (b"BadDigest" in body or b"crc32c" in body.lower()):
        error.message = "the value was damaged on its way to the server, which refused it"
        error.retryable = True
    return error


def _reason_and_message(body: bytes) -> tuple[str | None, str | None]:
    """Return reason and message of an error of the JSON API."""
    if not body.lstrip().startswith(b"{"):
        return None, None
    try:
        found: Any = json.loads(body)["error"]
        reasons = found.get("errors") or [{}]
        return _short(reasons[0].get("reason")), _short(found.get("message"))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return None, None


def _short(text: Any) -> str | None:
    return text[:300] if isinstance(text, str) and text else None


_CRC32C = re.compile(rb"(?:^|,)\s*crc32c=([A-Za-z0-9+/]{6}==)")


def stored_checksum(headers: Headers) -> BodyChecksum | None:
    """Return the CRC32C in the headers of a response, or None if they contain none."""
    stored = _CRC32C.search(headers.get(HASH_HEADER, b""))
    return None if stored is None else BodyChecksum("CRC32C", stored[1])
