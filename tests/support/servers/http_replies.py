"""The responses of an HTTP object server: the correct one as a pure function, and every way to corrupt it."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import formatdate
from typing import TypeAlias

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One value on the server, with its ETag (quoted, as sent) and the time of its change in seconds since 1970."""

    data: bytes
    etag: str | None
    modified: float = 0.0
    content_type: str = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came in.

    Attributes:
        number: counts the requests of the server, from 1.
        connection: counts the connections of the server, from 1: which one this request came on.
        method: in upper case.
        target: path and query as sent, still percent-encoded.
        key: the path without its first `/`, decoded once.
        headers: by lower-case name; the last one wins.
        body: the whole body.
    """

    number: int
    connection: int
    method: str
    target: str
    key: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response, and how it is sent.

    Attributes:
        status: the status code.
        headers: in the order in which they are sent; `Content-Length` is added unless `length` or `chunked` says else.
        body: the bytes of the body (for HEAD: those that GET would send; they are not sent).
        length: the `Content-Length` to announce in place of the true one; -1: announce none, and close at the end.
        chunked: send the body in chunks.
        delay: seconds before the first byte.
        stop_after: stop after this many bytes of the body and do `then`, or None to send all of it.
        then: "close" orderly, "reset", or "stall" until the client or the server goes away.
        piece, pause: send the body in pieces of `piece` bytes with `pause` seconds between them; 0: at once.
        reset: reset the connection in place of any answer.
        close: announce `Connection: close`, and do it.
        drop: close the connection after this answer although it was kept alive.
        raw: send these bytes in place of head and body.
        applied: whether a write takes effect, or None to let the sent status decide.
        flood: send zeros after the body until the client goes away, and append the size of each piece to this list.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    length: int | None = None
    chunked: bool = False
    delay: float = 0.0
    stop_after: int | None = None
    then: str = "close"
    piece: int = 0
    pause: float = 0.0
    reset: bool = False
    close: bool = False
    drop: bool = False
    raw: bytes | None = None
    applied: bool | None = None
    flood: list[int] | None = None

    def without(self, *names: str) -> Reply:
        """Return the reply without the headers `names`."""
        dropped = {name.lower() for name in names}
        return replace(self, headers=tuple(header for header in self.headers if header[0].lower() not in dropped))

    def with_headers(self, **headers: str) -> Reply:
        """Return the reply with these headers (`Retry_After="1"`) in place of any it has of the same names."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return replace(self, headers=(*self.without(*named).headers, *named.items()))


Spoil: TypeAlias = Callable[[Reply], Reply]
Script: TypeAlias = Callable[[Request, Reply], Reply]


# --- the honest answer -------------------------------------------------------------------------------------------


def honest(request: Request, found: StoredObject | None) -> Reply:
    """Return a correct server's response to a GET or HEAD of `found` (RFC 9110: conditions first, then the range)."""
    if found is None:
        document = b"<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>"
        return Reply(404, (("Content-Type", "application/xml"),), document)
    headers = [("Content-Type", found.content_type), ("Accept-Ranges", "bytes")]
    headers.append(("Last-Modified", formatdate(found.modified, usegmt=True)))
    if found.etag is not None:
        headers.append(("ETag", found.etag))
    if not matches(request.headers.get("if-match"), found):
        return Reply(412, tuple(headers))
    unless = request.headers.get("if-none-match")
    if unless is not None and matches(unless, found):
        return Reply(304, tuple(headers))
    size = len(found.data)
    asked = _RANGE.fullmatch(request.headers.get("range", ""))
    if asked is None or asked[0] == "bytes=-":
        return Reply(200, tuple(headers), found.data)
    start, stop = _bounds(asked, size)
    if start >= stop:
        return Reply(416, (*headers, ("Content-Range", f"bytes */{size}")))
    return Reply(206, (*headers, ("Content-Range", f"bytes {start}-{stop - 1}/{size}")), found.data[start:stop])


def matches(condition: str | None, found: StoredObject | None) -> bool:
    """Whether a condition of an `If-Match` or `If-None-Match` header names `found`; no condition matches all."""
    if condition is None:
        return True
    if found is None:
        return False
    return condition.strip() == "*" or found.etag in [etag.strip() for etag in condition.split(",")]


def _bounds(asked: re.Match[str], size: int) -> tuple[int, int]:
    first, last = asked[1], asked[2]
    if not first:
        return max(0, size - int(last)), size
    return int(first), size if not last else min(int(last) + 1, size)


# --- ways to spoil it --------------------------------------------------------------------------------------------


def status(code: int, body: bytes = b"", **headers: str) -> Spoil:
    """Answer with this status, as in `status(503, Retry_After="2")`."""
    return lambda reply: Reply(code, (("Content-Type", "text/plain"),), body).with_headers(**headers)


def redirect(location: str, code: int = 302) -> Spoil:
    """Send the client elsewhere."""
    return status(code, Location=location)


def html(code: int = 200) -> Spoil:
    """Answer with a login page."""
    return lambda reply: Reply(code, (("Content-Type", "text/html"),), b"<html><body>Please log in</body></html>")


def applied(code: int) -> Spoil:
    """Let a write take effect, and answer with an error."""
    return lambda reply: replace(reply, status=code, applied=True)


def reset(reply: Reply) -> Reply:
    """Reset the connection before the head; a write has taken effect."""
    return replace(reply, reset=True)


