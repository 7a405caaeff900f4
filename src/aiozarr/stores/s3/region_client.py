"""The connections and the signatures for one bucket in one region."""

from __future__ import annotations

import os
import ssl

from aiozarr.http1.endpoint import custom_ssl_context
from aiozarr.http1.endpoint_client import EndpointClient, Request
from aiozarr.http1.request import RequestTemplate
from aiozarr.http1.response_check import Expectation
from aiozarr.http1.url import Proxies
from aiozarr.stores.http.errors import ServerClock
from aiozarr.stores.options.s3_options import S3Options
from aiozarr.stores.s3.address import S3Endpoint
from aiozarr.stores.s3.messages import region_in
from aiozarr.stores.s3.signer import ANONYMOUS, S3Credentials, Signer

CHECKSUM_MODE = "x-amz-checksum-mode"
"""The parameter, or header, that requests the checksum of an object ("GetObject" in the S3 API reference)."""


class S3RegionClient:
    """The parts of a bucket's client that change with its region.

    Attributes:
        endpoint: the bucket's address and region.
        path: the path of the bucket, without a slash at its end.
        template, unsigned_whole: the headers of requests, and of unsigned ones for whole objects.
        sender: sends the requests.
        clock: the time of signatures.
    """

    def __init__(self, endpoint: S3Endpoint, options: S3Options) -> None:
        self.endpoint = endpoint
        web = endpoint.web
        self.path = web.path
        self.template = RequestTemplate(web.authority, {})
        self.unsigned_whole = RequestTemplate(web.authority, {CHECKSUM_MODE: "ENABLED"})
        context = ssl_context_of(options) if web.secure else None
        self.sender = EndpointClient(
            web, options, ssl_context=context, proxies=Proxies(options.proxy), keep_encoding=True
        )
        self.clock = ServerClock()
        self._signer = Signer(ANONYMOUS, endpoint.region, web.authority)

    def signer(self, credentials: S3Credentials) -> Signer:
        """Return the signer of these credentials."""
        signer = self._signer
        if signer.credentials is not credentials:
            authority = self.endpoint.web.authority
            signer = self._signer = Signer(credentials, self.endpoint.region, authority, self.clock.now)
        return signer


def ssl_context_of(options: S3Options) -> ssl.SSLContext | None:
    """Return the TLS context, or None for the default one.

    Raises:
        ValueError: the file of trusted certificates cannot be read.
    """
    trusted = options.root_certificate  # besides those of the system, like all of these
    path = options.verify
    if path is None and trusted is None:
        path = os.environ.get("AWS_CA_BUNDLE") or None
    if isinstance(path, str):
        try:
            with open(path, encoding="ascii") as file:
                trusted = file.read() + (trusted or "")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"the certificates in {path!r} cannot be read") from error
    return custom_ssl_context(trusted, allow_invalid=options.verify is False)


async def fetch_region(endpoint: S3Endpoint, options: S3Options) -> str | None:
    """Ask the server for the region of the bucket. Every response to an unsigned HEAD names it, refusals included."""
    client = S3RegionClient(endpoint, options)
    try:
        request = Request(client.sender, "HEAD", "", client.path or "/", client.template, Expectation(head=True))
        response = await client.sender.send(request)
    finally:
        await client.sender.aclose()
    return region_in(response.headers, bytes(response.body).decode("utf-8", "replace"))
