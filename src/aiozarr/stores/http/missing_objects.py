"""Which response says that an object is not stored: one table by kind of store, for reads, writes and deletes alike.

A proxy or an ingress sends a 404 of its own while the server behind it restarts. It says nothing about an object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_CODE = re.compile(rb"<Code>([A-Za-z0-9._-]{1,64})</Code>")

CONTAINER_CODES = frozenset(
    {"NoSuchBucket", "AllAccessDisabled", "ContainerNotFound", "ContainerBeingDeleted", "FilesystemNotFound"}
    | {"ResourceNotFound", "AccountIsDisabled", "NoSuchAccount"}
)
"""Codes of the clouds for a bucket, a container or an account that is gone, or not public."""

_CONTAINER = re.compile(
    rb"\b(?:%s)\b|[Bb]ucket (?:[^\s<>]{1,100} )?does not exist" % "|".join(sorted(CONTAINER_CODES)).encode()
)


def error_code(body: bytes) -> str | None:
    """Return the `<Code>` of an error document, or None. The bounded bytes are searched, and not parsed as XML."""
    match = _CODE.search(body)
    return None if match is None else match[1].decode("ascii")


def names_container(headers: Mapping[bytes, bytes], body: bytes) -> bool:
    """Return whether a response says that it is the bucket, the container or the account that is missing."""
    code = (error_code(body) or "").encode() or body  # further words of the document may be names of objects
    return _CONTAINER.search(code) is not None or _CONTAINER.search(headers.get(b"x-ms-error-code", b"")) is not None


def _is_missing_in_s3(_: Mapping[bytes, bytes], body: bytes) -> bool:
    """Some gateways, such as source.coop, send a 404 without a body for a missing object."""
    return error_code(body) == "NoSuchKey" or not body.strip()


def _is_missing_in_gcs(headers: Mapping[bytes, bytes], body: bytes) -> bool:
    """XML, JSON, or the text of a download: "No such object: bucket/name" ("HTTP status and error codes" of GCS)."""
    if error_code(body) is not None or names_container(headers, body):
        return error_code(body) == "NoSuchKey"
    if body.startswith(b"No such object: "):
        return True
    try:
        document: Any = json.loads(body)
        # The test bench of Google's own libraries wraps the document of an error in another one.
        error = document.get("error", document)
        return error.get("code") == 404 and ("error" in document or "does not exist" in error.get("message", ""))
    except (ValueError, AttributeError, TypeError, RecursionError):
        return False


def _is_missing_in_azure(headers: Mapping[bytes, bytes], _: bytes) -> bool:
    """Without the permission to read a container, Azure sends ResourceNotFound for everything in it."""
    return headers.get(b"x-ms-error-code") in (b"BlobNotFound", b"PathNotFound")


MISSING: Mapping[str, Callable[[Mapping[bytes, bytes], bytes], bool]] = {
    "s3": _is_missing_in_s3,
    "gs": _is_missing_in_gcs,
    "az": _is_missing_in_azure,
    # A web server has pages of its own for missing files.
    "http": lambda headers, body: not names_container(headers, body),
}
"""By kind of store, a function of headers and body of a 404: whether it says that the object itself is missing."""

NOT_A_MISSING_OBJECT = frozenset(
    {"InvalidObjectState", "RequestTimeTooSkewed", "KeyNotFound", "AccountProblem", "BlobArchived"} | CONTAINER_CODES
)
"""Codes of a 403 which say that the object is stored, or that the fault is another one."""
