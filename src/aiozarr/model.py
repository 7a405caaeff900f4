"""The records that every layer shares: keys, byte ranges, versions, values and preconditions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from typing_extensions import Buffer

from aiozarr.errors import InvalidKeyError

MAX_KEY_BYTES = 1024

# Of ASCII, in segments that begin with no dot: nothing else is left to be looked for in such a key.
_USUAL = re.compile(r"(?:[\w~-][\w.~-]*/)*[\w~-][\w.~-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Range:
    """`length` bytes from `start`, or everything from `start` where `length` is None.

    A range that reaches past the end of a value is cut at its end; one that starts at or after the end is empty.
    """

    start: int
    length: int | None = None

    def __post_init__(self) -> None:
        if self.start < 0 or (self.length is not None and self.length < 0):
            raise ValueError(f"a range needs a start and a length of at least 0, not {self.start} and {self.length}")

    def __str__(self) -> str:
        return f"bytes {self.start}-" if self.length is None else f"bytes {self.start}+{self.length}"


@dataclass(frozen=True, slots=True)
class Suffix:
    """The last `length` bytes of a value; all of it where it is shorter."""

    length: int

    def __post_init__(self) -> None:
        if self.length < 0:
            raise ValueError(f"a suffix needs a length of at least 0, not {self.length}")

    def __str__(self) -> str:
        return f"the last {self.length} bytes"


ByteRange: TypeAlias = Range | Suffix


@dataclass(frozen=True, slots=True)
class Version:
    """Which state of an object was seen: its ETag, its generation, or both. Opaque to everyone but its store.

    A weak ETag (`W/"..."`) compares, and is never sent as a condition.
    """

    etag: str | None = None
    generation: str | None = None

    def __post_init__(self) -> None:
        if self.etag is None and self.generation is None:
            raise ValueError("a version needs an ETag or a generation")

    @property
    def weak(self) -> bool:
        """True where the version cannot be sent as a condition."""
        return self.generation is None and self.etag is not None and self.etag.startswith("W/")


@dataclass(frozen=True, slots=True)
class Value:
    """Bytes of one object, with the object's version (None: the store knows none) and whole size in bytes.

    `size` is None only where the store cannot know it, as with a ranged HTTP answer of unknown total length.
    """

    data: Buffer
    version: Version | None
    size: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored object: its key, size in bytes and version (None: the store's listing tells none)."""

    key: str
    size: int | None
    version: Version | None = None


@dataclass(frozen=True, slots=True)
class IfAbsent:
    """Write only where no value is stored."""


@dataclass(frozen=True, slots=True)
class IfMatch:
    """Write only where the stored value has this version."""

    version: Version


Precondition: TypeAlias = IfAbsent | IfMatch


@dataclass(frozen=True, slots=True)
class Supports:
    """What a store can do; the layers above act on it, and ask again each time: an answer or a probe may teach a store.

    Attributes:
        readable: `fetch` and what follows from it.
        writeable: `set`, `erase` and what follows from them.
        listable: `scan`, `list`, `list_dir`, `list_prefix`.
        partial_reads: `fetch` with a range transfers that range only. Where it does not, ranges give the right bytes
            all the same; shards are read by ranges of one object, each of which may then transfer all of it.
        suffix_reads: a `Suffix` costs one request. Where it does not, the engine finds ends by sizes that it keeps.
        conditional_reads: `fetch(if_match=...)` is checked by the store. Where it is not, versions are compared by
            whoever asked, as far as answers tell them.
        conditional_writes: preconditions of `set` hold against other writers; None: not known before a probe.
    """

    readable: bool = True
    writeable: bool = False
    listable: bool = False
    partial_reads: bool = True
    suffix_reads: bool = True
    conditional_reads: bool = False
    conditional_writes: bool | None = False


def check_key(key: str, *, store: str | None = None) -> str:
    """Return `key` if it is a valid store key.

    A key is non-empty, at most 1,024 bytes of UTF-8, without NUL, and made of segments that single `/` separate, none
    of them empty, `.` or `..` (v3 core specification, "Abstract store interface", with the stricter rules of aiozarr).

    Raises:
        InvalidKeyError: for anything else.
    """
    if not isinstance(key, str):
        raise TypeError(f"a key is a str, not {type(key).__name__}")
    if len(key) <= MAX_KEY_BYTES and _USUAL.fullmatch(key):
        return key
    reason = _key_fault(key)
    if reason is not None:
        raise InvalidKeyError(f"not a valid key: {reason}", key=key, store=store)
    return key


def check_prefix(prefix: str, *, store: str | None = None) -> str:
    """Return `prefix` if it is `""` or a valid key with one `/` behind it.

    Raises:
        InvalidKeyError: for anything else.
    """
    if not isinstance(prefix, str):
        raise TypeError(f"a prefix is a str, not {type(prefix).__name__}")
    if prefix == "":
        return prefix
    reason = _key_fault(prefix[:-1]) if prefix.endswith("/") else "a prefix is empty or ends with '/'"
    if reason is not None:
        raise InvalidKeyError(f"not a valid prefix: {reason}", key=prefix, store=store)
    return prefix


def _key_fault(key: str) -> str | None:
    if not key:
        return "it is empty"
    if key.isascii():
        length = len(key)
    else:
        try:
            length = len(key.encode())
        except UnicodeEncodeError:
            return "it is not valid Unicode (a lone surrogate)"
    if length > MAX_KEY_BYTES:
        return f"it has {length} bytes; at most {MAX_KEY_BYTES} are allowed"
    if "\0" in key:
        return "it contains NUL"
    if key.startswith("/") or key.endswith("/") or "//" in key:
        return "it has an empty segment"
    if "." in key and any(segment in (".", "..") for segment in key.split("/")):
        return "it has a segment '.' or '..'"
    return None


def resolve_range(size: int, byte_range: ByteRange | None) -> tuple[int, int]:
    """Return `(start, stop)` of `byte_range` in a value of `size` bytes, cut at its end."""
    if byte_range is None:
        return 0, size
    if isinstance(byte_range, Suffix):
        return max(0, size - byte_range.length), size
    stop = size if byte_range.length is None else byte_range.start + byte_range.length
    return min(byte_range.start, size), min(stop, size)
