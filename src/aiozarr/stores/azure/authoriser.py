"""Authorised requests for one container of Azure Blob Storage, by signature or token.

An account key signs no single requests, but shared access signatures, each for all blobs of a container, one kind of
operation and a limited time ("Create a service SAS" in Azure's documentation). Tokens of a credential object, such as
those of the package azure-identity, are cached while they are valid.
"""

from __future__ import annotations

import inspect
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from hashlib import sha256
from hmac import digest
from typing import Any
from urllib.parse import urlencode

from aiozarr.errors import AiozarrError, UnauthenticatedError
from aiozarr.http1.connection import Response
from aiozarr.http1.endpoint_client import EndpointClient, Request
from aiozarr.http1.request import BodyReader, RequestTemplate, quote_key
from aiozarr.http1.response_check import Expectation
from aiozarr.stores.azure.address import AzureEndpoint
from aiozarr.stores.azure.credentials import AzureCredentials
from aiozarr.stores.http.errors import MIN_SKEW_SECONDS, http_date
from aiozarr.stores.object.bucket_client import SHORT_RESPONSE
from aiozarr.stores.object.listing import MAX_PAGE_BYTES
from aiozarr.stores.object.token_source import TokenSource
from aiozarr.stores.options.azure_options import AzureOptions

VERSION = "2023-11-03"
"""The protocol's version. Anonymous requests without it get that of 2009, signed ones that of their signature."""

_REFUSED = (401, 403)
_PERMISSIONS = {"GET": "r", "HEAD": "r", "DELETE": "d"}
_MAX_TEMPLATES = 5


class AzureAuthoriser:
    """Adds a signature or a token to requests.

    Attributes:
        sender: sends the requests.
        tokens: the source of tokens; None if the credentials are of another kind.
    """

    def __init__(self, endpoint: AzureEndpoint, options: AzureOptions, credentials: AzureCredentials) -> None:
        self.sender = EndpointClient(endpoint.web, options, keep_encoding=True)
        self.tokens = None if credentials.credential is None else AzureTokenSource(credentials.credential)
        self._signatures = (
            ContainerSignatures(endpoint.account, credentials.secret, endpoint.container)
            if credentials.kind == "key"
            else None
        )
        self._web = endpoint.web
        self._query = credentials.secret if credentials.kind == "sas" else ""
        self._token = credentials.secret if credentials.kind == "token" else ""
        self._templates: dict[tuple[bool, str], RequestTemplate] = {}

    def authorise(self, method: str, key: str, expectation: Expectation) -> Request | None:
        """Return a request for `key`, or None if a token has to be awaited."""
        token = self._token if self.tokens is None else self.tokens.cached()
        if token is None:
            return None
        target = f"{self._web.path}/{quote_key(key)}"
        return self._request(method, key, target, expectation, _PERMISSIONS[method], token)

    async def authorise_later(self, method: str, key: str, expectation: Expectation) -> Request:
        """Return a request for `key`, after waiting for a token if necessary.

        Raises:
            UnauthenticatedError: the credential gave no token.
        """
        token = await self._awaited_token()
        target = f"{self._web.path}/{quote_key(key)}"
        return self._request(method, key, target, expectation, _PERMISSIONS[method], token)

    async def authorise_listing(self, query: str) -> Request:
        """Return a request for a page of the container's listing."""
        token = await self._awaited_token()
        expectation = Expectation(max_bytes=MAX_PAGE_BYTES)
        return self._request("GET", "", f"{self._web.path}?{query}", expectation, "l", token)

    async def authorise_write(
        self, key: str, query: str, headers: Mapping[str, str], body: memoryview | BodyReader
    ) -> Request:
        """Return a PUT of `body`, whose meaning is in `query`."""
        token = await self._awaited_token()
        target = f"{self._web.path}/{quote_key(key)}{query}"
        request = self._request("PUT", key, target, SHORT_RESPONSE, "w", token)
        request.headers, request.body = headers, body
        return request

    async def authorise_copy(self, source: AzureAuthoriser, source_key: str, key: str, etag: str | None) -> Request:
        """Return a request for a copy within the account (Azure REST API, "Copy Blob From URL")."""
        token = await self._awaited_token()
        query = source._query if source._signatures is None else source._signatures.query("r")
        url = f"{source._web.origin}{source._web.path}/{quote_key(source_key)}"
        headers = {"x-ms-copy-source": f"{url}?{query}" if query else url, "x-ms-requires-sync": "true"}
        if token:
            headers["x-ms-copy-source-authorization"] = f"Bearer {token}"
        if etag is not None:
            headers["x-ms-source-if-match"] = etag
        return await self.authorise_write(key, "", headers, memoryview(b""))

    def renew(self, request: Request, response: Response) -> bool:
        """Return whether `response` refuses the signature or token of `request`, and there may be another one."""
        if self._signatures is not None:
            return response.status in _REFUSED and self._signatures.renew(
                request.token, http_date(response.headers.get(b"date"))
            )
        if self.tokens is not None and response.status == 401:  # 403 means a valid token without the permission
            self.tokens.record_refusal(request.token)
            return True
        return False

    async def _awaited_token(self) -> str:
        return self._token if self.tokens is None else await self.tokens.token()

    def _request(
        self, method: str, key: str, target: str, expectation: Expectation, permission: str, token: str
    ) -> Request:
        query = self._query if self._signatures is None else self._signatures.query(permission)
        if query:
            target = f"{target}{'&' if '?' in target else '?'}{query}"
        return Request(self.sender, method, key, target, self._template(method, token), expectation, token or query)

    def _template(self, method: str, token: str) -> RequestTemplate:
        template = self._templates.get((method == "DELETE", token))
        if template is None:
            if len(self._templates) >= _MAX_TEMPLATES:  # tokens that have expired
                self._templates.clear()
            template = RequestTemplate(self._web.authority, _headers(method, token))
            self._templates[method == "DELETE", token] = template
        return template


