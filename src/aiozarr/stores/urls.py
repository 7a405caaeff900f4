"""Opens the store of a URL or a local path; the store's module is imported only then."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeAlias

from aiozarr.errors import InvalidKeyError, UnknownSchemeError, UnsupportedMetadataError
from aiozarr.model import is_unicode
from aiozarr.plugins import entry_point_names, load_plugin, wrong_entry_point
from aiozarr.stores.contract import Store, directory_url
from aiozarr.stores.schemes import REMOTE_STORES, refuse_cache

Opener: TypeAlias = Callable[..., Store]

# `scheme://...`, or an fsspec chain `scheme::...`. A single letter is a Windows drive.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)(://|::)")
_ZIP = ("max_member_bytes", "duplicates")
_REFERENCE = ("resolve", "fo", "target_options", "remote_protocol", "remote_options")
_CACHE_DIRECTORY = "cache_directory"
MAX_CACHE_BYTES = 10 << 30
"""The size of the cache in a `cache_directory`."""
_ARCHIVE = re.compile(r"\.zip(?=/|$)", re.IGNORECASE)


def from_url(url: str | os.PathLike[str], **storage_options: Any) -> Store:
    """Return the store whose root is `url`: a URL, or a local path.

    In a path given as `str`, a leading `~` is the home directory, as in fsspec and xarray. A `file://` URL is absolute
    and percent-encoded (RFC 8089); `memory://name/a/b` has its root at `a/b/` in the memory store `name`.

    URLs that aiozarr does not open itself are opened by fsspec (`FsspecStore`): other protocols, chains such as
    `tar://::https://...`, and `s3fs://` and `gcsfs://` for its own file systems of S3 and Google.

    The option `cache_directory` is the name of a local directory that caches values from a remote store: the result is
    a `CacheStore` of at most 10 GiB, which validates each cached value by one request. fsspec file systems do not
    report versions, so they need a `CacheStore` with a `max_age` instead.

    With `zip::`, the options apply to the store that contains the archive. Options under the name of a protocol, as in
    fsspec's chains, apply to that link: `s3={"anon": True}, zip={"duplicates": "last"}`.

    Raises:
        UnknownSchemeError: no store opens such URLs, or they name an fsspec cache (also a `ValueError`).
        ImportError: fsspec knows the protocol, but its package is not installed.
        InvalidKeyError: the URL, or the local path, has a lone surrogate that no name can contain.
        ValueError: the URL is not complete.
        TypeError: one of `storage_options` is not an option of the store.
    """
    if "storage_options" in storage_options:
        raise TypeError("pass storage options as keywords: from_url(url, **storage_options)")
    if not isinstance(url, str):
        return _local(os.fspath(url), storage_options)
    found = _SCHEME.match(url)
    if found is None:
        _check_slashes(url)
        from aiozarr.stores.local.stored_file import encode_path

        encode_path(url)  # `expanduser` would raise UnicodeEncodeError for the name of a user
        return _local(os.path.expanduser(url), storage_options)
    scheme, separator = found[1].lower(), found[2]
    if not is_unicode(url):
        raise InvalidKeyError(
            f"the URL beginning with {scheme}{separator} is not valid Unicode: it contains a lone surrogate"
        )
    location = scheme + url[len(scheme) :]
    refuse_cache(scheme)
    if scheme == "zip":
        return _archive(location[len("zip") :], storage_options)
    if scheme == "reference":
        return _references(location[len("reference") :], storage_options)
    if separator == "://":
        opener = _OPENERS.get(scheme)
        if opener is not None:
            # A file whose name ends with .zip is an archive; a directory of such a name is not.
            inner = split_archive(location) if opener is _remote else None
            if inner is not None and not inner[1] and not _without_query(location)[0].endswith("/"):
                return _inside(inner[0], "", storage_options)
            options = _flat(scheme, storage_options)
            if opener in (_file, _memory):
                return opener(location, options)
            return _cached(lambda own: opener(location, own), options)
        opened = _from_plugin(scheme, location, storage_options)
        if opened is not None:
            return opened
    opened = _from_fsspec(scheme, location, storage_options)
    if opened is not None:
        return opened
    known = ", ".join(f"{name}://" for name in (*_OPENERS, *entry_point_names("store")))
    raise UnknownSchemeError(
        f"no store opens {scheme + separator!r} URLs: known are {known}, zip:: and reference:: in front of them, and "
        "local paths; install the package fsspec for its protocols (pip install fsspec), or register your own with "
        "aiozarr.stores.register_store or an entry point in the group 'aiozarr.stores'"
    )


def from_references(
    target: str | os.PathLike[str] | Mapping[str, Any],
    *,
    resolve: Mapping[str, Mapping[str, Any] | Store | None] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Store:
    """Return a read-only store of virtual references: keys whose bytes are ranges of other objects.

    Nothing is read before the first key is needed. References may name objects of the document's own origin (its
    server, its bucket, or the folder of a local document), and locations that `resolve` allows.

    Args:
        target: the URL or path of a kerchunk JSON document or of a directory of Parquet record files, or the references
            themselves. Programs (`gen`) in a document are not run.
        resolve: prefixes of URLs that references may name, each with the storage options of its store, or with the
            store: `{"s3://bucket/": {"anon": True}}`.
        storage_options: options of the store of the document. They are used for referenced objects of its origin too.

    Raises:
        TypeError: an argument has another type.
        InvalidMetadataError, UnsupportedMetadataError, LimitError: the references are not valid.
    """
    return _open_references(target, storage_options or {}, "", resolve=resolve)


def register_store(scheme: str) -> Callable[[Opener], Opener]:
    """Return a decorator that registers a function as the opener of `scheme://` URLs in this process.

    The function is called with the unchanged URL, and the storage options as keywords. It replaces the current opener
    of the scheme.

    Raises:
        ValueError: `scheme` cannot begin a URL.
    """
    if not _SCHEME.fullmatch(scheme + "://") or scheme != scheme.lower() or scheme == "zip":
        raise ValueError(f"a URL scheme must be lower case: {scheme!r}")

    def register(opener: Opener) -> Opener:
        _OPENERS[scheme] = lambda url, options: opener(url, **options)
        return opener

    return register


def _check_slashes(path: str) -> None:
    """Refuse a path that looks like a URL without its second slash, because it would create a directory `s3:`."""
    scheme, colon, rest = path.partition(":")
    if colon and rest.startswith("/") and scheme.lower() in _OPENERS and not os.path.isdir(f"{scheme}:"):
        meant = f"{scheme}://{rest if scheme.lower() == 'file' else rest.lstrip('/')}"  # a file URL has no host
        raise ValueError(
            f"{scheme}:/ does not begin a URL; did you mean {meant}? Write ./{scheme}: for a directory of that name"
        )


def _from_plugin(scheme: str, url: str, options: dict[str, Any]) -> Store | None:
    try:
        opener = load_plugin("store", scheme)
        if opener is None:
            return None
        if not callable(opener):
            raise wrong_entry_point("store", scheme, "expected a callable that creates a store from a URL and options")
    except UnsupportedMetadataError as error:
        raise UnknownSchemeError(str(error)) from error

    def open_store(own: dict[str, Any]) -> Store:
        store = opener(url, **own)
        if not isinstance(store, Store):
            raise UnknownSchemeError(
                f"the package that opens {scheme}:// URLs returned {type(store).__name__}, not a Store"
            )
        return store

    return _cached(open_store, options)


def _cached(open_store: Callable[[dict[str, Any]], Store], options: Mapping[str, Any]) -> Store:
    """Return the store that a function makes of options, in a `CacheStore` if they have a directory for the cache."""
    own = dict(options)
    directory = own.pop(_CACHE_DIRECTORY, None)
    if directory is None:
        return open_store(own)
    if not isinstance(directory, str | os.PathLike):
        raise TypeError(f"the storage option {_CACHE_DIRECTORY} must be a path, not {type(directory).__name__}")
    from aiozarr.stores.cache_store import CacheStore

    return CacheStore(open_store(own), MAX_CACHE_BYTES, os.path.expanduser(directory))


def _from_fsspec(scheme: str, url: str, options: dict[str, Any]) -> Store | None:
    """Open `url` by fsspec, if it has the first protocol; its packages are imported only then."""
    from aiozarr.stores.fsspec.root import knows_protocol

    if not knows_protocol(scheme):
        return None
    from aiozarr.stores.fsspec.store import FsspecStore

    if options.get(_CACHE_DIRECTORY) is not None:
        raise TypeError(
            f"fsspec opens {scheme}, whose values have no versions, so {_CACHE_DIRECTORY} cannot validate them; "
            "use CacheStore(FsspecStore(url), max_bytes, directory, max_age=seconds) of aiozarr.stores"
        )
    return FsspecStore(url, **options)


def _flat(scheme: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a store, with those under the name of its protocol among them."""
    if not options:
        return options
    from aiozarr.stores.option_table import flatten

    return flatten(scheme, options)


