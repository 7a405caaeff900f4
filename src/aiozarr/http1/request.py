"""The bytes of a request, rendered from parts that are made once per store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Protocol
from urllib.parse import quote

from aiozarr.http1.response_check import Expectation
from aiozarr.model import Suffix

USER_AGENT: Final = "aiozarr"

_UNRESERVED = re.compile(r"[A-Za-z0-9_.\-~/]*")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_UNSAFE_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class PieceReader(Protocol):
    """The body of a request, which is read while it is sent, so that it is never whole in memory."""

    @property
    def nbytes(self) -> int:
        """The number of bytes of the body."""
        ...

    async def read_into(self, start: int, memory: memoryview) -> None:
        """Fill `memory` with the bytes of the body from `start`. They are read from 0 on, in order, by each attempt.

        Raises:
            StoreError: they could not be read, or have changed. The request then ends with this error, and nothing is
                stored.
        """
        ...


class BodyReader(PieceReader, Protocol):
    """A body that is an object, or a part of one."""

    async def crc32c(self) -> str:
        """Return the CRC32C of the body as object stores write it: big-endian, in base64."""
        ...

    def part(self, start: int, nbytes: int) -> BodyReader:
        """Return the part of `nbytes` bytes from `start`, which is the body of a request of its own."""
        ...


def quote_key(key: str) -> str:
    """Percent-encode a key for the path of a URL: all but `/` and RFC 3986's unreserved characters."""
    return key if _UNRESERVED.fullmatch(key) else quote(key, safe="/-._~")


def conditional_headers(expectation: Expectation) -> dict[str, str]:
    """Return the headers for range and conditions. A weak ETag is not sent: servers cannot check it (RFC 9110, 13.1.1).

    Raises:
        ValueError: the ETag or the generation holds control characters.
    """
    headers: dict[str, str] = {}
    wanted = expectation.range  # not of length 0, which HTTP cannot express
    if isinstance(wanted, Suffix):
        headers["Range"] = f"bytes=-{wanted.length}"
    elif wanted is not None:
        last = "" if wanted.length is None else wanted.start + wanted.length - 1
        headers["Range"] = f"bytes={wanted.start}-{last}"
    etag, generation = expectation.etag, expectation.generation
    if etag is not None and not etag.startswith("W/"):
        if _UNSAFE_VALUE.search(etag):
            raise ValueError("an ETag cannot contain control characters")
        headers["If-Match"] = etag
    if generation is not None:
        if _UNSAFE_VALUE.search(generation):
            raise ValueError("a generation cannot contain control characters")
        headers["x-goog-if-generation-match"] = generation
    return headers


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return `headers` if each can be sent as it is.

    Raises:
        ValueError: a name is not a token, or a value holds control characters such as line ends; the message does not
            show the value.
    """
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"not a valid header name: {name!r}")
        if _UNSAFE_VALUE.search(value) or not _is_latin1(value):
            raise ValueError(f"the value of header {name!r} contains characters that a header cannot contain")
    return dict(headers)


def _is_latin1(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


class RequestTemplate:
    """Renders the requests of one store, whose host and headers are the same for all of them.

    No encoding is accepted, because an encoded body could not be received in place or cut by ranges.
    """

    __slots__ = ("_tail", "headers")

    def __init__(self, host: str, headers: Mapping[str, str]) -> None:
        self.headers = headers
        fixed = {"Host": host, "User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": "identity", **headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fixed.items())
        self._tail = f" HTTP/1.1\r\n{lines}"

    def render(
        self,
        method: str,
        target: str,
        expectation: Expectation,
        headers: Mapping[str, str] | None = None,
        body: memoryview | PieceReader | None = None,
    ) -> bytes:
        """Return the head of a request.

        Args:
            method: the HTTP method.
            target: path and query, percent-encoded (no control characters).
            expectation: its range and its conditions are rendered as headers.
            headers: further headers.
            body: the body that follows the head; None: none, and no Content-Length.

        Raises:
            ValueError: the ETag or the generation holds control characters.
        """
        text = f"{method} {target}{self._tail}"
        for name, value in conditional_headers(expectation).items():
            text += f"{name}: {value}\r\n"
        if headers is not None:
            text += "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        if body is not None:
            text += f"Content-Length: {body.nbytes}\r\n"
        return f"{text}\r\n".encode("latin-1")
