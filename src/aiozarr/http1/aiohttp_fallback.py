"""The fallback to aiohttp for redirects, proxies and encoded bodies, which the pool's connections do not handle."""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, AbstractStreamWriter, ResolveResult
from aiohttp.payload import Payload
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from aiozarr.errors import AiozarrError, ShortReadError, StoreError, StoreTimeoutError, UnauthenticatedError
from aiozarr.http1.connect import connect_error
from aiozarr.http1.connection import Response
from aiozarr.http1.pool import PIECE_BYTES, PROGRESS_BYTES, SLOWEST_BYTES_PER_SECOND
from aiozarr.http1.request import USER_AGENT, PieceReader, conditional_headers
from aiozarr.http1.response_check import (
    JOINED_HEADERS,
    MAX_ERROR_BODY_BYTES,
    NO_VALUE,
    Accept,
    Expectation,
    NeedsFallback,
    ResponseAction,
    check_response,
    content_encoding,
    over_limit,
)
from aiozarr.http1.url import (
    REDIRECTS,
    CredentialsOf,
    Endpoint,
    Proxies,
    RedirectChain,
    WebAddress,
    default_ssl_context,
    is_forbidden,
    literal_address,
    location_of,
    usable_proxy,
)


class AiohttpFallback:
    """An aiohttp session of one event loop, for one endpoint."""

    def __init__(self, endpoint: Endpoint, follow_redirects: bool) -> None:
        """Open a session that follows redirects and decodes encoded bodies, or does neither."""
        self.closed = False
        self._endpoint = endpoint
        self._follow_redirects = follow_redirects
        self._resolver = _GuardedResolver()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=endpoint.max_connections,
                ssl=endpoint.ssl_context or default_ssl_context(),
                resolver=self._resolver,
                use_dns_cache=False,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=endpoint.connect_timeout, sock_read=endpoint.idle_timeout
            ),
            skip_auto_headers=("Accept-Encoding",),
            auto_decompress=False,  # it accepts a truncated gzip body as complete
            trace_configs=[_head_timeout(endpoint.idle_timeout)],
        )

    async def send(
        self,
        method: str,
        address: WebAddress,
        target: str,
        own_headers: Mapping[str, str],
        expectation: Expectation,
        *,
        headers: Mapping[str, str] | None = None,
        body: memoryview | PieceReader | None = None,
        repeatable: bool,
        proxies: Proxies,
        location: str | None = None,
        known: Sequence[str] = (),
        credentials_of: CredentialsOf | None = None,
    ) -> Response:
        """Send a request to `address`, and follow its redirects within the rules.

        Args:
            method: the HTTP method.
            address: the server.
            target: path and query.
            own_headers: headers for the origin of `address` only, such as credentials.
            expectation: the response that is wanted.
            headers: further headers, without which the request would mean something else; they stay with that origin.
            body: the body, which is sent to `address` only; a request that has one follows no redirect.
            repeatable: whether the body may be sent again if a kept connection turns out to be closed.
            proxies: which proxy a request goes through.
            location: the location of a redirect that was already received; the request begins there.
            known: the addresses of the server that sent it.
            credentials_of: returns the user's credentials for another server that a redirect leads to.

        Raises:
            StoreError: a redirect breaks the rules or ends in a 404, or the exchange failed.
        """
        chain = RedirectChain(address, address.origin + target)
        content = None if body is None else _RequestBody(body, repeatable)
        while True:
            if location is not None:
                chain = chain.followed(location)
            proxy = usable_proxy(proxies.choose(chain.address))
            if chain.visited:
                await self._resolver.permit(address, chain.address, proxied=proxy is not None, known=known)
            if headers and not chain.same_origin:
                raise StoreError(
                    "a redirect to another server was not followed: the request's headers are not meant for it"
                )
            sent = {**own_headers, **(headers or {})} if chain.same_origin else {}
            if credentials_of is not None and chain.address.host != address.host:
                found = credentials_of(chain.address)
                sent = sent if found is None else {"Authorization": found}
            try:
                response = await self._exchange(method, chain.url, proxy, sent, expectation, content)
            except AiozarrError:
                raise
            except (aiohttp.ClientError, OSError) as error:
                raise translate(error) from quotable(error)
            if self._follow_redirects and body is None and response.status in REDIRECTS:
                location = location_of(response)
            elif chain.visited and response.status == 404:
                raise StoreError(
                    f"not found after a redirect to {chain.address.origin}, which may mean another object: open "
                    "the target of the redirect with its own URL",
                    status=404,
                )
            else:
                response.responder = None if chain.same_origin else chain.address.origin
                return response

    async def _exchange(
        self,
        method: str,
        url: str,
        proxy: str | None,
        own_headers: Mapping[str, str],
        expectation: Expectation,
        content: _RequestBody | None,
    ) -> Response:
        nbytes = 0 if content is None else content.nbytes
        limit = asyncio.timeout(None)  # set after the request was sent, because the wait for a connection has no limit
        headers = {"User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": "identity", **own_headers}
        if content is not None:
            headers["Content-Length"] = str(nbytes)
        request = self._session.request(
            method,
            URL(url, encoded=True),
            headers=headers | conditional_headers(expectation),
            data=content,
            proxy=proxy,
            allow_redirects=False,
            trace_request_ctx=(limit, nbytes / SLOWEST_BYTES_PER_SECOND),
        )
        async with limit, request as received:
            head = {name.lower(): value for name, value in received.raw_headers}
            for name in JOINED_HEADERS:
                if name in head:
                    head[name] = ",".join(received.headers.getall(name.decode())).encode("latin-1")
            if received.status in REDIRECTS:
                return Response(received.status, head, NO_VALUE, b"")
            action = check_response(expectation, received.status, head)
            if isinstance(action, AiozarrError):
                raise action
            if isinstance(action, NeedsFallback):  # the lengths in the head are those of the encoded body
                action = Accept(limit=expectation.max_bytes, size=None, exact=None)
            if expectation.head:
                return Response(received.status, head, action, b"")
            is_decoded = isinstance(action, Accept) and self._follow_redirects
            decoder = _decoder_for(content_encoding(head)) if is_decoded else None
            body = await _receive(received, action, decoder, limit, self._endpoint.idle_timeout)
            return Response(received.status, head, action, body)

    async def aclose(self) -> None:
        self.closed = True
        await self._session.close()
        await asyncio.sleep(0)