def _local(path: str, options: dict[str, Any]) -> Store:
    from aiozarr.stores.local.store import LocalStore

    found = _local_archive(path)
    if found is not None:
        return _zip(*found, options)
    options = _flat("file", options)
    _only(options, "fsync")
    return LocalStore(path, **options)


def _local_archive(path: str) -> tuple[str, str] | None:
    """Return an archive and the path inside it, if a part of `path` has the name of one and is not a directory."""
    for match in _ARCHIVE.finditer(path):
        archive = path[: match.end()]
        inner = path[match.end() :].strip("/")
        # A part with further parts is a directory, unless a file exists there.
        if not os.path.isdir(archive) and (not inner or os.path.isfile(archive)):
            return archive, inner
    return None


def _zip(path: str, inner: str, options: dict[str, Any]) -> Store:
    from aiozarr.stores.option_table import pick
    from aiozarr.stores.zip import ZipStore

    own, rest = pick("zip", ("fsync", *_ZIP), _flat("file", options))
    _only(rest)
    return ZipStore(path, "a", prefix=inner and inner + "/", **own)


def _archive(rest: str, options: dict[str, Any]) -> Store:
    """Open an fsspec chain: `zip::URL`, `zip://inner::URL`, and the URL of a node, `zip::URL/inner`."""
    inner = ""
    if rest.startswith("://"):
        inner, _, rest = rest[len("://") :].partition("::")
        inner = inner.strip("/")
    else:
        rest = rest.removeprefix("::")
    if not rest:
        raise ValueError("the URL of an archive must have the form zip::URL, as in zip::s3://bucket/data.zip")
    # The last mark, because URLs of buckets may contain one too, and the path after our mark is encoded.
    location, mark, more = (rest[:-1], "!", "") if rest.endswith("!") else rest.rpartition("!/")
    if not mark:
        location, more = split_archive(rest) or (rest, "")
    inner = "/".join(part for part in (inner, _decoded(more).strip("/")) if part)
    return _inside(location, inner, options)


