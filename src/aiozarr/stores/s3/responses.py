"""What responses of S3 contain: pages of listings, failures of bulk deletes, the bucket's region (S3 API reference).

The client library has the failures in the message of its error: the whole response, or only the first failed key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element

from aiozarr.errors import StoreError
from aiozarr.http1.response_check import Headers
from aiozarr.model import Entry, Version
from aiozarr.stores.http.errors import error_for
from aiozarr.stores.object.body_checksum import ALGORITHMS, BodyChecksum
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


_RESULT = re.compile(r"<DeleteResult\b.*?</DeleteResult>", re.DOTALL)
_FAILURE = re.compile(r"<Error>(.*?)</Error>", re.DOTALL)
_KEY = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)
_STATUS_OF = {
    "AccessDenied": 403,
    "InternalError": 500,
    "SlowDown": 503,
    "ServiceUnavailable": 503,
    "NoSuchBucket": 404,
    "MethodNotAllowed": 405,
}


def failures_in(text: str) -> dict[str, StoreError] | None:
    """Return the error of each key that a response names, or None if `text` contains no response to a bulk delete."""
    result = _RESULT.search(text)
    if result is None:
        return None
    from html import unescape  # imported on use, like in `first_failure`: most programs remove nothing

    failures: dict[str, StoreError] = {}
    for found in _FAILURE.finditer(result[0]):
        key, code = _KEY.search(found[1]), re.search(r"<Code>([A-Za-z]+)</Code>", found[1])
        if key is None:
            return None
        if code is not None and code[1] == "NoSuchKey":
            continue
        failures[unescape(key[1])] = _error("" if code is None else code[1], found[0])
    return failures


def first_failure(text: str, keys: Sequence[str]) -> tuple[int, StoreError] | None:
    """Return the position in `keys` of the first failed one and its error, or None if `text` names none of them."""
    _, named, rest = text.partition("\n")[0].partition(" request failed for key ")
    code = re.search(r"\(code: ([A-Za-z]+)\)$", rest)
    if not named or code is None:
        return None
    positions = [position for position, key in enumerate(keys) if rest.startswith(f"{key}: ")]
    if not positions:
        return None
    from html import escape

    position = max(positions, key=lambda position: len(keys[position]))
    message = rest[len(keys[position]) + 2 : code.start()].strip()
    document = f"<Error><Code>{code[1]}</Code><Message>{escape(message)}</Message></Error>"
    return position, _error(code[1], document)


def _error(code: str, document: str) -> StoreError:
    return error_for(_STATUS_OF.get(code, 400), {}, document.encode())


REDIRECTS = frozenset({301, 302, 307, 308})

_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_IN_DOCUMENT = re.compile(r"<Region>([^<]{1,40})</Region>")
_IN_HOST = re.compile(r"(?:^|[./])s3[.-]([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com")
_WRONG = re.compile(
    r"<Code>(PermanentRedirect|TemporaryRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint)"
)


def region_in(headers: Headers, document: str) -> str | None:
    """Return the region that a response names, or None."""
    region = headers.get(b"x-amz-bucket-region", b"").decode("latin-1")
    if not region:
        found = _IN_DOCUMENT.search(document)
        region = "" if found is None else found[1]
    if not region:
        location = headers.get(b"location", b"").decode("latin-1")
        found = _IN_HOST.search(location) or _IN_HOST.search(document)
        region = "" if found is None else found[1]
    return region if _REGION.fullmatch(region) else None


def is_elsewhere(status: int | None, document: str) -> bool:
    """Return whether a response says that the bucket is in another region, or the signature is for another one."""
    return status in REDIRECTS or (status == 400 and _WRONG.search(document) is not None)


_CHECKSUMS = [(name, f"x-amz-checksum-{name.lower()}".encode()) for name in ALGORITHMS]
_BASE64 = re.compile(rb"[A-Za-z0-9+/]+={0,2}")


def stored_checksum(headers: Headers) -> BodyChecksum | None:
    """Return the checksum of a whole object in the headers of a response ("Checking object integrity").

    The checksum of an object that was uploaded in parts may be one of their checksums. It ends with their number, and
    tells nothing about a body.
    """
    if headers.get(b"x-amz-checksum-type", b"").upper() == b"COMPOSITE":
        return None
    for name, header in _CHECKSUMS:
        value = headers.get(header)
        if value is not None and _BASE64.fullmatch(value):
            return BodyChecksum(name, value)
    return None
