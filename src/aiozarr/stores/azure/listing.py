"""Listings of Azure: their queries and their pages ("List Blobs" in Azure's documentation)."""

from __future__ import annotations

from urllib.parse import quote, unquote, urlencode
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


def listing_query(prefix: str, delimiter: str, marker: str) -> str:
    """Return the query of a request for a page; `""` means no delimiter, and the first page.

    Metadata are requested because they mark the folders of accounts with a hierarchical namespace.
    """
    query = {"restype": "container", "comp": "list", "include": "metadata", "maxresults": str(PAGE_SIZE)}
    more = {"prefix": prefix, "delimiter": delimiter, "marker": marker}
    return urlencode(query | {name: value for name, value in more.items() if value}, quote_via=quote, safe="")


def parse_page(body: bytes, prefix: str) -> ListingPage:
    """Parse a page.

    Raises:
        StoreError: it is not valid.
    """
    root = parse_xml_listing(body, "EnumerationResults")
    entries: list[Entry] = []
    prefixes: list[str] = []
    blobs = _named(root, "Blobs")
    for child in () if blobs is None else blobs:
        if local_name(child) == "Blob":
            entry = _entry(child, prefix)
            if entry is not None:
                entries.append(entry)
        elif local_name(child) == "BlobPrefix":
            name = _name(child)
            if name is not None and name.endswith("/") and is_key(name[:-1], prefix):
                prefixes.append(name)
    return ListingPage(entries, prefixes, child_texts(root).get("NextMarker", ""))


def _entry(element: Element, prefix: str) -> Entry | None:
    """Return the blob, or None if its name cannot be a key or it is a folder."""
    name, properties = _name(element), _named(element, "Properties")
    if name is None or not is_key(name, prefix):
        return None
    fields = {} if properties is None else child_texts(properties)
    size = parse_size(fields.get("Content-Length", "").strip(), name)
    if fields.get("ResourceType") == "directory" or _marks_folder(_named(element, "Metadata")):
        return None
    etag = fields.get("Etag", "").strip()
    if etag and not etag.endswith('"'):  # in listings there are no quotes
        etag = f'"{etag}"'
    return Entry(name, size, Version(etag) if etag.strip('"') else None)


def _marks_folder(metadata: Element | None) -> bool:
    fields = {} if metadata is None else child_texts(metadata)
    return any(name.lower() == "hdi_isfolder" and value.strip().lower() == "true" for name, value in fields.items())


def _name(element: Element) -> str | None:
    """Return the name, or None if it is not text. A name that XML cannot contain is percent-encoded, and marked."""
    found = _named(element, "Name")
    if found is None:
        raise listing_error("has a blob without a name")
    text = found.text or ""
    if found.get("Encoded") != "true":
        return text
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None


def _named(element: Element, name: str) -> Element | None:
    return next((child for child in element if local_name(child) == name), None)
