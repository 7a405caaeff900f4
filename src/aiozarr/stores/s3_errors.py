"""Errors of the client library, translated once: statuses and codes are hidden in its words, and found there."""

from __future__ import annotations

import re

from aiozarr.errors import (
    InvalidKeyError,
    PreconditionFailedError,
    StoreError,
    StoreTimeoutError,
    UnauthenticatedError,
)
from aiozarr.stores.http_errors import error_for

_STATUS = re.compile(r"status code: (\d{3})")
_REQUEST_ID = re.compile(r"<RequestId>([A-Za-z0-9+/=_-]{1,200})</RequestId>")
_METADATA_SERVICES = ("169.254.169.254", "169.254.170.2", "fd00:ec2::254")
# What the library takes for a failed condition: a race that may be tried again, and a bucket that is not there.
_OTHER_CONFLICT = re.compile(r"<Code>(ConditionalRequestConflict|OperationAborted|NoSuchBucket)</Code>")
_CERTIFICATE = ("certificate", "CertificateError", "UnknownIssuer", "CertExpired", "NotValidForName")


def translate(error: Exception) -> StoreError:
    """Return the error of the contract that `error` means. Its own text may hold signed URLs and is not repeated."""
    from obstore import exceptions

    text = str(error)[:4000]
    match error:
        case exceptions.AlreadyExistsError() | exceptions.PreconditionError() if not _OTHER_CONFLICT.search(text):
            return _found(PreconditionFailedError("another version is stored, or none"), text)
        case exceptions.UnauthenticatedError():
            return UnauthenticatedError("no credentials, or they are not accepted")
        case exceptions.InvalidPathError() | ValueError():
            return InvalidKeyError("not a key that this store can hold: it has control characters or an empty segment")
    status = _STATUS.search(text)
    if status is not None:
        return _found(error_for(int(status[1]), {}, text.encode()), text)
    if "<Code>" in text:  # a failure told under status 200, as at the end of a multipart upload
        return _found(error_for(500, {}, text.encode()), text)
    if any(service in text for service in _METADATA_SERVICES):
        return UnauthenticatedError("no credentials were found (anon=True reads public buckets without any)")
    if any(word in text for word in _CERTIFICATE):
        return StoreError("the server's certificate is not valid")
    if "timed out" in text or "TimedOut" in text:
        return StoreTimeoutError("no answer within the time allowed")
    if "dns error" in text:
        return StoreError("the server's name does not resolve")
    return StoreError("the connection failed", retryable=_is_network(text))


def _is_network(text: str) -> bool:
    return "error sending request" in text or "HTTP error" in text or "connection" in text.lower()


def _found(error: StoreError, text: str) -> StoreError:
    status, request = _STATUS.search(text), _REQUEST_ID.search(text)
    if status is not None:
        error.status = int(status[1])
    if request is not None:
        error.request_id = request[1]
    return error


def is_missing(error: StoreError) -> bool:
    """Return whether `error` says that the object, and not its bucket, is not there."""
    return error.status == 404 and "NoSuchBucket" not in error.message
