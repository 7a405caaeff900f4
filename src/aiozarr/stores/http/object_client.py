"""The part of a store that knows its server: it authorises requests and interprets responses.

HTTP statuses and error documents become typed errors here. Requests whose credential has expired are repeated here, and
`aiozarr.http1.endpoint_client` sends them.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import ClassVar

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
from aiozarr.http1.response_check import Accept, Expectation, Headers, etag_of
from aiozarr.model import Version

RETRY_AFTER_CAP = 3600.0
"""The longest wait in seconds that is read from a response. `RetryPolicy` decides whether a request waits at all."""

_CODE = re.compile(rb"<Code>([A-Za-z0-9._-]{1,64})</Code>")
_CODE_WORD = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MESSAGE = re.compile(rb"<Message>([^<]{1,300})</Message>")
# Some servers quote the request in their message: its URL, its query, its headers.
_QUOTES_REQUEST = re.compile(
    r"[?=&{}<>\"]|://|authorization|bearer|token|cookie|secret|password|signature|\bx-|[a-z0-9+/_-]{32,}", re.IGNORECASE
)
_HTML = re.compile(rb"\s*(?:<!doctype\s+html|<html)", re.IGNORECASE)
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


def error_code(body: bytes) -> str | None:
    """Return the `<Code>` of an error document, or None. The bounded bytes are searched, and not parsed as XML."""
    match = _CODE.search(body)
    return None if match is None else match[1].decode("ascii")


def error_for(status: int, headers: Mapping[bytes, bytes], body: bytes, reason_code: str | None = None) -> StoreError:
    """Return the error for a response without a value; the store adds its URL, the key and the range.

    Args:
        status: the status of the response.
        headers: its headers.
        body: its body, or the beginning of it.
        reason_code: the code of the error if `body` is no document that contains it.
    """
    code = error_code(body) or _code_of(headers) or reason_code
    kind, reason, retryable = _classify(status, code)
    message = reason if code is None else f"{reason}: {code}"
    if status == 403 and is_skewed(body):
        message += _clock_advice(http_date(headers.get(b"date")))
    found = _MESSAGE.search(body)
    # Messages about a refused signature are not shown, because servers quote the signed request in them.
    text = None if found is None or code in _SECRETIVE else showable(found[1].decode("utf-8", "replace"))
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


def showable(message: str) -> str | None:
    """Return the first line of a server's message, or None if it may quote the request.

    The further lines of Azure's messages, with time and id of the request, are reported elsewhere.
    """
    line = message.strip().partition("\n")[0]
    return None if _QUOTES_REQUEST.search(line) else line


def is_html_page(body: bytes) -> bool:
    """Return whether a response is an HTML page, which does not come from the cloud.

    The Content-Type does not show it, because some emulators send it for all their documents.
    """
    return _HTML.match(body) is not None


def is_missing_key(body: bytes) -> bool:
    """Return whether a 404 can be about the object: its error document says so, or there is none."""
    return error_code(body) in (None, "NoSuchKey") and not is_html_page(body)


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
    if status in (405, 501):
        return UnsupportedOperationError, "the server does not do this", False
    if status in _RETRYABLE_STATUS or code in _RETRYABLE_CODES:
        return StoreError, "the server failed", True
    if status == 304:
        return StoreError, "the server says 'not modified' to a request without a condition", False
    if 300 <= status < 400:
        return StoreError, "the server sends elsewhere", False
    if code in ("NoSuchBucket", "ContainerNotFound"):
        return StoreError, f"the {'bucket' if code == 'NoSuchBucket' else 'container'} does not exist", False
    if status == 404:
        return StoreError, "not found", False
    return StoreError, "the server sent no value", False


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
    """

    sender: EndpointClient
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
        """Return whether a 404 means that the object is missing (and not its bucket)."""
        return True

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
        if self.is_value(request, response):
            return response
        if await self.renew_authorisation(request, response):
            request = await authorise()
            response = await request.sender.send(request)
            if self.is_value(request, response):
                return response
        return await self.interpret(request, response)

    async def _authorised(self, method: str, key: str, expectation: Expectation) -> Request:
        return self.authorise(method, key, expectation) or await self.authorise_later(method, key, expectation)

    async def aclose(self) -> None:
        """Close the connections of the running loop that no other client uses."""
        await self.sender.aclose()
