"""The messages of S3: listings, bulk deletes, multipart uploads, the bucket's region (S3 API reference)."""

from __future__ import annotations

import json
import re
import time
from base64 import b64decode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from urllib.parse import unquote_plus
from xml.etree.ElementTree import Element

from aiozarr.errors import StoreError
from aiozarr.http1.connection import Response
from aiozarr.http1.response_check import Headers
from aiozarr.http1.url import REDIRECTS
from aiozarr.model import UPLOAD_RECORD_PREFIX, Entry
from aiozarr.stores.bucket.bucket_client import ALGORITHMS, PAGE_SIZE, BodyChecksum
from aiozarr.stores.bucket.listing import (
    ListingPage,
    child_texts,
    etag_version,
    is_key,
    listing_error,
    local_name,
    parse_size,
    parse_xml,
)
from aiozarr.stores.capabilities import UploadedPart
from aiozarr.stores.http.object_client import error_for
from aiozarr.stores.s3.address import REGIONAL_HOST


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
    root = parse_xml(body, "ListBucketResult")
    fields = child_texts(root)
    # Some servers do not support encoded names, and send them as they are.
    is_encoded = fields.get("EncodingType") == "url"
    page = ListingPage([], [], _token(fields))
    for child in root:
        tag = local_name(child)
        if tag == "Contents":
            members = child_texts(child)
            key = _name(members, "Key", is_encoded)
            if key is not None and is_key(key, prefix):  # not a marker of a directory of another tool
                size = parse_size(members.get("Size", "").strip(), key)
                page.entries.append(Entry(key, size, etag_version(members.get("ETag", ""))))
        elif tag == "CommonPrefixes":
            name = _name(child_texts(child), "Prefix", is_encoded)
            if name is not None and name.endswith("/") and is_key(name[:-1], prefix):
                page.prefixes.append(name)
    return page


def _name(members: Mapping[str, str], member: str, is_encoded: bool) -> str | None:
    """Return the name of an object or a prefix, or None if it is not text."""
    if member not in members:
        raise listing_error("has an object without a key" if member == "Key" else "has a prefix without a name")
    try:
        return unquote_plus(members[member], errors="strict") if is_encoded else members[member]
    except UnicodeDecodeError:
        return None


def _token(fields: dict[str, str]) -> str:
    token, truncated = fields.get("NextContinuationToken", ""), fields.get("IsTruncated", "").strip().lower()
    if truncated not in ("true", "false", ""):
        raise listing_error("does not say whether it is the last page")
    if truncated == "true" and not token:
        raise listing_error("announces more pages without a token")
    return "" if truncated == "false" else token


# The status with which other requests get this code from S3.
_STATUS_OF = {
    "AccessDenied": 403,
    "InternalError": 500,
    "SlowDown": 503,
    "ServiceUnavailable": 503,
    "NoSuchBucket": 404,
    "MethodNotAllowed": 405,
}


def parse_document(response: Response, name: str) -> Element | None:
    """Return the root `name` of a result, or None if the response has another body, such as that of an error."""
    if response.status != 200:
        return None
    try:
        return parse_xml(bytes(response.body).strip(), name)  # S3 may send spaces while it works
    except StoreError:
        return None


def parse_result(response: Response, name: str) -> dict[str, str] | None:
    """Return the members of the result `name`, or None if the response has another body, such as that of an error."""
    root = parse_document(response, name)
    return None if root is None else child_texts(root)


# --- bulk deletes ----------------------------------------------------------------------------------------------------


def deletion(keys: Sequence[str]) -> bytes:
    """Return the document that deletes `keys` ("DeleteObjects")."""
    from html import escape  # imported here and below because most programs remove nothing

    objects = "".join([f"<Object><Key>{escape(key)}</Key></Object>" for key in keys])
    return f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{objects}</Delete>'.encode()


