"""From what a user gives, a URL or a file system, to the file system, the path of the root, and a URL to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiozarr.errors import UnknownSchemeError
from aiozarr.stores.fsspec.links import Link, needs_target
from aiozarr.stores.fsspec.native import native_options, with_timeouts
from aiozarr.stores.fsspec.secrets import without_secrets
from aiozarr.stores.fsspec.served import Described, Given, served
from aiozarr.stores.fsspec.traits import below, protocol_of
from aiozarr.stores.http.url import WebAddress
from aiozarr.stores.options.s3 import S3_TABLE

# Names of file systems, for URLs that aiozarr would open itself.
ALIASES = {"s3fs": "s3", "gcsfs": "gs"}

# What only adds a directory, or makes a blocking file system look asynchronous.
_TAKEN_OFF = frozenset({"dir", "asyncwrapper", "async_wrapper"})
_OF_LOOPS = frozenset({"asynchronous", "loop"})
_TIMES = ("idle_timeout", "connect_timeout")
_SECRETS = frozenset({"password", "token", "secret", "key_file"})


@dataclass(frozen=True)
class Source:
    """A file system, and where in it the root is.

    Attributes:
        recipe: the file system that does the work, or what it is made by.
        base: what paths of keys begin with: `""`, or ending with `/`.
        tail: what follows the key in every path: the query of a web address. A secret.
        url: the URL of the root, without secrets.
    """

    recipe: Given | Described
    base: str
    tail: str
    url: str


def find_source(given: Any, path: str | None, options: Mapping[str, Any]) -> Source:
    """Return what `given` means: a URL, a file system, or what holds one and a path: a mapper or an open file.

    Raises:
        ImportError: fsspec, or the package of the protocol, is not installed; the message says which.
        UnknownSchemeError: fsspec does not know the protocol.
        TypeError: `given` is none of those, or options are given for a file system that is made already.
    """
    fsspec = import_fsspec()
    if isinstance(given, str):
        if path is not None:
            raise TypeError("a URL says the path itself: path= goes with a file system")
        return _of_url(given, options)
    if options:
        raise TypeError(f"a file system has its options already: {', '.join(sorted(options))} cannot be given with it")
    if not isinstance(given, fsspec.AbstractFileSystem):
        holder = given
        given = getattr(holder, "fs", None)
        if not isinstance(given, fsspec.AbstractFileSystem):
            raise TypeError(f"a URL or a file system of fsspec is wanted, not {type(holder).__name__}")
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
        raise ImportError("file systems of fsspec need the package fsspec: pip install 'aiozarr[fsspec]'") from error
    return fsspec


def knows_protocol(protocol: str) -> bool:
    """Return whether fsspec knows `protocol`, whether or not its package is installed; False without fsspec."""
    try:
        from fsspec.registry import known_implementations, registry
    except ImportError:
        return False
    return protocol in ALIASES or protocol in known_implementations or protocol in registry


def _of_url(url: str, options: Mapping[str, Any]) -> Source:
    links = url.split("::")
    for number, link in enumerate(links):
        scheme, mark, rest = link.partition("://")
        links[number] = ALIASES.get(scheme, scheme) + mark + rest
    links = _without_mark(links)
    url = "::".join(links)
    chain = _chain(links)
    protocols = [link.protocol for link in chain]
    left = {name: each for name, each in options.items() if name not in _OF_LOOPS and name not in _TIMES}
    native = {name: _without_loops(each) for name, each in native_options(chain, left).items()}
    recipe = Described(url, native, _with_timeouts(chain, native, options))
    if len(links) == 1 and needs_target(chain[0].kind) and not native.get(protocols[0], {}).get("fo"):
        raise TypeError(f"{protocols[0]}:// needs the storage option 'fo', or another URL behind it in a chain")
    if protocols[0] in _TAKEN_OFF:
        # The next link of a chain says the directory.
        return _of_instance(recipe.make(), "" if url.startswith(("dir::", "dir://::")) else recipe.path)
    shown = _shown_url(links)
    if len(links) == 1 and not recipe.kinds[0]._get_kwargs_from_urls(url):
        shown = _with_protocol(recipe.kinds[0], recipe.path)
    return _rooted(recipe, recipe.path, shown)


def _of_instance(given: Any, path: str) -> Source:
    fs, path = _unwrapped(given, path)
    fs = served(fs)
    path = str(fs._strip_protocol(path))
    return _rooted(Given(fs), path, _shown_path(fs, path))


def _chain(links: Sequence[str]) -> list[Link]:
    """Return the links of a URL with their classes; all protocols can be had."""
    from fsspec import get_filesystem_class

    chain: list[Link] = []
    for link in links:
        protocol = link.partition("://")[0] if "://" in link else (link if knows_protocol(link) else "file")
        try:
            chain.append(Link(protocol, get_filesystem_class(protocol)))
        except ValueError as error:
            raise UnknownSchemeError(f"fsspec knows no protocol {protocol!r}") from error
        except ImportError as error:
            raise ImportError(f"{protocol}:// URLs: {error}") from error  # which says what to install
    return chain


def _without_mark(links: list[str]) -> list[str]:
    """Return a chain as fsspec has it: the path inside an archive with the archive, and not at the end behind `!`."""
    place, mark, inner = (links[-1] + "/" if links[-1].endswith("!") else links[-1]).partition("!/")
    for number, link in enumerate(links[:-1]):
        protocol, _, path = link.partition("://")
        if mark and not path and _lies_in_a_file(protocol):
            return [*links[:number], f"{protocol}://{inner.strip('/')}", *links[number + 1 : -1], place]
    return links


def _lies_in_a_file(protocol: str) -> bool:
    from fsspec import get_filesystem_class

    return knows_protocol(protocol) and needs_target(get_filesystem_class(protocol))


def _with_timeouts(chain: Sequence[Link], native: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    times: dict[str, float] = S3_TABLE.translate(
        {name: options[name] for name in _TIMES if options.get(name) is not None}
    )
    if not times:
        return None
    idle = times.get("idle_timeout", max(times.values()))
    return with_timeouts(chain, native, idle, times.get("connect_timeout", idle))


def _without_loops(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in _OF_LOOPS}


def _unwrapped(fs: Any, path: str) -> tuple[Any, str]:
    """Take off what only adds a directory, or makes a blocking file system look asynchronous."""
    from fsspec.implementations.dirfs import DirFileSystem

    while True:
        if type(fs) is DirFileSystem:
            inside = str(fs._strip_protocol(path)).strip("/")
            fs, path = fs.fs, "/".join(part for part in (fs.path, inside) if part)
        elif type(fs).__name__ == "AsyncFileSystemWrapper":
            fs = fs.sync_fs
        else:
            return fs, path


def _rooted(recipe: Given | Described, path: str, url: str) -> Source:
    tail = ""
    if path.startswith(("http://", "https://")):
        path, mark, query = path.partition("?")
        tail = mark + query
    return Source(recipe, path if not path or path.endswith("/") else f"{path}/", tail, url)


def _shown_path(fs: Any, path: str) -> str:
    """Return a URL of `path` in a file system that was given."""
    inner = below(fs)
    if inner is not None:
        return f"{protocol_of(type(fs))}::{_shown_path(inner, path)}"
    options = getattr(fs, "storage_options", {})
    host = options.get("host") if isinstance(options, Mapping) else None
    if isinstance(host, str):
        return f"{protocol_of(type(fs))}://{host}/{path.lstrip('/')}".rstrip("/")
    return _with_protocol(type(fs), path)


def _with_protocol(kind: Any, path: str) -> str:
    if protocol_of(kind) == "memory":
        # Without the link in front, aiozarr opens memory of its own.
        return f"dir::memory:///{path.strip('/')}"
    if path.startswith(("http://", "https://")):
        return WebAddress.parse(path).shown
    shown = path if "://" in path else f"{protocol_of(kind)}://{path}"
    if not Link(protocol_of(kind), kind).closed:
        shown = without_secrets(shown)
    return shown if shown.endswith("://") else shown.rstrip("/")


def _shown_url(links: list[str]) -> str:
    """Return the chain as it was given, without what is secret in its links."""
    from fsspec import get_filesystem_class

    shown: list[str] = []
    inside: str | None = None
    for link in links:
        protocol, mark, _ = link.partition("://")
        if inside is None and len(links) > 1 and _lies_in_a_file(protocol):
            # The path of a node is put at the end, as in all URLs.
            link, inside = protocol, link[len(protocol + mark) :].strip("/")
        elif mark and protocol in ("http", "https"):
            link = WebAddress.parse(link).shown
        elif mark:
            kind = get_filesystem_class(protocol)
            told = kind._get_kwargs_from_urls(link)
            if _SECRETS & {name for name, value in told.items() if value}:
                link = without_secrets(link.partition("?")[0])
            elif not told and not Link(protocol, kind).closed:
                link = without_secrets(link)
        shown.append(link if link.endswith("://") else link.rstrip("/"))
    end = "" if inside is None else f"!/{inside}".removesuffix("/")
    return "::".join(shown) + end
