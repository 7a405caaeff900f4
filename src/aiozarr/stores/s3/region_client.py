"""Authorised requests for one bucket in one region, and obstore's clients for it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from aiozarr.http1.endpoint_client import EndpointClient, Request
from aiozarr.http1.request import BodyReader, RequestTemplate, quote_key
from aiozarr.http1.response_check import Expectation
from aiozarr.http1.url import Proxies
from aiozarr.stores.http.errors import MIN_SKEW_SECONDS, http_date
from aiozarr.stores.object.listing import MAX_PAGE_BYTES
from aiozarr.stores.obstore.errors import translated
from aiozarr.stores.obstore.obstore_bucket import check_fork
from aiozarr.stores.obstore.url_signer import Signer
from aiozarr.stores.options.s3_options import S3Options
from aiozarr.stores.s3.address import S3Endpoint, Source
from aiozarr.stores.s3.client import (
    ProfileCredentials,
    Provider,
    find_credentials,
    fixed_credentials,
    make_client,
    ssl_context_of,
)
from aiozarr.stores.s3.presign import Presigner, canonical_query, presign
from aiozarr.stores.s3.responses import region_in

if TYPE_CHECKING:
    from obstore.store import S3Store

CRC32C = "x-amz-checksum-crc32c"
"""The header with which a server checks a body ("Checking object integrity" in the S3 documentation)."""

CHECKSUM_MODE = {"x-amz-checksum-mode": "ENABLED"}
"""The parameter, or header, that requests the checksum of an object ("GetObject" in the S3 API reference)."""

_FIXED = frozenset({"given", "environment"})
_SIGNED_BY_OBSTORE = ("AWS_REQUEST_PAYER", "AWS_REQUESTER_PAYS", "AWS_S3_EXPRESS")
_RENEWABLE = frozenset({"profile", "chain"})


class S3RegionClient:
    """The parts of a bucket's client that change with its region.

    obstore's clients are made on first use: a store that is only described, or read with known credentials, imports no
    client library, and can be used after a fork.

    Attributes:
        endpoint: the bucket's address and region.
        sender: sends the requests.
    """

    def __init__(self, endpoint: S3Endpoint, options: S3Options, source: Source, provider: Provider | None) -> None:
        self.endpoint = endpoint
        self._options = options
        self._source: Source = source
        self._provider = provider
        self._signs = source != "anonymous"
        self._url = f"s3://{endpoint.bucket}"
        web = endpoint.web
        self._path = web.path
        self._template = RequestTemplate(web.authority, {})
        # A header of Amazon's must be signed. A signed URL has it as a parameter.
        self._whole_template = self._template if self._signs else RequestTemplate(web.authority, CHECKSUM_MODE)
        context = ssl_context_of(options) if web.secure else None
        self.sender = EndpointClient(
            web, options, ssl_context=context, proxies=Proxies(options.proxy), keep_encoding=True
        )
        self._client: S3Store | None = None
        self._lister: S3Store | None = None
        self._signer: Signer | None = None
        self._renewed_at = 0.0
        # obstore signs if the environment has options for requests that only obstore knows.
        fixed = None if any(map(os.environ.get, _SIGNED_BY_OBSTORE)) else fixed_credentials(options, source, os.environ)
        self._clock_offset = 0.0
        payer = {"x-amz-request-payer": "requester"} if options.requester_pays else {}
        self._presigner = (
            None if fixed is None else Presigner(fixed, endpoint.region, web.authority, payer, clock=self._now)
        )
        self._whole_presigner = (
            None
            if fixed is None
            else Presigner(fixed, endpoint.region, web.authority, {**payer, **CHECKSUM_MODE}, clock=self._now)
        )
        self._checksum_presigner = (
            None if fixed is None else Presigner(fixed, endpoint.region, web.authority, payer, CRC32C, self._now)
        )

    # --- obstore's clients ---------------------------------------------------------------------------------------

    def client(self) -> S3Store:
        """Return obstore's client.

        Raises:
            ForkedProcessError: it was used in the parent of this forked process.
        """
        check_fork(self._url)
        if self._client is None:
            self._client = self._make_client(keep_alive=True)
        return self._client

    def lister(self) -> S3Store:
        """Return obstore's client for listings, which may be abandoned at any time.

        Raises:
            ForkedProcessError: as `client`.
        """
        check_fork(self._url)
        if self._lister is None:
            self._lister = self._make_client(keep_alive=False)
        return self._lister

    def _make_client(self, *, keep_alive: bool) -> S3Store:
        return make_client(
            self.endpoint,
            self._options,
            self._source,
            self._provider,
            self.sender.endpoint.connect_timeout,
            keep_alive=keep_alive,
        )

    # --- authorising ---------------------------------------------------------------------------------------------

    def authorise(self, method: str, key: str, expectation: Expectation) -> Request | None:
        """Return a request for `key`, signed unless the store is anonymous; None if only obstore can sign it.

        A request for a whole object also requests its checksum, if obstore does not sign it.
        """
        is_whole = method == "GET" and expectation.range is None
        if is_whole and self._whole_presigner is not None:
            target: str | None = self._whole_presigner.target(method, f"{self._path}/{quote_key(key)}")
        else:
            target = self._known_target(method, key)
        if target is None:
            return None
        template = self._whole_template if is_whole else self._template
        return Request(self.sender, method, key, target, template, expectation, "", time.monotonic())

    async def authorise_later(self, method: str, key: str, expectation: Expectation) -> Request:
        """Return a request for `key` that obstore signed."""
        issued_at = time.monotonic()
        target = await self._sign(method, key)
        return Request(self.sender, method, key, target, self._template, expectation, "", issued_at)

    async def authorise_put(
        self, key: str, data: memoryview | BodyReader, headers: Mapping[str, str], expectation: Expectation
    ) -> Request:
        """Return a request that stores `data` without a condition."""
        issued_at = time.monotonic()
        checksum = headers.get(CRC32C)
        if checksum is not None and self._checksum_presigner is not None:
            path = f"{self._path}/{quote_key(key)}"
            target = self._checksum_presigner.target("PUT", path, checksum.encode())
        else:
            target = self._known_target("PUT", key) or await self._sign("PUT", key)
        return Request(
            self.sender, "PUT", key, target, self._template, expectation, "", issued_at, headers=headers, body=data
        )

    async def authorise_call(
        self,
        method: str,
        key: str,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        body: memoryview | BodyReader | None = None,
    ) -> Request:
        """Return a request with this query, and headers of Amazon's, which are signed; `key` is `""` for the bucket.

        obstore's own credentials are not available for it.
        """
        issued_at = time.monotonic()
        path = f"{self._path}/{quote_key(key)}" if key else self._path or "/"
        credentials = await find_credentials(self._options, self._source, self._provider, os.environ)
        if self._options.requester_pays:
            query = {**query, "x-amz-request-payer": "requester"}
        if credentials is None:
            text = canonical_query(query)
        else:
            host = self.endpoint.web.authority
            text = presign(credentials, self.endpoint.region, host, path, query, self._now(), method, headers)
        target = f"{path}?{text}" if text else path
        expectation = Expectation(max_bytes=MAX_PAGE_BYTES)
        return Request(
            self.sender, method, key, target, self._template, expectation, "", issued_at, headers=headers, body=body
        )

    @property
    def can_sign_headers(self) -> bool:
        """Whether a request may have headers of Amazon's: obstore's signatures do not cover them."""
        return self._checksum_presigner is not None or not self._signs

    def _known_target(self, method: str, key: str) -> str | None:
        if self._presigner is not None:
            return self._presigner.target(method, f"{self._path}/{quote_key(key)}")
        if not self._signs:
            return f"{self._path}/{quote_key(key)}"
        check_fork(self._url)
        return None if self._signer is None else self._signer.kept(method, key)

    async def _sign(self, method: str, key: str) -> str:
        if self._signer is None:
            self._signer = Signer(self.client(), self.endpoint.base, fixed=self._source in _FIXED)
        with translated(None, None):
            return await self._signer.target(method, key)

    def _now(self) -> float:
        """Return the server's time in seconds since the epoch, as far as it is known."""
        return time.time() + self._clock_offset

    def correct_clock(self, date: bytes | None) -> bool:
        """Sign with the server's time from now on, which is in the header Date of its refusal.

        Returns:
            False if the header has no date, or the times differ by less than a minute.
        """
        server = http_date(date)
        if server is None or abs(server - self._now()) < MIN_SKEW_SECONDS:
            return False
        self._clock_offset = server - time.time()
        return True

    def renew(self, issued_at: float) -> bool:
        """Use new credentials from now on: those that authorised a request at `issued_at` have expired.

        The first of several such requests renews them.

        Returns:
            False if there are no other credentials.
        """
        if self._source not in _RENEWABLE:
            return False
        if self._renewed_at <= issued_at:
            self._renewed_at = time.monotonic()
            if isinstance(self._provider, ProfileCredentials):
                self._provider.forget()
            self._client = self._lister = self._signer = None  # a client keeps its credentials until their end
        return True


async def fetch_region(endpoint: S3Endpoint, options: S3Options) -> str | None:
    """Ask the server for the region of the bucket. Every response to an unsigned HEAD names it, refusals included."""
    client = S3RegionClient(endpoint, replace(options, anon=True), "anonymous", None)
    request = client.authorise("HEAD", "", Expectation(head=True))
    assert request is not None  # an anonymous request needs no signature
    try:
        response = await request.sender.send(request)
    finally:
        await client.sender.aclose()
    return region_in(response.headers, bytes(response.body).decode("utf-8", "replace"))
