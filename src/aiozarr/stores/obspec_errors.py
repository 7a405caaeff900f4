"""Translates errors of objects with obspec's methods. Those of obstore have status and code only in their text."""

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
from aiozarr.stores.http.object_client import error_for, server_words

_STATUS = re.compile(r"status code: (\d{3})")
_BODY = re.compile(r"status code: \d{3}[^:\n]{0,60}: ([^\0]*?)(?:\n\nDebug source:|\Z)")
# Some servers quote the request in their message: its URL, its query, its headers.
_QUOTES_REQUEST = re.compile(
    r"[?=&{}<>\"]|://|authorization|bearer|token|cookie|secret|password|signature|\bx-|[a-z0-9+/_-]{32,}", re.IGNORECASE
)
MAX_TEXT_CHARS = 4000
_REQUEST_ID = re.compile(r"(?:<RequestId>|RequestId:)([A-Za-z0-9+/=_-]{1,200})")
_METADATA_SERVICES = ("169.254.169.254", "169.254.170.2", "fd00:ec2::254", "/latest/api/token", "/latest/meta-data")
NO_TOKEN = ("performing token request", "az account get-access-token", "federated token file")
"""Parts of messages about requests for tokens, which are not sent to the store."""

# Conflicts that obstore reports as failed preconditions: a race that may be retried, a missing or deleted bucket, and
# blobs that are directories, or protected by a lease or a policy.
_OTHER_CONFLICT = re.compile(
    r"<Code>(ConditionalRequestConflict|OperationAborted|NoSuchBucket|ContainerBeingDeleted|Lease\w+|BlobImmutable\w+"
    r"|PendingCopyOperation|ResourceTypeMismatch|PathConflict|PublicAccessNotPermitted|AccountBeingCreated)</Code>"
)
_PANICS = frozenset({"RustPanic", "PanicException"})
_NO_CREDENTIALS = re.compile(r"credential provider: NoCredentialsError: ([^\n]{1,500})")
ANON = "anon=True reads public data without credentials"
_LISTED = "Encountered object with invalid path"
_PATH = re.compile(r'Path "([^"\n]{1,300})"')
_CERTIFICATE = ("certificate", "CertificateError", "UnknownIssuer", "CertExpired", "NotValidForName")


def translate_obstore(error: BaseException) -> StoreError:
    """Return the store error for `error`. Its text may contain signed URLs and is not repeated."""
    from obstore import exceptions

    text = str(error)[:MAX_TEXT_CHARS]
    if type(error).__name__ in _PANICS:
        return StoreError("the client library failed within itself (a panic, which standard error tells more of)")
    match error:
        case exceptions.AlreadyExistsError() | exceptions.PreconditionError() if not _OTHER_CONFLICT.search(text):
            return _found(PreconditionFailedError("another version is stored, or none"), text)
        case exceptions.UnauthenticatedError():
            told = _NO_CREDENTIALS.search(text)
            if told is not None:
                return UnauthenticatedError(f"no credentials: {told[1]} ({ANON})")
            return UnauthenticatedError("no credentials, or they were rejected")
        case exceptions.InvalidPathError() if _LISTED in text:
            path = _PATH.search(text)
            return StoreError(
                "the listing has an object with a key that this store does not support"
                f"{'' if path is None else f', {path[1]!r}'}: remove it with the tool that wrote it"
            )
        case exceptions.InvalidPathError() | ValueError():
            return InvalidKeyError("the store does not support keys with control characters or an empty segment")
    asked = text.partition("\n")[0]  # the first line: the server and the outcome
    if any(service in asked for service in _METADATA_SERVICES):
        return UnauthenticatedError(f"no credentials were found ({ANON})")
    if "Azure Cli not installed" in asked:
        return UnauthenticatedError("cannot get a token: the Azure CLI, the program 'az', was not found")
    if any(words in asked for words in NO_TOKEN) and not _is_network(asked):
        login = " (run `az login`)" if "az account" in asked else ""
        return UnauthenticatedError(
            f"cannot get a token: the login has expired, or the credentials were rejected{login}"
        )
    status = _STATUS.search(text)
    if status is not None:
        return _found(error_for(int(status[1]), {}, _document(text)), text)
    if "<Code>" in text:  # an error with status 200, as at the end of a multipart upload
        return _found(error_for(200, {}, _document(text)), text)
    if "redirect without LOCATION" in text:
        return StoreError("the server redirects: the bucket is in another region", status=301)
    if any(word in text for word in _CERTIFICATE):
        return StoreError("the server's certificate is not valid")
    if "timed out" in text or "TimedOut" in text:
        return StoreTimeoutError("no response within the timeout")
    if "invalid list response" in asked:
        return StoreError("the server's listing is invalid or truncated", retryable=True)
    if "ETag Header missing" in asked:
        return StoreError("the response to the write has no ETag, so the stored version is unknown")
    if "dns error" in text:
        is_temporary = "Temporary failure in name resolution" in text or "Try again" in text  # glibc, musl
        return StoreError("the server's name does not resolve", retryable=is_temporary)
    return StoreError("the connection failed", retryable=_is_network(text))


def _document(text: str) -> bytes:
    """Return the server's error document, with its code only if the message may quote the request."""
    found = _BODY.search(text)
    body = (text[text.find("<") :] if found is None else found[1]).encode()
    words, code = server_words(body), error_code(body)
    if words is None or not _QUOTES_REQUEST.search(words):
        return body
    return b"" if code is None else f"<Code>{code}</Code>".encode()


def _is_network(text: str) -> bool:
    return "error sending request" in text or "HTTP error" in text or "connection" in text.lower()


def _found(error: StoreError, text: str) -> StoreError:
    status, request = _STATUS.search(text), _REQUEST_ID.search(text)
    if status is not None:
        error.status = int(status[1])
    if request is not None:
        error.request_id = request[1]
    return error


_CLASSES: dict[str, tuple[type[StoreError], str]] = {
    "AlreadyExistsError": (PreconditionFailedError, "an object is stored there"),
    "PreconditionError": (PreconditionFailedError, "another version is stored, or none"),
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
    """Return the store error for an error of an obspec object. Its text may contain signed URLs and is not repeated."""
    if isinstance(error, StoreError):
        return error
    names = _names(error)
    for name, (kind, message) in _CLASSES.items():
        if name in names:
            return kind(message)
    if is_of_obstore(error) or _BODY.search(str(error)[:MAX_TEXT_CHARS]):  # a missing file is Python's own class
        return translate_obstore(error)
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
