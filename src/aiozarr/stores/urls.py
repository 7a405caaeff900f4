"""From a URL, or a local path, to the store that opens it, whose module is imported only then."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from aiozarr.errors import UnknownSchemeError
from aiozarr.stores.contract import Store

# `scheme://...`, or an fsspec chain `scheme::...`. A single letter is no scheme but a Windows drive.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)(://|::)")


def from_url(url: str | os.PathLike[str], **storage_options: Any) -> Store:
    """Return the store whose root is `url`: a URL, or a local path.

    In a path given as `str`, a leading `~` is the home directory, as in fsspec and xarray. A `file://` URL is absolute
    and percent-encoded (RFC 8089); `memory://name/a/b` is what lies below `a/b/` in the memory store `name`.

    Raises:
        UnknownSchemeError: no store opens such URLs (also a `ValueError`).
        ValueError: the URL is not complete.
        TypeError: the store does not know one of `storage_options`.
    """
    if not isinstance(url, str):
        return _local(os.fspath(url), storage_options)
    found = _SCHEME.match(url)
    if found is None:
        return _local(os.path.expanduser(url), storage_options)
    scheme, separator = found[1].lower(), found[2]
    opener = _OPENERS.get(scheme) if separator == "://" else None
    if opener is None:
        raise UnknownSchemeError(
            f"no store opens {scheme + separator!r} URLs: known are {', '.join(f'{name}://' for name in _OPENERS)} "
            "and local paths; other protocols and archives belong to the extra aiozarr[fsspec], which this version "
            "does not use yet"
        )
    return opener(url, storage_options)


def _local(path: str, options: dict[str, Any]) -> Store:
    from aiozarr.stores.local import LocalStore

    _only(options, "durable")
    if path.rstrip("/").endswith(".zip") and not os.path.isdir(path):
        raise UnknownSchemeError("zip archives cannot be opened by this version")
    return LocalStore(path, **options)


def _file(url: str, options: dict[str, Any]) -> Store:
    host, slash, path = url[len("file://") :].partition("/")
    if host not in ("", "localhost") or not slash:
        raise ValueError(f"a file URL names an absolute path, as in file:///data/a.zarr, not {url!r}")
    return _local("/" + unquote(path), options)


def _memory(url: str, options: dict[str, Any]) -> Store:
    from aiozarr.stores.memory import MemoryStore

    _only(options)
    name, _, path = url[len("memory://") :].partition("/")
    path = unquote(path.removesuffix("/"))
    return MemoryStore.named(unquote(name), path and path + "/")


def _http(url: str, options: dict[str, Any]) -> Store:
    from aiozarr.stores.http import HTTPStore

    return HTTPStore(url, **options)


def _object(url: str, options: dict[str, Any]) -> Store:
    from aiozarr.stores.object import ObjectStore

    return ObjectStore(url, **options)


_OPENERS: dict[str, Callable[[str, dict[str, Any]], Store]] = {
    "memory": _memory,
    "file": _file,
    "http": _http,
    "https": _http,
    "s3": _object,
}


def _only(options: dict[str, Any], *known: str) -> None:
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise TypeError(
            f"unknown storage options {', '.join(unknown)}; this store knows {', '.join(known) if known else 'none'}"
        )
