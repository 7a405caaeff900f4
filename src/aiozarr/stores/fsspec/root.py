"""Resolves a URL or a file system from the user to the file system, the path of the root, and a URL to show.

Options are assigned to the links of a chain of file systems, as fsspec does, after our names of them are translated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiozarr.errors import UnknownSchemeError
from aiozarr.http1.url import WebAddress
from aiozarr.stores.azure.address import AZURE_TABLE
from aiozarr.stores.fsspec.instances import (
    InstanceSource,
    UrlSource,
    protocol_of,
    usable_instance,
    without_secrets,
)
from aiozarr.stores.gcs.address import GCS_TABLE
from aiozarr.stores.option_table import OptionTable, same_protocols
from aiozarr.stores.s3.address import S3_TABLE
from aiozarr.stores.schemes import refuse_cache

_TABLES: dict[str, OptionTable] = {
    **dict.fromkeys(("s3", "s3a"), S3_TABLE),
    **dict.fromkeys(("gs", "gcs"), GCS_TABLE),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), AZURE_TABLE),
}
_NAMES_OF_OURS = {"s3": "s3fs", "gs": "gcsfs"}
_TIMEOUTS = ("idle_timeout", "connect_timeout")

NO_RETRIES = {"total_max_attempts": 1, "mode": "legacy"}
"""botocore's option for a single attempt. It converts other spellings to this one, in the given mapping."""


