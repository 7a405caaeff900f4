"""The bytes of a request, put together from parts that are made once per store."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from aiozarr.model import ByteRange, Suffix

USER_AGENT: Final = "aiozarr"

_PLAIN = re.compile(r"[A-Za-z0-9_.\-~/]*")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_UNSAFE_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def quote_key(key: str) -> str:
    """Percent-encode a key for the path of a URL: all but `/` and RFC 3986's unreserved characters."""
    return key if _PLAIN.fullmatch(key) else quote(key, safe="/-._~")


def range_header(byte_range: ByteRange | None) -> str | None:
    """Return the value of the Range header; the length of `byte_range` is not 0, which HTTP cannot say."""
    if byte_range is None:
        return None
    if isinstance(byte_range, Suffix):
        return f"bytes=-{byte_range.length}"
    if byte_range.length is None:
        return f"bytes={byte_range.start}-"
    return f"bytes={byte_range.start}-{byte_range.start + byte_range.length - 1}"


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return `headers` if each can be sent as it is.

    Raises:
        ValueError: a name is no token, or a value holds control characters such as line ends; the value is not shown.
    """
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"not a valid header name: {name!r}")
        if _UNSAFE_VALUE.search(value) or not _latin1(value):
            raise ValueError(f"the value of header {name!r} holds characters that a header cannot carry")
    return dict(headers)


def _latin1(text: str) -> bool:
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


class RequestTemplate:
    """Renders the requests of one store; `host` and `headers` do not change between them.

    A compressed body could not be received in place, nor be cut by ranges, so none is accepted.
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
        byte_range: ByteRange | None = None,
        etag: str | None = None,
        generation: str | None = None,
    ) -> bytes:
        """Return the request for `target`, a path with its query, percent-encoded (it holds no control characters).

        A weak ETag is no condition that a server could check, so it is not sent.

        Raises:
            ValueError: `etag` or `generation` holds control characters.
        """
        if byte_range is None and etag is None and generation is None:
            return f"{method} {target}{self._tail}\r\n".encode("latin-1")
        text = f"{method} {target}{self._tail}"
        if byte_range is not None:
            text += f"Range: {range_header(byte_range)}\r\n"
        if etag is not None and not etag.startswith("W/"):
            if _UNSAFE_VALUE.search(etag):
                raise ValueError("an ETag cannot hold control characters")
            text += f"If-Match: {etag}\r\n"
        if generation is not None:
            if _UNSAFE_VALUE.search(generation):
                raise ValueError("a generation cannot hold control characters")
            text += f"x-goog-if-generation-match: {generation}\r\n"
        return f"{text}\r\n".encode("latin-1")

    def render_put(self, target: str, nbytes: int, headers: Mapping[str, str]) -> bytes:
        """Return the head of the request that puts so many bytes to `target`."""
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        return f"PUT {target}{self._tail}{lines}Content-Length: {nbytes}\r\n\r\n".encode("latin-1")
