"""What to do with an answer to a GET or HEAD: one pure decision over the request, the status and the headers.

Partial content is RFC 9110, sections 14 and 15.3.7. Where servers are known to stray from it, the decision errs towards
an error: bytes that are not exactly the ones that were asked for are never used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from aiozarr.errors import AiozarrError, ChangedError, LimitError, ShortReadError, StoreError, UnsupportedOperationError
from aiozarr.model import ByteRange, Range, Suffix, resolve_range
from aiozarr.stores.lane.head import Headers

MAX_VALUE_BYTES = 5 << 30
"""The largest value one GET may bring: the largest object that S3 takes in one PUT."""

SLICE_BYTES = 64 << 20
"""Up to this size, a whole object that came in place of a range is received and cut."""

NOTE_BYTES = 1 << 16
"""Bytes of the body of an answer that is no value, such as an error document, that are kept."""


# Two records are made for every request. They are not frozen because that would cost a microsecond for each.


@dataclass(slots=True)
class Want:
    """What a request asks for.

    Attributes:
        range: the bytes asked for; None: all. Its length is not 0, which HTTP cannot say.
        etag: the ETag that the answer must have; None: any.
        generation: the generation that the answer must have, where the server speaks of generations; None: any.
        max_bytes: the longest body that is accepted.
        head: True for a HEAD, whose answer has no body.
        raw: take an encoded whole body as it is (object stores keep `Content-Encoding` as a label of what was put).
        or_all: where the whole object comes in place of the range, take all of it.
        receive: gives the memory for a body of known length that was accepted; None: the connection takes some.
    """

    range: ByteRange | None = None
    etag: str | None = None
    max_bytes: int = MAX_VALUE_BYTES
    head: bool = False
    raw: bool = False
    generation: str | None = None
    or_all: bool = False
    receive: Callable[[Accept, Headers], memoryview | None] | None = None


@dataclass(slots=True)
class Accept:
    """Receive the body.

    Attributes:
        limit: the most bytes the body may have.
        size: the size of the whole object, where the head tells it.
        exact: the number of bytes the body must have, where the head or the request tells it.
        cut: True where the body is the whole object and the range has to be cut from it.
    """

    limit: int
    size: int | None
    exact: int | None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """No value: keep the first `NOTE_BYTES` of the body, which may say why."""


@dataclass(frozen=True, slots=True)
class Detour:
    """A value in a form that this lane does not read (a content encoding): ask again another way."""


Verdict: TypeAlias = Accept | Note | Detour | AiozarrError


class EncodedRangeError(StoreError):
    """An encoded answer to a range: whoever would take all of the object asks for that. Nobody else sees it."""


NOTE = Note()
DETOUR = Detour()

_CONTENT_RANGE = re.compile(rb"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")


def judge(want: Want, status: int, headers: Headers) -> Verdict:
    """Decide about an answer before its body is received; where the verdict is an error, abort and raise it."""
    if status not in (200, 206):
        return NOTE
    if want.etag is not None and etag_of(headers) != want.etag:
        return ChangedError("the object was replaced: the answer is of another version", status=status)
    if want.generation is not None and headers.get(b"x-goog-generation", b"").decode("latin-1") != want.generation:
        return ChangedError("the object was replaced: the answer is of another generation", status=status)
    length = _length(headers)
    if want.head:
        return Accept(limit=0, size=length, exact=0)
    if _encoded(headers):
        if want.range is not None and not (want.raw and _stored_encoded(headers)):
            kind = EncodedRangeError if want.or_all else StoreError
            return kind("the server encoded a range (Content-Encoding), which cannot be used", status=status)
        if not want.raw:
            return DETOUR
    if status == 206 or b"content-range" in headers:
        return _judge_part(want, status, headers, length)
    return _judge_whole(want, length)


def _judge_whole(want: Want, length: int | None) -> Verdict:
    if want.range is None or want.or_all:
        limit = want.max_bytes
    else:
        # A server without ranges sends everything. What was wanted anyway is no waste; beyond that there is a budget.
        limit = min(SLICE_BYTES, want.max_bytes)
        if length is not None:
            start, stop = resolve_range(length, want.range)
            if stop - start == length:
                limit = want.max_bytes
            elif length > limit:
                return UnsupportedOperationError(
                    f"the server does not answer ranges: it sent the whole object of {length} bytes", status=200
                )
    if length is not None and length > limit:
        return over_limit(length, limit)
    return Accept(limit=limit, size=length, exact=length, cut=want.range is not None and not want.or_all)


def _judge_part(want: Want, status: int, headers: Headers, length: int | None) -> Verdict:
    wanted, told = want.range, headers.get(b"content-range", b"")
    if wanted is None:
        return StoreError("the server sent a part where the whole object was asked for", status=status)
    if length is not None and type(wanted) is Range and wanted.length == length:
        # Exactly as asked for, of an object of a definite size, as most answers are: nothing needs to be taken apart.
        start, stop = wanted.start, wanted.start + length
        says = b"bytes %d-%d/" % (start, stop - 1)
        total = told[len(says) :]
        if told.startswith(says) and total.isdigit() and len(total) < 20 and stop <= int(total):
            if length > want.max_bytes:
                return over_limit(length, want.max_bytes)
            return Accept(length, int(total), length)
    match = _CONTENT_RANGE.fullmatch(told)
    if match is None:  # multipart/byteranges is such an answer
        return StoreError("the server sent a part without saying which (Content-Range)", status=status)
    first, last = int(match[1]), int(match[2])
    size = None if match[3] == b"*" else int(match[3])
    got = last - first + 1
    if got < 1 or (size is not None and last >= size) or length not in (None, got):
        return StoreError(f"the answer contradicts itself: {_say(headers)}, {length} bytes", status=status)
    fault = _range_fault(wanted, first, last, size)
    if fault is not None:
        kind = ShortReadError if fault == _SHORT else StoreError
        return kind(f"the server sent {fault}: {_say(headers)}", status=status)
    if got > want.max_bytes:
        return over_limit(got, want.max_bytes)
    return Accept(limit=got, size=size, exact=got)


_SHORT = "fewer bytes than were asked for"
_OTHER = "other bytes than were asked for"


def _range_fault(wanted: ByteRange, first: int, last: int, size: int | None) -> str | None:
    """Say what is wrong with the bytes `first` to `last` of `size` as an answer to `wanted`; None: nothing."""
    if isinstance(wanted, Range) and first == wanted.start and last - first + 1 == wanted.length:
        return None  # exactly as asked for, as most answers are
    if size is not None:
        start, stop = resolve_range(size, wanted)
        if first == start and last + 1 < stop:
            return _SHORT
        return None if (first, last + 1) == (start, stop) else _OTHER
    match wanted:
        case Range(start, int(length)):
            if first != start or last - first + 1 > length:
                return _OTHER
            return None if last - first + 1 == length else _SHORT
        case Range(start):
            return None if first == start else _OTHER
        case Suffix(length):
            return None if last - first + 1 == length else _OTHER


def etag_of(headers: Headers) -> str | None:
    """Return the version of the answer's object as an ETag, quotes included.

    Last-Modified stands in where no ETag comes, as a weak one: it has a second's resolution, so it is compared and
    never sent (RFC 9110, section 8.8.2.2).
    """
    tag = headers.get(b"etag")
    if tag is not None:
        return tag.decode("latin-1")
    modified = headers.get(b"last-modified")
    return None if modified is None else f'W/"{modified.decode("latin-1")}"'


def over_limit(length: int, limit: int) -> LimitError:
    """Return the error of an answer that is too long."""
    return LimitError(
        f"the answer has {length} bytes; at most {limit} are allowed", limit="max_bytes", value=length, allowed=limit
    )


def _length(headers: Headers) -> int | None:
    text = headers.get(b"content-length")
    return None if text is None else int(text)


def _encoded(headers: Headers) -> bool:
    encoding = headers.get(b"content-encoding")
    return encoding is not None and encoding.strip().lower() not in (b"", b"identity")


def _stored_encoded(headers: Headers) -> bool:
    """Return whether the encoding is that of the stored bytes, of which ranges are then cut, as GCS says."""
    return headers.get(b"x-goog-stored-content-encoding") == headers.get(b"content-encoding")


def _say(headers: Headers) -> str:
    return headers.get(b"content-range", b"no Content-Range")[:80].decode("latin-1")
