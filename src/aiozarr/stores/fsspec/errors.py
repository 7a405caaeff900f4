"""Translates exceptions of file systems by a status or a code in the chain of causes, or by their class."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aiozarr.errors import (
    PermissionDeniedError,
    ShortReadError,
    StoreError,
    StoreTimeoutError,
    ThrottledError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.stores.http.missing_objects import CONTAINER_CODES, MISSING
from aiozarr.stores.http.object_client import error_for
from aiozarr.stores.reference.guard import shown_location

MAX_CAUSES = 8

_CODE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NO_SUCH_ARGUMENT = re.compile(r"unexpected keyword argument '(\w{1,64})'")
_NO_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
# FTP has one reply code for all refusals, so only the text distinguishes missing files from denied ones.
_NOT_THERE = re.compile(
    r"550\b(?!.*\b(?:denied|permission|privilege|access))"
    r".*\b(?:no such file|not found|cannot find|does not exist|(?:is|not) a directory|not a (?:plain|regular) file)",
    re.IGNORECASE | re.DOTALL,
)
# By name, because the packages that define them need not be installed.
_UNKNOWN_CALLER = frozenset(
    {
        "AuthenticationException", "ClientAuthenticationError", "CredentialRetrievalError", "DefaultCredentialsError",
        "NoCredentialsError", "PartialCredentialsError", "RefreshError", "SSOTokenLoadError", "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    }
)  # fmt: skip
_CUT_OFF = frozenset({"ChunkedEncodingError", "ClientPayloadError", "IncompleteRead", "IncompleteReadError"})
_CONNECTION = frozenset(
    {
        "ClientConnectionError", "ClientOSError", "ConnectionClosedError", "ConnectionError", "EOFError",
        "EndpointConnectionError", "HTTPClientError", "ProxyError", "ServerDisconnectedError", "error_temp",
    }
)  # fmt: skip
_CERTIFICATE = frozenset({"ClientConnectorCertificateError", "ClientConnectorSSLError", "SSLCertVerificationError"})
_TRANSIENT = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EBUSY, errno.ETIMEDOUT, errno.ENETUNREACH, errno.EHOSTUNREACH}
)


@dataclass
class ErrorFacts:
    """Status, code and headers of a server's response, from an exception; `kind`: the key of `MISSING`, if known."""

    kind: str | None = None
    status: int | None = None
    code: str | None = None
    headers: dict[bytes, bytes] = field(default_factory=dict)


def translate(error: Exception) -> StoreError:
    """Return the store error for `error`; its text may contain signed URLs and is not repeated."""
    for each in _chain(error):
        if isinstance(each, StoreError):
            return each
    target = getattr(error, "target", None)
    if type(error).__name__ == "ReferenceNotReachable" and isinstance(error.__cause__, Exception):
        found = translate(error.__cause__)
        found.message += f"; the key is a reference to {shown_location(str(target))!r}"
        return found
    facts = facts_of(error)
    if facts.status is not None:
        found = error_for(facts.status, facts.headers, f"<Code>{facts.code}</Code>".encode() if facts.code else b"")
        is_of_proxy = facts.kind is not None and facts.code is None
        return found if type(found) is not StoreError or facts.status != 404 or is_of_proxy else _gone(facts)
    return _by_kind(error)


def is_missing_file(error: BaseException) -> bool:
    """Return whether `error` means that this file is missing, not its bucket, its server or a permission.

    Some file systems report any failed lookup as a missing file; the cause of their error shows it.
    """
    if not isinstance(error, _NO_FILE):
        return False
    facts = facts_of(error)
    if facts.code in CONTAINER_CODES or facts.status not in (None, 404):
        return False
    if facts.kind is not None and facts.status == 404:
        # The document of the error is not known, but its code, and whether it was empty.
        is_empty = facts.code is None and facts.headers.get(b"content-length") == b"0"
        document = b"" if is_empty else f"<Code>{facts.code}</Code>".encode()
        return MISSING[facts.kind]({b"x-ms-error-code": str(facts.code).encode()}, document)
    cause = error.__cause__
    if type(cause).__name__ == "error_perm":  # of ftplib
        return _NOT_THERE.match(str(cause)) is not None
    return facts.status == 404 or cause is None or isinstance(cause, KeyError) or is_missing_file(cause)


def is_missing_in_listing(error: BaseException) -> bool:
    """Return whether `error` means that a listing lacks this file; a listing over FTP may fail without an error."""
    return isinstance(error, FileNotFoundError) and isinstance(error.__cause__, StopIteration)


