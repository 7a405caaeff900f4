"""Authorised requests for one bucket of Google Cloud Storage, by bearer tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.http1 import EndpointClient, Expectation, Request, RequestTemplate, acquire
from aiozarr.stores.gcs.address import GcsEndpoint, Source
from aiozarr.stores.gcs.tokens import GcsTokenSource
from aiozarr.stores.options.gcs_options import GcsOptions

if TYPE_CHECKING:
    from aiozarr.stores.gcs.upload_client import UploadClient


class GcsAuthoriser:
    """Adds a token to requests.

    Unless a client accepts gzip, the server decompresses objects that are stored with that encoding. Ranges of them
    would then fail, and hashes not match: objects are requested as they are stored.

    Attributes:
        endpoint: the bucket's address.
        tokens: the source of the tokens.
        anonymous: whether no tokens are sent.
        sender: sends requests without a body.
    """

    def __init__(self, endpoint: GcsEndpoint, options: GcsOptions, source: Source) -> None:
        self.endpoint = endpoint
        self.tokens = GcsTokenSource(options, source)
        self.anonymous = source == "anonymous"
        self.sender = EndpointClient(endpoint.web, options, keep_encoding=True)
        self._payer = options.payer
        self._templates: dict[bool, tuple[str, RequestTemplate]] = {}

    def authorise(
        self, method: str, key: str, target: str, expectation: Expectation, *, as_stored: bool = True
    ) -> Request | None:
        """Return a request without a body, or None if a token has to be awaited.

        Args:
            method: GET, HEAD or DELETE.
            key: the object; `""` for a listing.
            target: path and query, percent-encoded.
            expectation: the response that is wanted.
            as_stored: request the object as it is stored; False: without an encoding.
        """
        token = "" if self.anonymous else self.tokens.cached()
        if token is None:
            return None
        template = self._template(token, as_stored)
        return Request(self.sender, method, key, target, template, expectation, token)

    async def authorise_later(
        self, method: str, key: str, target: str, expectation: Expectation, *, as_stored: bool = True
    ) -> Request:
        """Return the request of `authorise`, after waiting for a token if necessary.

        Raises:
            UnauthenticatedError: there are no credentials, or they are not valid.
        """
        token = await self.token()
        return Request(self.sender, method, key, target, self._template(token, as_stored), expectation, token)

    async def authorise_post(self, key: str, target: str, expectation: Expectation) -> Request:
        """Return a POST without content, after waiting for a token if necessary."""
        token = await self.token()
        body = memoryview(b"")
        return Request(self.sender, "POST", key, target, self._template(token, False), expectation, token, body=body)

    async def token(self) -> str:
        """Return a valid token; `""` if none is sent."""
        return "" if self.anonymous else await self.tokens.token()

    def headers(self, token: str) -> dict[str, str]:
        """Return the headers of every request."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if self._payer is not None:
            headers["x-goog-user-project"] = self._payer
        return headers

    def _template(self, token: str, as_stored: bool) -> RequestTemplate:
        made = self._templates.get(as_stored)
        if made is None or made[0] != token:
            headers = {"Accept-Encoding": "gzip" if as_stored else "identity", **self.headers(token)}
            made = self._templates[as_stored] = (token, RequestTemplate(self.endpoint.web.authority, headers))
        return made[1]

    def upload_client(self) -> UploadClient:
        """Return the running loop's client for requests with a body."""
        from aiozarr.stores.gcs.upload_client import UploadClient

        endpoint = self.sender.endpoint
        return acquire(self.sender, ("gcs uploads", endpoint), lambda loop: UploadClient(endpoint))
