"""The part of a store that knows its server: it authorises requests and interprets responses.

Sending, with a task or without one, and repeating a request that was authorised by an expired credential exist once,
here and in `aiozarr.http1.endpoint_client`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar

from aiozarr.errors import ShortReadError, StoreError
from aiozarr.http1.connection import Response
from aiozarr.http1.endpoint_client import EndpointClient, Request
from aiozarr.http1.response_check import Accept, Expectation, Headers, etag_of
from aiozarr.model import Version
from aiozarr.stores.http.errors import error_for


def is_clipped(error: StoreError) -> bool:
    """Return whether a range was probably clipped to the end of an object of unknown size (`Content-Range: .../*`)."""
    return isinstance(error, ShortReadError) and error.status == 206 and not error.retryable


class ObjectClient(ABC):
    """Authorises requests for the objects of one server, and interprets its responses.

    May be used from any number of loops and threads. Its errors name neither store nor key; the store adds them.

    Attributes:
        keep_encoding: whether an encoded body is the value as it was stored.
        head_identifies_missing: whether the response to a HEAD distinguishes a missing object from a missing bucket.
    """

    keep_encoding: ClassVar[bool] = False
    head_identifies_missing: ClassVar[bool] = True

    @property
    @abstractmethod
    def sender(self) -> EndpointClient:
        """The sender of the next request."""

    # --- authorising ---------------------------------------------------------------------------------------------

    @abstractmethod
    def authorise(self, method: str, key: str, expectation: Expectation) -> Request | None:
        """Return a request for the object `key`.

        Returns:
            the request; None if something has to be awaited first, such as a token. See `authorise_later`.
        """

    async def authorise_later(self, method: str, key: str, expectation: Expectation) -> Request:
        """Return what `authorise` cannot return at once.

        Raises:
            UnauthenticatedError: there are no credentials, or they are not valid.
        """
        raise NotImplementedError  # `authorise` always returns a request

    # --- interpreting --------------------------------------------------------------------------------------------

    def is_value(self, request: Request, response: Response) -> bool:
        """Return whether the body of `response` is the value, without further steps."""
        action = response.action
        return type(action) is Accept and not action.cut

    async def renew_authorisation(self, request: Request, response: Response) -> bool:
        """Return whether `response` refuses the authorisation of `request`, and a new one may be accepted."""
        return False

    async def interpret(self, request: Request, response: Response) -> Response:
        """Return the response to act on, given one that is not a value. It may take further requests.

        Raises:
            StoreError: the server refused for a reason that only this client knows.
        """
        return response

    def can_recover(self, request: Request, error: StoreError) -> bool:
        """Return whether further requests, those of `recover` or of the store, may replace the error of `request`."""
        return is_clipped(error)

    async def recover(self, request: Request, error: StoreError) -> Response:
        """Return a response in place of `error`, or raise it. Called only if `can_recover`."""
        raise error

    def is_missing(self, response: Response) -> bool:
        """Return whether a 404 means that the object is missing (and not its bucket)."""
        return True

    def version(self, headers: Headers) -> Version | None:
        """Return the version of the object from the headers of a response, or None if they contain none."""
        etag = etag_of(headers)
        return None if etag is None else Version(etag)

    def error(self, response: Response) -> StoreError:
        """Return the error for a response without a value."""
        return error_for(response.status, response.headers, bytes(response.body))

    # --- exchanges -----------------------------------------------------------------------------------------------

    async def request(self, method: str, key: str, expectation: Expectation) -> Response:
        """Send a request for the object `key` and return its interpreted response.

        Raises:
            StoreError: no valid response came.
        """
        request = self.authorise(method, key, expectation)
        if request is None:
            request = await self.authorise_later(method, key, expectation)
        try:
            response = await request.sender.send(request)
        except StoreError as error:
            if not self.can_recover(request, error):
                raise
            return await self.recover(request, error)
        if self.is_value(request, response):
            return response
        return await self._conclude(request, response, lambda: self._authorised(method, key, expectation))

    async def exchange(self, authorise: Callable[[], Awaitable[Request]]) -> Response:
        """Send the request that `authorise` returns, such as a listing, and return its interpreted response.

        Args:
            authorise: returns the request; called again if its authorisation was refused and renewed.

        Raises:
            StoreError: no valid response came.
        """
        request = await authorise()
        return await self._conclude(request, await request.sender.send(request), authorise)

    async def resolve(self, request: Request, response: Response) -> Response:
        """Return what `request` would have returned, given the first response to a request sent without a task."""
        response = await request.sender.resolve(request, response)
        if self.is_value(request, response):
            return response
        method, key, expectation = request.method, request.key, request.expectation
        return await self._conclude(request, response, lambda: self._authorised(method, key, expectation))

    async def _conclude(
        self, request: Request, response: Response, authorise: Callable[[], Awaitable[Request]]
    ) -> Response:
        if await self.renew_authorisation(request, response):
            request = await authorise()
            response = await request.sender.send(request)
            if self.is_value(request, response):
                return response
        return await self.interpret(request, response)

    async def _authorised(self, method: str, key: str, expectation: Expectation) -> Request:
        return self.authorise(method, key, expectation) or await self.authorise_later(method, key, expectation)

    async def aclose(self) -> None:
        """Close the connections of the running loop that no other client uses."""
        await self.sender.aclose()