def cut_in_head(reply: Reply) -> Reply:
    """Close the connection within the head of the response."""
    return replace(reply, raw=b"HTTP/1.1 206 Partial Content\r\nContent-Le", drop=True)


def reset_in_body(after: int) -> Spoil:
    """Reset the connection after `after` bytes of the body."""
    return lambda reply: replace(reply, stop_after=after, then="reset")


def truncated(after: int) -> Spoil:
    """Close the connection after `after` bytes of the body, fewer than announced."""
    return lambda reply: replace(reply, stop_after=after, then="close")


def shortened(by: int) -> Spoil:
    """Send a body that is `by` bytes shorter, with a `Content-Length` that agrees with it."""
    return lambda reply: replace(reply, body=reply.body[: max(0, len(reply.body) - by)])


def lengthened(extra: bytes) -> Spoil:
    """Send more than was asked for, with a `Content-Length` that agrees with it."""
    return lambda reply: replace(reply, body=reply.body + extra)


def stalled(after: int) -> Spoil:
    """Send `after` bytes of the body, and then nothing more."""
    return lambda reply: replace(reply, stop_after=after, then="stall")


def no_answer(reply: Reply) -> Reply:
    """Send nothing at all, and keep the connection open."""
    return replace(reply, raw=b"", then="stall")


def delayed(seconds: float) -> Spoil:
    """Answer late."""
    return lambda reply: replace(reply, delay=seconds)


def dripping(piece: int, pause: float) -> Spoil:
    """Send the body in pieces of `piece` bytes with `pause` seconds between them."""
    return lambda reply: replace(reply, piece=piece, pause=pause)


def content_range(value: str) -> Spoil:
    """Claim another `Content-Range`."""
    return lambda reply: reply.with_headers(Content_Range=value)


def whole(found: bytes) -> Spoil:
    """Answer 200 with the whole object, whatever range was asked for."""
    return lambda reply: replace(reply.without("Content-Range"), status=200, body=found)


def status_only(code: int) -> Spoil:
    """Keep headers and body as they are under another status, such as 200 with a `Content-Range`."""
    return lambda reply: replace(reply, status=code)


def multipart(reply: Reply) -> Reply:
    """Answer a range as `multipart/byteranges`."""
    claimed = dict(reply.headers).get("Content-Range", "")
    head = f"--sep\r\nContent-Type: application/octet-stream\r\nContent-Range: {claimed}\r\n\r\n"
    spoiled = reply.without("Content-Range", "Content-Type")
    body = head.encode() + reply.body + b"\r\n--sep--\r\n"
    return replace(spoiled.with_headers(Content_Type="multipart/byteranges; boundary=sep"), body=body)


def etag(value: str | None) -> Spoil:
    """Claim another ETag, or none."""
    return lambda reply: reply.without("ETag") if value is None else reply.with_headers(ETag=value)


def chunked(reply: Reply) -> Reply:
    """Send the body with `Transfer-Encoding: chunked`."""
    return replace(reply, chunked=True)


def promising(length: int, sent: list[int]) -> Spoil:
    """Answer 200, announce `length` bytes and send zeros without end; `sent` gets the size of each piece."""
    return lambda reply: replace(reply.without("Content-Range"), status=200, length=length, flood=sent)


def endless(sent: list[int]) -> Spoil:
    """Answer 200 with a chunked body without end; `sent` gets the size of each piece."""
    return lambda reply: replace(reply.without("Content-Range"), status=200, chunked=True, flood=sent)


def until_close(reply: Reply) -> Reply:
    """Announce no length: the body ends with the connection."""
    return replace(reply, length=-1)


def gzipped(reply: Reply) -> Reply:
    """Compress the body on the way, as a proxy may."""
    return replace(reply.with_headers(Content_Encoding="gzip"), body=gzip.compress(reply.body, mtime=0))


def header_flood(count: int, size: int = 1000) -> Spoil:
    """Send `count` headers of `size` bytes before those that matter."""
    flood = tuple((f"X-Flood-{number}", "x" * size) for number in range(count))
    return lambda reply: replace(reply, headers=flood + reply.headers)


def closing(reply: Reply) -> Reply:
    """Announce `Connection: close`, and close."""
    return replace(reply, close=True)


def dropping(reply: Reply) -> Reply:
    """Close the connection after the answer, unannounced."""
    return replace(reply, drop=True)


def garbage(data: bytes) -> Spoil:
    """Send `data` in place of an answer, and close."""
    return lambda reply: replace(reply, raw=data)


# --- which answers to spoil --------------------------------------------------------------------------------------


def always(spoil: Spoil) -> Script:
    """Spoil every answer."""
    return lambda request, reply: spoil(reply)


def only(numbers: Mapping[int, Spoil]) -> Script:
    """Spoil the answers to requests with these numbers (from 1), and no other."""
    return lambda request, reply: numbers[request.number](reply) if request.number in numbers else reply


def first(count: int, spoil: Spoil) -> Script:
    """Spoil the first `count` answers."""
    return lambda request, reply: spoil(reply) if request.number <= count else reply


def when(condition: Callable[[Request], bool], spoil: Spoil) -> Script:
    """Spoil the answers to those requests for which `condition` holds."""
    return lambda request, reply: spoil(reply) if condition(request) else reply