def split_archive(url: str) -> tuple[str, str] | None:
    """Return the URL of the archive and the encoded path in it, if a part of the URL's path is called `*.zip`."""
    location, query = _without_query(url)
    start = location.find("://") + 3 if "://" in location else 0
    match = _ARCHIVE.search(location, location.find("/", start) + 1)
    if match is None or "/" not in location[start:]:
        return None
    return location[: match.end()] + query, location[match.end() :].strip("/")


def _without_query(url: str) -> tuple[str, str]:
    """Return `url` without its query, and the query with its mark; only web addresses have one."""
    location, mark, query = url.partition("?") if "http://" in url or "https://" in url else (url, "", "")
    return location, mark + query


def _inside(location: str, inner: str, options: dict[str, Any]) -> Store:
    """Open the archive at the URL or path `location`, with the root at `inner`."""
    if "://" not in location:
        return _zip(os.path.expanduser(location), inner, options)
    if location.lower().startswith("file://"):
        return _zip(_file_path(location), inner, options)
    from aiozarr.stores.option_table import pick
    from aiozarr.stores.zip import RemoteZipStore

    own, rest = pick("zip", _ZIP, options)
    store, key = file_in_store(location, rest)
    archive = RemoteZipStore(store, key=key, prefix=inner and inner + "/", **own)
    archive.owns_store = True
    return archive


