"""Which instance of a file system does the work: one whose coroutines run on a loop that lives on, made when needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from aiozarr.stores.contract import Store
from aiozarr.stores.fsspec.traits import below, is_async

NO_MATTER = frozenset({"asynchronous", "loop", "skip_instance_cache"})
"""Arguments that say nothing about what a file system sees."""


@dataclass(frozen=True)
class Given:
    """A file system that was made already."""

    fs: Any

    @property
    def kinds(self) -> list[Any]:
        """Its class, and those of the file systems below it, where it is a cache."""
        kinds, fs = [], self.fs
        while fs is not None:
            kinds.append(type(fs))
            fs = below(fs)
        return kinds

    @property
    def fingerprint(self) -> str:
        """What tells it from others by other arguments, in this process, without telling them."""
        return hashed(_described(self.fs))

    def make(self) -> Any:
        """Return it."""
        return self.fs

    def make_again(self) -> Any:
        """Return another by the same arguments, in a forked child."""
        # What has no connections stays as it is, with all that it holds.
        return self.fs if type(self.fs).protocol == "memory" else made_again(self.fs)


@dataclass(frozen=True)
class Described:
    """A file system that a URL and options in its own words describe.

    It is made when it is needed, in a thread: some ask for credentials, or connect, as soon as they are made.

    Attributes:
        url: the URL, in the spelling of fsspec.
        options: the options of its links, by their protocols.
        patience: the options with how long to wait, which says nothing about what the file system sees.
    """

    url: str
    options: Mapping[str, Any]
    patience: Mapping[str, Any] | None = None

    @property
    def kinds(self) -> list[Any]:
        """The classes of the chain, the first link first; some give instances of another."""
        return [kind for kind, _ in self._chain()]

    @property
    def fingerprint(self) -> str:
        """As of the file system that `make` will return."""
        from fsspec.config import apply_config

        kind, options = self._chain()[0]
        options = apply_config(kind, options)
        told = {name: value for name, value in options.items() if name not in kind._strip_tokenize_options}
        return hashed(_call(kind, told))

    @property
    def path(self) -> str:
        """The path in it that the URL names."""
        from fsspec.core import _un_chain

        return str(_un_chain(self.url, self._copied())[0][0])

    def make(self) -> Any:
        """Return the file system: fsspec's instance for these arguments."""
        from fsspec.core import url_to_fs

        return url_to_fs(self.url, **self._copied(self.patience))[0]

    make_again = make

    def _copied(self, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the options in mappings of their own: fsspec writes into them."""
        given = options or self.options
        return {name: dict(value) if isinstance(value, dict) else value for name, value in given.items()}

    def _chain(self) -> list[tuple[Any, dict[str, Any]]]:
        """Return the class of each link with the arguments that fsspec makes it by."""
        from fsspec import get_filesystem_class
        from fsspec.core import _un_chain

        made: list[tuple[Any, dict[str, Any]]] = []
        inner: dict[str, Any] = {}
        for path, protocol, own in reversed(_un_chain(self.url, self._copied())):
            made.append((get_filesystem_class(protocol), {**own, **inner}))
            inner = {"target_options": made[-1][1], "target_protocol": protocol, "fo": path}
        return made[::-1]


def served(fs: Any) -> Any:
    """Return the instance that serves for `fs`.

    Where `fs` was made with `asynchronous=True`, its connections belong to whatever loop uses it first; then, and where
    its loop does not run, it is a twin by the same arguments, which lives on fsspec's own loop.
    """
    from fsspec.asyn import get_loop

    if not is_async(fs):
        return fs
    if not fs.asynchronous:
        loop = fs.loop
        if loop is get_loop() or loop.is_running():
            return fs
    return made_again(fs)


def made_again(value: Any) -> Any:
    """Return a file system by the same arguments as `value`, on fsspec's own loop; other values come back as they are.

    File systems among the arguments are made again too.
    """
    from fsspec import AbstractFileSystem

    if isinstance(value, Mapping):
        return {name: made_again(each) for name, each in value.items()}
    if not isinstance(value, AbstractFileSystem):
        return value
    options = {name: each for name, each in value.storage_options.items() if name not in ("asynchronous", "loop")}
    if type(value).__name__ == "AsyncFileSystemWrapper":
        options["asynchronous"] = False  # it would take the running loop for a reason to be asynchronous
    return type(value)(*map(made_again, value.storage_args), **made_again(options))


def hashed(text: str) -> str:
    """Return what tells `text` from others, and not what it is."""
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _described(value: Any) -> str:
    from fsspec import AbstractFileSystem

    if isinstance(value, AbstractFileSystem):
        kind = type(value)
        if kind.protocol == "memory" and value.__dict__.get("store") is not None:
            return f"{kind.__qualname__}@{id(value)}"  # one that shares nothing
        return _call(kind, value.storage_options, value.storage_args)
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{name!r}: {_described(each)}' for name, each in value.items()))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_described, value))}]"
    if isinstance(value, Store):
        return f"{type(value).__qualname__} {value.identity!r}"
    return f"{type(value).__qualname__} {value!r}"


def _call(kind: Any, options: Mapping[str, Any], args: Any = ()) -> str:
    """Describe a call. fsspec's own token also says which thread has made a file system, and not on which it stands."""
    told = {name: value for name, value in options.items() if name not in NO_MATTER}
    return f"{kind.__module__}.{kind.__qualname__}({_described(tuple(args))}, {_described(told)})"