def native_options(protocols: Sequence[str], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the `options` of each link of a chain by its protocol; `protocols` has the first link first.

    Options under a protocol are for its link, and others for the first link. fsspec's file systems decide which options
    they know. Our names are translated if there is a table for the protocol.

    Raises:
        TypeError: a protocol's value that is not a mapping, options of a link that is not in the chain, or an option of
            a later link that is not under its protocol.
        ValueError: an option is given twice, with different values.
    """
    given: dict[str, dict[str, Any]] = {protocol: {} for protocol in protocols}
    for name, value in options.items():
        link = next((protocol for protocol in protocols if name in _keys_of(protocol)), None)
        if link is None:
            _check_loose(name, protocols)
            _add(given[protocols[0]], {name: value})
        elif isinstance(value, Mapping | None):
            _add(given[link], value or {})
        else:
            raise TypeError(f"the storage options under {name!r} must be a mapping")
    native = {protocol: _of_one(protocol, own) for protocol, own in given.items()}
    return {protocol: own for protocol, own in native.items() if own}


def _check_loose(name: str, protocols: Sequence[str]) -> None:
    """Check an option under no protocol, because fsspec's first file system would ignore one of another link."""
    if protocols[0] in _TABLES:
        return
    other = next((link for link in protocols[1:] if link in _TABLES and _TABLES[link].knows(name)), None)
    other = other or next((protocol for protocol in _TABLES if name in _keys_of(protocol)), None)
    if other in protocols:
        raise TypeError(
            f"the storage option {name!r} belongs to the link {other}::; pass it under its protocol: "
            f"storage_options={{{other!r}: {{{name!r}: ...}}}}"
        )
    if other is not None:
        raise TypeError(f"the storage options under {name!r} match no link of the chain {'::'.join(protocols)}")


def _keys_of(protocol: str) -> frozenset[str]:
    names = same_protocols(protocol)
    return names | {alias for protocol, alias in _NAMES_OF_OURS.items() if protocol in names}


def _add(into: dict[str, Any], options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name in into and into[name] is not value and into[name] != value:
            raise ValueError(f"the storage option {name!r} is given twice, with different values")
        into[name] = value


def _of_one(protocol: str, options: Mapping[str, Any]) -> dict[str, Any]:
    table = _TABLES.get(protocol)
    if table is None:
        name = next((name for name in _TIMEOUTS if name in options), None)
        if name is not None:
            raise TypeError(
                f"{protocol}:// is opened by fsspec, which has no storage option {name!r}; use the file system's "
                "own option, such as timeout= or client_kwargs="
            )
        return dict(options)
    if table is GCS_TABLE and options.get("anon") is not None:
        given = dict(options)
        anonymous = GCS_TABLE.translate({"anon": given.pop("anon")})["anon"]
        options = {**given, "token": "anon"} if anonymous else given  # the name of gcsfs
    native = table.to_fsspec(options)
    if table is S3_TABLE:
        # Requests are repeated by the schedule; `config_kwargs` may say otherwise.
        native["config_kwargs"] = {"retries": dict(NO_RETRIES), **(native.get("config_kwargs") or {})}
    return native


# Names of file systems, for URLs that aiozarr would open itself.
ALIASES = {"s3fs": "s3", "gcsfs": "gs"}

# They only add a directory, or make a blocking file system look asynchronous.
_REMOVED_WRAPPERS = frozenset({"dir", "asyncwrapper", "async_wrapper"})
_LOOP_OPTIONS = frozenset({"asynchronous", "loop"})
_IN_A_FILE = frozenset({"zip", "tar", "libarchive", "reference", "bz2", "gzip", "lzma", "lz4", "snappy", "xz", "zstd"})
# URLs of these protocols have no password, and no query that could be secret.
_WITHOUT_SECRETS = _IN_A_FILE | frozenset(
    {"s3", "s3a", "gs", "gcs", "file", "local", "memory", "data", "dir", "git", "github", "ftp", "http", "https"}
)
_SECRETS = frozenset({"password", "token", "secret", "key_file"})


@dataclass(frozen=True)
class FileSystemRoot:
    """A file system and the location of the root in it.

    Attributes:
        recipe: creates the file system, or has it.
        base: prefix of the paths of all keys: `""`, or ending with `/`.
        tail: suffix of all paths: the query of a web address. A secret.
        url: the URL of the root, without secrets.
    """

    recipe: InstanceSource | UrlSource
    base: str
    tail: str
    url: str


def resolve_root(given: Any, path: str | None, options: Mapping[str, Any]) -> FileSystemRoot:
    """Return the root for `given`: a URL, a file system, or an object with both, such as a mapper or an open file.

    Raises:
        ImportError: fsspec, or the package of the protocol, is not installed. The message names it.
        UnknownSchemeError: fsspec does not know the protocol, or it is a cache.
        TypeError: `given` has another type, or options are given together with a file system.
    """
    fsspec = import_fsspec()
    if isinstance(given, str):
        if path is not None:
            raise TypeError("path= requires a file system; a URL contains the path")
        return _of_url(given, options)
    if options:
        raise TypeError(f"a file system already has its options; {', '.join(sorted(options))} cannot be given with it")
    if not isinstance(given, fsspec.AbstractFileSystem):
        holder = given
        given = getattr(holder, "fs", None)
        if not isinstance(given, fsspec.AbstractFileSystem):
            raise TypeError(f"expected a URL or an fsspec file system, not {type(holder).__name__}")
        inside = getattr(holder, "root", None) or getattr(holder, "path", "")
        path = "/".join(part for part in (inside, path) if part)
    return _of_instance(given, path or "")


def import_fsspec() -> Any:
    """Return fsspec.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import fsspec
    except ImportError as error:
        raise ImportError("fsspec file systems need the package fsspec: pip install fsspec") from error
    return fsspec


def knows_protocol(protocol: str) -> bool:
    """Return whether fsspec knows `protocol`, whether or not its package is installed; False without fsspec."""
    try:
        from fsspec.registry import known_implementations, registry
    except ImportError:
        return False
    return protocol in ALIASES or protocol in known_implementations or protocol in registry


def _of_url(url: str, options: Mapping[str, Any]) -> FileSystemRoot:
    links = url.split("::")
    for number, link in enumerate(links):
        scheme, mark, rest = link.partition("://")
        links[number] = ALIASES.get(scheme, scheme) + mark + rest
    links = _without_mark(links)
    url = "::".join(links)
    protocols = _protocols(links)
    left = _without_loops(options)
    resolve = left.pop("resolve", None)
    native = {name: _without_loops(each) for name, each in native_options(protocols, left).items()}
    if "reference" in protocols:
        raise TypeError(
            "reference:: is the first link of a chain, which aiozarr.stores.from_url and from_references open; "
            "FsspecStore takes a reference file system that was made by fsspec"
        )
    if resolve is not None:
        raise TypeError("resolve is an option of reference:: URLs")
    recipe = UrlSource(url, native)
    if len(links) == 1 and protocols[0] in _IN_A_FILE and not native.get(protocols[0], {}).get("fo"):
        raise TypeError(f"{protocols[0]}:// needs the storage option 'fo', or another URL after it in a chain")
    if protocols[0] in _REMOVED_WRAPPERS:
        # The next link of a chain has the directory.
        return _of_instance(recipe.make(), "" if url.startswith(("dir::", "dir://::")) else recipe.path)
    shown = _shown_url(links)
    if len(links) == 1 and not recipe.kind._get_kwargs_from_urls(url):
        shown = _with_protocol(recipe.kind, recipe.path)
    return _rooted(recipe, recipe.path, shown)


def _of_instance(given: Any, path: str) -> FileSystemRoot:
    fs, path = _unwrapped(given, path)
    refuse_cache(protocol_of(type(fs)))
    fs = usable_instance(fs)
    path = str(fs._strip_protocol(path))
    return _rooted(InstanceSource(fs), path, _shown_path(fs, path))


def _protocols(links: Sequence[str]) -> list[str]:
    """Return the protocols of the links of a URL, whose packages are all installed."""
    from fsspec import get_filesystem_class

    protocols: list[str] = []
    for link in links:
        protocol = link.partition("://")[0] if "://" in link else (link if knows_protocol(link) else "file")
        refuse_cache(protocol)
        try:
            get_filesystem_class(protocol)
        except ValueError as error:
            raise UnknownSchemeError(f"fsspec does not know the protocol {protocol!r}") from error
        except ImportError as error:
            raise ImportError(f"{protocol}:// URLs: {error}") from error  # its message names the package to install
        protocols.append(protocol)
    return protocols


def _without_mark(links: list[str]) -> list[str]:
    """Return a chain in fsspec's form: the path in an archive is in the archive's link, not at the end after `!`."""
    place, mark, inner = (links[-1] + "/" if links[-1].endswith("!") else links[-1]).partition("!/")
    for number, link in enumerate(links[:-1]):
        protocol, _, path = link.partition("://")
        if mark and not path and protocol in _IN_A_FILE:
            return [*links[:number], f"{protocol}://{inner.strip('/')}", *links[number + 1 : -1], place]
    return links


def _without_loops(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in _LOOP_OPTIONS}


def _unwrapped(fs: Any, path: str) -> tuple[Any, str]:
    """Remove wrappers that only add a directory, or make a blocking file system look asynchronous."""
    from fsspec.implementations.dirfs import DirFileSystem

    while True:
        if type(fs) is DirFileSystem:
            inside = str(fs._strip_protocol(path)).strip("/")
            fs, path = fs.fs, "/".join(part for part in (fs.path, inside) if part)
        elif type(fs).__name__ == "AsyncFileSystemWrapper":
            fs = fs.sync_fs
        else:
            return fs, path


def _rooted(recipe: InstanceSource | UrlSource, path: str, url: str) -> FileSystemRoot:
    tail = ""
    if path.startswith(("http://", "https://")):
        path, mark, query = path.partition("?")
        tail = mark + query
    return FileSystemRoot(recipe, path if not path or path.endswith("/") else f"{path}/", tail, url)


def _shown_path(fs: Any, path: str) -> str:
    """Return a URL of `path` in a file system that was given."""
    options = getattr(fs, "storage_options", {})
    host = options.get("host") if isinstance(options, Mapping) else None
    if isinstance(host, str):
        return f"{protocol_of(type(fs))}://{host}/{path.lstrip('/')}".rstrip("/")
    return _with_protocol(type(fs), path)


def _with_protocol(kind: Any, path: str) -> str:
    if protocol_of(kind) == "memory":
        # Without this link, aiozarr opens a memory store of its own.
        return f"dir::memory:///{path.strip('/')}"
    if path.startswith(("http://", "https://")):
        return WebAddress.parse(path).shown
    shown = path if "://" in path else f"{protocol_of(kind)}://{path}"
    if protocol_of(kind) not in _WITHOUT_SECRETS:
        shown = without_secrets(shown)
    return shown if shown.endswith("://") else shown.rstrip("/")


def _shown_url(links: list[str]) -> str:
    """Return the chain without the secrets of its links."""
    from fsspec import get_filesystem_class

    shown: list[str] = []
    inside: str | None = None
    for link in links:
        protocol, mark, _ = link.partition("://")
        if inside is None and len(links) > 1 and protocol in _IN_A_FILE:
            # The path of a node is at the end, as in all URLs.
            link, inside = protocol, link[len(protocol + mark) :].strip("/")
        elif mark and protocol in ("http", "https"):
            link = WebAddress.parse(link).shown
        elif mark:
            kind = get_filesystem_class(protocol)
            told = kind._get_kwargs_from_urls(link)
            if _SECRETS & {name for name, value in told.items() if value}:
                link = without_secrets(link.partition("?")[0])
            elif not told and protocol not in _WITHOUT_SECRETS:
                link = without_secrets(link)
        shown.append(link if link.endswith("://") else link.rstrip("/"))
    end = "" if inside is None else f"!/{inside}".removesuffix("/")
    return "::".join(shown) + end
