"""A store's line to one web server: the connections of the running loop, and the long way where a proxy is between."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from aiozarr.stores.http.url import Proxies, WebAddress
from aiozarr.stores.lane import Answer, Connection, Origin, Pool, Reply, RequestTemplate, Want, leave, obtain

if TYPE_CHECKING:
    from aiozarr.stores.http.detour import Detours

_OF_THE_ENVIRONMENT = Proxies()

ONE_WRITE_BYTES = 64 << 10
"""The most that one write of a socket takes without waiting, on most systems: such a body goes with its head."""


class Limits(Protocol):
    """What the options of every kind of server say about its connections; None: as usual."""

    @property
    def max_connections(self) -> int | None:
        """Connections open at once, for each event loop."""

    @property
    def idle_timeout(self) -> float | None:
        """Seconds without progress after which a request fails."""

    @property
    def connect_timeout(self) -> float | None:
        """Seconds for a connection."""


class Line:
    """Sends requests to one server, whichever loop is running; lines to equal origins share connections.

    Attributes:
        origin: whom the line connects to, and how.
        proxied: whether requests go through a proxy.
    """

    def __init__(
        self,
        web: WebAddress,
        limits: Limits,
        *,
        ssl_context: ssl.SSLContext | None = None,
        proxies: Proxies = _OF_THE_ENVIRONMENT,
        raw: bool = False,
    ) -> None:
        """Describe the line; nothing is connected before the first request.

        Args:
            web: the server.
            limits: how many connections there may be, and what they may take.
            ssl_context: how certificates are checked; None: in the usual way.
            proxies: which proxy is asked for what.
            raw: an encoded body is the value as it was stored, also behind a proxy.
        """
        self._web = web
        self.origin = Origin(
            web.secure,
            web.host,
            web.port,
            ssl_context,
            limits.max_connections or Origin.max_connections,
            limits.idle_timeout or Origin.idle_timeout,
            limits.connect_timeout or Origin.connect_timeout,
        )
        self._proxies = proxies
        self.proxied = proxies.choose(web) is not None
        self._raw = raw
        self._here: tuple[asyncio.AbstractEventLoop, Pool] | None = None

    def ask(self, method: str, target: str, want: Want, template: RequestTemplate) -> Coroutine[Any, Any, Answer]:
        """Send a request without a body, whose answer may be a redirect.

        Raises:
            StoreError: no answer came, or one that is no value's.
        """
        if self.proxied:
            return self.detours().ask(
                method, self._web, target, template.headers, want, follow=False, proxies=self._proxies
            )
        request = template.render(method, target, want.range, want.etag, want.generation)
        return self.pool().send(request, want)

    def begin(self, method: str, target: str, want: Want, template: RequestTemplate, reply: Reply) -> Connection | None:
        """As `ask`, by a connection that is at hand, which is returned; None: there is none, and nothing was sent."""
        if self.proxied:
            return None
        request = template.render(method, target, want.range, want.etag, want.generation)
        return self.pool().begin(request, want, reply)

    def prepare(self, requests: int) -> None:
        """Open connections for as many requests at once, without waiting for them."""
        if not self.proxied:
            self.pool().prepare(requests)

    async def put(
        self, target: str, body: memoryview, headers: Mapping[str, str], want: Want, template: RequestTemplate
    ) -> Answer:
        """Put a body, contiguous bytes that do not change meanwhile, and not through a proxy.

        Where a kept connection turns out to be closed, the request is sent once more: it must have no condition.

        Raises:
            StoreError: no answer came, and the body may have been stored.
        """
        head = template.render_put(target, body.nbytes, headers)
        if body.nbytes > ONE_WRITE_BYTES:
            return await self.pool().send(head, want, body)
        return await self.pool().send(b"".join((head, body)), want)

    async def ask_on(
        self, method: str, target: str, want: Want, template: RequestTemplate, location: str | None = None
    ) -> Answer:
        """Send a request the long way, and follow where the server sends it: `location` is where it has already."""
        return await self.detours().ask(
            method, self._web, target, template.headers, want, proxies=self._proxies, location=location
        )

    def pool(self) -> Pool:
        """Return the running loop's connections to the server itself."""
        loop = asyncio.get_running_loop()
        here = self._here
        if here is None or here[0] is not loop or here[1].closed:
            here = self._here = (loop, obtain(self, self.origin, lambda loop: Pool(loop, self.origin)))
        return here[1]

    def detours(self) -> Detours:
        """Return the running loop's session for the long way."""
        from aiozarr.stores.http.detour import Detours  # aiohttp takes a while to import, and is seldom needed

        raw = self._raw
        return obtain(self, ("detours", raw, self.origin), lambda loop: Detours(self.origin, raw=raw))

    async def aclose(self) -> None:
        """Close the connections of the running loop that nobody else uses."""
        await leave(self)
