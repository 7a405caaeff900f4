"""The records that all layers share: keys, byte ranges, versions, values and preconditions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from aiozarr.errors import InvalidKeyError

if TYPE_CHECKING:
    from typing_extensions import Buffer


MAX_KEY_BYTES = 1024
"""Maximum length of a key in UTF-8, as S3 and GCS have it."""

JOURNAL_PREFIX = ".aiozarr-copy~/"
JOURNAL_HEADER_KEY = f"{JOURNAL_PREFIX}copy.json"
"""The keys of the journal of an unfinished copy, below its destination. They belong to no node, and are not copied."""
UPLOAD_RECORD_PREFIX = f"{JOURNAL_PREFIX}upload-"
"""The records of unfinished uploads in parts, each beside its object: servers do not say which program began one."""
CONVERSION_FOLDER = "__aiozarr__"
"""The folder of a conversion at its destination, which is erased at the end. Zarr reserves names that begin so."""
CONVERSION_JOURNAL_KEY = f"{CONVERSION_FOLDER}/conversion.json"

# Most keys: ASCII segments that begin with at most one dot. They need no further checks.
_PLAIN_KEY = re.compile(r"(?:\.?[\w~-][\w.~-]*/)*\.?[\w~-][\w.~-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Range:
    """`length` bytes from `start` on, or all bytes from `start` on if `length` is None.

    A range that extends past the end of a value ends there. A range that starts at or after the end is empty.
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
    """The last `length` bytes of a value, or all bytes of a shorter value."""

    length: int

    def __post_init__(self) -> None:
        if self.length < 0:
            raise ValueError(f"a suffix needs a length of at least 0, not {self.length}")

    def __str__(self) -> str:
        return f"the last {self.length} bytes"


ByteRange: TypeAlias = Range | Suffix


@dataclass(frozen=True, slots=True)
class Version:
    """The version of a stored object: its ETag, its generation, or both. Only its store interprets them.

    A weak ETag (`W/"..."`) can be compared but is never sent as a condition (RFC 9110, section 8.8.3).
    """

    etag: str | None = None
    generation: str | None = None

    def __post_init__(self) -> None:
        if self.etag is None and self.generation is None:
            raise ValueError("a version needs an ETag or a generation")

    @property
    def weak(self) -> bool:
        """True if the version cannot be sent as a condition."""
        return self.generation is None and self.etag is not None and self.etag.startswith("W/")


@dataclass(frozen=True, slots=True)
class Value:
    """Bytes of one object, with its version and size.

    Attributes:
        data: the requested bytes.
        version: version of the object; None if the store has no versions.
        size: size of the complete object in bytes; None if unknown, as in an HTTP response without total length.
        status: HTTP status of the response, for events; None for stores without one.
        cache_checks: number of requests that validated bytes from a cache, 0 or 1; None for bytes from elsewhere.
    """

    data: Buffer
    version: Version | None
    size: int | None
    status: int | None = field(default=None, compare=False)
    cache_checks: int | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """One listed object.

    Attributes:
        key: key of the object.
        size: size in bytes; None if the listing has no sizes.
        version: version of the object; None if the listing has no versions.
        below_link: number of trailing segments of the key that are behind a link to a directory; 0 without a link. A
            deletion removes only the link.
        fault: why something is stored here that cannot be read: a link that cannot be followed, or a name that is not a
            key. Empty for objects.
    """

    key: str
    size: int | None
    version: Version | None = None
    below_link: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class IfAbsent:
    """Precondition of a write: the key has no value."""


@dataclass(frozen=True, slots=True)
class IfMatch:
    """Precondition of a write: the stored value has this version."""

    version: Version


Precondition: TypeAlias = IfAbsent | IfMatch


def is_met(precondition: Precondition | None, current: Version | None) -> bool:
    """Return whether a precondition holds for a value of the version `current`; None: nothing is stored."""
    if precondition is None:
        return True
    return current == (None if isinstance(precondition, IfAbsent) else precondition.version)


@dataclass(frozen=True, slots=True)
class Supports:
    """The capabilities of a store. They may change after a response or a probe, so callers read them each time.

    Attributes:
        readable: `fetch` and all operations that use it.
        writable: `set`, `erase` and all operations that use them.
        listable: `scan`, `list`, `list_dir`, `list_prefix`.
        partial_reads: `fetch` of a range transfers only this range. Otherwise it returns the same bytes, but may
            transfer the complete object for each range.
        clipped_reads: `fetch` of a `Range` that ends beyond the object returns the bytes up to its end. Otherwise the
            engine requests the whole object where it does not know the size.
        suffix_reads: `fetch` of a `Suffix` is one request. Otherwise the engine uses the cached size of the object.
        conditional_reads: the store checks `fetch(if_match=...)`. Otherwise the caller compares the versions of
            responses, if they have versions.
        conditional_writes: preconditions of `set` hold against other writers; None if unknown before a probe.
        conditional_erases: `erase_if_match` removes a value only if it has the given version.
        bounded_reads: `fetch` has the keyword `max_bytes` and raises `LimitError` instead of receiving more bytes.
    """

    readable: bool = True
    writable: bool = False
    listable: bool = False
    partial_reads: bool = True
    clipped_reads: bool = True
    suffix_reads: bool = True
    conditional_reads: bool = False
    conditional_writes: bool | None = False
    conditional_erases: bool = False
    bounded_reads: bool = False


def check_key(key: str, *, store: str | None = None) -> str:
    """Return `key` if it is a valid store key.

    A key has 1 to 1,024 bytes of UTF-8 without NUL. Single `/` separate its segments, and no segment is empty, `.` or
    `..`. These rules are stricter than the rules of the v3 core specification, "Abstract store interface".

    Raises:
        TypeError: `key` is not a str.
        InvalidKeyError: `key` is not a valid key.
    """
    if not isinstance(key, str):
        raise TypeError(f"a key is a str, not {type(key).__name__}")
    if len(key) <= MAX_KEY_BYTES and _PLAIN_KEY.fullmatch(key):
        return key
    reason = _key_fault(key)
    if reason is not None:
        raise InvalidKeyError(f"not a valid key: {reason}", key=key, store=store)
    return key


def check_prefix(prefix: str, *, store: str | None = None) -> str:
    """Return `prefix` if it is `""` or a valid key followed by one `/`.

    Raises:
        TypeError: `prefix` is not a str.
        InvalidKeyError: `prefix` is not a valid prefix.
    """
    if not isinstance(prefix, str):
        raise TypeError(f"a prefix is a str, not {type(prefix).__name__}")
    if prefix == "":
        return prefix
    reason = _key_fault(prefix[:-1]) if prefix.endswith("/") else "a prefix is empty or ends with '/'"
    if reason is not None:
        raise InvalidKeyError(f"not a valid prefix: {reason}", key=prefix, store=store)
    return prefix


def is_unicode(text: str) -> bool:
    """Return whether `text` can be encoded as UTF-8: it contains no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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
    """Return start and stop of `byte_range` in a value of `size` bytes, clipped to the value."""
    if byte_range is None:
        return 0, size
    if isinstance(byte_range, Suffix):
        return max(0, size - byte_range.length), size
    stop = size if byte_range.length is None else byte_range.start + byte_range.length
    return min(byte_range.start, size), min(stop, size)
