"""Creates fsspec file systems, and selects an instance whose coroutines run on a loop that stays open.

A table has the features of file systems, and their known faults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from aiozarr.stores.contract import Store


@dataclass(frozen=True, slots=True)
class FileSystemTraits:
    """Properties of one file system.

    Attributes:
        writable: whole values can be written, and removed.
        listable: files below a path can be listed.
        flat: one listing has everything below a path; otherwise directories are walked.
        suffixes: a negative start costs one request, and is cut at the start of the file.
        open_ends: for a range without an end, a server that ignores ranges can be detected.
        clips: a range that ends beyond the file returns the bytes up to its end. References did not before fsspec
            2026.9: they returned the bytes that follow in the file that holds them.
        numbered: a table of chunks may refuse a key whose last part is not the number of a chunk, such as `zarr.json`.
        framed: the transport checks the announced length of every response.
        sizes: the size of a file is the number of bytes that a read returns.
        directories: files are in directories, which must be created first.
        prunes: removing a directory fails if it is not empty, so empty ones can be removed safely.
        encoded: paths are URLs, and keys are percent-encoded in them.
        is_thread_safe: the calls of a blocking file system may run at the same time. fsspec does not promise it.
        indexed: an archive, with an index of its files; a missing file may then be the archive itself.
        whole: arguments for reading a whole file with a single request.
    """

    writable: bool = False
    listable: bool = True
    flat: bool = False
    suffixes: bool = False
    open_ends: bool = True
    clips: bool = True
    numbered: bool = False
    framed: bool = False
    sizes: bool = True
    directories: bool = False
    prunes: bool = False
    encoded: bool = False
    is_thread_safe: bool = False
    indexed: bool = False
    whole: tuple[tuple[str, Any], ...] = ()


# By the first protocol of the class. Others are classified by the methods of their class.
_KNOWN: dict[str, FileSystemTraits] = {
    # Without the argument, s3fs requests the size first.
    "s3": FileSystemTraits(writable=True, flat=True, suffixes=True, framed=True, whole=(("max_concurrency", 1),)),
    "gs": FileSystemTraits(writable=True, flat=True, suffixes=True, framed=True),
    # A server lists files as an HTML page of unknown format.
    "http": FileSystemTraits(listable=False, suffixes=True, open_ends=False, framed=True, encoded=True),
    "memory": FileSystemTraits(writable=True, flat=True, is_thread_safe=True),
    # For values inside the references, its size is the length of their encoding.
    "reference": FileSystemTraits(clips=False, numbered=True, framed=True, sizes=False),
    "sftp": FileSystemTraits(writable=True, directories=True, prunes=True),
    "ftp": FileSystemTraits(writable=True, directories=True, prunes=True),
    "smb": FileSystemTraits(writable=True, directories=True, prunes=True),
    "zip": FileSystemTraits(indexed=True),
    "tar": FileSystemTraits(indexed=True),
    "libarchive": FileSystemTraits(indexed=True),
    "github": FileSystemTraits(),
    "git": FileSystemTraits(),
    "data": FileSystemTraits(listable=False),
}
_SAME = {"s3a": "s3", "gcs": "gs", "https": "http", "ssh": "sftp"}


def protocol_of(kind: Any) -> str:
    """Return the name of the class `kind` of file systems in URLs."""
    protocol = kind.protocol
    return str(protocol if isinstance(protocol, str) else protocol[0])


def is_async(fs: Any) -> bool:
    """Return whether the methods of `fs` are coroutines."""
    return bool(type(fs).async_impl)


def traits_of(kind: Any) -> FileSystemTraits:
    """Return the properties of a file system of the class `kind`."""
    protocol = _SAME.get(protocol_of(kind), protocol_of(kind))
    known = _KNOWN.get(protocol)
    if known is not None and (protocol != "memory" or not kind.async_impl):
        return known
    from fsspec.asyn import AsyncFileSystem
    from fsspec.spec import AbstractFileSystem

    base, mark = (AsyncFileSystem, "_") if kind.async_impl else (AbstractFileSystem, "")

    def has(*names: str) -> bool:
        return any(getattr(kind, name, None) is not getattr(base, name, None) for name in names)

    return FileSystemTraits(
        writable=has(f"{mark}pipe_file", "_open") and has(f"{mark}rm_file", "_rm", "rm"),
        listable=has(f"{mark}ls"),
        directories=has(f"{mark}makedirs", f"{mark}mkdir"),
    )


IGNORED_ARGUMENTS = frozenset({"asynchronous", "loop", "skip_instance_cache"})
"""Arguments without an effect on the files that a file system sees."""


@dataclass(frozen=True)
class InstanceSource:
    """An existing file system."""

    fs: Any

    @property
    def kind(self) -> Any:
        """Its class."""
        return type(self.fs)

    @property
    def fingerprint(self) -> str:
        """A digest of its arguments, equal within this process for equal arguments."""
        return digest(_described(self.fs))

    def make(self) -> Any:
        """Return the file system."""
        return self.fs

    def recreate(self) -> Any:
        """Return a new one by the same arguments, for a forked child."""
        # A file system without connections stays usable, with all its files.
        return self.fs if type(self.fs).protocol == "memory" else recreate(self.fs)


@dataclass(frozen=True)
class UrlSource:
    """A file system that is described by a URL and its own options.

    It is created when needed, in a thread: some ask for credentials, or connect, in their constructor.

    Attributes:
        url: the URL as fsspec spells it.
        options: the options of the links of the chain, by protocol.
    """

    url: str
    options: Mapping[str, Any]

    @property
    def kind(self) -> Any:
        """The class of the first link of the chain; some classes return instances of another class."""
        return self._chain()[0][0]

    @property
    def fingerprint(self) -> str:
        """The digest of the arguments of the file system that `make` returns."""
        from fsspec.config import apply_config

        kind, options = self._chain()[0]
        options = apply_config(kind, options)
        told = {name: value for name, value in options.items() if name not in kind._strip_tokenize_options}
        return digest(_call(kind, told))

    @property
    def path(self) -> str:
        """The path of the URL in the file system."""
        from fsspec.core import _un_chain

        return str(_un_chain(self.url, self._copied())[0][0])

    def make(self) -> Any:
        """Return the file system: fsspec's instance for these arguments."""
        from fsspec.core import url_to_fs

        return url_to_fs(self.url, **self._copied())[0]

    recreate = make

    def _copied(self) -> dict[str, Any]:
        """Return copies of the options, because fsspec changes the mappings it gets."""
        return {name: dict(value) if isinstance(value, dict) else value for name, value in self.options.items()}

    def _chain(self) -> list[tuple[Any, dict[str, Any]]]:
        """Return the class of each link with the arguments that fsspec passes to it."""
        from fsspec import get_filesystem_class
        from fsspec.core import _un_chain

        made: list[tuple[Any, dict[str, Any]]] = []
        inner: dict[str, Any] = {}
        for path, protocol, own in reversed(_un_chain(self.url, self._copied())):
            made.append((get_filesystem_class(protocol), {**own, **inner}))
            inner = {"target_options": made[-1][1], "target_protocol": protocol, "fo": path}
        return made[::-1]


