"""What file systems of fsspec can do and are known to get wrong, as far as a store has to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of one file system.

    Attributes:
        writeable: whole values can be written, and removed.
        listable: what lies below a path can be listed.
        flat: one listing gives everything below a path; elsewhere directories are walked.
        suffixes: a negative start costs one request, and is cut at the start of the file.
        open_ends: a range without an end can be told from a server that ignores ranges.
        framed: the transport compares the bytes of every answer with their announced number.
        sizes: what it tells as the size of a file is the number of bytes that reading it gives.
        directories: files lie in directories, which have to be made first.
        prunes: removing a directory fails where it is not empty, so that empty ones may be removed.
        encoded: paths are URLs, and keys are percent-encoded in them.
        at_once: which calls of a blocking file system may run at the same time: all of them, those for different paths,
            or one, because fsspec promises no more than one thread.
        indexed: what is in it is known without a request: an archive, whose own file may be what is missing.
        whole: arguments that make reading a whole file a single request.
    """

    writeable: bool = False
    listable: bool = True
    flat: bool = False
    suffixes: bool = False
    open_ends: bool = True
    framed: bool = False
    sizes: bool = True
    directories: bool = False
    prunes: bool = False
    encoded: bool = False
    at_once: Literal["all", "paths", "one"] = "one"
    indexed: bool = False
    whole: tuple[tuple[str, Any], ...] = ()


# By the first protocol that the class names. What is not here is judged by the methods that its class has.
_KNOWN: dict[str, Traits] = {
    # Without the argument, s3fs asks for the size first.
    "s3": Traits(writeable=True, flat=True, suffixes=True, framed=True, whole=(("max_concurrency", 1),)),
    "gs": Traits(writeable=True, flat=True, suffixes=True, framed=True),
    # What a server lists is a page for people; it has no rule that can be relied on.
    "http": Traits(listable=False, suffixes=True, open_ends=False, framed=True, encoded=True),
    "memory": Traits(writeable=True, flat=True, at_once="all"),
    # Of values that lie in the references themselves, it tells the size as they are spelled there.
    "reference": Traits(framed=True, sizes=False),
    "sftp": Traits(writeable=True, directories=True, prunes=True),
    "ftp": Traits(writeable=True, directories=True, prunes=True),
    "smb": Traits(writeable=True, directories=True, prunes=True),
    # Written through a cache, a replaced or erased value would still be read from it.
    "simplecache": Traits(at_once="paths"),
    "filecache": Traits(),
    "blockcache": Traits(),
    "zip": Traits(indexed=True),
    "tar": Traits(indexed=True),
    "libarchive": Traits(indexed=True),
    "github": Traits(),
    "git": Traits(),
    "data": Traits(listable=False),
}
_CACHES = frozenset({"simplecache", "filecache", "blockcache"})
_SAME = {"s3a": "s3", "gcs": "gs", "https": "http", "ssh": "sftp", "cached": "blockcache"}


def protocol_of(kind: Any) -> str:
    """Return the name that the class `kind` of file systems goes by in URLs."""
    protocol = kind.protocol
    return str(protocol if isinstance(protocol, str) else protocol[0])


def is_async(fs: Any) -> bool:
    """Return whether the methods of `fs` are coroutines."""
    # As its class says: caches pass attributes of the file system below them.
    return bool(type(fs).async_impl)


def below(fs: Any) -> Any:
    """Return the file system that `fs` is a cache of, or None."""
    inner = getattr(fs, "fs", None)
    return inner if hasattr(type(inner), "_strip_protocol") else None


def traits_of(kinds: Sequence[Any]) -> Traits:
    """Return what is known of a file system of the first class of `kinds`; those of the file systems below it follow.

    A cache lists what the file system below it does, by the same paths.
    """
    kind = kinds[0]
    protocol = _SAME.get(protocol_of(kind), protocol_of(kind))
    known = _KNOWN.get(protocol)
    if known is not None and (protocol != "memory" or not kind.async_impl):
        if protocol not in _CACHES or not kinds[1:]:
            return known
        inner = traits_of(kinds[1:])
        return replace(known, listable=inner.listable, encoded=inner.encoded)
    from fsspec.asyn import AsyncFileSystem
    from fsspec.spec import AbstractFileSystem

    base, mark = (AsyncFileSystem, "_") if kind.async_impl else (AbstractFileSystem, "")

    def has(*names: str) -> bool:
        return any(getattr(kind, name, None) is not getattr(base, name, None) for name in names)

    return Traits(
        writeable=has(f"{mark}pipe_file", "_open") and has(f"{mark}rm_file", "_rm", "rm"),
        listable=has(f"{mark}ls"),
        directories=has(f"{mark}makedirs", f"{mark}mkdir"),
    )