def _headers(method: str, token: str) -> dict[str, str]:
    headers = {"x-ms-version": VERSION}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if method == "DELETE":
        headers["x-ms-delete-snapshots"] = "include"
    return headers


SIGNATURE_VERSION = "2021-12-02"

VALID_SECONDS = 3600
REUSE_SECONDS = 900
"""A signature is used for this long. The clocks may differ by the rest of its validity."""

MIN_AGE_SECONDS = 10
"""A signature that is refused when it is younger was never valid, and a new one would not be."""


def sign_container(account: str, key: str, container: str, permissions: str, expires: float) -> str:
    """Return the query that allows `permissions` on all blobs of `container` until `expires` (seconds since 1970).

    Args:
        account: the account's name, that of its primary region.
        key: the account's key, in base64.
        container: the container's name.
        permissions: `r` to read, `w` to write, `d` to delete, `l` to list; several in the order `racwdxltmeop`.
        expires: the time of its expiry.
    """
    expiry = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(expires))
    # Permissions, start, expiry, resource, identifier, addresses, protocol, version, kind of resource, snapshot,
    # encryption scope, and five headers of the answer.
    fields = [permissions, "", expiry, f"/blob/{account}/{container}", "", "", "", SIGNATURE_VERSION, "c", *[""] * 7]
    signature = b64encode(digest(b64decode(key), "\n".join(fields).encode(), sha256)).decode("ascii")
    return urlencode({"sv": SIGNATURE_VERSION, "se": expiry, "sr": "c", "sp": permissions, "sig": signature})


class ContainerSignatures:
    """The signatures of one container, each renewed every quarter of an hour."""

    def __init__(self, account: str, key: str, container: str) -> None:
        self._account = account.removesuffix("-secondary")
        self._key = key
        self._container = container
        self._signatures: dict[str, tuple[float, str]] = {}
        self._clock_offset = 0.0  # of the server's clock, in seconds

    def query(self, permissions: str) -> str:
        """Return the query that allows `permissions` for a while."""
        cached = self._signatures.get(permissions)
        now = time.monotonic()
        if cached is None or cached[0] + REUSE_SECONDS < now:
            expires = time.time() + self._clock_offset + VALID_SECONDS
            query = sign_container(self._account, self._key, self._container, permissions, expires)
            cached = self._signatures[permissions] = (now, query)
        return cached[1]

    def renew(self, refused: str, server_time: float | None = None) -> bool:
        """Drop the signature `refused`; return False if it was new: another one would be refused as well.

        Args:
            refused: a signature that the server did not accept.
            server_time: the server's time in seconds since 1970, by which signatures are made from now on.
        """
        if server_time is not None and abs(server_time - time.time() - self._clock_offset) >= MIN_SKEW_SECONDS:
            self._clock_offset = server_time - time.time()
            self._signatures.clear()
        for permissions, (made, query) in list(self._signatures.items()):
            if query == refused:
                if time.monotonic() - made < MIN_AGE_SECONDS:
                    return False
                del self._signatures[permissions]
        return True


SCOPE = "https://storage.azure.com/.default"

_NETWORK_ERRORS = frozenset({"ServiceRequestError", "ServiceResponseError"})
"""The errors of Azure's packages for services that do not respond."""


class AzureTokenSource(TokenSource):
    """The tokens of an object with `get_token`, which may be a coroutine function."""

    def __init__(self, credential: Any) -> None:
        super().__init__()
        self._credential = credential

    def _request_token(self) -> tuple[str, float]:
        return self._checked(lambda: self._credential.get_token(SCOPE))

    async def _request_later(self, since: float) -> str:
        get_token = self._credential.get_token
        if not inspect.iscoroutinefunction(get_token):
            return await super()._request_later(since)
        outcome: Future[Any] = Future()
        try:
            outcome.set_result(await get_token(SCOPE))
        except Exception as error:  # raised where the outcome is used
            outcome.set_exception(error)
        return self._renew(since, lambda: self._checked(outcome.result))

    def _checked(self, get_token: Callable[[], Any]) -> tuple[str, float]:
        try:
            found = get_token()
            return str(found.token), time.monotonic() + float(found.expires_on) - time.time()
        except AiozarrError:
            raise
        except Exception as error:  # its package defines its own errors
            failure = getattr(self._credential, "failure", "the credential gave no token")
            raise UnauthenticatedError(failure, retryable=type(error).__name__ in _NETWORK_ERRORS) from error
