"""Sends requests to one endpoint: over pooled connections, or by aiohttp for proxies, redirects and encodings.

This is the only place that sends. A store authorises a `Request` and interprets the `Response`. Connection pools are
resources of one event loop, shared by their users and closed with the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import weakref
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from aiozarr.http1.connection import Connection, Response, ResponseReceiver
from aiozarr.http1.pool import Pool
from aiozarr.http1.request import RequestTemplate
from aiozarr.http1.response_check import Expectation, NeedsFallback
from aiozarr.http1.url import REDIRECTS, CredentialsOf, Endpoint, Proxies, WebAddress, location_of

if TYPE_CHECKING:
    from aiozarr.http1.request import PieceReader


class LoopResource(Protocol):
    """Something that holds connections of one loop."""

    closed: bool

    async def aclose(self) -> None: ...


R = TypeVar("R", bound=LoopResource)


class _SharedResource:
    """A resource and its users; the release of the last one closes it."""

    def __init__(self, resource: LoopResource) -> None:
        self.resource = resource
        # By id, because stores with the same values are equal, and yet separate users.
        self.users: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class _LoopResources:
    def __init__(self) -> None:
        self.shared: dict[Hashable, _SharedResource] = {}
        self._guard = self._close_with_the_loop()
        # Starting an asynchronous generator registers it with the running loop, and `asyncio.run` closes the
        # registered ones before the loop: the one moment in which connections can still be closed properly.
        with contextlib.suppress(StopIteration):
            self._guard.__anext__().send(None)

    async def _close_with_the_loop(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self.aclose()
            _by_loop.pop(asyncio.get_running_loop(), None)

    async def aclose(self) -> None:
        while self.shared:
            _, shared = self.shared.popitem()
            await shared.resource.aclose()


_by_loop: dict[asyncio.AbstractEventLoop, _LoopResources] = {}


def acquire(user: object, key: Hashable, make: Callable[[asyncio.AbstractEventLoop], R]) -> R:
    """Return the running loop's resource `key`, made if there is none, and register `user` as one of its users."""
    loop = asyncio.get_running_loop()
    resources = _by_loop.get(loop)
    if resources is None:
        resources = _LoopResources()
        for other in list(_by_loop):  # a copy: other threads have loops of their own
            if other.is_closed():
                _by_loop.pop(other, None)
        _by_loop[loop] = resources
    shared = resources.shared.get(key)
    if shared is None or shared.resource.closed:
        shared = resources.shared[key] = _SharedResource(make(loop))
    shared.users[id(user)] = user
    return shared.resource  # type: ignore[return-value]  # a key names one type of resource


async def release(user: object) -> None:
    """Release the resources that `user` acquired on the running loop, and close those without another user."""
    resources = _by_loop.get(asyncio.get_running_loop())
    if resources is None:
        return
    for key, shared in list(resources.shared.items()):
        if shared.users.pop(id(user), None) is not None and not shared.users:
            del resources.shared[key]
            await shared.resource.aclose()


_parents_resources: list[dict[asyncio.AbstractEventLoop, _LoopResources]] = []


def _after_fork() -> None:
    """Keep the parent's connections open in the child: closing them would send the servers an end of TLS."""
    for resources in _by_loop.values():
        for shared in resources.shared.values():
            shared.resource.closed = True
    _parents_resources.append(dict(_by_loop))
    _by_loop.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

_ENVIRONMENT_PROXIES = Proxies()
_NO_BODY = memoryview(b"")
_CONDITIONS = frozenset({"if-match", "if-none-match"})

ONE_WRITE_BYTES = 64 << 10
"""Most systems take a write of this size without waiting: such a body is sent together with its head."""


@dataclass(slots=True, eq=False, repr=False)
class Request:
    """One authorised request.

    Attributes:
        sender: sends it.
        method: the HTTP method.
        key: the object that it is about, as the store's client names it; `""` for a listing.
        target: path and query, percent-encoded.
        template: the headers of all requests to the server.
        expectation: the response that is wanted; its range and its conditions become headers.
        token: the credential that authorises it, if the server may refuse that as expired.
        headers: further headers. If there are some, a redirect to another origin is refused: its server must not
            receive them, and without them the request would mean something else.
        body: contiguous bytes that do not change until the response has come, or their reader; None: no body.
    """

    sender: EndpointClient
    method: str
    key: str
    target: str
    template: RequestTemplate
    expectation: Expectation
    token: object = None
    headers: Mapping[str, str] | None = None
    body: memoryview | PieceReader | None = None

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.key!r}>"  # the target may hold a signature


def is_repeatable(request: Request) -> bool:
    """Return whether a request may be sent again although the server may have carried it out."""
    return request.method != "POST" and _CONDITIONS.isdisjoint(map(str.lower, request.headers or ()))


