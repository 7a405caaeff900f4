"""The messages of multipart uploads ("CreateMultipartUpload" and those that follow it in the S3 API reference)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from xml.etree.ElementTree import ParseError, fromstring

from aiozarr.http1.connection import Response
from aiozarr.model import UPLOAD_RECORD_PREFIX, Version
from aiozarr.stores.capabilities import UploadedPart
from aiozarr.stores.object.listing import child_texts, local_name

MAX_PARTS = 10_000
CHECKSUM_ALGORITHM = {"x-amz-checksum-algorithm": "CRC32C"}
"""The header that begins an upload whose parts have checksums."""


def parse_result(response: Response, name: str) -> dict[str, str] | None:
    """Return the members of the result `name`, or None if the response has another body, such as that of an error."""
    body = bytes(response.body)
    if response.status != 200 or b"<!DOCTYPE" in body:  # no declarations
        return None
    try:
        root = fromstring(body.strip())  # S3 may send spaces while it works
    except ParseError:
        return None
    return child_texts(root) if local_name(root) == name else None


def record_key(key: str, upload_id: str) -> str:
    """Return the key of the record of an unfinished upload of `key`."""
    folder, slash, _ = key.rpartition("/")
    return f"{folder}{slash}{UPLOAD_RECORD_PREFIX}{blake2b(upload_id.encode(), digest_size=16).hexdigest()}"


def new_record(key: str, upload_id: str) -> bytes:
    """Return the record of an upload of `key` that begins now, from which `clean` can abort it."""
    record = {"name": key.rpartition("/")[2], "upload": upload_id, "started": int(time.time())}
    return json.dumps(record).encode()


def completion(parts: Sequence[UploadedPart]) -> bytes:
    """Return the document that completes an upload of `parts`."""
    from html import escape  # imported on use: most programs upload nothing in parts

    lines = []
    for number, part in enumerate(parts, 1):
        checksum = "" if part.checksum is None else f"<ChecksumCRC32C>{part.checksum}</ChecksumCRC32C>"
        lines.append(f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(part.etag)}</ETag>{checksum}</Part>")
    return f"<CompleteMultipartUpload>{''.join(lines)}</CompleteMultipartUpload>".encode()


def result_version(result: Mapping[str, str]) -> Version | None:
    """Return the version that a result reports, or None."""
    etag = result.get("ETag", "").strip('"')
    return Version(f'"{etag}"') if etag else None
