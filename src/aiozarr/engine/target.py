"""What a caller names as a target (a URL, a local path, a store) becomes a store, and who closes it is settled."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from aiozarr.settings import Settings
from aiozarr.stores import Store, from_url
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.object.services import SERVICES

Target: TypeAlias = str | os.PathLike[str] | Store

_WEB = frozenset({"http", "https", *SERVICES, "s3a", "s3fs", "gcsfs", "ftp", "github"})
"""Schemes of stores that wait for servers."""


@asynccontextmanager
async def opened_store(
    target: Target, storage_options: Mapping[str, Any] | None, settings: Settings
) -> AsyncIterator[tuple[Store, bool]]:
    """Yield the store of `target` and whether it was made here; one that was made here is closed if the body fails.

    Runs on the I/O thread, where the connections of the store will be.

    Raises:
        TypeError: `target` is nothing of that kind, an option is not known, or options are given for a `Store`.
        UnknownSchemeError: no store opens such URLs; also a `ValueError`.
    """
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise TypeError(
            f"storage_options are a mapping of option names to values, not {type(storage_options).__name__}"
        )
    if isinstance(target, Store):
        if storage_options:
            raise TypeError("storage_options go with a URL; a Store already has its own")
        yield target, False
        return
    # Client libraries are imported and credentials looked up there: the loop does not wait for it.
    store = await in_thread(lambda: make_store(target, storage_options, settings))
    try:
        yield store, True
    except BaseException:
        await store.aclose()
        raise


def make_store(target: str | os.PathLike[str], storage_options: Mapping[str, Any] | None, settings: Settings) -> Store:
    """Return the store of a URL or local path; may read configuration files, and makes no request."""
    if not isinstance(target, (str, os.PathLike)):
        raise TypeError(f"a target is a URL, a local path or a Store, not {type(target).__name__}")
    if not os.fspath(target):
        raise ValueError("the target is empty; the working directory is '.'")
    options = dict(storage_options or {})
    if settings.durable and _is_local(os.fspath(target)):
        options.setdefault("durable", True)
    if _is_web(os.fspath(target)):
        _add_timeouts(options, settings)
    return from_url(target, **options)


def _is_local(place: str) -> bool:
    place = place.rpartition("::")[2]  # an archive lies where its file does
    return place.startswith("file://") or "://" not in place


def _is_web(place: str) -> bool:
    return place.rpartition("::")[2].partition("://")[0].lower() in _WEB


def _add_timeouts(options: dict[str, Any], settings: Settings) -> None:
    """Add `idle_timeout` for whatever waits for a server, unless `options` say how long that may take."""
    given = {name.lower().removeprefix("aws_") for name in _names(options)}
    for name, theirs in (("idle_timeout", "read_timeout"), ("connect_timeout", "connection_timeout")):
        if name not in given and theirs not in given:
            options[name] = settings.idle_timeout


def _names(options: Mapping[str, Any]) -> Iterator[str]:
    """Iterate over the names of options, those in mappings of options (`client_options`, `s3`) among them."""
    for name, value in options.items():
        yield name
        if isinstance(value, Mapping):
            yield from _names(value)
