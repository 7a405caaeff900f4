"""Small values are put by the lane that reads: the client library spends more on a request than they are worth.

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
from aiozarr.stores.options.s3 import S3Options

SMALL_BYTES = 64 << 10
"""The most that one write of a socket takes without waiting, on most systems; larger values gain little."""

MAX_REFUSALS = 3

_STORED = frozenset({200, 201, 204})
_REFUSED = frozenset({307, 400, 403, 405, 411, 501})
_ABOUT_THE_WAY = frozenset(
    {
        *(None, "AccessDenied", "SignatureDoesNotMatch", "NotImplemented", "MethodNotAllowed", "InvalidRequest"),
        *("InvalidArgument", "InvalidDigest", "MissingContentLength", "TemporaryRedirect", "Redirect"),
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


class SmallPuts:
    """Which values of one bucket go up by the lane, as far as its server takes them."""

    def __init__(self, options: S3Options, environ: Mapping[str, str], *, secure: bool) -> None:
        plain = not options.upload and not options.requester_pays
        self._left = MAX_REFUSALS if plain and not any(name.startswith(_SAYS_MORE) for name in environ) else 0
        self._secure = secure

    def take(self, nbytes: int) -> bool:
        """Return whether a value of this size goes by the lane."""
        return nbytes <= SMALL_BYTES and self._left > 0

    def headers(self, data: memoryview) -> dict[str, str]:
        """Return what the request says of its body, which the signature of its URL does not cover."""
        # Without TLS nothing else would notice that bytes were damaged on the way.
        return {} if self._secure else {"Content-MD5": b64encode(md5(data, usedforsecurity=False).digest()).decode()}

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
