"""Finds the secrets of a file system, and whether the text of an error contains one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from aiozarr.stores.fsspec.instances import InstanceSource, UrlSource

MAX_ERRORS = 32
MIN_SECRET_CHARACTERS = 3
"""Shorter secrets occur in any text."""

_SECRET = re.compile(r"secret|pass|pwd|token|key|auth|sig|sas|cred|cookie|header|connection_string|cert", re.IGNORECASE)
_PASSWORD = re.compile(r"(://[^:@/]*):[^/]*@")
# In any URL: a server may have redirected the client. The repr of aiohttp's errors contains headers.
_REVEALING = re.compile(r"://[^/\s'\"]*@|://[^\s'\"]*\?[^\s'\"]*=|authorization", re.IGNORECASE)


def secrets_of(recipe: InstanceSource | UrlSource, *more: str) -> frozenset[str]:
    """Return the texts that must not be shown: passwords and queries of URLs, and values of options with such names."""
    given = (recipe.fs,) if isinstance(recipe, InstanceSource) else (*recipe.url.split("::"), recipe.options)
    found = {text for each in (*given, *more) for text in _found_in(each, False)}
    return frozenset(text for text in found if len(text) >= MIN_SECRET_CHARACTERS)


def reveals(error: BaseException, secrets: frozenset[str]) -> bool:
    """Return whether `error` or a cause contains one of `secrets`, or any secret in a URL or a header."""
    return any(_REVEALING.search(text) or any(each in text for each in secrets) for text in _texts(error))


def without_secrets(url: str) -> str:
    """Return a URL without a password and without a query that may be secret."""
    shown, mark, query = _PASSWORD.sub(r"\1@", url).partition("?")
    secret = any(_SECRET.search(name) for name, _ in parse_qsl(query, keep_blank_values=True))
    return shown if secret else shown + mark + query


def _texts(error: BaseException) -> Iterator[str]:
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending and len(seen) < MAX_ERRORS:
        each = pending.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        pending += [each.__cause__, each.__context__]
        try:
            yield f"{each}\n{each!r}"
        except Exception:  # an error without text is not shown
            yield "authorization"


def _found_in(value: Any, secret: bool) -> Iterator[str]:
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        if secret:
            yield value
        if "://" in value:
            yield from _in_url(value)
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from _found_in(each, secret or _SECRET.search(str(name)) is not None)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _found_in(each, secret)
    elif isinstance(options := getattr(value, "storage_options", None), Mapping):
        yield from _found_in((options, getattr(value, "storage_args", ())), False)


def _in_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        password = parts.netloc.rpartition("@")[0].partition(":")[2]
        yield from (password, unquote(password), parts.query)
        yield from (each for _, each in parse_qsl(parts.query))
    except ValueError:
        yield url