def is_refused_key(error: BaseException, path: str) -> bool:
    """Return whether `error` means that a table of references has no such key: fsspec parses its last part as numbers.

    The key of a chunk, which would read as the fill value, ends with numbers and is never refused so.
    """
    is_parsed = type(error) is ValueError and str(error).startswith("invalid literal for int()")
    return is_parsed and not path.rpartition("/")[2].replace(".", "").isdigit()


def refuses_range(error: BaseException) -> bool:
    """Return whether `error` means that the file has no byte of the requested range (416)."""
    facts = facts_of(error)
    return facts.status == 416 or facts.code == "InvalidRange"


def facts_of(error: BaseException) -> ErrorFacts:
    """Return status, code and headers of the response that led to `error`."""
    facts = ErrorFacts()
    for each in _chain(error):
        if type(each).__name__ in _CUT_OFF:
            break  # the `code` of aiohttp's cause is not a status
        with suppress(Exception):  # attributes of foreign errors may be properties that fail
            _look_into(each, facts)
        if facts.status is not None:
            break
    return facts


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(MAX_CAUSES):
        if error is None:
            return
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _look_into(error: BaseException, facts: ErrorFacts) -> None:
    response: Any = getattr(error, "response", None)
    if isinstance(response, Mapping):  # botocore
        told: Any = response.get("ResponseMetadata") or {}
        facts.status = _status(told.get("HTTPStatusCode"))
        facts.headers = _headers(told.get("HTTPHeaders"))
        code = (response.get("Error") or {}).get("Code")
        # Without a document, botocore takes the status for the code. The response to a HEAD never has a document.
        facts.code = code if isinstance(code, str) and _CODE.fullmatch(code) and not code.isdigit() else None
        is_head = str(getattr(error, "operation_name", "")).startswith("Head")
        facts.kind = None if is_head else "s3"
        return
    if type(error).__module__.startswith("azure."):
        facts.kind, code = "az", getattr(error, "error_code", None)
        facts.code = str(getattr(code, "value", code)) if code else None
    # aiohttp, Azure, Google, in this order; errors of requests and Azure have the response.
    for name in ("status", "status_code", "code"):
        if (number := getattr(error, name, None)) is not None:
            facts.status = facts.status or _status(number)
            break  # reading `code` of aiohttp's errors warns
    if response is not None:
        facts.status = facts.status or _status(getattr(response, "status_code", None))
    if facts.status is not None:
        facts.headers = _headers(getattr(error, "headers", None) or getattr(response, "headers", None))
    elif type(error) is OSError and str(error).startswith("Forbidden: "):  # gcsfs
        facts.status = 403


def _status(value: Any) -> int | None:
    try:
        number = int(value)
    except (TypeError, ValueError):
        return None
    return number if 300 <= number < 600 else None


def _headers(found: Any) -> dict[bytes, bytes]:
    if not isinstance(found, Mapping):
        return {}
    return {
        str(name).lower().encode("latin-1", "replace"): str(value).encode("latin-1", "replace")
        for name, value in found.items()
    }


def _gone(facts: ErrorFacts) -> StoreError:
    what = "the bucket does not exist" if facts.code in CONTAINER_CODES else "not found"
    return StoreError(what, status=facts.status)


def _by_kind(error: Exception) -> StoreError:
    names = {kind.__name__ for each in _chain(error) for kind in type(each).__mro__}
    if names & _UNKNOWN_CALLER:
        return UnauthenticatedError("no credentials, or they are not accepted")
    if names & _CUT_OFF:
        return ShortReadError("the response ended early")
    if names & _CERTIFICATE:
        return StoreError("the server's certificate is not valid")
    if isinstance(error, TimeoutError) or any(name.endswith(("Timeout", "TimeoutError")) for name in names):
        return StoreTimeoutError("no answer within the time that the file system allows")
    if isinstance(error, TypeError) and (option := _NO_SUCH_ARGUMENT.search(str(error))) is not None:
        return StoreError(f"the file system does not take the argument {option[1]!r}")
    if isinstance(error, PermissionError):
        return PermissionDeniedError("the file system refuses")
    if isinstance(error, NotImplementedError):
        return UnsupportedOperationError("the file system does not do this")
    if names & _CONNECTION:
        return StoreError("the connection failed", retryable=True)
    if isinstance(error, _NO_FILE):
        return StoreError("not found")
    if isinstance(error, OSError) and error.errno is not None and error.errno in errno.errorcode:
        if error.errno == errno.EBUSY:
            return ThrottledError("the server asks for less")
        reason = f"{os.strerror(error.errno)} [{errno.errorcode[error.errno]}]"
        return StoreError(reason, retryable=error.errno in _TRANSIENT)
    return StoreError(f"the file system failed with {type(error).__name__}")
