"""Opens the store of a target: a URL, a local path or a store. Decides who closes it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from aiozarr.errors import StoreError, UnknownSchemeError
from aiozarr.settings import DEFAULT_SETTINGS, Settings
from aiozarr.stores import Store, from_url
from aiozarr.stores.blocking import in_thread
from aiozarr.stores.capabilities import LocatingStore
from aiozarr.stores.schemes import REMOTE_STORES

if TYPE_CHECKING:
    from aiozarr.stores.obspec_store import GetAsync

Target: TypeAlias = "str | os.PathLike[str] | Store | GetAsync"
"""A URL, a local path, a `Store`, an object with obspec's methods, such as a store of obstore, or a store, a group or
an array of zarr-python."""


@asynccontextmanager
async def opened_store(
    target: Target, storage_options: Mapping[str, Any] | None, settings: Settings
) -> AsyncIterator[tuple[Store, bool]]:
    """Yield the store of `target`, and whether it was made here. A store made here is closed if the body fails.

    Runs on the I/O thread, where the connections of the store will be.

    Raises:
        TypeError: `target` is no target, an option is unknown, or options are given for a `Store`.
        UnknownSchemeError: no store opens such URLs. It is a `ValueError`, too.
    """
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise TypeError(
            f"storage_options must be a mapping of option names to values, not {type(storage_options).__name__}"
        )
    if isinstance(target, Store):
        if storage_options:
            raise TypeError("storage_options need a URL; a Store already has its own options")
        _limit_documents(target, settings)
        yield target, False
        return
    # Imports client libraries and looks up credentials, which would hold up the loop.
    store = await in_thread(lambda: make_store(target, storage_options, settings))
    _limit_documents(store, settings)
    try:
        yield store, True
    except BaseException:
        await store.aclose()
        raise


def _limit_documents(store: Store, settings: Settings) -> None:
    """Apply `max_metadata_bytes` to documents of references if it is lower than the default, which is too low for them.

    Such a document describes all chunks of many arrays.
    """
    inner: object = store
    while isinstance(inner, Store) and not isinstance(inner, LocatingStore):
        inner = getattr(inner, "store", None)
    if isinstance(inner, LocatingStore):
        max_bytes = settings.max_metadata_bytes
        inner.limit_documents(max_bytes if max_bytes < DEFAULT_SETTINGS.max_metadata_bytes else None)


async def close_own_store(store: Store) -> None:
    """Close a store that was made here. Nobody can close it again: an archive that cannot be written leaves no file.

    Raises:
        StoreError: it could not be closed.
    """
    try:
        await store.aclose()
    except StoreError as error:
        from aiozarr.stores.zip.local_zip import LocalZipStore

        if isinstance(store, LocalZipStore):
            await store.give_up(error)
        raise


def check_schemes(target: object, schemes: Collection[str] | None) -> None:
    """Check that the location of a target, and each link of a chain of fsspec, has one of `schemes`; None: any.

    A local path has the scheme `file`. An object that is no location, such as a `Store`, was made by the caller.

    Raises:
        UnknownSchemeError: the location has another scheme.
        TypeError: `schemes` is one string.
    """
    if schemes is None:
        return
    if isinstance(schemes, str):
        raise TypeError(f"schemes must be a collection, as in schemes=({schemes!r},), not a string")
    if not isinstance(target, str | os.PathLike):
        return
    *links, last = (target if isinstance(target, str) else "").split("::")
    found = [link.partition("://")[0] for link in links] + [last.partition("://")[0] if "://" in last else "file"]
    allowed = {scheme.lower() for scheme in schemes}
    for scheme in found:
        if scheme.lower() not in allowed:
            raise UnknownSchemeError(
                f"the scheme {scheme!r} of the location is not allowed; schemes= allows "
                f"{', '.join(sorted(allowed)) or 'none'}"
            )


def make_store(
    target: str | os.PathLike[str] | GetAsync, storage_options: Mapping[str, Any] | None, settings: Settings
) -> Store:
    """Return the store of a URL, a local path or an obspec object. May read configuration files; sends no request."""
    if not isinstance(target, (str, os.PathLike)):
        is_foreign = _is_of_zarr(target)
        if not is_foreign and not hasattr(target, "get_async"):
            raise TypeError(
                "a target must be a URL, a local path, a Store, a zarr-python object or an object with obspec's "
                f"methods, not {type(target).__name__}{_advice(target)}"
            )
        if storage_options:
            raise TypeError("storage_options need a URL; a store of another library already has its own options")
        if is_foreign:
            from aiozarr.stores.zarr_python_mapping import from_zarr

            return from_zarr(target)
        from aiozarr.stores.obspec_store import from_obspec

        return from_obspec(target)
    if not os.fspath(target):
        raise ValueError("the target is empty; use '.' for the working directory")
    options = dict(storage_options or {})
    if settings.fsync and _is_local(os.fspath(target)):
        options.setdefault("fsync", True)
    if _is_remote(os.fspath(target)):
        _add_timeouts(options, settings)
    return from_url(target, **options)


def _is_of_zarr(target: object) -> bool:
    """Return whether `target` is a store, a group or an array of zarr-python."""
    abstract = sys.modules.get("zarr.abc.store")
    if abstract is None:
        return False  # nothing of it can have been made
    place = getattr(target, "store_path", None)
    return isinstance(target if place is None else getattr(place, "store", None), abstract.Store)


def _advice(target: object) -> str:
    """Return how to open what other libraries call a store, or nothing."""
    if isinstance(target, dict):
        return "; aiozarr.stores.MemoryStore() is a store in memory"
    package = type(target).__module__.partition(".")[0]
    if package == "aiozarr" and hasattr(target, "url"):
        return "; pass its `url`, or its `store` and `path`"
    if package == "fsspec" or hasattr(target, "get_mapper"):
        return "; aiozarr.stores.FsspecStore takes fsspec mappers and file systems"
    if package == "icechunk":
        return "; aiozarr.integrations.icechunk.from_session takes a session and returns a store"
    return ""


def _is_local(place: str) -> bool:
    place = place.rpartition("::")[2]  # the store of an archive's file
    return place.lower().startswith("file://") or "://" not in place


def _is_remote(place: str) -> bool:
    """Return whether aiozarr itself opens a URL of a server; fsspec's file systems have timeouts of their own."""
    *links, last = place.split("::")
    are_own = all(link.partition("://")[0] in ("zip", "reference") for link in links)
    return are_own and last.partition("://")[0].lower() in REMOTE_STORES


def _add_timeouts(options: dict[str, Any], settings: Settings) -> None:
    """Add the timeouts of `settings` for stores that wait for a server, unless `options` have timeouts."""
    given = set(_names(options))
    for name, theirs in (("idle_timeout", "read_timeout"), ("connect_timeout", "connection_timeout")):
        if name not in given and theirs not in given:
            options[name] = settings.idle_timeout


def _names(options: Mapping[str, Any]) -> Iterator[str]:
    """Iterate over the names of options, and of those in nested mappings (`config_kwargs`, `s3`)."""
    for name, value in options.items():
        yield name
        if isinstance(value, Mapping):
            yield from _names(value)
