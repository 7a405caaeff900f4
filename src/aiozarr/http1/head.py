"""The head of an HTTP/1.1 response, parsed strictly by httptools from bytes that are already bounded."""

from __future__ import annotations

from typing import TypeAlias

import httptools

from aiozarr.errors import StoreError

MAX_HEAD_BYTES = 1 << 16

Headers: TypeAlias = dict[bytes, bytes]
"""Header values by lower-case name. The last of repeated headers counts; only those of hashes are joined."""

HASH_HEADER = b"x-goog-hash"
"""GCS sends this header once for each hash."""


class ParsedHead:
    """Status and headers of one response.

    It also decodes a chunked body, because the parser that does so must have seen the head.

    Attributes:
        status: the HTTP status.
        headers: the values by lower-case name. Lengths in them are valid: the parser refuses anything but digits below
            2**64, a second Content-Length, and one beside Transfer-Encoding.
        keeps_alive: True if the server leaves the connection open after the body.
        ended: True once a chunked body is complete.
        has_trailing_data: True if bytes came after the end of a chunked body.
    """

    __slots__ = ("_body", "_parser", "ended", "has_trailing_data", "headers", "keeps_alive", "status")

    def __init__(self, raw: bytes) -> None:
        self.headers: Headers = {}
        self.ended = False
        self.has_trailing_data = False
        self._body: bytearray | None = None
        parser = httptools.HttpResponseParser(self)
        try:
            parser.feed_data(raw)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise StoreError("the server's response is not valid HTTP") from error
        self.status: int = parser.get_status_code()
        # It refers back to its callbacks. Kept for every response, it would be left to the garbage collector.
        self._parser = parser if self.chunked else None
        # The keep-alive of HTTP/1.0 is not supported.
        tokens = self.headers.get(b"connection")
        self.keeps_alive = raw.startswith(b"HTTP/1.1") and (tokens is None or b"close" not in tokens.lower())

    @property
    def length(self) -> int | None:
        """The announced length of the body in bytes, or None if the head announces none."""
        text = self.headers.get(b"content-length")
        return None if text is None else int(text)

    @property
    def chunked(self) -> bool:
        return b"transfer-encoding" in self.headers

    def decode(self, data: memoryview, body: bytearray) -> None:
        """Append the payload of `data`, a part of a chunked body, to `body`; `ended` is set after its last byte."""
        assert self._parser is not None
        self._body = body
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
        if self._body is None:  # else it is a trailer, which is not used
            name = name.lower()
            if name == HASH_HEADER and HASH_HEADER in self.headers:
                value = self.headers[HASH_HEADER] + b"," + value
            self.headers[name] = value

    def on_body(self, data: bytes) -> None:
        if self._body is not None and not self.ended:
            self._body += data

    def on_message_complete(self) -> None:
        self.ended = True
