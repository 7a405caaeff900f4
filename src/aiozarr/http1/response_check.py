"""The head of a response: parsed strictly, and checked before the body is received.

The check is a pure function of request, status and headers. Partial content is RFC 9110, sections 14 and 15.3.7. Some
servers deviate from it. In case of doubt the check gives an error: bytes other than the requested ones are never used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import httptools

from aiozarr.errors import AiozarrError, ChangedError, LimitError, ShortReadError, StoreError, UnsupportedOperationError
from aiozarr.model import ByteRange, Range, Suffix, resolve_range

MAX_HEAD_BYTES = 1 << 16

Headers: TypeAlias = dict[bytes, bytes]
"""Header values by lower-case name. The last of repeated headers counts, but for the `JOINED_HEADERS`."""

HASH_HEADER = b"x-goog-hash"
"""GCS sends this header once for each hash."""

JOINED_HEADERS = (HASH_HEADER, b"content-encoding")


class ParsedHead:
    """Status and headers of one response.

    It also decodes a chunked body, because the parser that does so must have seen the head.

    Attributes:
        status: the HTTP status.
        headers: the values by lower-case name. Lengths in them are valid: the parser refuses anything but digits below
            2**64, a second Content-Length, and one beside Transfer-Encoding.
        length: the announced length of the body in bytes, or None if the head announces none.
        chunked: True if the body is chunked.
        keeps_alive: True if the server leaves the connection open after the body.
        ended: True once a chunked body is complete.
        has_trailing_data: True if bytes came after the end of a chunked body.
    """

    __slots__ = (
        "_body",
        "_fields",
        "_parser",
        "chunked",
        "ended",
        "has_trailing_data",
        "headers",
        "keeps_alive",
        "length",
        "status",
    )

    def __init__(self, raw: bytes) -> None:
        self.headers: Headers = {}
        self._fields = self.headers  # what the parser adds to: later the trailers, which are not used
        self.ended = False
        self.has_trailing_data = False
        self._body: bytearray | None = None
        parser = httptools.HttpResponseParser(self)
        try:
            parser.feed_data(raw)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise StoreError("the server's response is not valid HTTP") from error
        self.status: int = parser.get_status_code()
        length = self.headers.get(b"content-length")
        self.length = None if length is None else int(length)
        self.chunked = b"transfer-encoding" in self.headers
        # It refers back to its callbacks. Kept for every response, it would be left to the garbage collector.
        self._parser = parser if self.chunked else None
        # The keep-alive of HTTP/1.0 is not supported.
        tokens = self.headers.get(b"connection")
        self.keeps_alive = raw.startswith(b"HTTP/1.1") and (tokens is None or b"close" not in tokens.lower())

    def decode(self, data: memoryview, body: bytearray) -> None:
        """Append the payload of `data`, a part of a chunked body, to `body`; `ended` is set after its last byte."""
        assert self._parser is not None
        self._body = body
        self._fields = {}
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.ended:
                raise StoreError("the body of the server's response is not valid HTTP") from error
            self.has_trailing_data = True

    # --- called by the parser ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.has_trailing_data = self.ended and self._body is not None

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in JOINED_HEADERS and name in self._fields:
            value = self._fields[name] + b"," + value
        self._fields[name] = value

    def on_body(self, data: bytes) -> None:
        if self._body is not None and not self.ended:
            self._body += data

    def on_message_complete(self) -> None:
        self.ended = True


_LENIENT_END = re.compile(rb"\n\r?\n")
_FOLD = re.compile(rb"(?<=[^\n])\n[ \t]+")
_CONTROL = re.compile(rb"[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]")


def parse_leniently(buffer: bytes | bytearray, start: int, stop: int) -> tuple[ParsedHead | None, int]:
    """Parse a head that is not valid, with the faults that RFC 9112 (2.2, 5.2) and 9110 (5.5) let recipients tolerate.

    These are lines that end without a CR, folded lines, and control characters other than NUL and CR, which are read as
    question marks: a length cannot hold one. The connection is not used again.

    Returns: the head and its end; None if the end has not come.

    Raises:
        StoreError: the head has other faults.
    """
    found = _LENIENT_END.search(buffer, start, stop)
    if found is None:
        return None, start
    first, _, lines = bytes(buffer[start : found.end()]).replace(b"\r\n", b"\n").partition(b"\n")
    lines = _CONTROL.sub(b"?", _FOLD.sub(b" ", lines))
    head = ParsedHead(b"\n".join((first, lines)).replace(b"\n", b"\r\n"))
    head.keeps_alive = False
    return head, found.end()


MAX_VALUE_BYTES = 5 << 30
"""The largest value one GET may bring: the largest object that S3 takes in one PUT."""

MAX_CUT_BYTES = 64 << 20
"""Up to this size, a whole object that came in place of a range is received and cut."""

VALUE_STATUSES = frozenset({200, 206})

MAX_ERROR_BODY_BYTES = 1 << 16
"""Bytes that are received of the body of a response without a value, such as an error document."""


# Two records are made for every request. They are not frozen: that would cost a microsecond for each.


@dataclass(slots=True)
class Expectation:
    """The response that a request wants.

    Attributes:
        range: the wanted bytes; None: all. Its length is not 0, which HTTP cannot express.
        etag: the ETag that the response must have; None: any.
        max_bytes: the largest number of bytes that may be returned, after a whole object was cut to the range.
        head: True for a HEAD, whose response has no body.
        keep_encoding: take an encoded whole body as it is: object stores keep `Content-Encoding` as a label of the
            stored value.
        generation: the generation (GCS) that the response must have; None: any.
        accept_full: if the whole object comes in place of the range, take all of it.
        value_statuses: the statuses of responses whose body is the value. The body of any other is cut.
        allocate: returns memory for an accepted body of known length, or pieces of it, or None; None: the connection
            allocates it.
    """

    range: ByteRange | None = None
    etag: str | None = None
    max_bytes: int = MAX_VALUE_BYTES
    head: bool = False
    keep_encoding: bool = False
    generation: str | None = None
    accept_full: bool = False
    value_statuses: frozenset[int] = VALUE_STATUSES
    allocate: Callable[[Accept, Headers], memoryview | BodyPieces | None] | None = None


@dataclass(slots=True)
class Accept:
    """Receive the body.

    Attributes:
        limit: the most bytes that the body may have.
        size: the size of the whole object, if the head contains it.
        exact: the number of bytes that the body must have, if the head or the request determines it.
        cut: True if the body is the whole object, from which the range has to be cut.
    """

    limit: int
    size: int | None
    exact: int | None
    cut: bool = False


@dataclass(frozen=True, slots=True)
class NoValue:
    """The response has no value: receive the first `MAX_ERROR_BODY_BYTES` of its body, which may give the reason."""


@dataclass(frozen=True, slots=True)
class NeedsFallback:
    """The value has a content encoding that connections do not decode: send the request again by the fallback."""


class BodyPieces(Protocol):
    """Receives a body of known length in one piece of memory after the other."""

    def next_buffer(self, left: int) -> memoryview:
        """Return memory for 1 to `left` following bytes. The memory that was returned before is full.

        With `left` 0 the body is complete: return an empty view. Must not raise.
        """
        ...


ResponseAction: TypeAlias = Accept | NoValue | NeedsFallback | AiozarrError


class EncodedRangeError(StoreError):
    """The response to a range is encoded. Raised only to callers with `accept_full`, who can fetch the whole object."""


NO_VALUE = NoValue()
NEEDS_FALLBACK = NeedsFallback()

_CONTENT_RANGE = re.compile(rb"bytes (\d{1,19})-(\d{1,19})/(\d{1,19}|\*)")


def check_response(expectation: Expectation, status: int, headers: Headers) -> ResponseAction:
    """Return the action for a response, before its body is received; for an error, abort the response and raise it."""
    if status not in expectation.value_statuses:
        return NO_VALUE
    if expectation.etag is not None and etag_of(headers) != expectation.etag:
        return ChangedError("the object was replaced: the response is of another version", status=status)
    if (
        expectation.generation is not None
        and headers.get(b"x-goog-generation", b"").decode("latin-1") != expectation.generation
    ):
        return ChangedError("the object was replaced: the response is of another generation", status=status)
    text = headers.get(b"content-length")
    length = None if text is None else int(text)
    if expectation.head:
        return Accept(limit=0, size=length, exact=0)
    if b"content-encoding" in headers and content_encoding(headers):
        if expectation.range is not None and not (expectation.keep_encoding and _is_stored_encoded(headers)):
            kind = EncodedRangeError if expectation.accept_full else StoreError
            return kind("the server encoded a range (Content-Encoding), which cannot be used", status=status)
        if not expectation.keep_encoding:
            return NEEDS_FALLBACK
    if status == 206 or b"content-range" in headers:
        return _check_part(expectation, status, headers, length)
    return _check_whole(expectation, length)


def _check_whole(expectation: Expectation, length: int | None) -> ResponseAction:
    if expectation.range is None or expectation.accept_full:
        limit = expectation.max_bytes
    else:
        # A server without ranges sends the whole object. Of the bytes outside the range, a bounded number is received.
        limit = MAX_CUT_BYTES
        if length is not None:
            start, stop = resolve_range(length, expectation.range)
            if stop - start > expectation.max_bytes:
                return over_limit(stop - start, expectation.max_bytes)
            if stop - start == length:
                limit = expectation.max_bytes
            elif length > limit:
                return UnsupportedOperationError(
                    f"the server does not answer ranges: it sent the whole object of {length} bytes", status=200
                )
    if length is not None and length > limit:
        return over_limit(length, limit)
    return Accept(
        limit=limit, size=length, exact=length, cut=expectation.range is not None and not expectation.accept_full
    )


def _check_part(expectation: Expectation, status: int, headers: Headers, length: int | None) -> ResponseAction:
    wanted, text = expectation.range, headers.get(b"content-range", b"")
    if length is not None and type(wanted) is Range and wanted.length == length:
        # Exactly the wanted bytes of an object of known size, as in most responses: the header need not be parsed.
        start, stop = wanted.start, wanted.start + length
        expected = b"bytes %d-%d/" % (start, stop - 1)
        total = text[len(expected) :]
        if text.startswith(expected) and total.isdigit() and len(total) < 20 and stop <= int(total):
            if length > expectation.max_bytes:
                return over_limit(length, expectation.max_bytes)
            return Accept(length, int(total), length)
    match = _CONTENT_RANGE.fullmatch(text)
    if match is None:  # such as multipart/byteranges
        return StoreError("the server sent a part without saying which (Content-Range)", status=status)
    first, last = int(match[1]), int(match[2])
    size = None if match[3] == b"*" else int(match[3])
    got = last - first + 1
    if got < 1 or (size is not None and last >= size) or length not in (None, got):
        return StoreError(f"the response contradicts itself: {_shown_range(headers)}, {length} bytes", status=status)
    fault = "a part in place of the whole object" if wanted is None else _range_fault(wanted, first, last, size)
    if fault is not None:
        if (first, got) == (0, size):
            return _check_whole(expectation, got)
        message = f"the server sent {fault}: {_shown_range(headers)}"
        if fault != _SHORT:
            return StoreError(message, status=status)
        # Without the object's size, the range was probably clipped to its end, and would be again.
        return ShortReadError(message, retryable=size is not None, status=status)
    if got > expectation.max_bytes:
        return over_limit(got, expectation.max_bytes)
    if isinstance(wanted, Suffix):
        size = last + 1  # the server may not have said it
    return Accept(limit=got, size=size, exact=got)


_SHORT = "fewer bytes than were requested"
_OTHER = "other bytes than were requested"


def _range_fault(wanted: ByteRange, first: int, last: int, size: int | None) -> str | None:
    """Return the fault of the bytes `first` to `last` of `size` as a response to `wanted`, or None if they fit."""
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
            if last - first + 1 == length:
                return None
            return _SHORT if first == 0 and last < length else _OTHER


def etag_of(headers: Headers) -> str | None:
    """Return the version of the response's object as an ETag, with its quotes, or None if the headers contain none.

    Without an ETag, Last-Modified is used as a weak one. It has a resolution of a second: it is compared and never sent
    (RFC 9110, section 8.8.2.2).
    """
    tag = headers.get(b"etag")
    if tag is not None:
        return tag.decode("latin-1")
    modified = headers.get(b"last-modified")
    return None if modified is None else f'W/"{modified.decode("latin-1")}"'


def over_limit(length: int, limit: int) -> LimitError:
    """Return the error of a response that is too long."""
    return LimitError(
        f"the response has {length} bytes; at most {limit} are allowed", limit="max_bytes", value=length, allowed=limit
    )


def content_encoding(headers: Headers) -> str:
    """Return the Content-Encoding without labels that change no byte.

    Some gateways store the framing of an upload, `aws-chunked`, as a label of the object.
    """
    label = headers.get(b"content-encoding", b"").decode("latin-1")
    names = [name.strip().lower() for name in label.split(",")]
    return ", ".join([name for name in names if name not in ("", "identity", "aws-chunked")])


def _is_stored_encoded(headers: Headers) -> bool:
    """Return whether the encoding is that of the stored bytes. Of the object stores, only GCS sends others."""
    return headers.get(b"x-goog-stored-content-encoding") in (None, headers.get(b"content-encoding"))


def _shown_range(headers: Headers) -> str:
    return headers.get(b"content-range", b"no Content-Range")[:80].decode("latin-1")
