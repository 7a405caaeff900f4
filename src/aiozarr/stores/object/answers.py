"""Answers that are no cloud's: pages for people, and 404s that may be about something else than the object."""

from __future__ import annotations

import re

from aiozarr.stores.http.errors import error_code

NO_ANSWER = "a page for people came in place of an answer, as from a proxy or a login"

_PAGE = re.compile(rb"\s*(?:<!doctype\s+html|<html)", re.IGNORECASE)


def is_page(body: bytes) -> bool:
    """Return whether an answer is a page for people, which comes from somebody else than the cloud."""
    return _PAGE.match(body) is not None  # the type that is told says little: some emulators call all of it HTML


def may_be_missing(body: bytes) -> bool:
    """Return whether a 404 can be about the object: it says so, or it says nothing."""
    return error_code(body) in (None, "NoSuchKey") and not is_page(body)
