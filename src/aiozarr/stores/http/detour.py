"""The other way to read over HTTP, by aiohttp: redirects, proxies and encoded bodies, which the lane leaves alone."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Mapping
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from aiozarr.errors import AiozarrError, ShortReadError, StoreError, StoreTimeoutError, UnauthenticatedError
from aiozarr.stores.http.encoding import Decoder, check_end, decode, decoder_for
from aiozarr.stores.http.redirect import REDIRECTS, Trail, location_of
from aiozarr.stores.http.url import Proxies, WebAddress, usable_proxy
from aiozarr.stores.lane.connection import Answer
from aiozarr.stores.lane.dial import connect_error, default_ssl_context
from aiozarr.stores.lane.head import HASHES
from aiozarr.stores.lane.judge import NOTE, NOTE_BYTES, Accept, Detour, Verdict, Want, judge, over_limit
from aiozarr.stores.lane.pool import PROGRESS_BYTES, Origin
from aiozarr.stores.lane.request import USER_AGENT, range_header

_OF_THE_ENVIRONMENT = Proxies()


class Detours:
    """An aiohttp session of one event loop, for the requests to one origin that need it."""

    def __init__(self, origin: Origin, *, raw: bool = False) -> None:
        """Open a session; `raw` says that an encoded body is the value, and is not to be decoded."""
        self.closed = False
        self._origin = origin
        self._raw = raw
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
            auto_decompress=False,  # which takes a body of gzip for whole that is not
            trace_configs=[_clock(origin.idle_timeout)],
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
        proxies: Proxies = _OF_THE_ENVIRONMENT,
        location: str | None = None,
    ) -> Answer:
        """Send a request to `address` and follow where the server sends it, within the rules.

        Args:
            method: GET or HEAD.
            address: whose server.
            target: the path and query.
            secret: headers for this origin only.
            want: what the answer must bring.
            follow: False: a redirect is the answer.
            proxies: which proxy is asked for what.
            location: where the server has sent this request already, which then begins there.

        Raises:
            StoreError: a redirect breaks the rules or ends in a 404, or the exchange failed.
        """
        trail = Trail(address, address.origin + target)
        while True:
            if location is not None:
                trail = trail.to(location)
            proxy = usable_proxy(proxies.choose(trail.here))
            await self._resolver.permit(address, trail.here, proxied=proxy is not None)
            try:
                answer = await self._exchange(method, trail.url, proxy, secret if trail.own else {}, want)
            except AiozarrError:
                raise
            except (aiohttp.ClientError, OSError) as error:
                raise translate(error) from quotable(error)
            if follow and answer.status in REDIRECTS:
                location = location_of(answer)
            elif trail.passed and answer.status == 404:
                raise StoreError(
                    f"not found behind a redirect to {trail.here.origin}, which does not mean that it is not stored: "
                    "open what it leads to by its own URL",
                    status=404,
                )
            else:
                return answer

    async def _exchange(
        self, method: str, url: str, proxy: str | None, secret: Mapping[str, str], want: Want
    ) -> Answer:
        limit = asyncio.timeout(None)  # from when the request is sent: it may wait for a connection as long as it must
        request = self._session.request(
            method,
            URL(url, encoded=True),
            headers=_headers(secret, want),
            proxy=proxy,
            allow_redirects=False,
            trace_request_ctx=limit,
        )
        async with limit, request as response:
            headers = {name.lower(): value for name, value in response.raw_headers}
            if HASHES in headers:
                headers[HASHES] = ",".join(response.headers.getall(HASHES.decode())).encode("latin-1")
            if response.status in REDIRECTS:
                return Answer(response.status, headers, NOTE, b"")
            verdict = judge(want, response.status, headers)
            if isinstance(verdict, AiozarrError):
                raise verdict
            decoder = None if self._raw else decoder_for(headers.get(b"content-encoding", b"").decode("latin-1"))
            if isinstance(verdict, Detour):  # what the head says is about the encoded body
                verdict = Accept(limit=want.max_bytes, size=None, exact=None)
                if not want.head and decoder is None:
                    raise StoreError("the server's answer is encoded in a way that is not known (Content-Encoding)")
            body = b"" if want.head else await _receive(response, verdict, decoder, limit, self._origin.idle_timeout)
            return Answer(response.status, headers, verdict, body)

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
    if want.generation is not None:
        headers["x-goog-if-generation-match"] = want.generation
    return headers


def _clock(seconds: float) -> aiohttp.TraceConfig:
    """Return what gives the head of an answer `seconds`, however it drips, once the request is sent."""

    async def sent(_: aiohttp.ClientSession, context: Any, __: aiohttp.TraceRequestHeadersSentParams) -> None:
        limit: asyncio.Timeout = context.trace_request_ctx
        limit.reschedule(asyncio.get_running_loop().time() + seconds)

    config = aiohttp.TraceConfig()
    config.on_request_headers_sent.append(sent)
    return config


async def _receive(
    response: aiohttp.ClientResponse,
    verdict: Verdict,
    decoder: Decoder | None,
    patience: asyncio.Timeout,
    seconds: float,
) -> bytearray:
    limit = verdict.limit if isinstance(verdict, Accept) else NOTE_BYTES
    body = bytearray()
    progress, loop = 0, asyncio.get_running_loop()
    patience.reschedule(loop.time() + seconds)
    async for part in response.content.iter_any():
        body += part if decoder is None else decode(decoder, part, limit + 1 - len(body))
        if len(body) >= progress + PROGRESS_BYTES:
            progress = len(body)
            patience.reschedule(loop.time() + seconds)
        if len(body) > limit:
            if isinstance(verdict, Accept):
                raise over_limit(len(body), limit)
            del body[limit:]
            break
    if isinstance(verdict, Accept) and decoder is not None:
        check_end(decoder)
    if isinstance(verdict, Accept) and verdict.exact not in (None, len(body)):
        raise ShortReadError(f"the answer has {len(body)} bytes in place of {verdict.exact}")
    return body


def translate(error: Exception) -> StoreError:
    """Translate an error of aiohttp. Its own words may hold the URL with its secrets, so they stay in the cause."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "")
            return StoreError(f"the server's certificate is not valid{reason and f': {reason}'}")
        case aiohttp.ClientHttpProxyError(status=407):
            return UnauthenticatedError("the proxy does not accept the credentials", status=407)
        case aiohttp.ClientHttpProxyError():
            return StoreError("the proxy made no connection", status=error.status, retryable=error.status >= 500)
        case aiohttp.ClientProxyConnectionError():
            return StoreError("no connection to the proxy", retryable=True)
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


def quotable(error: Exception) -> Exception | None:
    """Return `error` as the cause of another one; None where it holds a URL, whose secrets a traceback would show."""
    return None if isinstance(error, aiohttp.ClientResponseError | aiohttp.InvalidURL) else error


# --- where a redirect may lead -----------------------------------------------------------------------------------


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
        if any(_ip(address).is_global for address in await _addresses(first.host, names)):
            self._guarded.add(here.host)
        for address in await _addresses(here.host, names):
            self._check(here.host, address)

    def _check(self, host: str, address: str) -> None:
        ip = _ip(address)
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


def _ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address that is reached: `::ffff:` in front of one of IPv4 leads there, and hides what it is."""
    ip = ipaddress.ip_address(address)
    return (ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None) or ip


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
