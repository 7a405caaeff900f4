"""The rules for redirects: never from https to http, never in a loop, and no credentials for another origin."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urljoin

from aiozarr.errors import StoreError
from aiozarr.http1.connection import Response
from aiozarr.http1.url import WebAddress

MAX_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True)
class RedirectChain:
    """The URLs of one request that was redirected.

    Attributes:
        start: the server that the request was first sent to.
        url: the URL to which it is sent next.
        visited: the URLs to which it was sent before.
        same_origin: True as long as the request has not left the origin of `start`. After that it carries no
            credentials any more, not even if another server redirects it back.
    """

    start: WebAddress
    url: str
    visited: tuple[str, ...] = ()
    same_origin: bool = True

    @property
    def address(self) -> WebAddress:
        return WebAddress.parse(self.url)

    def followed(self, location: str) -> RedirectChain:
        """Return the chain after one more redirect.

        Raises:
            StoreError: the redirect breaks the rules.
        """
        url = _next_url(self.url, self.address, location)
        visited = (*self.visited, self.url)
        if url in visited:
            raise StoreError("the redirects form a loop")
        if len(visited) > MAX_REDIRECTS:
            raise StoreError(f"more than {MAX_REDIRECTS} redirects")
        return RedirectChain(
            self.start, url, visited, self.same_origin and WebAddress.parse(url).origin == self.start.origin
        )


def location_of(response: Response) -> str:
    """Return the location that a redirect names.

    Raises:
        StoreError: it names none.
    """
    location = response.headers.get(b"location")
    if location is None:
        raise StoreError("a redirect without a Location", status=response.status)
    return location.decode("utf-8", "surrogateescape")


def _next_url(url: str, current: WebAddress, location: str) -> str:
    try:
        there = urljoin(url, location)
        following = WebAddress.parse(there)
    except ValueError:
        raise StoreError("a redirect to something that is not HTTP was not followed") from None
    if current.secure and not following.secure:
        raise StoreError("a redirect from https to http was not followed")
    path = following.path + ("/" if there.partition("?")[0].partition("#")[0].endswith("/") else "")
    if following.origin == current.origin and path == current.path + "/":
        raise StoreError("the key names a directory of the server")
    return f"{following.origin}{path}{f'?{following.query}' if following.query else ''}"
