"""The way of requests without a body to one bucket: the lane, or aiohttp where a proxy stands between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiozarr.errors import UnauthenticatedError
from aiozarr.stores.gcs.address import GcsPlace, Source
from aiozarr.stores.gcs.errors import gcs_error
from aiozarr.stores.gcs.tokens import Tokens
from aiozarr.stores.http.line import Line
from aiozarr.stores.lane import Answer, RequestTemplate, Want, obtain
from aiozarr.stores.options.gcs import GcsOptions

if TYPE_CHECKING:
    from aiozarr.stores.gcs.wire import Wire


class GcsLink:
    """Sends requests, authorised; one that is refused because its token has ended is sent once more, with a new one.

    What is stored compressed would be unpacked by the server for a client that does not accept gzip, and then neither
    be cut by ranges nor have the hash that is told: so objects are asked for as they are stored.
    """

    def __init__(self, place: GcsPlace, options: GcsOptions, source: Source) -> None:
        self.place = place
        self.tokens = Tokens(options, source)
        self._anonymous = source == "anonymous"
        self._payer = options.payer
        self._line = Line(place.web, options, raw=True)
        self._templates: dict[bool, tuple[str, RequestTemplate]] = {}

    def prepare(self, requests: int) -> None:
        """Open connections for so many requests at once, without waiting for them."""
        self._line.prepare(requests)

    async def ask(self, method: str, target: str, want: Want, *, stored: bool = True) -> Answer:
        """Send a request without a body.

        Args:
            method: GET, HEAD or DELETE.
            target: path and query, percent-encoded.
            want: what the answer must bring.
            stored: take an object as it is stored; False: not encoded.

        Raises:
            UnauthenticatedError: there are no credentials, or they are not accepted, new ones neither.
        """
        token = await self.token()
        answer = await self._send(method, target, want, token, stored)
        if answer.status == 401:
            if not self._anonymous and self.tokens.refused(token):
                token = await self.token()
                answer = await self._send(method, target, want, token, stored)
            if answer.status == 401:
                error = gcs_error(401, answer.headers, bytes(answer.body))
                raise error if isinstance(error, UnauthenticatedError) else UnauthenticatedError(str(error))
        return answer

    async def token(self) -> str:
        """Return the token that is sent; `""`: none is."""
        if self._anonymous:
            return ""
        return self.tokens.kept() or await self.tokens.token()

    def headers(self, token: str) -> dict[str, str]:
        """Return what every request carries."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if self._payer is not None:
            headers["x-goog-user-project"] = self._payer
        return headers

    async def _send(self, method: str, target: str, want: Want, token: str, stored: bool) -> Answer:
        made = self._templates.get(stored)
        if made is None or made[0] != token:
            made = (token, RequestTemplate(self.place.web.authority, self._headers_of(token, stored)))
            self._templates[stored] = made
        return await self._line.ask(method, target, want, made[1])

    def _headers_of(self, token: str, stored: bool) -> dict[str, str]:
        return {"Accept-Encoding": "gzip" if stored else "identity", **self.headers(token)}

    # --- connections ---------------------------------------------------------------------------------------------

    def wire(self) -> Wire:
        """Return the running loop's session for requests with a body."""
        from aiozarr.stores.gcs.wire import Wire

        origin = self._line.origin
        return obtain(self._line, ("gcs wire", origin), lambda loop: Wire(origin))

    async def aclose(self) -> None:
        """Close the connections of the running loop that nobody else uses."""
        await self._line.aclose()
