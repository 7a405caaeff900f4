"""The head of an HTTP/1.1 answer: its status and headers, parsed strictly from bytes that are already bounded."""

from __future__ import annotations

from typing import TypeAlias

import httptools

from aiozarr.errors import StoreError

HEAD_LIMIT = 1 << 16

Headers: TypeAlias = dict[bytes, bytes]
"""Header values by lower-case name; of a header that comes twice, the last. Only hashes are put together."""

HASHES = b"x-goog-hash"
"""GCS sends this header once for each hash."""


class Head:
    """Status and headers of one answer.

    It also reads a chunked body, because the parser that does so must have seen the head.

    Attributes:
        status: the HTTP status.
        headers: the values by lower-case name. Lengths in them are valid: the parser refuses anything but digits below
            2**64, a second Content-Length, and one beside Transfer-Encoding.
        keeps_alive: True where the server leaves the connection open behind the body.
        ended: True once a chunked body is complete.
        out_of_step: True where bytes came behind the end of a chunked body.
    """

    __slots__ = ("_body", "_parser", "ended", "headers", "keeps_alive", "out_of_step", "status")

    def __init__(self, raw: bytes) -> None:
        self.headers: Headers = {}
        self.ended = False
        self.out_of_step = False
        self._body: bytearray | None = None
        parser = httptools.HttpResponseParser(self)
        try:
            parser.feed_data(raw)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise StoreError("the server's answer is not valid HTTP") from error
        self.status: int = parser.get_status_code()
        # It refers back to its callbacks: kept for every answer, it would be left to the garbage collector.
        self._parser = parser if self.chunked else None
        # HTTP/1.0 had its own ways of keeping a connection; nobody needs them any more.
        tokens = self.headers.get(b"connection")
        self.keeps_alive = raw.startswith(b"HTTP/1.1") and (tokens is None or b"close" not in tokens.lower())

    @property
    def length(self) -> int | None:
        """The announced length of the body in bytes; None where the head announces none."""
        text = self.headers.get(b"content-length")
        return None if text is None else int(text)

    @property
    def chunked(self) -> bool:
        return b"transfer-encoding" in self.headers

    def decode(self, data: memoryview, body: bytearray) -> None:
        """Append what `data` holds of a chunked body to `body`; `ended` tells whether that was the last of it."""
        assert self._parser is not None
        self._body = body
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.ended:
                raise StoreError("the body of the server's answer is not valid HTTP") from error
            self.out_of_step = True

    # --- called by the parser ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.out_of_step = self.ended and self._body is not None

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._body is None:  # else it is a trailer, which nobody asked for
            name = name.lower()
            if name == HASHES and HASHES in self.headers:
                value = self.headers[HASHES] + b"," + value
            self.headers[name] = value

    def on_body(self, data: bytes) -> None:
        if self._body is not None and not self.ended:
            self._body += data

    def on_message_complete(self) -> None:
        self.ended = True
