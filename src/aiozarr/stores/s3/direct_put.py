"""Small values are stored by the HTTP client that reads: the client library spends more time on a request.

A value is stored this way if the request needs no condition, encryption or checksum that the options or the environment
ask for. If the server refuses, and the reason may be the form of the request, the client library repeats it. After
several such refusals the server gets no further requests of this form.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import md5

from aiozarr.http1.connection import Response
from aiozarr.http1.response_check import etag_of
from aiozarr.model import Version
from aiozarr.stores.http.errors import error_code, is_html_page
from aiozarr.stores.object.body_checksum import crc32c_base64
from aiozarr.stores.options.s3_options import S3Options
from aiozarr.stores.s3.region_client import CRC32C

MAX_DIRECT_BYTES = 1 << 20
"""TLS encrypts on the loop: larger values would delay its other requests."""

MAX_MD5_BYTES = 64 << 10
"""The most that is hashed by MD5, which every server supports: 0.1 ms. CRC32C takes a tenth of that."""

MAX_REFUSALS = 3

_STORED = frozenset({200, 201, 204})
_REFUSED = frozenset({307, 400, 403, 405, 411, 501})
_CODES_ABOUT_FORM = frozenset(
    {
        *(None, "AccessDenied", "SignatureDoesNotMatch", "NotImplemented", "MethodNotAllowed", "InvalidRequest"),
        *("InvalidArgument", "InvalidDigest", "BadDigest", "XAmzContentChecksumMismatch", "MissingContentLength"),
        *("TemporaryRedirect", "Redirect"),
    }
)
_UNSUPPORTED_ENV = (
    "AWS_SERVER_SIDE_ENCRYPTION",
    "AWS_SSE_",
    "AWS_CHECKSUM_ALGORITHM",
    "AWS_REQUEST_PAYER",
    "AWS_REQUESTER_PAYS",
)
"""Variables of the environment that only the client library supports."""


class DirectPut:
    """Decides which values of one bucket are stored directly."""

    def __init__(self, options: S3Options, environ: Mapping[str, str], *, secure: bool) -> None:
        plain = not options.upload and not options.requester_pays
        self._refusals_left = (
            MAX_REFUSALS if plain and not any(name.startswith(_UNSUPPORTED_ENV) for name in environ) else 0
        )
        self._secure = secure

    def accepts(self, nbytes: int, *, can_sign_headers: bool) -> bool:
        """Return whether to store a value of this size directly; `can_sign_headers` says whether CRC32C can be sent."""
        limit = MAX_DIRECT_BYTES if self.accepts_stream(can_sign_headers=can_sign_headers) else MAX_MD5_BYTES
        return nbytes <= limit and self._refusals_left > 0

    def accepts_stream(self, *, can_sign_headers: bool) -> bool:
        """Return whether to store a value that is read while it is sent; `can_sign_headers` as of `accepts`."""
        return (self._secure or can_sign_headers) and self._refusals_left > 0

    @property
    def needs_checksum(self) -> bool:
        """Whether bodies are sent with a checksum: without TLS nothing else would detect damaged bytes."""
        return not self._secure

    def headers(self, data: memoryview) -> dict[str, str]:
        """Return the checksum header of the body, which the signature of the URL does not cover."""
        if not self.needs_checksum:
            return {}
        if data.nbytes <= MAX_MD5_BYTES:
            return {"Content-MD5": b64encode(md5(data, usedforsecurity=False).digest()).decode()}
        return {CRC32C: crc32c_base64(data).decode()}

    def record_refusal(self) -> None:
        """Record that the client library stored a value that the server had refused in this form."""
        self._refusals_left -= 1


def stored_version(response: Response) -> Version | None:
    """Return the version of the stored value, or None if the response does not confirm that it is stored."""
    if response.status not in _STORED or is_html_page(bytes(response.body)):
        return None
    etag = etag_of(response.headers)
    return None if etag is None or etag == '""' or etag.startswith("W/") else Version(etag)


def may_succeed_otherwise(response: Response) -> bool:
    """Return whether the reason of a response without a version may be the form of the request."""
    if response.status in _STORED:
        return True
    return response.status in _REFUSED and error_code(bytes(response.body)) in _CODES_ABOUT_FORM
