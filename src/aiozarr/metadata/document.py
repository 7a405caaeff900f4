"""A metadata document is a JSON object: read within bounds, written so that every peer can read it (RFC 8259)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from aiozarr.common.checks import Checks
from aiozarr.common.formatting import clip, shown
from aiozarr.errors import InvalidMetadataError, LimitError, UnsupportedMetadataError
from aiozarr.model import is_unicode

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_DEPTH = 200
MAX_INT_DIGITS = 4300

MAX_NDIM = 32
"""Maximum number of dimensions, as in numpy 1."""

_LENGTH_END = 1 << 63

CHECKS = Checks(
    lambda path, expected, value, _: InvalidMetadataError(f"must be {expected}, not {shown(value)}", member=path)
)

_T = TypeVar("_T")
# The path of a value as nested pairs, innermost step first. Rendered for errors only.
_JsonPath: TypeAlias = tuple["_JsonPath", str | int] | str

_INT_END = 10**MAX_INT_DIGITS
# Numbers that overflow by exponent or by digits. Each run of digits is matched once, from its start.
_OVERFLOW = re.compile(rb"[eE]\+?0*+[0-9]{3}|(?<![0-9])[0-9]{308}")
# Compiled when the first document needs it.
_NUMBER_TEXT = (
    r" {0,9}[+-]?(?:nan|inf(?:inity)?|(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:e[+-]?[0-9]{1,4})?) {0,9}"
)
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89abcdefABCDEF]")
_NESTING_STEP = np.zeros(256, np.int8)
_NESTING_STEP[list(b"[{")] = 1
_NESTING_STEP[list(b"]}")] = -1


class Document(NamedTuple):
    """The members of a document, and the facts about its text that a dict does not have.

    Attributes:
        members: the members; the last one of duplicate keys.
        duplicates: for each object with duplicate keys, at any depth: one duplicate key by the id of the object.
        may_hold_surrogates: the text has escapes of surrogates, paired or lone.
        may_hold_infinities: the text has NaN, Infinity, or numbers that may overflow to infinity.
    """

    members: dict[str, Any]
    duplicates: Mapping[int, str] = MappingProxyType({})
    may_hold_surrogates: bool = True
    may_hold_infinities: bool = True

    @property
    def is_strict(self) -> bool:
        """True if all of the document is known to be strict JSON."""
        return not (self.duplicates or self.may_hold_surrogates or self.may_hold_infinities)

    def check(self, value: object, member: str, *, finite: bool = True) -> None:
        """Check that a part of the document is strict JSON. Like `check_json`, but free for most documents.

        Raises:
            InvalidMetadataError: a duplicate key, a number that is not finite, a lone surrogate.
        """
        if self.duplicates or self.may_hold_surrogates or (finite and self.may_hold_infinities):
            check_json(value, member, duplicates=self.duplicates, finite=finite)


def load_document(data: Buffer, *, max_bytes: int, strict: bool = True) -> Document:
    """Parse a document. NaN, Infinity and duplicate keys, which Python accepts, are left to `check_json`.

    Args:
        data: the document.
        max_bytes: the most bytes that are parsed.
        strict: refuse a byte order mark, and other encodings than UTF-8.

    Raises:
        LimitError: the document has more than `max_bytes`.
        InvalidMetadataError: the document is not a JSON object in UTF-8, is nested deeper than 200 levels, or has an
            integer of more than 4,300 digits.
    """
    size = memoryview(data).nbytes
    if size > max_bytes:
        raise LimitError(
            f"the document has {size} bytes; max_metadata_bytes allows {max_bytes}",
            limit="max_metadata_bytes",
            value=size,
            allowed=max_bytes,
        )
    raw = bytes(data)
    if not strict and (raw[:1] != b"{" or raw[1:2] == b"\0"):
        raw = _as_utf8(raw)
    _check_depth(raw)
    may_hold_surrogates = b"\\u" in raw and _SURROGATE_ESCAPE.search(raw) is not None
    if size <= MAX_INT_DIGITS:
        # The parser below accepts what this one does not, or names the fault.
        with suppress(_UnusualDocumentError, ValueError, RecursionError):
            usual = _decode(raw.decode())
            if isinstance(usual, dict):
                return Document(usual, {}, may_hold_surrogates, False)
    duplicates: list[tuple[dict[str, Any], str]] = []
    members = _parse(raw, duplicates)
    if not isinstance(members, dict):
        raise InvalidMetadataError("the document is not a JSON object")
    return Document(
        members,
        # All objects were alive until here, so their ids are unique in this document.
        {id(value): key for value, key in duplicates},
        may_hold_surrogates,
        b"NaN" in raw or b"Infinity" in raw or _OVERFLOW.search(raw) is not None,
    )


def _as_utf8(raw: bytes) -> bytes:
    """Return a document without a byte order mark, and in UTF-8 if it is in UTF-16 or UTF-32, as editors write it."""
    encoding = json.detect_encoding(raw)
    try:
        return raw if encoding == "utf-8" else raw.decode(encoding).encode()
    except UnicodeError:
        return raw  # which the parser refuses


def dump_document(members: Mapping[str, Any], *, finite: bool = True) -> bytes:
    """Return the document of these members: indented UTF-8 in the order of the members, equal bytes for equal members.

    Lone surrogates, which UTF-8 lacks, are written as the escapes that they were read from.

    Args:
        members: the members of the document.
        finite: reject NaN and infinities. Otherwise they become the tokens that Python and most readers of v2 know.

    Raises:
        TypeError: a value is not a JSON value.
        InvalidMetadataError: NaN or an infinity, more depth or digits than `load_document` reads.
    """
    return checked_document(members, finite=finite)[0]


def checked_document(members: Mapping[str, Any], *, finite: bool = True) -> tuple[bytes, Document]:
    """Return the document of these members as `dump_document`, and as it is read again."""
    try:
        data = _dump(members, finite=finite)
        document = load_document(data, max_bytes=len(data))
        # Keys that are not strings, and numbers that are not equal to themselves, are read back as other values.
        is_equal = document.members == members
    except (TypeError, ValueError, RecursionError, InvalidMetadataError):
        pass  # named below
    else:
        if is_equal:
            return data, document
    for name, value in members.items():
        check_json(value, name, finite=finite, unicode=False)
    data = _dump(members, finite=finite)
    return data, load_document(data, max_bytes=len(data))


def _dump(members: Mapping[str, Any], *, finite: bool) -> bytes:
    try:
        text = _on_enough_stack(lambda: json.dumps(members, indent=2, ensure_ascii=False, allow_nan=not finite))
    except ValueError as error:
        # The interpreter may be configured for fewer digits than MAX_INT_DIGITS.
        raise InvalidMetadataError(f"the document cannot be written: {error}") from error
    # Only surrogates cannot be encoded, and the escape of Python is that of JSON.
    return text.encode("utf-8", "backslashreplace")


def check_json(
    value: object,
    member: str,
    *,
    duplicates: Mapping[int, str] | None = None,
    finite: bool = True,
    unicode: bool = True,
) -> None:
    """Check that JSON can represent `value`, without recursion.

    Args:
        value: the value to check, with all nested values.
        member: path of the value, for errors.
        duplicates: as in `Document`; these objects are rejected.
        finite: reject NaN and infinities.
        unicode: reject lone surrogates.

    Raises:
        TypeError: a value or a key of another type.
        InvalidMetadataError: a duplicate key, a number that is not finite, a lone surrogate, too many digits or levels.
    """
    # Level 0 is the document itself.
    pending: list[tuple[object, _JsonPath, int]] = [(value, member, 1)]
    while pending:
        value, path, depth = pending.pop()
        if value is None or isinstance(value, bool):
            continue
        if isinstance(value, str):
            if unicode:
                _check_text(value, path)
        elif isinstance(value, int):
            if not -_INT_END < value < _INT_END:
                raise InvalidMetadataError(f"more than {MAX_INT_DIGITS} digits", member=_render_path(path))
        elif isinstance(value, float):
            if finite and not math.isfinite(value):
                raise InvalidMetadataError(
                    f"JSON cannot represent the number {value}; use None or a string instead", member=_render_path(path)
                )
        elif isinstance(value, (dict, list, tuple)):
            if depth >= MAX_DEPTH:
                # The path to the value would be too long for a message.
                raise InvalidMetadataError(f"nested deeper than {MAX_DEPTH} levels", member=member)
            if isinstance(value, dict):
                _check_keys(value, path, duplicates, unicode=unicode)
                pending.extend([(part, (path, key), depth + 1) for key, part in value.items()])
            else:
                pending.extend([(part, (path, i), depth + 1) for i, part in enumerate(value)])
        else:
            raise TypeError(f"{_render_path(path)} is a {type(value).__name__}, which JSON cannot represent")


def _check_keys(value: dict[Any, Any], path: _JsonPath, duplicates: Mapping[int, str] | None, *, unicode: bool) -> None:
    if duplicates and id(value) in duplicates:
        raise InvalidMetadataError("duplicate member", member=_render_path((path, duplicates[id(value)])))
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"{_render_path(path)} has the key {key!r}; keys in JSON must be strings")
        if unicode:
            _check_text(key, path)


def _check_text(text: str, path: _JsonPath) -> None:
    if not is_unicode(text):
        raise InvalidMetadataError("not valid Unicode: a lone surrogate", member=_render_path(path))


def _render_path(path: _JsonPath) -> str:
    steps: list[str] = []
    while not isinstance(path, str):
        path, step = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    rendered = "".join([path, *reversed(steps)])
    # The document is untrusted and errors are printed.
    return clip(rendered.encode("utf-8", "backslashreplace").decode())


def required(members: Mapping[str, Any], name: str) -> Any:
    """Return a required member."""
    if name not in members:
        raise InvalidMetadataError("the member is missing", member=name)
    return members[name]


def parse_lengths(value: object, member: str, minimum: int) -> tuple[int, ...]:
    """Return a list of lengths, each at least `minimum`."""
    lengths = CHECKS.check(value, member, list, "a list of integers")
    if len(lengths) > MAX_NDIM:
        reason = f"arrays have at most {MAX_NDIM} dimensions, not {len(lengths)}"
        raise UnsupportedMetadataError(reason, member=member)
    if all([type(length) is int and minimum <= length < _LENGTH_END for length in lengths]):
        return tuple(lengths)
    for i, length in enumerate(lengths):
        if CHECKS.integer(length, f"{member}[{i}]", minimum) >= _LENGTH_END:
            raise UnsupportedMetadataError("a length must be less than 2^63", member=f"{member}[{i}]")
    return tuple(lengths)


def respelled_number(value: Any) -> Any:
    """Return the number that `value` is as text, such as "3" or "+inf", or as a bool; otherwise `value` itself."""
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str) or re.fullmatch(_NUMBER_TEXT, value, re.ASCII | re.IGNORECASE) is None:
        return value
    text = value.strip()
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def integral(value: Any) -> Any:
    """Return a float without a fraction as an integer, and any other value itself."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def check_version(members: Mapping[str, Any], zarr_format: int) -> None:
    """Check that the members are those of a document of this format."""
    version = required(members, "zarr_format")
    if type(version) is not int or version != zarr_format:
        # zarr-python 2.13 to 2.18 and GDAL 3.4 to 3.7 wrote drafts, with the URL of their text.
        is_draft = isinstance(version, str) and "/zarr/" in version
        draft = "; this is a draft of format 3, which differs from format 3 and is not read" if is_draft else ""
        raise InvalidMetadataError(f"must be {zarr_format}, not {shown(version)}{draft}", member="zarr_format")