def usable_instance(fs: Any) -> Any:
    """Return `fs`, or a new instance by the same arguments if `fs` cannot be used from every loop.

    The connections of an instance with `asynchronous=True` belong to the first loop that uses it. For such an instance,
    and for one whose loop does not run, the result is an instance on fsspec's own loop.
    """
    from fsspec.asyn import get_loop

    if not is_async(fs):
        return fs
    if not fs.asynchronous:
        loop = fs.loop
        if loop is get_loop() or loop.is_running():
            return fs
    return recreate(fs)


def recreate(value: Any) -> Any:
    """Return a file system by the same arguments as `value`, on fsspec's own loop. Other values are returned unchanged.

    File systems among the arguments are recreated too.
    """
    from fsspec import AbstractFileSystem

    if isinstance(value, Mapping):
        return {name: recreate(each) for name, each in value.items()}
    if not isinstance(value, AbstractFileSystem):
        return value
    options = {name: each for name, each in value.storage_options.items() if name not in ("asynchronous", "loop")}
    if type(value).__name__ == "AsyncFileSystemWrapper":
        options["asynchronous"] = False  # in a running loop it would choose to be asynchronous
    return type(value)(*map(recreate, value.storage_args), **recreate(options))


def digest(text: str) -> str:
    """Return a digest of `text`, which may hold secrets."""
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _described(value: Any) -> str:
    from fsspec import AbstractFileSystem

    if isinstance(value, AbstractFileSystem):
        kind = type(value)
        if kind.protocol == "memory" and value.__dict__.get("store") is not None:
            return f"{kind.__qualname__}@{id(value)}"  # a store of its own
        return _call(kind, value.storage_options, value.storage_args)
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{name!r}: {_described(each)}' for name, each in value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_described, value))}]"
    if isinstance(value, Store):
        return f"{type(value).__qualname__} {value.identity!r}"
    return f"{type(value).__qualname__} {value!r}"


def _call(kind: Any, options: Mapping[str, Any], args: Any = ()) -> str:
    """Describe a call. fsspec's own token has the creating thread too, and lacks file systems among the arguments."""
    told = {name: value for name, value in options.items() if name not in IGNORED_ARGUMENTS}
    return f"{kind.__module__}.{kind.__qualname__}({_described(tuple(args))}, {_described(told)})"


MAX_ERRORS = 32
MIN_SECRET_CHARACTERS = 3
"""Shorter secrets occur in any text."""

_SECRET = re.compile(r"secret|pass|pwd|token|key|auth|sig|sas|cred|cookie|header|connection_string|cert", re.IGNORECASE)
_PASSWORD = re.compile(r"(://[^:@/]*):[^/]*@")
# The repr of aiohttp's errors contains headers.
_REVEALING = re.compile(r"://[^/\s'\"]*@|authorization", re.IGNORECASE)
_WORD = re.compile(r"[^\s'\"]+")
MAX_SHOWN_CHARACTERS = 10_000
"""Longer texts of a file system's errors, which may be a server's, are not searched for secrets, and not shown."""


def secrets_of(recipe: InstanceSource | UrlSource, *more: str) -> frozenset[str]:
    """Return the texts that must not be shown: passwords and queries of URLs, and values of options with such names."""
    given = (recipe.fs,) if isinstance(recipe, InstanceSource) else (*recipe.url.split("::"), recipe.options)
    found = {text for each in (*given, *more) for text in _found_in(each, False)}
    return frozenset(text for text in found if len(text) >= MIN_SECRET_CHARACTERS)


def reveals(error: BaseException, secrets: frozenset[str]) -> bool:
    """Return whether `error` or a cause contains one of `secrets`, or any secret in a URL or a header."""
    return any(
        len(text) > MAX_SHOWN_CHARACTERS
        or _REVEALING.search(text)
        or any(_has_query(word) for word in _WORD.findall(text))
        or any(each in text for each in secrets)
        for text in _texts(error)
    )


def _has_query(word: str) -> bool:
    """Return whether a word contains a URL with a query, of any host, because a server may have redirected the client.

    A pattern for this would have overlapping parts, which takes cubic time on a hostile server's text.
    """
    return "=" in word.partition("://")[2].partition("?")[2]


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
