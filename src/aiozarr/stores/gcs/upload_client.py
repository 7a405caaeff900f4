"""Requests with a body: an aiohttp session that sends memory in slices, without a copy and without repetition."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from yarl import URL

from aiozarr.errors import StoreTimeoutError
from aiozarr.http1.aiohttp_fallback import quotable, translate
from aiozarr.http1.endpoint import Endpoint, default_ssl_context
from aiozarr.http1.pool import SLOWEST_BYTES_PER_SECOND
from aiozarr.http1.request import USER_AGENT
from aiozarr.http1.response_check import MAX_ERROR_BODY_BYTES, Headers
from aiozarr.http1.url import WebAddress, proxy_for, usable_proxy

SLICE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class UploadResponse:
    """A response: status, headers by lower-case name, and the first 64 KiB of the body."""

    status: int
    headers: Headers
    body: bytes


class UploadClient:
    """A session of one event loop. It follows no redirect, and decodes nothing."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.closed = False
        self._idle_timeout = endpoint.idle_timeout
        self._proxies: dict[str, str | None] = {}  # by origin: reading the environment is slow
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=endpoint.max_connections, ssl=endpoint.ssl_context or default_ssl_context()
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=endpoint.connect_timeout, sock_read=endpoint.idle_timeout
            ),
            headers={"User-Agent": USER_AGENT, "Accept": "*/*", "Accept-Encoding": "identity"},
            auto_decompress=False,
        )

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], parts: Sequence[memoryview]
    ) -> UploadResponse:
        """Send a request whose body is the concatenation of `parts`.

        Raises:
            StoreError: no response came; the request may have been carried out.
        """
        body = _UploadBody(parts)
        seconds = self._idle_timeout * 2 + body.nbytes / SLOWEST_BYTES_PER_SECOND
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(method, url, headers, body)
        except TimeoutError as error:
            raise StoreTimeoutError("no response within the time allowed") from error
        except (aiohttp.ClientError, OSError) as error:
            raise translate(error) from quotable(error)

    async def _exchange(self, method: str, url: str, headers: Mapping[str, str], body: _UploadBody) -> UploadResponse:
        request = self._session.request(
            method,
            URL(url, encoded=True),
            data=body if body.nbytes else b"",
            headers={**headers, "Content-Length": str(body.nbytes)},
            proxy=self._proxy(url),
            allow_redirects=False,
        )
        async with request as response:
            received = bytearray()
            async for part in response.content.iter_any():
                received += part
                if len(received) > MAX_ERROR_BODY_BYTES:
                    break
            found = {name.lower(): value for name, value in response.raw_headers}
            return UploadResponse(response.status, found, bytes(received[:MAX_ERROR_BODY_BYTES]))

    def _proxy(self, url: str) -> str | None:
        origin = url[: url.index("/", len("https://"))]
        if origin not in self._proxies:
            self._proxies[origin] = usable_proxy(proxy_for(WebAddress.parse(origin)))
        return self._proxies[origin]

    async def aclose(self) -> None:
        self.closed = True
        await self._session.close()
        await asyncio.sleep(0)


class _UploadBody(Payload):
    """Memory that can be sent again: the session does so if a kept connection turns out to be closed."""

    def __init__(self, parts: Sequence[memoryview]) -> None:
        super().__init__(parts, content_type="application/octet-stream")
        self._parts = parts
        self.nbytes = self._size = sum(part.nbytes for part in parts)

    async def write(self, writer: AbstractStreamWriter) -> None:
        for part in self._parts:
            for start in range(0, part.nbytes, SLICE_BYTES):
                await writer.write(part[start : start + SLICE_BYTES])

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        raise NotImplementedError("a value is not text")
