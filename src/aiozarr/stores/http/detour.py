"""The other way to read over HTTP, by aiohttp: redirects, proxies and encoded bodies, which the lane leaves alone."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from urllib.parse import urljoin

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from aiozarr.errors import AiozarrError, ShortReadError, StoreError, StoreTimeoutError
from aiozarr.stores.http.url import WebAddress, proxy_for
from aiozarr.stores.lane.connection import Answer
from aiozarr.stores.lane.judge import NOTE, NOTE_BYTES, Accept, Detour, Verdict, Want, judge, over_limit
from aiozarr.stores.lane.pool import Origin, connect_error, default_ssl_context
from aiozarr.stores.lane.request import USER_AGENT, range_header

MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Detours:
    """An aiohttp session of one event loop, for the requests to one origin that need it."""

    def __init__(self, origin: Origin) -> None:
        self.closed = False
        self._origin = origin
        self._resolver = _GuardedResolver()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=origin.max_connections,
                ssl=origin.ssl_context or default_ssl_context(),
                resolver=self._resolver,
                use_dns_cache=False,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=origin.connect_timeout, sock_read=origin.idle_timeout
            ),
            skip_auto_headers=("Accept-Encoding",),
        )

    async def ask(
        self,
        method: str,
        address: WebAddress,
        target: str,
        secret: Mapping[str, str],
        want: Want,
        *,
        follow: bool = True,
    ) -> Answer:
        """Send a request to `address` and follow where the server sends it, within the rules.

        Args:
            method: GET or HEAD.
            address: whose server; its proxy is taken from the environment.
            target: the path and query.
            secret: headers for this origin only.
            want: what the answer must bring.
            follow: False: a redirect is the answer.

        Raises:
            StoreError: a redirect breaks the rules or ends in a 404, or the exchange failed.
        """
        url = address.origin + target
        for hop in range(MAX_REDIRECTS + 1):
            here = WebAddress.parse(url)
            await self._resolver.permit(address, here, proxied=proxy_for(here) is not None)
            same_origin = here.origin == address.origin
            try:
                answer, location = await self._exchange(method, url, here, secret if same_origin else {}, want)
            except AiozarrError:
                raise
            except (aiohttp.ClientError, OSError) as error:
                raise _translate(error) from error
            if location is None or not follow:
                if hop and answer.status == 404:
                    raise StoreError(
                        "not found, behind a redirect, which does not mean that it is not stored", status=404
                    )
                return answer
            url = _next_url(url, here, location)
        raise StoreError(f"more than {MAX_REDIRECTS} redirects")

    async def _exchange(
        self, method: str, url: str, here: WebAddress, secret: Mapping[str, str], want: Want
    ) -> tuple[Answer, str | None]:
        request = self._session.request(
            method,
            URL(url, encoded=True),
            headers=_headers(secret, want),
            proxy=proxy_for(here),
            allow_redirects=False,
        )
        async with request as response:
            headers = {name.lower(): value for name, value in response.raw_headers}
            if response.status in _REDIRECTS:
                location = response.headers.get("Location")
                if location is None:
                    raise StoreError("a redirect without a place", status=response.status)
                return Answer(response.status, headers, NOTE, b""), location
            verdict = judge(want, response.status, headers)
            if isinstance(verdict, AiozarrError):
                raise verdict
            if isinstance(verdict, Detour):  # the session decodes; what the head says is about the encoded body
                verdict = Accept(limit=want.max_bytes, size=None, exact=None)
            body = b"" if want.head else await _receive(response, verdict)
            return Answer(response.status, headers, verdict, body), None

    async def aclose(self) -> None:
        self.closed = True
        await self._session.close()
        await asyncio.sleep(0)


def _headers(secret: Mapping[str, str], want: Want) -> dict[str, str]:
    headers = {"User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": "identity", **secret}
    asked = range_header(want.range)
    if asked is not None:
        headers["Range"] = asked
    if want.etag is not None and not want.etag.startswith("W/"):
        headers["If-Match"] = want.etag
    return headers


async def _receive(response: aiohttp.ClientResponse, verdict: Verdict) -> bytearray:
    limit = verdict.limit if isinstance(verdict, Accept) else NOTE_BYTES
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > limit:
            if isinstance(verdict, Accept):
                raise over_limit(len(body), limit)
            del body[limit:]
            break
    if isinstance(verdict, Accept) and verdict.exact not in (None, len(body)):
        raise ShortReadError(f"the answer has {len(body)} bytes in place of {verdict.exact}")
    return body


def _translate(error: Exception) -> StoreError:
    """Translate an error of aiohttp. Its own words may hold the URL with its secrets, so they stay in the cause."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return StoreError("the server's certificate is not valid")
        case aiohttp.ClientConnectorError():
            return connect_error(error.os_error)
        case TimeoutError():
            return StoreTimeoutError("no progress within the time allowed")
        case aiohttp.ClientPayloadError():
            return ShortReadError("the connection was closed within the body")
        case aiohttp.InvalidURL() | aiohttp.ClientResponseError():
            return StoreError("the server's answer is not valid HTTP")
        case _:
            return StoreError("the connection failed", retryable=True)


# --- where a redirect may lead -----------------------------------------------------------------------------------


def _next_url(url: str, here: WebAddress, location: str) -> str:
    """Return the URL of the next hop.

    Raises:
        StoreError: it is not HTTP, or less secure than the one before.
    """
    try:
        following = WebAddress.parse(urljoin(url, location))
    except ValueError:
        raise StoreError("a redirect to something that is not HTTP was not followed") from None
    if here.secure and not following.secure:
        raise StoreError("a redirect from https to http was not followed")
    path = following.path + ("/" if urljoin(url, location).partition("?")[0].endswith("/") else "")
    if following.origin == here.origin and path == here.path + "/":
        raise StoreError("the key names a directory of the server")
    query = f"?{following.query}" if following.query else ""
    return f"{following.origin}{path}{query}"


class _GuardedResolver(AbstractResolver):
    """Resolves names, and keeps redirects of public servers away from addresses that are not public.

    Otherwise any server could have this process read from its own machine, network or cloud metadata service.
    """

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()
        self._guarded: set[str] = set()

    async def permit(self, first: WebAddress, here: WebAddress, *, proxied: bool) -> None:
        """Raise `StoreError` if a redirect of `first` may not lead to `here`; a proxy resolves names for us."""
        if here.host == first.host:
            return
        names = not proxied
        if any(ipaddress.ip_address(address).is_global for address in await _addresses(first.host, names)):
            self._guarded.add(here.host)
        for address in await _addresses(here.host, names):
            self._check(here.host, address)

    def _check(self, host: str, address: str) -> None:
        ip = ipaddress.ip_address(address)
        if ip.is_link_local or (host in self._guarded and not ip.is_global):
            raise StoreError("a redirect to an address that is not public was not followed")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        results = await self._resolver.resolve(host, port, family)
        for result in results:
            if host in self._guarded:
                self._check(host, result["host"].partition("%")[0])
        return results

    async def close(self) -> None:
        await self._resolver.close()


async def _addresses(host: str, names: bool) -> list[str]:
    """Return the addresses of `host`; of a name, none unless `names`."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        if not names:
            return []
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise connect_error(error) from error
    return [str(info[4][0]).partition("%")[0] for info in found]
