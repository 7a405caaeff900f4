"""Signatures of requests in their queries: the arithmetic of AWS Signature Version 4, and nothing else.

"Authenticating Requests: Using Query Parameters" in the S3 API reference. With credentials that obstore finds and keeps
to itself, it signs the URLs of objects; those of listings it does not.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote

ALGORITHM = "AWS4-HMAC-SHA256"

VALID_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Credentials:
    """What signs: an access key, its secret and, for temporary ones, the session token."""

    key: str = field(repr=False)
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def canonical_query(query: Mapping[str, str]) -> str:
    """Return `query` percent-encoded, in the order in which it is signed: that of the names, and not of the text."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    return "&".join(f"{name}={value}" for name, value in pairs)


class Presigner:
    """Signs the URLs of one server, as one who asks for thousands does: what they have in common is made once a minute.

    Keys of days and of moments are replaced whole, so that any number of threads may sign.
    """

    __slots__ = ("_credentials", "_day", "_header", "_host", "_moment", "_query", "_region")

    def __init__(
        self,
        credentials: Credentials,
        region: str,
        host: str,
        query: Mapping[str, str] | None = None,
        header: str | None = None,
    ) -> None:
        """Take what all URLs have in common.

        Args:
            credentials: what signs.
            region: the region that the server believes to be in.
            host: host and port as they stand in the Host header, which is signed.
            query: the parameters of every request, not encoded.
            header: the name, in lower case and behind "host", of another header that is signed.
        """
        self._credentials = credentials
        self._header = header
        self._region = region
        self._host = host
        self._query = dict(query or {})
        self._day = ("", b"")
        self._moment = _Moment(float("-inf"), "", b"", b"", b"", b"")

    def target(self, method: str, path: str, value: bytes = b"") -> str:
        """Return `path`, percent-encoded as it is sent, with a query that is signed; `value` is that of the header."""
        moment, now = self._moment, time.time()
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
        # The canonical request goes on with the query, the headers that are signed, and their names.
        before = f"{text}\nhost:{self._host}\n" + ("" if header is None else f"{header}:")
        behind = "\nhost" if header is None else f"\n\nhost;{header}"
        return _Moment(now, text, before.encode(), f"{behind}\nUNSIGNED-PAYLOAD".encode(), head, self._day[1])


SAME_MOMENT_SECONDS = 60
"""URLs signed within it say that they were signed at the same time."""


class _Moment(NamedTuple):
    """What the URLs signed in one minute have in common."""

    at: float
    text: str
    before: bytes
    behind: bytes
    head: bytes
    secret: bytes


def signed_query(
    credentials: Credentials, scope: str, moment: str, query: Mapping[str, str], headers: str = "host"
) -> str:
    """Return the query that is signed, but for the signature."""
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


def canonical_rest(text: str, host: str) -> str:
    """Return what follows method and path in a canonical request."""
    return f"{text}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"


def day_secret(credentials: Credentials, scope: str) -> bytes:
    """Return what signs in one scope: one day, region and service."""
    secret = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    return secret


def presign(
    credentials: Credentials,
    region: str,
    host: str,
    path: str,
    query: Mapping[str, str],
    now: float,
) -> str:
    """Return the query of a signed GET, without a `?`.

    Args:
        credentials: what signs.
        region: the region that the server believes to be in.
        host: host and port as they stand in the Host header, the only one that is signed.
        path: percent-encoded, as it is sent.
        query: the parameters of the request, not encoded.
        now: seconds since 1970.
    """
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    text = signed_query(credentials, scope, moment, query)
    request = f"GET\n{path}\n{canonical_rest(text, host)}"
    to_sign = "\n".join((ALGORITHM, moment, scope, sha256(request.encode()).hexdigest()))
    signature = hmac.digest(day_secret(credentials, scope), to_sign.encode(), "sha256")
    return f"{text}&X-Amz-Signature={signature.hex()}"
