"""Signatures of requests in their queries: the arithmetic of AWS Signature Version 4, and nothing else.

"Authenticating Requests: Using Query Parameters" in the S3 API reference. obstore signs the URLs of objects; those of
listings it does not.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
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
    signed = {
        **query,
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{credentials.key}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(VALID_SECONDS),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.token is not None:
        signed["X-Amz-Security-Token"] = credentials.token
    text = canonical_query(signed)
    request = "\n".join(("GET", path, text, f"host:{host}", "", "host", "UNSIGNED-PAYLOAD"))
    to_sign = "\n".join((ALGORITHM, moment, scope, sha256(request.encode()).hexdigest()))
    secret = f"AWS4{credentials.secret}".encode()
    for part in (*scope.split("/"), to_sign):
        secret = hmac.digest(secret, part.encode(), "sha256")
    return f"{text}&X-Amz-Signature={secret.hex()}"
