"""A metadata document is a JSON object: read within bounds, written so that every peer can read it (RFC 8259)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import numpy as np
from typing_extensions import Buffer

from aiozarr.errors import InvalidMetadataError, LimitError

MAX_DEPTH = 200
MAX_INT_DIGITS = 4300

_T = TypeVar("_T")
# Where a value lies, innermost step first; spelled out only for an error.
_Place: TypeAlias = tuple["_Place", str | int] | str

_INT_END = 10**MAX_INT_DIGITS
# Possessive, and content with a string that never ends: linear in the document whatever is in it.
_STRING = re.compile(rb'"(?:[^"\\]++|(?:\\.)++)*+"?', re.DOTALL)
# A number overflows by its exponent, or by its digits. Runs of digits are looked at once, from their start.
_OVERFLOW = re.compile(rb"[eE]\+?0*+[0-9]{3}|(?<![0-9])[0-9]{308}")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89abcdefABCDEF]")
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_STEP = np.zeros(256, np.int8)
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1


@dataclass(frozen=True, slots=True)
class Document:
    """The members of a document's one object, and what plain dicts cannot tell about them.

    Attributes:
        members: the members; of duplicate keys the last one.
        duplicates: a key that is there more than once, for each such object at any depth, by the object's id.
        may_hold_surrogates: the text has escapes of surrogates; whether they make pairs, only the strings tell.
        may_hold_infinities: the text has NaN tokens, infinities, or numbers long enough to be one.
    """

    members: dict[str, Any]
    duplicates: Mapping[int, str] = field(default_factory=dict)
    may_hold_surrogates: bool = True
    may_hold_infinities: bool = True

    def check(self, value: object, member: str, *, finite: bool = True) -> None:
        """Check that a part of the document is JSON as it is specified, as `check_json` does; mostly, nothing is to do.

        Raises:
            InvalidMetadataError: a duplicate key, a number that is not finite, a lone surrogate.
        """
        if self.duplicates or self.may_hold_surrogates or (finite and self.may_hold_infinities):
            check_json(value, member, duplicates=self.duplicates, finite=finite)


def load_document(data: Buffer, *, max_bytes: int) -> Document:
    """Parse a document. What Python reads beyond JSON (NaN, Infinity, duplicate keys) is left to `check_json`.

    Raises:
        LimitError: it has more than `max_bytes`.
        InvalidMetadataError: it is no JSON object in UTF-8 without a byte order mark, or is nested deeper than 200, or
            has an integer of more than 4,300 digits.
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
    _check_depth(raw)
    duplicates: list[tuple[dict[str, Any], str]] = []
    members = _parse(raw, duplicates)
    if not isinstance(members, dict):
        raise InvalidMetadataError("the document is not a JSON object")
    return Document(
        members,
        # Until here all of them were alive, so none shares its id with another object of this document.
        {id(value): key for value, key in duplicates},
        _SURROGATE_ESCAPE.search(raw) is not None,
        b"NaN" in raw or b"Infinity" in raw or _OVERFLOW.search(raw) is not None,
    )


def dump_document(members: Mapping[str, Any], *, finite: bool = True) -> bytes:
    """Return the document of these members: indented UTF-8, members in their order, the same bytes every time.

    Args:
        members: what to write.
        finite: refuse NaN and infinities; else they become the tokens that Python and most readers of v2 know.

    Raises:
        TypeError: a value that is no JSON.
        InvalidMetadataError: NaN or an infinity, a lone surrogate, more depth or digits than `load_document` reads.
    """
    for name, value in members.items():
        check_json(value, name, finite=finite)
    try:
        text = _on_enough_stack(lambda: json.dumps(members, indent=2, ensure_ascii=False, allow_nan=not finite))
    except ValueError as error:
        # An interpreter may be told to convert fewer digits than MAX_INT_DIGITS.
        raise InvalidMetadataError(f"the document cannot be written: {error}") from error
    return text.encode()


