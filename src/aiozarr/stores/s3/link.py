"""The way to one bucket: its address, the client that signs and writes, and the lane that reads."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from aiozarr.stores.http.line import Line
from aiozarr.stores.http.url import Proxies
from aiozarr.stores.lane import Answer, Connection, Reply, RequestTemplate, Want, quote_key
from aiozarr.stores.object.listing import MAX_PAGE_BYTES
from aiozarr.stores.obstore.errors import translated
from aiozarr.stores.obstore.process import check_process
from aiozarr.stores.obstore.sign import Signer
from aiozarr.stores.options.s3 import S3Options
from aiozarr.stores.s3.address import S3Place, Source
from aiozarr.stores.s3.client import Provider, make_client
from aiozarr.stores.s3.credentials import find_credentials, fixed_credentials
from aiozarr.stores.s3.presign import Presigner, canonical_query, presign
from aiozarr.stores.s3.profiles import ProfileCredentials
from aiozarr.stores.s3.region import region_in
from aiozarr.stores.s3.trust import context_of

if TYPE_CHECKING:
    from obstore.store import S3Store

CRC32C = "x-amz-checksum-crc32c"
"""The header by which a server checks a body ("Checking object integrity" in the S3 documentation)."""

_FIXED = frozenset({"given", "environment"})
_SAYS_MORE = ("AWS_REQUEST_PAYER", "AWS_REQUESTER_PAYS", "AWS_S3_EXPRESS")
_RENEWED = frozenset({"profile", "chain"})


class S3Link:
    """Everything that changes when the bucket turns out to be in another region.

    The client is made on first use, so that a store which is only described, or read with credentials that are known,
    touches no library, and survives a fork.
    """

    def __init__(self, place: S3Place, options: S3Options, source: Source, provider: Provider | None) -> None:
        self.place = place
        self._options = options
        self._source: Source = source
        self._provider = provider
        self._signs = source != "anonymous"
        self._url = f"s3://{place.bucket}"
        web = place.web
        self._path = web.path
        self._template = RequestTemplate(web.authority, {})
        context = context_of(options) if web.secure else None
        self.line = Line(web, options, ssl_context=context, proxies=Proxies(options.proxy), raw=True)
        self._client: S3Store | None = None
        self._lister: S3Store | None = None
        self._signer: Signer | None = None
        self._renewed = 0.0
        # What the environment tells obstore of requests besides, obstore signs.
        fixed = None if any(map(os.environ.get, _SAYS_MORE)) else fixed_credentials(options, source, os.environ)
        payer = {"x-amz-request-payer": "requester"} if options.requester_pays else {}
        self._presigner = None if fixed is None else Presigner(fixed, place.region, web.authority, payer)
        self._checked = None if fixed is None else Presigner(fixed, place.region, web.authority, payer, CRC32C)

    def client(self) -> S3Store:
        """Return obstore's client.

        Raises:
            ForkedProcessError: it was used in the process that this one is a fork of.
        """
        check_process(self._url)
        if self._client is None:
            self._client = self._make(keep_alive=True)
        return self._client

    def lister(self) -> S3Store:
        """Return obstore's client for listings, which may be given up at any time.

        Raises:
            ForkedProcessError: as `client`.
        """
        check_process(self._url)
        if self._lister is None:
            self._lister = self._make(keep_alive=False)
        return self._lister

    def _make(self, *, keep_alive: bool) -> S3Store:
        return make_client(
            self.place,
            self._options,
            self._source,
            self._provider,
            self.line.origin.connect_timeout,
            keep_alive=keep_alive,
        )

    async def ask(self, method: str, key: str, want: Want) -> Answer:
        """Send a GET or HEAD for `key`, signed unless the store is anonymous."""
        # Nearly always arithmetic: no coroutine for that.
        target = self._known_target(method, key) or await self._sign(method, key)
        return await self.line.ask(method, target, want, self._template)

    def begin(self, key: str, want: Want, reply: Reply) -> Connection | None:
        """Send a GET for `key` at once, where its signature and a connection are at hand."""
        target = self._known_target("GET", key)
        return None if target is None else self.line.begin("GET", target, want, self._template, reply)

    @property
    def signs_headers(self) -> bool:
        """Whether a request may say more than its URL: where obstore signs, no other header may be of Amazon's."""
        return self._checked is not None or not self._signs

    async def put(self, key: str, data: memoryview, headers: Mapping[str, str], want: Want) -> Answer:
        """Put a value without a condition, signed unless the store is anonymous."""
        checksum = headers.get(CRC32C)
        if checksum is not None and self._checked is not None:
            target = self._checked.target("PUT", f"{self._path}/{quote_key(key)}", checksum.encode())
        else:
            target = self._known_target("PUT", key) or await self._sign("PUT", key)
        return await self.line.put(target, data, headers, want, self._template)

    def _known_target(self, method: str, key: str) -> str | None:
        """Return path and query for `key`, signed unless the store is anonymous; None where obstore has to sign."""
        if self._presigner is not None:
            return self._presigner.target(method, f"{self._path}/{quote_key(key)}")
        if not self._signs:
            return f"{self._path}/{quote_key(key)}"
        check_process(self._url)
        return None if self._signer is None else self._signer.kept(method, key)

    async def list(self, query: Mapping[str, str]) -> Answer:
        """Ask the bucket for a page of its listing, with credentials that are not obstore's own finding."""
        path = self._path or "/"
        credentials = await find_credentials(self._options, self._source, self._provider, os.environ)
        if credentials is None:
            text = canonical_query(query)
        else:
            if self._options.requester_pays:
                query = {**query, "x-amz-request-payer": "requester"}
            text = presign(credentials, self.place.region, self.place.web.authority, path, query, time.time())
        want = Want(max_bytes=MAX_PAGE_BYTES)
        return await self.line.ask("GET", f"{path}?{text}", want, self._template)

    async def _sign(self, method: str, key: str) -> str:
        if self._signer is None:
            self._signer = Signer(self.client(), self.place.base, fixed=self._source in _FIXED)
        with translated(None, None):
            return await self._signer.target(method, key)

    def renew(self, since: float) -> bool:
        """Have new credentials from now on, as those that were used at `since` have expired; False: there are none.

        Whoever finds out first renews them for all who had sent requests by then.
        """
        if self._source not in _RENEWED:
            return False
        if self._renewed <= since:
            self._renewed = time.monotonic()
            if isinstance(self._provider, ProfileCredentials):
                self._provider.forget()
            self._client = self._lister = self._signer = None  # a client keeps credentials until they seem to end
        return True

    async def aclose(self) -> None:
        """Close the connections of the running loop that nobody else uses."""
        await self.line.aclose()


async def ask_region(place: S3Place, options: S3Options) -> str | None:
    """Ask the server in which region the bucket is: any answer to an unsigned HEAD says so, a refusal too."""
    link = S3Link(place, replace(options, anon=True), "anonymous", None)
    try:
        answer = await link.ask("HEAD", "", Want(head=True))
    finally:
        await link.aclose()
    return region_in(answer.headers, bytes(answer.body).decode("utf-8", "replace"))
