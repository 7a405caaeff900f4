"""Translates errors of obspec's objects by the names of their classes, as obspec defines it."""

from __future__ import annotations

from aiozarr.errors import (
    InvalidKeyError,
    PermissionDeniedError,
    PreconditionFailedError,
    StoreError,
    StoreTimeoutError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.stores.http.errors import error_for
from aiozarr.stores.obstore.errors import translate as translate_obstore

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


def is_missing(error: Exception) -> bool:
    """Return whether the error says that the object is not stored."""
    if {"NotFoundError", "FileNotFoundError"} & _names(error) or _http_status(error) in (404, 410):
        return True
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
    if is_of_obstore(error):
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
