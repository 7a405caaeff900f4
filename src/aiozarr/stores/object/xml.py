"""Documents of XML that servers send: bounded, and without declarations of their own that could expand or fetch."""

from __future__ import annotations

from xml.etree.ElementTree import Element, ParseError, XMLParser

from aiozarr.errors import StoreError
from aiozarr.stores.http.errors import error_for
from aiozarr.stores.object.answers import NO_ANSWER, is_page
from aiozarr.stores.object.listing import fault

MAX_TAGS = 1 << 19
"""Tags of a page, several hundred for each of a thousand objects: what is kept of one takes more than its bytes."""


def parse_listing(body: bytes, root: str) -> Element:
    """Take a page of a listing apart, whose root element is `root` in any namespace.

    Raises:
        StoreError: it is none; another try may bring one where it is no XML.
    """
    if is_page(body):
        raise StoreError(NO_ANSWER)
    # The encoding is fixed below, and UTF-16 has zeros, so that nothing is declared that is not found here.
    if b"<!DOCTYPE" in body or b"\0" in body:
        raise fault("declares what no listing does")
    if body.count(b"<") > MAX_TAGS:
        raise fault(f"has more than {MAX_TAGS} tags")
    parser = XMLParser(encoding="utf-8")
    try:
        parser.feed(body)
        element = parser.close()
    except (ParseError, ValueError, LookupError) as error:
        raise StoreError("the server's listing is not valid XML, or was cut short", retryable=True) from error
    found = local(element)
    if found == "Error":  # told under the status of a success
        raise error_for(500, {}, body)
    if found != root:
        raise fault(f"is no {root}, but {found[:40]!r}")
    return element


def local(element: Element) -> str:
    """Return the name of an element without its namespace: servers name several, or none."""
    return element.tag.rpartition("}")[2]


def texts(element: Element) -> dict[str, str]:
    """Return the text of each child of `element` by its name."""
    return {local(child): child.text or "" for child in element}
