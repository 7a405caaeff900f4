"""The translation of error documents of both APIs of GCS to typed errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aiozarr.errors import StoreError, ThrottledError, UnauthenticatedError
from aiozarr.stores.gcs.tokens import HINT
from aiozarr.stores.http.errors import error_code, error_for, showable

_TOO_MUCH = frozenset({"rateLimitExceeded", "userRateLimitExceeded"})


def gcs_error(status: int, headers: Mapping[bytes, bytes], body: bytes) -> StoreError:
    """Return the error for a response; the store adds its URL, the key and the range."""
    error = error_for(status, headers, body)
    if error_code(body) is None:
        reason, message = _reason_and_message(body)
        if reason is not None:
            error.message += f": {reason}"
        text = None if message is None else showable(message)
        if text is not None:
            error.message += f", {text!r}"
        if reason in _TOO_MUCH:
            error = _throttled(error)
    if status == 404 and b"bucket does not exist" in body:
        error.message = error.message.replace("not found", "the bucket does not exist", 1)
    if isinstance(error, UnauthenticatedError):
        error.message += f"; {HINT}"
    elif status == 400 and (b"UserProjectMissing" in body or b"requester pays" in body):
        error.message += "; requester_pays='PROJECT' names the project that pays"
    elif error.status == 400 and (b"BadDigest" in body or b"crc32c" in body.lower()):
        error.message = "the value was damaged on its way to the server, which refused it"
        error.retryable = True
    return error


def _throttled(error: StoreError) -> StoreError:
    return ThrottledError(
        error.message,
        status=error.status,
        request_id=error.request_id,
        retry_after=error.retry_after,
    )


def _reason_and_message(body: bytes) -> tuple[str | None, str | None]:
    """Return reason and message of an error of the JSON API."""
    if not body.lstrip().startswith(b"{"):
        return None, None
    try:
        found: Any = json.loads(body)["error"]
        reasons = found.get("errors") or [{}]
        return _short(reasons[0].get("reason")), _short(found.get("message"))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        return None, None


def _short(text: Any) -> str | None:
    return text[:300] if isinstance(text, str) and text else None
