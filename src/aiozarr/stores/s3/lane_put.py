"""Most values are put by the lane that reads: the client library spends more on a request than they are worth.

A value goes up that way where nothing but its bytes has to be said: no condition, no encryption, no checksum that the
options or the environment ask for. Where the server refuses and may mean the way in which it was asked, the client
library does it over; a server that keeps refusing is not asked this way again.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import md5

from aiozarr.model import Version
from aiozarr.stores.http.errors import error_code
from aiozarr.stores.lane import Answer
from aiozarr.stores.lane.judge import etag_of
from aiozarr.stores.object.answers import is_page
from aiozarr.stores.object.checksum import crc32c_text
from aiozarr.stores.options.s3 import S3Options
from aiozarr.stores.s3.link import CRC32C

MOST_BYTES = 1 << 20
"""Encrypting more at once, one value after the other, would keep the loop from its other requests."""

MD5_BYTES = 64 << 10
"""The most that is hashed by MD5, which every server knows: 0.1 ms. It takes ten times as long as CRC32C."""

MAX_REFUSALS = 3

_STORED = frozenset({200, 201, 204})
_REFUSED = frozenset({307, 400, 403, 405, 411, 501})
_ABOUT_THE_WAY = frozenset(
    {
        *(None, "AccessDenied", "SignatureDoesNotMatch", "NotImplemented", "MethodNotAllowed", "InvalidRequest"),
        *("InvalidArgument", "InvalidDigest", "BadDigest", "XAmzContentChecksumMismatch", "MissingContentLength"),
        *("TemporaryRedirect", "Redirect"),
    }
)
_SAYS_MORE = (
    "AWS_SERVER_SIDE_ENCRYPTION",
    "AWS_SSE_",
    "AWS_CHECKSUM_ALGORITHM",
    "AWS_REQUEST_PAYER",
    "AWS_REQUESTER_PAYS",
)
"""Of the environment: the client library takes these for every write."""


class LanePuts:
    """Which values of one bucket go up by the lane, as far as its server takes them."""

    def __init__(self, options: S3Options, environ: Mapping[str, str], *, secure: bool) -> None:
        plain = not options.upload and not options.requester_pays
        self._left = MAX_REFUSALS if plain and not any(name.startswith(_SAYS_MORE) for name in environ) else 0
        self._secure = secure

    def take(self, nbytes: int, *, signs_headers: bool) -> bool:
        """Return whether a value of this size goes by the lane; `signs_headers` tells whether CRC32C can go along."""
        most = MOST_BYTES if self._secure or signs_headers else MD5_BYTES
        return nbytes <= most and self._left > 0

    def headers(self, data: memoryview) -> dict[str, str]:
        """Return what the request says of its body, for which the signature of its URL does not stand."""
        # Without TLS nothing else would notice that bytes were damaged on the way.
        if self._secure:
            return {}
        if data.nbytes <= MD5_BYTES:
            return {"Content-MD5": b64encode(md5(data, usedforsecurity=False).digest()).decode()}
        return {CRC32C: crc32c_text(data).decode()}

    def refused(self) -> None:
        """The client library could put a value that the lane could not."""
        self._left -= 1


def stored_version(answer: Answer) -> Version | None:
    """Return the version of the value that was stored; None: the answer does not say that it was."""
    if answer.status not in _STORED or is_page(bytes(answer.body)):
        return None
    etag = etag_of(answer.headers)
    return None if etag is None or etag == '""' or etag.startswith("W/") else Version(etag)


def other_way(answer: Answer) -> bool:
    """Return whether an answer that tells no version may be about the way in which the request was put."""
    if answer.status in _STORED:
        return True
    return answer.status in _REFUSED and error_code(bytes(answer.body)) in _ABOUT_THE_WAY