def failed_deletes(response: Response, keys: Sequence[str]) -> dict[str, StoreError] | None:
    """Return the error of each key that a response to a bulk delete names, or None if it is not a response to that."""
    from html import escape

    root = parse_document(response, "DeleteResult")
    if root is None:
        return None
    failures: dict[str, StoreError] = {}
    for child in root:
        fields = child_texts(child)
        code, key = fields.get("Code", ""), fields.get("Key", "")
        if local_name(child) == "Error" and code != "NoSuchKey":
            document = (
                f"<Error><Code>{escape(code)}</Code><Message>{escape(fields.get('Message', ''))}</Message></Error>"
            )
            error = error_for(_STATUS_OF.get(code, 400), response.headers, document.encode())
            error.status = response.status
            failures[key] = error
    return failures if failures.keys() <= set(keys) else None


# --- multipart uploads ("CreateMultipartUpload" and those that follow it) --------------------------------------------


def completion(parts: Sequence[UploadedPart], algorithm: str) -> bytes:
    """Return the document that completes an upload of `parts`, whose checksums are of `algorithm`."""
    from html import escape

    lines = []
    for number, part in enumerate(parts, 1):
        checksum = "" if part.checksum is None else f"<Checksum{algorithm}>{part.checksum}</Checksum{algorithm}>"
        lines.append(f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(part.etag)}</ETag>{checksum}</Part>")
    return f"<CompleteMultipartUpload>{''.join(lines)}</CompleteMultipartUpload>".encode()


def checksum_of_parts(parts: Sequence[UploadedPart], algorithm: str) -> str | None:
    """Return the checksum of an object as that of its parts' checksums, with their number; None if one has none."""
    compute = ALGORITHMS[algorithm]()
    if compute is None or not all(part.checksum for part in parts):
        return None
    joined = b"".join([b64decode(part.checksum or "") for part in parts])
    return f"{compute(memoryview(joined)).decode()}-{len(parts)}"


def record_key(key: str, upload_id: str) -> str:
    """Return the key of the record of an unfinished upload of `key`."""
    folder, slash, _ = key.rpartition("/")
    return f"{folder}{slash}{UPLOAD_RECORD_PREFIX}{blake2b(upload_id.encode(), digest_size=16).hexdigest()}"


def new_record(key: str, upload_id: str) -> bytes:
    """Return the record of an upload of `key` that begins now, from which `clean` can abort it."""
    record = {"name": key.rpartition("/")[2], "upload": upload_id, "started": int(time.time())}
    return json.dumps(record).encode()


# --- the bucket's region ---------------------------------------------------------------------------------------------

_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_IN_DOCUMENT = re.compile(r"<Region>([^<]{1,40})</Region>")
_WRONG = re.compile(
    r"<Code>(PermanentRedirect|TemporaryRedirect|AuthorizationHeaderMalformed|IllegalLocationConstraint)"
)


def region_in(headers: Headers, document: str) -> str | None:
    """Return the region that a response names, or None."""
    location = headers.get(b"location", b"").decode("latin-1")
    found = _IN_DOCUMENT.search(document) or REGIONAL_HOST.search(location) or REGIONAL_HOST.search(document)
    region = headers.get(b"x-amz-bucket-region", b"").decode("latin-1") or (found[1] if found else "")
    return region if _REGION.fullmatch(region) else None


def is_elsewhere(status: int | None, document: str) -> bool:
    """Return whether a response says that the bucket is in another region, or the signature is for another one."""
    return status in REDIRECTS or (status == 400 and _WRONG.search(document) is not None)


_CHECKSUMS = [(name, f"x-amz-checksum-{name.lower()}".encode()) for name in ALGORITHMS]
_BASE64 = re.compile(rb"[A-Za-z0-9+/]+={0,2}")


def stored_checksum(headers: Headers) -> BodyChecksum | None:
    """Return the checksum of a whole object in the headers of a response ("Checking object integrity").

    The checksum of an object that was uploaded in parts may be one of their checksums. It ends with their number, and
    does not apply to a body.
    """
    if headers.get(b"x-amz-checksum-type", b"").upper() == b"COMPOSITE":
        return None
    for name, header in _CHECKSUMS:
        value = headers.get(header)
        if value is not None and _BASE64.fullmatch(value):
            return BodyChecksum(name, value)
    return None
