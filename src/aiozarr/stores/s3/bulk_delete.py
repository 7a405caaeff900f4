"""Failures of bulk deletes, by key (S3 API reference, "DeleteObjects").

The client library has them in the message of its error: the whole response, or only the first failed key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape, unescape

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
    """Return the error of each key that a response names, or None if `text` contains no response to a bulk delete."""
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
        failures[unescape(key[1])] = _error("" if code is None else code[1], found[0])
    return failures


def first_failure(text: str, keys: Sequence[str]) -> tuple[int, StoreError] | None:
    """Return the position in `keys` of the first failed one and its error, or None if `text` names none of them."""
    _, named, rest = text.partition("\n")[0].partition(" request failed for key ")
    code = re.search(r"\(code: ([A-Za-z]+)\)$", rest)
    if not named or code is None:
        return None
    positions = [position for position, key in enumerate(keys) if rest.startswith(f"{key}: ")]
    if not positions:
        return None
    position = max(positions, key=lambda position: len(keys[position]))
    message = rest[len(keys[position]) + 2 : code.start()].strip()
    document = f"<Error><Code>{code[1]}</Code><Message>{escape(message)}</Message></Error>"
    return position, _error(code[1], document)


def _error(code: str, document: str) -> StoreError:
    return error_for(_STATUS_OF.get(code, 400), {}, document.encode())
