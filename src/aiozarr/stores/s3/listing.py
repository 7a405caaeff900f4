"""Listings of S3: what they ask for, and their pages taken apart (S3 API reference, "ListObjectsV2")."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element

from aiozarr.model import Entry, Version
from aiozarr.stores.object.listing import Page, fault, is_key, size_in
from aiozarr.stores.object.service import PAGE
from aiozarr.stores.object.xml import local, parse_listing, texts

Decode = Callable[[str], str | None]


def listing_query(prefix: str, delimiter: str, token: str) -> dict[str, str]:
    """Return the parameters of a request for a page; `""`: no delimiter, the first page."""
    query = {"list-type": "2", "max-keys": str(PAGE), "encoding-type": "url", "prefix": prefix}
    if delimiter:
        query["delimiter"] = delimiter
    if token:
        query["continuation-token"] = token
    return query


def parse_page(body: bytes, prefix: str) -> Page:
    """Take a page apart.

    Raises:
        StoreError: it is none.
    """
    root = parse_listing(body, "ListBucketResult")
    told = texts(root)
    # Names are encoded where the answer says so: some servers do not know of it, and send them as they are.
    decode: Decode = _decoded if told.get("EncodingType") == "url" else _as_it_is
    entries = [entry for child in root if local(child) == "Contents" and (entry := _entry(child, prefix, decode))]
    prefixes = [name for child in root if local(child) == "CommonPrefixes" if (name := _prefix(child, prefix, decode))]
    return Page(entries, prefixes, _token(told))


def _token(told: dict[str, str]) -> str:
    token, truncated = told.get("NextContinuationToken", ""), told.get("IsTruncated", "").strip().lower()
    if truncated not in ("true", "false", ""):
        raise fault("does not say whether it goes on")
    if truncated == "true" and not token:
        raise fault("goes on, and does not say where")
    return "" if truncated == "false" else token


def _entry(element: Element, prefix: str, decode: Decode) -> Entry | None:
    """Return the object; None: its name can be no key, or marks a directory, as that of other tools with a slash."""
    told = texts(element)
    if "Key" not in told:
        raise fault("has an object without a key")
    key = decode(told["Key"])
    if key is None or not is_key(key, prefix):
        return None
    etag = told.get("ETag", "").strip()
    if etag and not etag.endswith('"'):
        etag = f'"{etag}"'
    return Entry(key, size_in(told.get("Size", "").strip(), key), Version(etag) if etag.strip('"') else None)


def _prefix(element: Element, prefix: str, decode: Decode) -> str | None:
    told = texts(element)
    if "Prefix" not in told:
        raise fault("has a prefix that is none")
    name = decode(told["Prefix"])
    return name if name is not None and name.endswith("/") and is_key(name[:-1], prefix) else None


def _decoded(text: str) -> str | None:
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError:  # a name that is no text
        return None


def _as_it_is(text: str) -> str:
    return text
