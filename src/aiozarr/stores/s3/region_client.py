"""The connections and the signatures for one bucket in one region.

Requests are signed by AWS Signature Version 4 in the query of the URL, or in a header ("Authenticating Requests" in the
S3 API reference). The headers of a request are signed with it.
"""

from __future__ import annotations

import hmac
import os
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote

from aiozarr.http1.endpoint_client import EndpointClient, Request
from aiozarr.http1.request import RequestTemplate
from aiozarr.http1.response_check import Expectation
from aiozarr.http1.url import Proxies, custom_ssl_context
from aiozarr.stores.http.object_client import ServerClock
from aiozarr.stores.s3.address import NOTHING_CONFIGURED, Configured, S3Endpoint, S3Options, find_setting
from aiozarr.stores.s3.messages import region_in

ALGORITHM = "AWS4-HMAC-SHA256"

VALID_SECONDS = 3600

SAME_MOMENT_SECONDS = 60
"""URLs signed within this time have the same time of signature."""

MAX_KNOWN_QUERIES = 64


@dataclass(frozen=True, slots=True)
class S3Credentials:
    """An access key, its secret and, for temporary credentials, the session token."""

    key: str = field(repr=False)
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


ANONYMOUS = S3Credentials("", "")
"""Stands for no credentials: requests are not signed."""


def canonical_query(query: Mapping[str, str]) -> str:
    """Return `query` percent-encoded, in the order of a signature: by name, and not by the encoded text."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
    return "&".join([f"{name}={value}" for name, value in pairs])


class Signer:
    """Signs requests to one server with the same credentials; their common parts are computed once a minute.

    The common parts are replaced as a whole: any number of threads may sign.

    Attributes:
        credentials: the credentials that sign.
    """

    __slots__ = ("_clock", "_day", "_host", "_host_line", "_moment", "_region", "credentials")

    def __init__(
        self,
        credentials: S3Credentials,
        region: str,
        host: str,
        clock: Callable[[], float] = lambda: time.time(),  # noqa: PLW0108  # a test may replace the function
    ) -> None:
        """Describe the common parts of the requests.

        Args:
            credentials: the credentials that sign.
            region: the region of the server, as it is configured there.
            host: host and port as in the Host header, which is signed.
            clock: returns the server's time in seconds since the epoch.
        """
        self.credentials = credentials
        self._clock = clock
        self._region = region
        self._host = host
        self._day = ("", b"")
        self._host_line = f"host:{host}\n".encode()
        self._moment = _Moment(float("-inf"), "", "", b"", b"", {})

    def target(self, method: str, path: str, query: str = "", headers: Mapping[str, str] | None = None) -> str:
        """Return path and query of a signed request.

        Args:
            method: the HTTP method.
            path: percent-encoded, as it is sent.
            query: the parameters of the request from `canonical_query`. Their names begin with lower-case letters, so
                the headers of the signature come first.
            headers: further headers that are signed, by their lower-case names.
        """
        moment = self._this_moment()
        names, lines = "host", self._host_line
        if headers:
            signed = sorted({"host": self._host, **headers}.items())
            names = ";".join([name for name, _ in signed])
            lines = "".join([f"{name}:{value.strip()}\n" for name, value in signed]).encode()
        known = moment.known.get((names, query))
        if known is None:
            known = self._parameters(moment, names, query)
        text, before, behind = known
        request = sha256(f"{method}\n{path}\n".encode() + before + lines + behind).hexdigest()
        signature = hmac.digest(moment.secret, moment.head + request.encode(), "sha256").hex()
        return f"{path}?{text}&X-Amz-Signature={signature}"

    def signed_headers(self, method: str, path: str, query: str, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request that is signed in a header, given the arguments of `target`."""
        moment = self._this_moment()
        found = {"x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": moment.time, **headers}
        if self.credentials.token is not None:
            found["x-amz-security-token"] = self.credentials.token
        signed = sorted({"host": self._host, **found}.items())
        names = ";".join([name for name, _ in signed])
        lines = "".join([f"{name}:{value.strip()}\n" for name, value in signed])
        request = sha256(f"{method}\n{path}\n{query}\n{lines}\n{names}\nUNSIGNED-PAYLOAD".encode()).hexdigest()
        signature = hmac.digest(moment.secret, moment.head + request.encode(), "sha256").hex()
        credential = f"{ALGORITHM} Credential={self.credentials.key}/{moment.scope}"
        return {**found, "authorization": f"{credential}, SignedHeaders={names}, Signature={signature}"}

    def _this_moment(self) -> _Moment:
        moment, now = self._moment, self._clock()
        if not moment.at <= now < moment.at + SAME_MOMENT_SECONDS:
            moment = self._moment = self._begin(now)
        return moment

    def _begin(self, now: float) -> _Moment:
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        scope = f"{moment[:8]}/{self._region}/s3/aws4_request"
        if self._day[0] != scope:
            secret = f"AWS4{self.credentials.secret}".encode()
            for part in scope.split("/"):
                secret = hmac.digest(secret, part.encode(), "sha256")
            self._day = (scope, secret)
        head = f"{ALGORITHM}\n{moment}\n{scope}\n".encode()
        return _Moment(now, moment, scope, head, self._day[1], {})

    def _parameters(self, moment: _Moment, names: str, query: str) -> tuple[str, bytes, bytes]:
        """Return the query without the signature, and the texts before and after the headers `names` of a request."""
        parameters = {
            "X-Amz-Algorithm": ALGORITHM,
            "X-Amz-Credential": f"{self.credentials.key}/{moment.scope}",
            "X-Amz-Date": moment.time,
            "X-Amz-Expires": str(VALID_SECONDS),
            "X-Amz-SignedHeaders": names,
        }
        if self.credentials.token is not None:
            parameters["X-Amz-Security-Token"] = self.credentials.token
        text = canonical_query(parameters)
        if query:
            text = f"{text}&{query}"
        if len(moment.known) >= MAX_KNOWN_QUERIES:  # pages and parts have one each
            moment.known.clear()
        known = text, f"{text}\n".encode(), f"\n{names}\nUNSIGNED-PAYLOAD".encode()
        moment.known[names, query] = known
        return known


