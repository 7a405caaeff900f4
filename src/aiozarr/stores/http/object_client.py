"""The part of a store that knows its server: it authorises requests and interprets responses.

HTTP statuses and error documents become typed errors here. Requests whose credential has expired are repeated here, and
`aiozarr.http1.endpoint_client` sends them.
"""

from __future__ import annotations

import json
import re
import time
import zlib
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from aiozarr.errors import (
    ChangedError,
    PermissionDeniedError,
    ShortReadError,
    StoreError,
    ThrottledError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from aiozarr.http1.connection import Response
from aiozarr.http1.endpoint_client import EndpointClient, Request
from aiozarr.http1.response_check import MAX_ERROR_BODY_BYTES, Accept, Expectation, Headers, etag_of
from aiozarr.model import Version
from aiozarr.stores.http.missing_objects import MISSING, error_code

RETRY_AFTER_CAP = 3600.0
"""The longest wait in seconds that is read from a response. `RetryPolicy` decides whether a request waits at all."""

_CODE_WORD = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MESSAGE = re.compile(rb"<(?:Message|title)>([^<]{1,2000})", re.IGNORECASE)
_JSON_MESSAGE = re.compile(rb'"message"\s{0,9}:\s{0,9}("(?:[^"\\]|\\.){1,2000}")')
MAX_SHOWN_CHARS = 400
"""Characters of a server's message that an error shows."""

# Parameters and headers of a request that are not secret. The value of any other one is hidden in error documents.
_PLAIN = re.compile(
    r"accept-encoding|user-agent|host|range|if-.*|content-.*|x-ms-(?:version|blob-type|delete-snapshots|requires-sync)"
    r"|x-amz-(?!credential|security-token|signature).*|prefix|delimiter|marker|max-?keys|max-?results|include|comp|restype"
    r"|list-type|encoding-type|fields|uploadtype|name|uploads|partnumber|blockid|if.*match",
    re.IGNORECASE,
)
MIN_HIDDEN_CHARS = 5
_HTML = re.compile(rb"\s*(?:<!doctype\s+html|<html)", re.IGNORECASE)
BAD_REQUEST = "the server does not accept the request"
UNKNOWN_HEADER_CODES = frozenset(
    {"BadRequest", "InvalidArgument", "InvalidHeader", "InvalidHeaderValue", "InvalidInput", "InvalidParameter"}
    | {"InvalidRequest", "MethodNotAllowed", "NotImplemented", "NotSupported", "UnsupportedHeader"}
    | {"UnsupportedOperation", "ConditionHeadersNotSupported"}
    | {"badRequest", "invalid", "invalidParameter", "unsupportedParameter"}
)
"""Codes of a 400 with which servers refuse headers and parameters that they do not know: conditions, checksums."""
HTML_PAGE = "the response is an HTML page, as from a proxy or a login"
_REQUEST_IDS = (b"x-amz-request-id", b"x-guploader-uploadid", b"x-ms-request-id", b"x-request-id")

EXPIRED_CODES = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"})
_SKEWED = re.compile(rb"<Code>RequestTimeTooSkewed</Code>|Request has expired|not valid yet")
MIN_SKEW_SECONDS = 60.0
"""Servers allow 15 minutes. A difference below this is not the reason of a refusal."""
_NOT_ACCEPTED = {
    "InvalidAccessKeyId": "the server knows no such access key (the option 'key')",
    "SignatureDoesNotMatch": "the signature is not accepted: the secret (the option 'secret') is not the key's",
    "InvalidToken": "the server does not accept the session's token (the option 'token')",
    "AuthenticationFailed": "the server does not accept the credentials: key, signature or token",
}
_SECRETIVE = _NOT_ACCEPTED.keys() | {"AuthorizationFailure"}
_SLOW_DOWN = frozenset(
    {"SlowDown", "ServerBusy", "RequestLimitExceeded", "ThrottlingException", "Throttling"}
    | {"rateLimitExceeded", "userRateLimitExceeded"}
)
# S3 sends 200 while it works on a copy, a completion or a page, and may then end with an error document.
_RETRYABLE_STATUS = frozenset({200, 408, 500, 502, 504})
_RETRYABLE_CODES = frozenset(
    {"InternalError", "RequestTimeout", "OperationAborted", "ConditionalRequestConflict", "ServiceUnavailable"}
)


def error_for(status: int, headers: Mapping[bytes, bytes], body: bytes, reason_code: str | None = None) -> StoreError:
    """Return the error for a response without a value; the store adds its URL, the key and the range.

    Args:
        status: the status of the response.
        headers: its headers.
        body: its body, or the beginning of it, without the secrets of the request.
        reason_code: the code of the error if `body` is no document that contains it.
    """
    code = error_code(body) or _code_of(headers) or reason_code
    kind, reason, retryable = _classify(status, code)
    message = reason if code is None else f"{reason}: {code}"
    if status == 403 and is_skewed(body):
        message += _clock_advice(http_date(headers.get(b"date")))
    target = _redirect_target(headers) if 300 <= status < 400 else None
    if target is not None:
        message += f", to {target}"
    # Messages about a refused signature are not shown, because servers quote the signed request in them.
    text = None if code in _SECRETIVE else server_words(body)
    if text is not None:
        message += f", {text!r}"
    return kind(
        message,
        status=status,
        request_id=request_id(headers),
        retryable=retryable,
        retry_after=retry_after(headers.get(b"retry-after"), time.time()),
    )


def is_skewed(body: bytes) -> bool:
    """Return whether a request may have been refused because this machine's clock is off."""
    return _SKEWED.search(body) is not None


def _clock_advice(server: float | None) -> str:
    """Return advice about this machine's clock, empty if it agrees with the server's."""
    now = time.time()
    if server is not None and abs(server - now) < MIN_SKEW_SECONDS:
        return ""
    ours, theirs = (f"{datetime.fromtimestamp(each or 0, UTC):%Y-%m-%d %H:%M:%S}" for each in (now, server))
    return f"; check this machine's clock: it says {ours}{'' if server is None else f', the server says {theirs}'} UTC"


def _redirect_target(headers: Mapping[bytes, bytes]) -> str | None:
    """Return scheme and host of the location of a redirect, or None. Path and query may contain secrets."""
    with suppress(ValueError):
        target = urlsplit(headers.get(b"location", b"").decode("latin-1"))
        if target.scheme and target.hostname:
            return f"{target.scheme}://{target.netloc.rpartition('@')[2]}"
    return None


def server_words(body: bytes) -> str | None:
    """Return the first line of the message in an error document, or of a text; the title of a web page; None without.

    The further lines of Azure's messages, with time and id of the request, are reported elsewhere.
    """
    from html import unescape  # imported here and below because few responses need it

    found = _MESSAGE.search(body)
    text = ""
    if found is not None:
        text = unescape(found[1].decode("utf-8", "replace"))
    elif (found := _JSON_MESSAGE.search(body)) is not None:
        with suppress(ValueError):
            text = json.loads(found[1].decode("utf-8", "replace"))
    elif not body.lstrip().startswith((b"<", b"{", b"[")):
        text = body[:2000].decode("utf-8", "replace")
    line = text.strip().partition("\n")[0].rstrip()
    return line[:MAX_SHOWN_CHARS] if line.isprintable() and "\ufffd" not in line and line else None


def hide_request(request: Request, body: bytes) -> bytes:
    """Return an error document without the secrets of the request that the server repeats in it.

    The values of its query and of its headers are secret, unless `_PLAIN` has their name: signatures, tokens,
    passwords, and the headers that a user gave. Nothing else is hidden, because the rest explains the refusal.
    """
    from html import escape

    query = request.target.partition("?")[2]
    pairs = [part.partition("=")[::2] for part in query.split("&")] if "=" in query else [("", query)]
    pairs += [*request.template.headers.items(), *(request.headers or {}).items()]
    secrets: set[str] = set()
    for name, value in pairs:
        if _PLAIN.fullmatch(name):
            continue
        text = unquote(value)
        word = text.rpartition(" ")[2]
        secrets |= {value, text, word, re.split("[/;=]", text)[0], *re.split("[;=,] ?", text)}
        with suppress(ValueError):
            secrets |= {*b64decode(word).decode().split(":", 1)} if text.startswith("Basic ") else set()
    hidden = sorted({escape(each[:16]) for each in secrets if len(each) >= MIN_HIDDEN_CHARS}, key=len, reverse=True)
    if not hidden:
        return body
    pattern = f"(?i:{'|'.join(map(re.escape, hidden))})[^\\s<>\"'&;,)\\]}}]*"
    return re.sub(pattern, "...", body.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _decode_error(response: Response) -> None:
    """Decompress the body of an error. Some servers compress it although requests accept no encoding but for values."""
    if b"content-encoding" in response.headers and not isinstance(response.action, Accept):
        with suppress(zlib.error):  # it has another encoding, or was decoded already
            response.body = zlib.decompressobj(47).decompress(bytes(response.body), MAX_ERROR_BODY_BYTES)


def is_html_page(body: bytes) -> bool:
    """Return whether a response is an HTML page, which does not come from the cloud.

    The Content-Type does not show it, because some emulators send it for all their documents.
    """
    return _HTML.match(body) is not None


def _code_of(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the code from the header that Azure also sends, because the response to a HEAD has no body."""
    code = headers.get(b"x-ms-error-code", b"").decode("latin-1")
    return code if _CODE_WORD.fullmatch(code) else None


def _classify(status: int, code: str | None) -> tuple[type[StoreError], str, bool]:
    if status == 412 and not (code or "").startswith("Lease"):
        return ChangedError, "the object was replaced", False
    if status in (429, 503) or code in _SLOW_DOWN:
        return ThrottledError, "the server asks for less", True
    if status == 407:
        return UnauthenticatedError, "the proxy does not accept the credentials", False
    if status == 401 or code in EXPIRED_CODES:
        return UnauthenticatedError, "the server does not accept the credentials", False
    if code in _NOT_ACCEPTED:
        return UnauthenticatedError, _NOT_ACCEPTED[code], False
    if status == 403 or code == "AuthorizationFailure":
        return PermissionDeniedError, "the server refuses", False
    if status in (405, 501) or code == "NotImplemented":
        return UnsupportedOperationError, "the server does not do this", False
    if status in _RETRYABLE_STATUS or code in _RETRYABLE_CODES:
        return StoreError, "the server failed", True
    if status == 304:
        return StoreError, "the server says 'not modified' to a request without a condition", False
    if 300 <= status < 400:
        return StoreError, "the server redirects elsewhere", False
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return StoreError, f"the {'bucket' if code == 'NoSuchBucket' else 'container'} does not exist", False
    if status == 404 and code is None:
        return StoreError, "a 404 that does not come from the store, as from a proxy while the server restarts", True
    if status == 404:
        return StoreError, "not found", False
    return StoreError, BAD_REQUEST if status == 400 else "the server sent no value", False


def request_id(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the server's own id of the request, or None."""
    for name in _REQUEST_IDS:
        value = headers.get(name)
        if value is not None:
            return value[:200].decode("latin-1")
    return None


def retry_after(value: bytes | None, now: float) -> float | None:
    """Return the seconds in a Retry-After header (RFC 9110, section 10.2.3), or None if it is missing or invalid.

    Args:
        value: the header: seconds, or an HTTP date.
        now: seconds since the epoch.
    """
    if value is None:
        return None
    text = value[:64].decode("latin-1").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), RETRY_AFTER_CAP)
    moment = http_date(value)
    return None if moment is None else min(max(0.0, moment - now), RETRY_AFTER_CAP)


class ServerClock:
    """The clock of a server, by which requests are signed; it is this machine's clock until a response corrects it."""

    def __init__(self) -> None:
        self._offset = 0.0

    def now(self) -> float:
        """Return the server's time in seconds since the epoch, or this machine's until a response corrects it."""
        return time.time() + self._offset

    def correct(self, server: float | None) -> bool:
        """Use the time of a refusal. Returns: False if it has none, or the times differ by less than a minute."""
        if server is None or abs(server - self.now()) < MIN_SKEW_SECONDS:
            return False
        self._offset = server - time.time()
        return True


def http_date(value: bytes | None) -> float | None:
    """Return an HTTP date (RFC 9110, section 5.6.7) in seconds since the epoch, or None if it is missing or invalid."""
    from email.utils import parsedate_to_datetime  # imported here because few responses need it

    try:
        moment = parsedate_to_datetime((value or b"")[:64].decode("latin-1").strip())
        if moment.tzinfo is None:  # "-0000" means UTC here
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def is_clipped(error: StoreError) -> bool:
    """Return whether a range was probably clipped to the end of an object of unknown size (`Content-Range: .../*`)."""
    return isinstance(error, ShortReadError) and error.status == 206 and not error.retryable


class ObjectClient(ABC):
    """Authorises requests for the objects of one server, and interprets its responses.

    May be used from any number of loops and threads. Its errors name neither store nor key; the store adds them.

    Attributes:
        sender: the sender of the next request.
        keep_encoding: whether an encoded body is the value as it was stored.
        head_identifies_missing: whether the response to a HEAD distinguishes a missing object from a missing bucket.
        kind: the key of `MISSING` for its server.
    """

    sender: EndpointClient
    kind: ClassVar[str] = "http"
    keep_encoding: ClassVar[bool] = False
    head_identifies_missing: ClassVar[bool] = True

    # --- authorising ---------------------------------------------------------------------------------------------

    @abstractmethod
    def authorise(self, method: str, key: str, expectation: Expectation) -> Request | None:
        """Return a request for the object `key`.

        Returns:
            the request; None if something has to be awaited first, such as a token. See `authorise_later`.
        """

    async def authorise_later(self, method: str, key: str, expectation: Expectation) -> Request:
        """Return the request that `authorise` cannot return at once.

        Raises:
            UnauthenticatedError: there are no credentials, or they are not valid.
        """
        raise NotImplementedError  # `authorise` always returns a request

    # --- interpreting --------------------------------------------------------------------------------------------

    def is_value(self, request: Request, response: Response) -> bool:
        """Return whether the body of `response` is the value, without further steps."""
        action = response.action
        return type(action) is Accept and not action.cut

    async def renew_authorisation(self, request: Request, response: Response) -> bool:
        """Return whether `response` refuses the authorisation of `request`, and a new one may be accepted."""
        return False

    async def interpret(self, request: Request, response: Response) -> Response:
        """Return the response to act on, given one that is not a value. It may take further requests.

        Raises:
            StoreError: the server refused for a reason that only this client knows.
        """
        return response

    def can_recover(self, request: Request, error: StoreError) -> bool:
        """Return whether further requests, by `recover` or the store, may replace the error of `request`."""
        return is_clipped(error)

    async def recover(self, request: Request, error: StoreError) -> Response:
        """Return a response in place of `error`, or raise it. Called only if `can_recover`."""
        raise error

    def is_missing(self, response: Response) -> bool:
        """Return whether the response is a 404 that means that the object is missing, and not its bucket."""
        return response.status == 404 and MISSING[self.kind](response.headers, bytes(response.body))

    def version(self, headers: Headers) -> Version | None:
        """Return the version of the object from the headers of a response, or None if they contain none."""
        etag = etag_of(headers)
        return None if etag is None else Version(etag)

    def error(self, response: Response) -> StoreError:
        """Return the error for a response without a value."""
        return error_for(response.status, response.headers, bytes(response.body))

    # --- exchanges -----------------------------------------------------------------------------------------------

    async def request(self, method: str, key: str, expectation: Expectation) -> Response:
        """Send a request for the object `key` and return its interpreted response.

        Raises:
            StoreError: no valid response came.
        """
        return await self.exchange(partial(self._authorised, method, key, expectation))

    async def exchange(self, authorise: Callable[[], Awaitable[Request]]) -> Response:
        """Send the request that `authorise` returns, such as a listing, and return its interpreted response.

        Args:
            authorise: returns the request; called again if its authorisation was refused and renewed.

        Raises:
            StoreError: no valid response came.
        """
        request = await authorise()
        try:
            response = await request.sender.send(request)
        except StoreError as error:
            if not self.can_recover(request, error):
                raise
            return await self.recover(request, error)
        return await self._conclude(request, response, authorise)

    async def resolve(self, request: Request, response: Response) -> Response:
        """Return the result of `request`, given the first response to a request that was sent without a task."""
        response = await request.sender.resolve(request, response)
        authorise = partial(self._authorised, request.method, request.key, request.expectation)
        return await self._conclude(request, response, authorise)

    async def _conclude(
        self, request: Request, response: Response, authorise: Callable[[], Awaitable[Request]]
    ) -> Response:
        if not self.is_value(request, response):
            _decode_error(response)
            if await self.renew_authorisation(request, response):
                request = await authorise()
                response = await request.sender.send(request)
                _decode_error(response)
            if not self.is_value(request, response):
                response = await self.interpret(request, response)
        if self._is_shown(request, response):
            response.body = hide_request(request, bytes(response.body))
        return response

    def _is_shown(self, request: Request, response: Response) -> bool:
        """Return whether an error may show the body of `response`."""
        is_read = request.method == "GET" and bool(request.key)
        if isinstance(response.action, Accept):  # a success may have an error document, but for the value of an object
            return not is_read and b"<Error" in bytes(memoryview(response.body)[:200])
        return not (is_read and self.is_missing(response)) and len(memoryview(response.body)) > 0

    async def _authorised(self, method: str, key: str, expectation: Expectation) -> Request:
        return self.authorise(method, key, expectation) or await self.authorise_later(method, key, expectation)

    async def aclose(self) -> None:
        """Close the connections of the running loop that no other client uses."""
        await self.sender.aclose()
