"""AWS Signature Version 4 in the query of a URL.

"Authenticating Requests: Using Query Parameters" in the S3 API reference. Credentials that only obstore finds sign the
URLs of objects, by obstore; they cannot sign listings.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"

VALID_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """An access key, its secret and, for temporary credentials, the session token."""

    key: str = field(repr=False)
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def canonical_query(query: Mapping[str, str]) -> str:
    """Return `query` percent-encoded, in the order of a signature: by name, and not by the encoded text."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


class Presigner:
    """Signs many URLs of one server; their common parts are computed once a minute.

    The common parts are replaced as a whole: any number of threads may sign.
    """

    __slots__ = ("_clock", "_credentials", "_day", "_header", "_host", "_moment", "_query", "_region")

    def __init__(
        self,
        credentials: S3Credentials,
        region: str,
        host: str,
        query: Mapping[str, str] | None = None,
        header: str | None = None,
        clock: Callable[[], float] = lambda: time.time(),  # noqa: PLW0108  # a test may replace the function
    ) -> None:
        """Describe the common parts of the URLs.

        Args:
            credentials: the credentials that sign.
            region: the region of the server, as it is configured there.
            host: host and port as in the Host header, which is signed.
            query: the parameters of every request, not encoded.
            header: the lower-case name, in order after "host", of another header that is signed.
            clock: returns the server's time in seconds since the epoch.
        """
        self._clock = clock
        self._credentials = credentials
        self._header = header
        self._region = region
        self._host = host
        self._query = dict(query or {})
        self._day = ("", b"")
        self._moment = _Moment(float("-inf"), "", b"", b"", b"", b"")

    def target(self, method: str, path: str, value: bytes = b"") -> str:
        """Return `path`, percent-encoded as it is sent, with a signed query; `value` is the value of the header."""
        moment, now = self._moment, self._clock()
        if not moment.at <= now < moment.at + SAME_MOMENT_SECONDS:
            moment = self._moment = self._begin(now)
        request = sha256(f"{method}\n{path}\n".encode() + moment.before + value + moment.behind).hexdigest()
        signature = hmac.digest(moment.secret, moment.head + request.encode(), "sha256").hex()
        return f"{path}?{moment.text}&X-Amz-Signature={signature}"

    def _begin(self, now: float) -> _Moment:
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        scope = f"{moment[:8]}/{self._region}/s3/aws4_request"
        header = self._header
        text = signed_query(
            self._credentials, scope, moment, self._query, "host" if header is None else f"host;{header}"
        )
        if self._day[0] != scope:
            self._day = (scope, day_secret(self._credentials, scope))
        head = f"{ALGORITHM}\n{moment}\n{scope}\n".encode()
        # The canonical request continues with the query, the signed headers, and their names.
        before = f"{text}\nhost:{self._host}\n" + ("" if header is None else f"{header}:")
        behind = "\nhost" if header is None else f"\n\nhost;{header}"
        return _Moment(now, text, before.encode(), f"{behind}\nUNSIGNED-PAYLOAD".encode(), head, self._day[1])


SAME_MOMENT_SECONDS = 60
"""URLs signed within this time have the same time of signature."""


class _Moment(NamedTuple):
    """The common parts of the URLs signed in one minute."""

    at: float
    text: str
    before: bytes
    behind: bytes
    head: bytes
    secret: bytes


def signed_query(
    credentials: S3Credentials, scope: str, moment: str, query: Mapping[str, str], headers: str = "host"
) -> str:
    """Return the query without the signature."""
    signed = {
        **query,
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{credentials.key}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(VALID_SECONDS),
        "X-Amz-SignedHeaders": headers,
    }
    if credentials.token is not None:
        signed["X-Amz-Security-Token"] = credentials.token
    return canonical_query(signed)


def day_secret(credentials: S3Credentials, scope: str) -> bytes:
    """Return the signing key of one scope: day, region and service."""
    secret = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    return secret


def presign(
    credentials: S3Credentials,
    region: str,
    host: str,
    path: str,
    query: Mapping[str, str],
    now: float,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
) -> str:
    """Return the query of a signed request, without a `?`.

    Args:
        credentials: the credentials that sign.
        region: the region of the server, as it is configured there.
        host: host and port as in the Host header, which is signed.
        path: percent-encoded, as it is sent.
        query: the parameters of the request, not encoded.
        now: seconds since 1970.
        method: the HTTP method.
        headers: further headers that are signed, by their lower-case names.
    """
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    signed = sorted({"host": host, **(headers or {})}.items())
    names = ";".join([name for name, _ in signed])
    text = signed_query(credentials, scope, moment, query, names)
    lines = "".join([f"{name}:{value.strip()}\n" for name, value in signed])
    request = f"{method}\n{path}\n{text}\n{lines}\n{names}\nUNSIGNED-PAYLOAD"
    to_sign = "\n".join((ALGORITHM, moment, scope, sha256(request.encode()).hexdigest()))
    signature = hmac.digest(day_secret(credentials, scope), to_sign.encode(), "sha256")
    return f"{text}&X-Amz-Signature={signature.hex()}"
