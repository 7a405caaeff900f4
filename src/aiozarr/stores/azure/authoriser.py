"""Authorised requests for one container of Azure Blob Storage, by signature or token."""

from __future__ import annotations

from aiozarr.http1 import EndpointClient, Expectation, Request, RequestTemplate, Response, quote_key
from aiozarr.stores.azure.address import AzureEndpoint
from aiozarr.stores.azure.credentials import AzureCredentials
from aiozarr.stores.azure.signature import ContainerSignatures
from aiozarr.stores.azure.tokens import AzureTokenSource
from aiozarr.stores.object.listing import MAX_PAGE_BYTES
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
        self.tokens = AzureTokenSource(credentials.credential) if credentials.kind == "credential" else None
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
        token = self._token if self.tokens is None else await self.tokens.token()
        target = f"{self._web.path}/{quote_key(key)}"
        return self._request(method, key, target, expectation, _PERMISSIONS[method], token)

    async def authorise_listing(self, query: str) -> Request:
        """Return a request for a page of the container's listing."""
        token = self._token if self.tokens is None else await self.tokens.token()
        expectation = Expectation(max_bytes=MAX_PAGE_BYTES)
        return self._request("GET", "", f"{self._web.path}?{query}", expectation, "l", token)

    async def authorise_copy(self, source: AzureAuthoriser, source_key: str, key: str, etag: str | None) -> Request:
        """Return a request for a copy within the account (Azure REST API, "Copy Blob From URL")."""
        token = self._token if self.tokens is None else await self.tokens.token()
        query = source._query if source._signatures is None else source._signatures.query("r")
        url = f"{source._web.origin}{source._web.path}/{quote_key(source_key)}"
        headers = {"x-ms-copy-source": f"{url}?{query}" if query else url, "x-ms-requires-sync": "true"}
        if token:
            headers["x-ms-copy-source-authorization"] = f"Bearer {token}"
        if etag is not None:
            headers["x-ms-source-if-match"] = etag
        target = f"{self._web.path}/{quote_key(key)}"
        request = self._request("PUT", key, target, Expectation(max_bytes=1 << 20), "w", token)
        request.headers, request.body = headers, memoryview(b"")
        return request

    def renew(self, request: Request, response: Response) -> bool:
        """Return whether `response` refuses the signature or token of `request`, and there may be another one."""
        if self._signatures is not None:
            return response.status in _REFUSED and self._signatures.renew(request.token)
        if self.tokens is not None and response.status == 401:  # 403 means a valid token without the permission
            self.tokens.record_refusal(request.token)
            return True
        return False

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