def file_in_store(location: str, options: dict[str, Any]) -> tuple[Store, str]:
    """Return the store of the directory of a file, from its URL or path, and the key of the file there.

    Raises:
        ValueError: the URL names a server or a bucket only.
        Others as `from_url`.
    """
    if "://" not in location or location.lower().startswith("file://"):
        from aiozarr.stores.local.stored_file import absolute_path

        path = _file_path(location) if "://" in location else os.path.expanduser(location)
        folder, name = os.path.split(os.fsdecode(absolute_path(path)))
        return _local(folder, options), name
    address, query = _without_query(location)
    above, _, name = address.rpartition("/")
    if above.endswith(":/") or not name:
        # The message omits the URL, which may have a password.
        raise ValueError(
            "an archive or a document needs a URL that names a file in a store, as in zip::s3://bucket/data.zip"
        )
    # In a chain of fsspec, each link has its own options.
    scheme = location.partition(":")[0].lower()
    chained = scheme not in _OPENERS and "::" in location
    store = from_url(directory_url(above) + query, **(options if chained else _flat(scheme, options)))
    # The paths of web addresses are percent-encoded, paths of buckets are not.
    return store, name if store.url_of(" ").endswith(" ") else _decoded(name)


def _references(rest: str, options: dict[str, Any]) -> Store:
    """Open `reference::URL`, `reference://` with the option `fo`, and the URL of a node in either."""
    from aiozarr.stores.option_table import pick

    own, rest_of_options = pick("reference", _REFERENCE, options)
    document: Any = own.pop("fo", None)
    inner, chain, location = rest.removeprefix("://").partition("::")
    if chain:
        # The mark is the last one, because URLs of buckets may contain one too, and the path after our mark is encoded.
        document, mark, more = (location[:-1], "!", "") if location.endswith("!") else location.rpartition("!/")
        if not mark:
            document, more = location, ""
        inner = f"{inner.strip('/')}/{_decoded(more)}"
    if not document:
        raise TypeError("reference:// needs the storage option 'fo', or a URL: reference::s3://bucket/refs.json")
    rest_of_options |= own.pop("target_options", None) or {}
    inner = inner.strip("/")
    return _open_references(document, rest_of_options, f"{inner}/" if inner else "", **own)


def _open_references(target: Any, options: Mapping[str, Any], prefix: str, **own: Any) -> Store:
    from aiozarr.stores.reference.reference_opening import open_references

    if isinstance(target, Mapping):
        if options:
            raise TypeError("references in memory do not take storage_options, which belong to the store of a document")
    elif isinstance(target, str | os.PathLike):
        location = os.fspath(target).rstrip("/")
        target = (*file_in_store(location, dict(options)), location)
    else:
        raise TypeError(f"references must be a URL, a path or a mapping, not {type(target).__name__}")
    return open_references(target, open_url=from_url, own_options=options, prefix=prefix, **own)


def _decoded(text: str, errors: str = "replace") -> str:
    """Return `text` with its escapes replaced, as `urllib.parse.unquote` does."""
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text, errors=errors)


def _file(url: str, options: dict[str, Any]) -> Store:
    return _local(_file_path(url), options)


def _file_path(url: str) -> str:
    host, slash, path = url[len("file://") :].partition("/")
    if host not in ("", "localhost") or not slash:
        raise ValueError(f"a file URL must name an absolute path, as in file:///data/a.zarr, not {url!r}")
    return "/" + _decoded(path, errors="surrogateescape")


def _memory(url: str, options: dict[str, Any]) -> Store:
    from aiozarr.stores.memory_store import MemoryStore

    _only(options)
    name, _, path = url[len("memory://") :].partition("/")
    path = _decoded(path.removesuffix("/"))
    return MemoryStore.named(_decoded(name), path and path + "/")


def _remote(url: str, options: dict[str, Any]) -> Store:
    module, name = REMOTE_STORES[url.partition("://")[0]]
    store: Store = getattr(import_module(module), name)(url, **options)
    return store


_OPENERS: dict[str, Callable[[str, dict[str, Any]], Store]] = {
    "memory": _memory,
    "file": _file,
    **dict.fromkeys(REMOTE_STORES, _remote),
}


def _only(options: dict[str, Any], *known: str) -> None:
    if options.pop(_CACHE_DIRECTORY, None) is not None:
        raise TypeError(
            f"the storage option {_CACHE_DIRECTORY} is for remote stores; leave it out for a local path or memory://"
        )
    unknown = sorted(options.keys() - set(known))
    if unknown:
        raise TypeError(
            f"unknown storage options {', '.join(unknown)}; this store knows {', '.join(known) if known else 'none'}"
        )
