"""Listings of S3: their queries and their pages (S3 API reference, "ListObjectsV2")."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element

from aiozarr.model import Entry, Version
from aiozarr.stores.object.bucket_client import PAGE_SIZE
from aiozarr.stores.object.listing import (
    ListingPage,
    child_texts,
    is_key,
    listing_error,
    local_name,
    parse_size,
    parse_xml_listing,
)

Decode = Callable[[str], str | None]


def listing_query(prefix: str, delimiter: str, token: str) -> dict[str, str]:
    """Return the parameters of a request for a page; `""` means no delimiter, and the first page."""
    query = {"list-type": "2", "max-keys": str(PAGE_SIZE), "encoding-type": "url", "prefix": prefix}
    if delimiter:
        query["delimiter"] = delimiter
    if token:
        query["continuation-token"] = token
    return query


def parse_page(body: bytes, prefix: str) -> ListingPage:
    """Parse a page.

    Raises:
        StoreError: it is not valid.
    """
    root = parse_xml_listing(body, "ListBucketResult")
    fields = child_texts(root)
    # Some servers do not support encoded names, and send them as they are.
    decode: Decode = _decoded if fields.get("EncodingType") == "url" else _as_it_is
    entries = [entry for child in root if local_name(child) == "Contents" and (entry := _entry(child, prefix, decode))]
    prefixes = [
        name for child in root if local_name(child) == "CommonPrefixes" if (name := _prefix(child, prefix, decode))
    ]
    return ListingPage(entries, prefixes, _token(fields))


def _token(fields: dict[str, str]) -> str:
    token, truncated = fields.get("NextContinuationToken", ""), fields.get("IsTruncated", "").strip().lower()
    if truncated not in ("true", "false", ""):
        raise listing_error("does not say whether it is the last page")
    if truncated == "true" and not token:
        raise listing_error("has more pages, and no token for them")
    return "" if truncated == "false" else token


def _entry(element: Element, prefix: str, decode: Decode) -> Entry | None:
    """Return the object, or None if its name cannot be a key, such as the markers of directories of other tools."""
    fields = child_texts(element)
    if "Key" not in fields:
        raise listing_error("has an object without a key")
    key = decode(fields["Key"])
    if key is None or not is_key(key, prefix):
        return None
    etag = fields.get("ETag", "").strip()
    if etag and not etag.endswith('"'):
        etag = f'"{etag}"'
    return Entry(key, parse_size(fields.get("Size", "").strip(), key), Version(etag) if etag.strip('"') else None)


def _prefix(element: Element, prefix: str, decode: Decode) -> str | None:
    fields = child_texts(element)
    if "Prefix" not in fields:
        raise listing_error("has a prefix without a name")
    name = decode(fields["Prefix"])
    return name if name is not None and name.endswith("/") and is_key(name[:-1], prefix) else None


def _decoded(text: str) -> str | None:
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:  # the name is not text
        return None


def _as_it_is(text: str) -> str:
    return text
