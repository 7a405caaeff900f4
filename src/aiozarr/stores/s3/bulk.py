"""The answer to a bulk delete: which keys are left, and why (S3 API reference, "DeleteObjects")."""

from __future__ import annotations

import re
from html import unescape

from aiozarr.errors import StoreError
from aiozarr.stores.http.errors import error_for

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
    """Return the error of each key that an answer names; None: `text` holds no answer to a bulk delete."""
    result = _RESULT.search(text)
    if result is None:
        return None
    failures: dict[str, StoreError] = {}
    for found in _FAILURE.finditer(result[0]):
        key, code = _KEY.search(found[1]), re.search(r"<Code>([A-Za-z]+)</Code>", found[1])
        if key is None:
            return None
        if code is not None and code[1] == "NoSuchKey":
            continue
        status = 400 if code is None else _STATUS_OF.get(code[1], 400)
        failures[unescape(key[1])] = error_for(status, {}, found[0].encode())
    return failures
