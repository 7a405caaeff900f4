"""Translates errors of objects with obspec's methods, by their classes, and those of obstore by status and code.

obstore has the response of a server only in the text of its errors. Other texts of obstore are shown as they are.
"""

from __future__ import annotations

import re

from aiozarr.errors import (
    InvalidKeyError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    StoreTimeoutError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.stores.fsspec.errors import facts_of
from aiozarr.stores.http.missing_objects import CONTAINER_CODES, MISSING, error_code
from aiozarr.stores.http.object_client import MAX_SHOWN_CHARS, error_for, server_words

_STATUS = re.compile(r"status code: (\d{3})")
_BODY = re.compile(r"status code: \d{3}[^:\n]{0,60}: ([^\0]*?)(?:\n\nDebug source:|\Z)")
# Some servers quote the request in their message: its URL, its query, its headers.
_QUOTES_REQUEST = re.compile(
    r"[?=&{}<>\"]|://|authorization|bearer|token|cookie|secret|password|signature|\bx-|[a-z0-9+/_-]{32,}", re.IGNORECASE
)
MAX_TEXT_CHARS = 4000
_REQUEST_ID = re.compile(r"(?:<RequestId>|RequestId:)([A-Za-z0-9+/=_-]{1,200})")
_SECRETS = re.compile(r"(?<=://)[^\s/@]*@|\?\S*")
# Failures of the network that a repetition does not mend.
_LASTING = re.compile(
    r"certificate|dns error(?!.*(?:Temporary|Try again))|169\.254\.|/latest/|token request", re.DOTALL
)


def _of_obstore(text: str) -> StoreError:
    """Return the store error for the text of an error of obstore, in which a URL may be signed."""
    status = _STATUS.search(text)
    if status is not None or "<Code>" in text:  # an error with status 200, as at the end of a multipart upload
        found = error_for(200 if status is None else int(status[1]), {}, _document(text))
        request = _REQUEST_ID.search(text)
        found.request_id = found.request_id if request is None else request[1]
        return found
    is_network = "error sending request" in text or "HTTP error" in text or "connection" in text.lower()
    line = _SECRETS.sub("", text.partition("\n")[0])[:MAX_SHOWN_CHARS]
    shown = line if line.isprintable() else repr(line)  # of a server, perhaps
    return StoreError(shown, retryable=is_network and not _LASTING.search(text))


def _document(text: str) -> bytes:
    """Return the server's error document, with its code only if the message may quote the request."""
    found = _BODY.search(text)
    body = (text[text.find("<") :] if found is None else found[1]).encode()
    words, code = server_words(body), error_code(body)
    if words is None or not _QUOTES_REQUEST.search(words):
        return body
    return b"" if code is None else f"<Code>{code}</Code>".encode()


_CLASSES: dict[str, tuple[type[StoreError], str]] = {
    "AlreadyExistsError": (PreconditionFailedError, "an object is stored there"),
    "PreconditionError": (PreconditionFailedError, "the stored version differs, or there is none"),
    "PermissionDeniedError": (PermissionDeniedError, "permission denied"),
    "PermissionError": (PermissionDeniedError, "permission denied"),
    "UnauthenticatedError": (UnauthenticatedError, "no credentials, or they were rejected"),
    "InvalidPathError": (InvalidKeyError, "the store does not support this key"),
    "NotSupportedError": (UnsupportedOperationError, "the store does not support this operation"),
    "ValueError": (InvalidKeyError, "the store does not support this key"),
    "NotImplementedError": (UnsupportedOperationError, "the store does not support this operation"),
    "TimeoutError": (StoreTimeoutError, "no response within the timeout of the store"),
}


def is_missing(error: Exception, kind: str = "http") -> bool:
    """Return whether the error says that the object is not stored; `kind` is the key of `MISSING` for its server."""
    if {"NotFoundError", "FileNotFoundError"} & _names(error) or _http_status(error) in (404, 410):
        text = str(error)[:MAX_TEXT_CHARS]
        body = _BODY.search(text)
        if body is None:  # not from a server, or from a library whose errors do not have its words
            return facts_of(error).code not in CONTAINER_CODES
        document = body[1].encode()
        code = error_code(document)
        return " performing HEAD " not in text and MISSING[kind](
            {} if code is None else {b"x-ms-error-code": code.encode()}, document
        )
    # A key below the key of a file, or the name of a directory, in obstore's local store.
    return is_of_obstore(error) and any(kind in str(error) for kind in ("NotADirectory", "IsADirectory"))


def is_of_obstore(obj: object) -> bool:
    """Return whether an object, or an error, is of one of obstore's own classes."""
    return type(obj).__module__.partition(".")[0] == "obstore"


def translate(error: Exception) -> StoreError:
    """Return the store error for an error of an obspec object.

    The text of a library other than obstore may contain signed URLs and is not repeated.
    """
    if isinstance(error, StoreError):
        return error
    names = _names(error)
    for name, (kind, message) in _CLASSES.items():
        if name in names:
            return kind(message)
    if is_of_obstore(error) or _BODY.search(str(error)[:MAX_TEXT_CHARS]):  # a missing file is Python's own class
        return _of_obstore(str(error)[:MAX_TEXT_CHARS])
    status = _http_status(error)
    if status is not None:
        return error_for(status, {}, b"")
    is_network = isinstance(error, ConnectionError) or bool({"ClientConnectionError", "ClientPayloadError"} & names)
    return StoreError(f"the store failed with {type(error).__name__}", retryable=is_network)


def _http_status(error: Exception) -> int | None:
    """Return the status of a response that aiohttp has raised, which obspec-utils does not translate."""
    status = getattr(error, "status", None) if "ClientResponseError" in _names(error) else None
    return status if isinstance(status, int) and status >= 400 else None


def _names(error: Exception) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}