def _check_depth(raw: bytes) -> None:
    """Reject deep nesting before parsing: the parser recurses, and its limit depends on the stack of the caller."""
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return
    # Without escapes, each quotation mark begins or ends a string. No object is made of the many strings.
    text = np.frombuffer(raw.replace(b"\\\\", b"").replace(b'\\"', b""), np.uint8)
    depth, in_string, block = 0, 0, 1 << 20
    for start in range(0, len(text), block):
        piece = text[start : start + block]
        inside = (np.cumsum(piece == ord('"'), dtype=np.uint8) + np.uint8(in_string)) & 1
        levels = np.cumsum(np.where(inside, 0, _NESTING_STEP[piece]), dtype=np.int64)
        if depth + int(levels.max()) > MAX_DEPTH:
            raise InvalidMetadataError(f"the document is nested deeper than {MAX_DEPTH} levels")
        depth, in_string = depth + int(levels[-1]), int(inside[-1])


class _UnusualDocumentError(Exception):
    """A document with duplicate keys, or with a number that is not finite."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _UnusualDocumentError
    return members


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _UnusualDocumentError
    return number


# Made once: making a decoder takes as long as decoding a small document.
_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite).decode


def _parse(raw: bytes, duplicates: list[tuple[dict[str, Any], str]]) -> object:
    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            duplicates.append((members, _first_duplicate(pairs)))
        return members

    def parse() -> object:
        # Parsing may be repeated from the start in another thread.
        duplicates.clear()
        return json.loads(raw.decode(), object_pairs_hook=collect, parse_int=_parse_int)

    try:
        return _on_enough_stack(parse)
    except UnicodeDecodeError as error:
        raise InvalidMetadataError(f"the document is not UTF-8: {error.reason} at byte {error.start}") from error
    except json.JSONDecodeError as error:
        if raw[:100].lstrip().lower().startswith((b"<!doctype html", b"<html")):
            raise InvalidMetadataError(
                "the document is an HTML page, not JSON; web servers send such pages for missing files and logins"
            ) from error
        raise InvalidMetadataError(f"the document is not JSON: {error}") from error


def _first_duplicate(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    keys = iter([key for key, _ in pairs])
    while (key := next(keys)) not in seen:
        seen.add(key)
    return key


def _parse_int(text: str) -> int:
    if len(text) > MAX_INT_DIGITS + text.startswith("-"):
        raise InvalidMetadataError(f"the document has an integer of more than {MAX_INT_DIGITS} digits")
    try:
        return int(text)
    except ValueError as error:
        # The interpreter may be configured for fewer digits.
        raise InvalidMetadataError(f"the document has an integer that cannot be converted: {error}") from error


def _on_enough_stack(function: Callable[[], _T]) -> _T:
    """Return `function()`. If the stack of the caller is nearly full, run it in a new thread with its own stack."""
    try:
        return function()
    except RecursionError:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(function).result()
