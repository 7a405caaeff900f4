"""The way to one container: the lane, with whatever authorises a request, and obstore's clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.stores.azure import through
from aiozarr.stores.azure.access import Access
from aiozarr.stores.azure.address import AzurePlace
from aiozarr.stores.azure.client import make_client
from aiozarr.stores.azure.signature import Signatures
from aiozarr.stores.azure.tokens import Tokens
from aiozarr.stores.http.line import Line
from aiozarr.stores.lane import Answer, RequestTemplate, Want, quote_key
from aiozarr.stores.object.listing import MAX_PAGE_BYTES
from aiozarr.stores.obstore.process import check_process
from aiozarr.stores.options.azure import AzureOptions

if TYPE_CHECKING:
    from obstore.store import AzureStore

VERSION = "2023-11-03"
"""Of the protocol. Without it an anonymous request is answered as in 2009, and a signed one as its signature says."""

_REFUSED = (401, 403)


class AzureLink:
    """Sends requests for blobs of one container, authorised.

    obstore's clients are made on first use: a store that is only described, or only read, survives a fork.
    """

    def __init__(self, place: AzurePlace, options: AzureOptions, access: Access) -> None:
        self.place = place
        self._options = options
        self._access = access
        self._signatures = Signatures(place.account, access.secret, place.container) if access.kind == "key" else None
        self._tokens = Tokens(access.credential) if access.kind == "credential" else None
        self._web = place.web
        self.line = Line(place.web, options, raw=True)
        self._clients: dict[bool, AzureStore] = {}
        self._templates: dict[tuple[bool, str], RequestTemplate] = {}

    def client(self, *, keep_alive: bool = True) -> AzureStore:
        """Return obstore's client; the one without `keep_alive` is for listings, which may be given up at any time.

        Raises:
            ForkedProcessError: it was used in the process that this one is a fork of.
        """
        check_process(f"az://{self.place.container}")
        client = self._clients.get(keep_alive)
        if client is None:
            client = self._clients[keep_alive] = make_client(
                self.place,
                self._options,
                self._access,
                self._tokens,
                self.line.origin.connect_timeout,
                keep_alive=keep_alive,
            )
        return client

    def prepare(self, requests: int) -> None:
        """Open connections for so many requests at once, without waiting for them."""
        if self._access.kind != "chain":
            self.line.prepare(requests)

    async def ask(self, method: str, key: str, want: Want) -> Answer:
        """Send a request for `key`; one whose signature or token has run out meanwhile is sent once more."""
        if self._access.kind == "chain":
            return await through.ask(self.client(), method, key, want, self.line.origin.idle_timeout)
        return await self._send(method, f"{self._web.path}/{quote_key(key)}", want, "d" if method == "DELETE" else "r")

    async def list(self, query: str) -> Answer:
        """Ask the container for a page of its listing, with credentials that are not obstore's own finding."""
        return await self._send("GET", f"{self._web.path}?{query}", Want(max_bytes=MAX_PAGE_BYTES), "l")

    async def _send(self, method: str, target: str, want: Want, permission: str) -> Answer:
        query, token = await self._authorisation(permission)
        answer = await self._send_once(method, target, want, query, token)
        if self._renew(answer.status, query, token):
            query, token = await self._authorisation(permission)
            answer = await self._send_once(method, target, want, query, token)
        return answer

    async def _authorisation(self, permission: str) -> tuple[str, str]:
        """Return the query and the bearer token to send; `""` for none."""
        if self._signatures is not None:
            return self._signatures.query(permission), ""
        if self._tokens is not None:
            return "", await self._tokens.token()
        access = self._access
        return (access.secret if access.kind == "sas" else ""), (access.secret if access.kind == "token" else "")

    def _renew(self, status: int, query: str, token: str) -> bool:
        """Forget what was refused; False where it was not, or there can be no other."""
        if self._signatures is not None:
            return status in _REFUSED and self._signatures.renew(query)
        if self._tokens is not None and status == 401:  # 403 says that the token is good, and not for this
            self._tokens.forget(token)
            return True
        return False

    async def _send_once(self, method: str, target: str, want: Want, query: str, token: str) -> Answer:
        if query:
            target = f"{target}{'&' if '?' in target else '?'}{query}"
        return await self.line.ask(method, target, want, self._template(method, token))

    def _template(self, method: str, token: str) -> RequestTemplate:
        what = (method == "DELETE", token)
        template = self._templates.get(what)
        if template is None:
            if len(self._templates) > 4:  # tokens of earlier hours
                self._templates.clear()
            template = self._templates[what] = RequestTemplate(self._web.authority, _headers(method, token))
        return template

    async def aclose(self) -> None:
        """Close the connections of the running loop that nobody else uses."""
        await self.line.aclose()


def _headers(method: str, token: str) -> dict[str, str]:
    headers = {"x-ms-version": VERSION}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if method == "DELETE":
        headers["x-ms-delete-snapshots"] = "include"
    return headers