def _head_timeout(seconds: float) -> aiohttp.TraceConfig:
    """Return a trace that limits the time from a sent head to the complete head of the response.

    The context of each request is its timeout, and the additional seconds that its body may take.
    """

    async def sent(_: aiohttp.ClientSession, context: Any, __: aiohttp.TraceRequestHeadersSentParams) -> None:
        limit, further = context.trace_request_ctx
        limit.reschedule(asyncio.get_running_loop().time() + seconds + further)

    config = aiohttp.TraceConfig()
    config.on_request_headers_sent.append(sent)
    return config


class _RequestBody(Payload):
    """A body that is sent in pieces, and again on a new connection only if it is `repeatable`."""

    def __init__(self, body: memoryview | PieceReader, repeatable: bool) -> None:
        super().__init__(body, content_type="application/octet-stream")
        self._body = body
        self._repeatable, self._may_begin = repeatable, True
        self.nbytes = self._size = body.nbytes

    async def write(self, writer: AbstractStreamWriter) -> None:
        body = self._body
        if not self._may_begin:  # aiohttp repeats a PUT by itself
            raise OSError("the connection was closed before the response")
        self._may_begin = self._repeatable
        for start in range(0, body.nbytes, PIECE_BYTES):
            length = min(PIECE_BYTES, body.nbytes - start)
            if isinstance(body, memoryview):
                await writer.write(body[start : start + length])
            else:
                piece = bytearray(length)
                await body.read_into(start, memoryview(piece))
                await writer.write(piece)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        raise NotImplementedError("a body is bytes, not text")


async def _receive(
    response: aiohttp.ClientResponse,
    action: ResponseAction,
    decoder: _EncodedBody | None,
    deadline: asyncio.Timeout,
    seconds: float,
) -> bytearray:
    limit = action.limit if isinstance(action, Accept) else MAX_ERROR_BODY_BYTES
    body = bytearray()
    progress, loop = 0, asyncio.get_running_loop()
    deadline.reschedule(loop.time() + seconds)
    async for part in response.content.iter_any():
        body += part if decoder is None else decoder.decode(part, limit + 1 - len(body))
        if len(body) >= progress + PROGRESS_BYTES:
            progress = len(body)
            deadline.reschedule(loop.time() + seconds)
        if len(body) > limit:
            if isinstance(action, Accept):
                raise over_limit(len(body), limit)
            del body[limit:]
            break
    if isinstance(action, Accept) and decoder is not None:
        decoder.check_end()
    if isinstance(action, Accept) and action.exact not in (None, len(body)):
        raise ShortReadError(f"the response has {len(body)} bytes instead of {action.exact}")
    return body