class ConnectionOptions(Protocol):
    """The options of every kind of store about its connections; None means the default."""

    @property
    def max_connections(self) -> int | None:
        """Connections open at once, for each event loop."""

    @property
    def idle_timeout(self) -> float | None:
        """Seconds without progress after which a request fails."""

    @property
    def connect_timeout(self) -> float | None:
        """Seconds for a connection."""


class EndpointClient:
    """Sends requests to one endpoint, on any running loop. Clients of equal endpoints share connections.

    Attributes:
        endpoint: the server, and how to connect to it.
        proxied: whether requests go through a proxy.
    """

    def __init__(
        self,
        address: WebAddress,
        options: ConnectionOptions,
        *,
        ssl_context: ssl.SSLContext | None = None,
        proxies: Proxies = _ENVIRONMENT_PROXIES,
        follow_redirects: bool = False,
        credentials_of: CredentialsOf | None = None,
    ) -> None:
        """Describe the client; nothing is connected before the first request.

        Args:
            address: the server.
            options: limits of its connections.
            ssl_context: how certificates are checked; None: in the default way.
            proxies: which proxy a request goes through.
            follow_redirects: follow redirects, and decode encoded bodies. Otherwise an encoded body is the value as it
                was stored.
            credentials_of: returns the user's credentials for another server that a redirect leads to.
        """
        self._address = address
        self.endpoint = Endpoint(
            address.secure,
            address.host,
            address.port,
            ssl_context,
            options.max_connections or Endpoint.max_connections,
            options.idle_timeout or Endpoint.idle_timeout,
            options.connect_timeout or Endpoint.connect_timeout,
        )
        self._proxies = proxies
        self.proxied = proxies.choose(address) is not None
        self._follow_redirects = follow_redirects
        self._credentials_of = credentials_of
        self._current: tuple[asyncio.AbstractEventLoop, Pool] | None = None

    async def send(self, request: Request) -> Response:
        """Send `request` and return the response, after redirects if this client follows them.

        If a kept connection turns out to be closed, the request is sent once more, unless a server that had carried it
        out would refuse the second one: a POST, and a write under a condition.

        Raises:
            StoreError: no valid response came. A request with a body may have been carried out.
        """
        if self.proxied:
            return await self._send_by_fallback(request)
        expectation, body = request.expectation, request.body
        head = request.template.render(request.method, request.target, expectation, request.headers, body)
        repeatable = body is None or is_repeatable(request)
        if isinstance(body, memoryview) and body.nbytes <= ONE_WRITE_BYTES:
            head, body = b"".join((head, body)), None
        response = await self.pool().send(head, expectation, body or _NO_BODY, repeatable=repeatable)
        return await self.resolve(request, response)

    def send_nowait(self, request: Request, receiver: ResponseReceiver) -> Connection | None:
        """Send a GET over an idle connection; `receiver` gets the response, after this call has returned.

        Returns:
            the connection; None if none is idle, and then nothing was sent.
        """
        if self.proxied:
            return None
        expectation = request.expectation
        head = request.template.render(request.method, request.target, expectation, request.headers)
        return self.pool().send_nowait(head, expectation, receiver)

    async def resolve(self, request: Request, response: Response) -> Response:
        """Return what `send` would have returned, given the first response to `request`.

        It follows a redirect, and repeats the request if connections of the pool do not decode the body's encoding.
        """
        if not self._follow_redirects:
            return response
        if response.status in REDIRECTS:
            return await self._send_by_fallback(request, location_of(response))
        if isinstance(response.action, NeedsFallback):
            return await self._send_by_fallback(request)
        return response

    def preconnect(self, requests: int) -> None:
        """Open connections for this many concurrent requests, without waiting for them."""
        if not self.proxied:
            self.pool().preconnect(requests)

    def pool(self) -> Pool:
        """Return the running loop's connections to the endpoint."""
        loop = asyncio.get_running_loop()
        current = self._current
        if current is None or current[0] is not loop or current[1].closed:
            current = self._current = (loop, acquire(self, self.endpoint, lambda loop: Pool(loop, self.endpoint)))
        return current[1]

    async def _send_by_fallback(self, request: Request, location: str | None = None) -> Response:
        # imports aiohttp, which is slow and seldom needed
        from aiozarr.http1.aiohttp_fallback import AiohttpFallback

        key = ("aiohttp", self._follow_redirects, self.endpoint)
        fallback = acquire(self, key, lambda loop: AiohttpFallback(self.endpoint, self._follow_redirects))
        return await fallback.send(
            request.method,
            self._address,
            request.target,
            request.template.headers,
            request.expectation,
            headers=request.headers,
            body=request.body,
            repeatable=is_repeatable(request),
            proxies=self._proxies,
            location=location,
            known=() if location is None else self.pool().addresses,
            credentials_of=self._credentials_of,
        )

    async def aclose(self) -> None:
        """Close the connections of the running loop that no other client uses."""
        await release(self)
