"""What file systems of fsspec support, and their known faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class FileSystemTraits:
    """Properties of one file system.

    Attributes:
        writeable: whole values can be written, and removed.
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
        at_once: which calls of a blocking file system may run at the same time: all of them, those for different paths,
            or one, because fsspec promises no more than one thread.
        indexed: an archive, with an index of its files; a missing file may then be the archive itself.
        whole: arguments for reading a whole file with a single request.
    """

    writeable: bool = False
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
    at_once: Literal["all", "paths", "one"] = "one"
    indexed: bool = False
    whole: tuple[tuple[str, Any], ...] = ()


# By the first protocol of the class. Others are classified by the methods of their class.
_KNOWN: dict[str, FileSystemTraits] = {
    # Without the argument, s3fs asks for the size first.
    "s3": FileSystemTraits(writeable=True, flat=True, suffixes=True, framed=True, whole=(("max_concurrency", 1),)),
    "gs": FileSystemTraits(writeable=True, flat=True, suffixes=True, framed=True),
    # A server lists files as an HTML page of unknown format.
    "http": FileSystemTraits(listable=False, suffixes=True, open_ends=False, framed=True, encoded=True),
    "memory": FileSystemTraits(writeable=True, flat=True, at_once="all"),
    # For values inside the references, its size is the length of their encoding.
    "reference": FileSystemTraits(clips=False, numbered=True, framed=True, sizes=False),
    "sftp": FileSystemTraits(writeable=True, directories=True, prunes=True),
    "ftp": FileSystemTraits(writeable=True, directories=True, prunes=True),
    "smb": FileSystemTraits(writeable=True, directories=True, prunes=True),
    # Written through a cache, a replaced or erased value would still be read from it.
    "simplecache": FileSystemTraits(at_once="paths"),
    "filecache": FileSystemTraits(),
    "blockcache": FileSystemTraits(),
    "zip": FileSystemTraits(indexed=True),
    "tar": FileSystemTraits(indexed=True),
    "libarchive": FileSystemTraits(indexed=True),
    "github": FileSystemTraits(),
    "git": FileSystemTraits(),
    "data": FileSystemTraits(listable=False),
}
_CACHES = frozenset({"simplecache", "filecache", "blockcache"})
_SAME = {"s3a": "s3", "gcs": "gs", "https": "http", "ssh": "sftp", "cached": "blockcache"}


def protocol_of(kind: Any) -> str:
    """Return the name of the class `kind` of file systems in URLs."""
    protocol = kind.protocol
    return str(protocol if isinstance(protocol, str) else protocol[0])


def is_async(fs: Any) -> bool:
    """Return whether the methods of `fs` are coroutines."""
    # From the class: caches forward attributes of the file system below them.
    return bool(type(fs).async_impl)


def below(fs: Any) -> Any:
    """Return the file system that `fs` is a cache of, or None."""
    inner = getattr(fs, "fs", None)
    return inner if hasattr(type(inner), "_strip_protocol") else None


def traits_of(kinds: Sequence[Any]) -> FileSystemTraits:
    """Return the properties of a file system of the first class of `kinds`; file systems below it follow.

    A cache lists the paths of the file system below it.
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

    return FileSystemTraits(
        writeable=has(f"{mark}pipe_file", "_open") and has(f"{mark}rm_file", "_rm", "rm"),
        listable=has(f"{mark}ls"),
        directories=has(f"{mark}makedirs", f"{mark}mkdir"),
    )