def translate(error: Exception) -> StoreError:
    """Translate an error of aiohttp. Its message may hold the URL with its secrets and is not copied."""
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
            return connect_error(error.os_error, error.host, error.port)
        case TimeoutError():
            return StoreTimeoutError("no progress within the time allowed")
        case aiohttp.ClientPayloadError():
            return ShortReadError("the connection was closed within the body")
        case aiohttp.InvalidURL() | aiohttp.ClientResponseError():
            return StoreError("the server's response is not valid HTTP")
        case _:
            return StoreError("the connection failed", retryable=True)


def quotable(error: Exception) -> Exception | None:
    """Return `error` as the cause of another one, or None if it holds a URL, whose secrets a traceback would show."""
    return None if isinstance(error, aiohttp.ClientResponseError | aiohttp.InvalidURL) else error


# --- allowed targets of redirects --------------------------------------------------------------------------------


class _GuardedResolver(AbstractResolver):
    """Resolves names, and refuses redirects to addresses that a server has no business to name.

    These are the cloud's metadata services, for every server, and for public servers all addresses that are not public:
    otherwise a server could make this process read from its own machine or network. The check applies to the addresses
    that a connection uses, so a name that later resolves to another address is refused as well.
    """

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()
        self._targets: set[str] = set()
        self._guarded: set[str] = set()
        self._first: set[str] = set()

    async def permit(self, first: WebAddress, target: WebAddress, *, proxied: bool, known: Sequence[str] = ()) -> None:
        """Raise `StoreError` if a redirect from `first` to `target` is not allowed.

        A proxy resolves names itself, so only literal addresses are checked then, and a server of unknown address
        counts as public.

        Args:
            first: the server that the user named.
            target: the server that is named by the redirect. It may have the same name, and another address since.
            proxied: whether the request goes through a proxy.
            known: the addresses of `first` when it was connected to.
        """
        names = not proxied
        self._targets.add(target.host)
        self._first.update(known or await _addresses(first.host, names))
        if not self._first or not all([is_forbidden(address, public_only=True) for address in self._first]):
            self._guarded.add(target.host)
        for address in await _addresses(target.host, names):
            self._check(target.host, address)

    def _check(self, host: str, address: str) -> None:
        if address not in self._first and is_forbidden(address, public_only=host in self._guarded):
            raise StoreError("a redirect to an address that is not public was not followed")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        results = await self._resolver.resolve(host, port, family)
        for result in results:
            if host in self._targets:
                self._check(host, result["host"])
        return results

    async def close(self) -> None:
        await self._resolver.close()


async def _addresses(host: str, names: bool) -> list[str]:
    """Return the addresses of `host`. A name is resolved only if `names` is True."""
    address = literal_address(host)
    if address is not None or not names:
        return [] if address is None else [address]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise connect_error(error, host, None) from error
    return [str(info[4][0]) for info in found]


class _EncodedBody:
    """Decodes a body in gzip, of one stream or several, or in deflate. An empty body decodes to no bytes."""

    def __init__(self, encoding: str) -> None:
        self._wbits = 0 if encoding == "deflate" else 31
        self._inner: Any = None

    def decode(self, part: bytes, max_bytes: int) -> bytes:
        """Return the decoded bytes of `part`, cut a little beyond `max_bytes` if there are more.

        Raises:
            StoreError: it is not valid in its encoding.
        """
        out = b""
        try:
            while part and len(out) < max_bytes:
                if self._inner is None or self._inner.eof:
                    self._inner = zlib.decompressobj(self._wbits or (15 if part[0] & 15 == 8 else -15))
                out += self._inner.decompress(part, max_bytes - len(out))
                part = self._inner.unused_data
        except zlib.error as error:
            raise StoreError(
                "the server's response cannot be decoded according to its Content-Encoding", retryable=True
            ) from error
        return out

    def check_end(self) -> None:
        """Check that the body is complete. A body that was cut before it was sent still has the announced length.

        Raises:
            ShortReadError: its end is missing.
        """
        if self._inner is not None and not self._inner.eof:
            raise ShortReadError("the encoded body is cut off")


def _decoder_for(encoding: str) -> _EncodedBody | None:
    """Return a decoder for bodies with this `Content-Encoding`; None: it is not needed.

    Raises:
        StoreError: it is another encoding than requests allow.
    """
    if not encoding:
        return None
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise StoreError(
            f"the server sent the Content-Encoding {encoding[:40]!r}, although requests accept no encoding; only "
            "gzip and deflate are decoded"
        )
    return _EncodedBody(encoding)
