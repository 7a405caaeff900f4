"""What file systems of fsspec can do and are known to get wrong, as far as a store has to know."""

from __future__ import annotations

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
        directories: files lie in directories, which have to be made first.
        prunes: removing a directory fails where it is not empty, so that empty ones may be removed.
        encoded: paths are URLs, and keys are percent-encoded in them.
        at_once: which calls of a blocking file system may run at the same time: all of them, those for different paths,
            or one, because fsspec promises no more than one thread.
        whole: arguments that make reading a whole file a single request.
    """

    writeable: bool = False
    listable: bool = True
    flat: bool = False
    suffixes: bool = False
    open_ends: bool = True
    framed: bool = False
    directories: bool = False
    prunes: bool = False
    encoded: bool = False
    at_once: Literal["all", "paths", "one"] = "one"
    whole: tuple[tuple[str, Any], ...] = ()


# By the first protocol that the class names. What is not here is judged by the methods that its class has.
_KNOWN: dict[str, Traits] = {
    # Without the argument, s3fs asks for the size first.
    "s3": Traits(writeable=True, flat=True, suffixes=True, framed=True, whole=(("max_concurrency", 1),)),
    "gs": Traits(writeable=True, flat=True, suffixes=True, framed=True),
    # What a server lists is a page for people; it has no rule that can be relied on.
    "http": Traits(listable=False, suffixes=True, open_ends=False, framed=True, encoded=True),
    "memory": Traits(writeable=True, flat=True, at_once="all"),
    "reference": Traits(framed=True),
    "sftp": Traits(writeable=True, directories=True, prunes=True),
    "ftp": Traits(writeable=True, directories=True, prunes=True),
    "smb": Traits(writeable=True, directories=True, prunes=True),
    # Written through a cache, a replaced or erased value would still be read from it.
    "simplecache": Traits(at_once="paths"),
    "filecache": Traits(),
    "blockcache": Traits(),
    "zip": Traits(),
    "tar": Traits(),
    "libarchive": Traits(),
    "github": Traits(),
    "git": Traits(),
    "data": Traits(listable=False),
}
_CACHES = frozenset({"simplecache", "filecache", "blockcache"})
_SAME = {"s3a": "s3", "gcs": "gs", "https": "http", "ssh": "sftp", "cached": "blockcache"}


def protocol_of(fs: Any) -> str:
    """Return the name that the class of `fs` goes by in URLs."""
    # Of the class: caches pass attributes of the file system below them.
    protocol = type(fs).protocol
    return str(protocol if isinstance(protocol, str) else protocol[0])


def is_async(fs: Any) -> bool:
    """Return whether the methods of `fs` are coroutines."""
    return bool(type(fs).async_impl)


def traits_of(fs: Any) -> Traits:
    """Return what is known of `fs`."""
    protocol = protocol_of(fs)
    known = _KNOWN.get(_SAME.get(protocol, protocol))
    if known is not None and (protocol != "memory" or not is_async(fs)):
        below = fs.fs if _SAME.get(protocol, protocol) in _CACHES else None
        # A cache lists what the file system below it does.
        return known if below is None or traits_of(below).listable else replace(known, listable=False)
    from fsspec.asyn import AsyncFileSystem
    from fsspec.spec import AbstractFileSystem

    base = AsyncFileSystem if is_async(fs) else AbstractFileSystem
    mark = "_" if is_async(fs) else ""

    def has(*names: str) -> bool:
        return any(getattr(type(fs), name, None) is not getattr(base, name, None) for name in names)

    return Traits(
        writeable=has(f"{mark}pipe_file", "_open") and has(f"{mark}rm_file", "_rm", "rm"),
        listable=has(f"{mark}ls"),
        directories=has(f"{mark}makedirs", f"{mark}mkdir"),
    )