class _Moment(NamedTuple):
    """The common parts of the requests signed in one minute; `known` has the parts for equal headers and parameters."""

    at: float
    time: str
    scope: str
    head: bytes
    secret: bytes
    known: dict[tuple[str, str], tuple[str, bytes, bytes]]


CHECKSUM_MODE = "x-amz-checksum-mode"
"""The parameter, or header, that requests the checksum of an object ("GetObject" in the S3 API reference)."""


class S3RegionClient:
    """The parts of a bucket's client that change with its region.

    Attributes:
        endpoint: the bucket's address and region.
        path: the path of the bucket, without a slash at its end.
        template: the headers of requests.
        sender: sends the requests.
        clock: the time of signatures.
    """

    def __init__(self, endpoint: S3Endpoint, options: S3Options, configured: Configured = NOTHING_CONFIGURED) -> None:
        self.endpoint = endpoint
        web = endpoint.web
        self.path = web.path
        self.template = RequestTemplate(web.authority, {})
        context = ssl_context_of(options, configured) if web.secure else None
        self.sender = EndpointClient(web, options, ssl_context=context, proxies=Proxies(options.proxy))
        self.clock = ServerClock()
        self._signer = Signer(ANONYMOUS, endpoint.region, web.authority)

    def signer(self, credentials: S3Credentials) -> Signer:
        """Return the signer of these credentials."""
        signer = self._signer
        if signer.credentials is not credentials:
            authority = self.endpoint.web.authority
            signer = self._signer = Signer(credentials, self.endpoint.region, authority, self.clock.now)
        return signer


def ssl_context_of(options: S3Options, configured: Configured = NOTHING_CONFIGURED) -> ssl.SSLContext | None:
    """Return the TLS context, or None for the default one.

    Raises:
        ValueError: the file of trusted certificates cannot be read.
    """
    trusted = options.root_certificate  # in addition to those of the system
    path = options.verify
    if path is None and trusted is None:
        path = find_setting("ca_bundle", options, os.environ, configured) or os.environ.get("REQUESTS_CA_BUNDLE")
    if path and isinstance(path, str):
        try:
            with open(path, encoding="ascii", errors="ignore") as file:  # their names in comments are of any language
                trusted = file.read() + (trusted or "")
        except OSError as error:
            raise ValueError(f"the certificates in {path!r} cannot be read") from error
    return custom_ssl_context(trusted, allow_invalid=path is False)


async def fetch_region(client: S3RegionClient) -> str | None:
    """Ask the server for the region of the bucket. Every response to an unsigned HEAD names it, refusals included."""
    request = Request(client.sender, "HEAD", "", client.path or "/", client.template, Expectation(head=True))
    response = await client.sender.send(request)
    return region_in(response.headers, bytes(response.body).decode("utf-8", "replace"))