def check_json(value: object, member: str, *, duplicates: Mapping[int, str] | None = None, finite: bool = True) -> None:
    """Check that `value`, which lies at `member`, is what JSON can hold. It takes no recursion, whatever the depth.

    Args:
        value: what to check, with everything inside.
        member: where it lies, for errors.
        duplicates: as in `Document`: such objects are refused.
        finite: refuse NaN and infinities.

    Raises:
        TypeError: a value or a key of another type.
        InvalidMetadataError: a duplicate key, a number that is not finite, a lone surrogate, too many digits or levels.
    """
    # The top level of the document is one level above its members.
    pending: list[tuple[object, _Place, int]] = [(value, member, 1)]
    while pending:
        value, place, depth = pending.pop()
        match value:
            case None | bool():
                pass
            case str():
                _check_text(value, place)
            case int():
                if not -_INT_END < value < _INT_END:
                    raise InvalidMetadataError(f"more than {MAX_INT_DIGITS} digits", member=_spell(place))
            case float():
                if finite and not math.isfinite(value):
                    raise InvalidMetadataError(f"JSON has no number {value}", member=_spell(place))
            case dict() | list() | tuple():
                if depth >= MAX_DEPTH:
                    # The whole path would be longer than any message.
                    raise InvalidMetadataError(f"nested deeper than {MAX_DEPTH} levels", member=member)
                if isinstance(value, dict):
                    _check_keys(value, place, duplicates)
                    pending.extend([(part, (place, key), depth + 1) for key, part in value.items()])
                else:
                    pending.extend([(part, (place, i), depth + 1) for i, part in enumerate(value)])
            case _:
                raise TypeError(f"{_spell(place)} is a {type(value).__name__}, which is no JSON value")


def _check_keys(value: dict[Any, Any], place: _Place, duplicates: Mapping[int, str] | None) -> None:
    if duplicates and id(value) in duplicates:
        raise InvalidMetadataError("the member is there twice", member=_spell((place, duplicates[id(value)])))
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"{_spell(place)} has the key {key!r}, and keys of JSON are strings")
        _check_text(key, place)


def _check_text(text: str, place: _Place) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidMetadataError("not valid Unicode: a lone surrogate", member=_spell(place)) from None


def _spell(place: _Place) -> str:
    steps: list[str] = []
    while not isinstance(place, str):
        place, step = place
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    spelled = "".join([place, *reversed(steps)])
    # Errors are printed, and this is text that a stranger wrote.
    return clip(spelled.encode("utf-8", "backslashreplace").decode())


def clip(text: str) -> str:
    """Return `text` as it goes into an error message: not longer than a person reads."""
    return text if len(text) <= 200 else f"{text[:200]}…"


def _check_depth(raw: bytes) -> None:
    """Refuse deep nesting before the parser meets it: the parser recurses, and what it bears depends on its caller."""
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return
    brackets = np.frombuffer(_STRING.sub(b"", raw).translate(None, _NOT_BRACKETS), np.uint8)
    depth, block = 0, 1 << 20
    for start in range(0, len(brackets), block):
        levels = np.cumsum(_STEP[brackets[start : start + block]], dtype=np.int64)
        if depth + int(levels.max()) > MAX_DEPTH:
            raise InvalidMetadataError(f"the document is nested deeper than {MAX_DEPTH} levels")
        depth += int(levels[-1])


def _parse(raw: bytes, duplicates: list[tuple[dict[str, Any], str]]) -> object:
    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) != len(pairs):
            duplicates.append((members, _first_duplicate(pairs)))
        return members

    def parse() -> object:
        # Parsing may run a second time, from the start, on another stack.
        duplicates.clear()
        return json.loads(raw.decode(), object_pairs_hook=collect, parse_int=_parse_int)

    try:
        return _on_enough_stack(parse)
    except UnicodeDecodeError as error:
        raise InvalidMetadataError(f"the document is not UTF-8: {error.reason} at byte {error.start}") from error
    except json.JSONDecodeError as error:
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
        # An interpreter may be told to convert fewer digits.
        raise InvalidMetadataError(f"the document has an integer that cannot be converted: {error}") from error


def _on_enough_stack(function: Callable[[], _T]) -> _T:
    """Return `function()`; where the caller has left too little of the stack, run it in a thread, which has its own."""
    try:
        return function()
    except RecursionError:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(function).result()
