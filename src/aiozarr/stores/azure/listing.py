"""Listings of Azure: what they ask for, and their pages taken apart ("List Blobs" in Azure's documentation)."""

from __future__ import annotations

from urllib.parse import quote, unquote, urlencode
from xml.etree.ElementTree import Element

from aiozarr.model import Entry, Version
from aiozarr.stores.object.listing import Page, fault, is_key, size_in
from aiozarr.stores.object.service import PAGE
from aiozarr.stores.object.xml import local, parse_listing, texts


def listing_query(prefix: str, delimiter: str, marker: str) -> str:
    """Return the query of a request for a page; `""`: no delimiter, the first page.

    Metadata are asked for because they mark the folders of accounts with a hierarchical namespace.
    """
    query = {"restype": "container", "comp": "list", "include": "metadata", "maxresults": str(PAGE)}
    more = {"prefix": prefix, "delimiter": delimiter, "marker": marker}
    return urlencode(query | {name: value for name, value in more.items() if value}, quote_via=quote, safe="")


def parse_page(body: bytes, prefix: str) -> Page:
    """Take a page apart.

    Raises:
        StoreError: it is none.
    """
    root = parse_listing(body, "EnumerationResults")
    entries: list[Entry] = []
    prefixes: list[str] = []
    blobs = _named(root, "Blobs")
    for child in () if blobs is None else blobs:
        if local(child) == "Blob":
            entry = _entry(child, prefix)
            if entry is not None:
                entries.append(entry)
        elif local(child) == "BlobPrefix":
            name = _name(child)
            if name is not None and name.endswith("/") and is_key(name[:-1], prefix):
                prefixes.append(name)
    return Page(entries, prefixes, texts(root).get("NextMarker", ""))


def _entry(element: Element, prefix: str) -> Entry | None:
    """Return the blob; None: its name can be no key, or it is a folder."""
    name, properties = _name(element), _named(element, "Properties")
    if name is None or not is_key(name, prefix):
        return None
    told = {} if properties is None else texts(properties)
    size = size_in(told.get("Content-Length", "").strip(), name)
    if told.get("ResourceType") == "directory" or _marks_folder(_named(element, "Metadata")):
        return None
    etag = told.get("Etag", "").strip()
    if etag and not etag.endswith('"'):  # in listings there are no quotes
        etag = f'"{etag}"'
    return Entry(name, size, Version(etag) if etag.strip('"') else None)


def _marks_folder(metadata: Element | None) -> bool:
    told = {} if metadata is None else texts(metadata)
    return any(name.lower() == "hdi_isfolder" and value.strip().lower() == "true" for name, value in told.items())


def _name(element: Element) -> str | None:
    """Return the name; None: it is no text. One that XML cannot hold is percent-encoded, and said to be."""
    found = _named(element, "Name")
    if found is None:
        raise fault("has a blob without a name")
    text = found.text or ""
    if found.get("Encoded") != "true":
        return text
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None


def _named(element: Element, name: str) -> Element | None:
    return next((child for child in element if local(child) == name), None)
