"""Where a redirect may lead: never to a lesser scheme, never in a circle, and without the credentials elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urljoin

from aiozarr.errors import StoreError
from aiozarr.stores.http.url import WebAddress
from aiozarr.stores.lane.connection import Answer

MAX_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True)
class Trail:
    """The way of one request through redirects.

    Attributes:
        address: whom it was for.
        url: where it is to be sent now.
        passed: the URLs that it has been sent to.
        own: True as long as it has not left the origin of `address`; once it has, it carries credentials no more, even
            where another server sends it back.
    """

    address: WebAddress
    url: str
    passed: tuple[str, ...] = ()
    own: bool = True

    @property
    def here(self) -> WebAddress:
        return WebAddress.parse(self.url)

    def to(self, location: str) -> Trail:
        """Return the trail one redirect further.

        Raises:
            StoreError: the redirect breaks the rules.
        """
        url = _next_url(self.url, self.here, location)
        passed = (*self.passed, self.url)
        if url in passed:
            raise StoreError("the redirects lead in a circle")
        if len(passed) > MAX_REDIRECTS:
            raise StoreError(f"more than {MAX_REDIRECTS} redirects")
        return Trail(self.address, url, passed, self.own and WebAddress.parse(url).origin == self.address.origin)


def location_of(answer: Answer) -> str:
    """Return where a redirect leads, as it says so.

    Raises:
        StoreError: it does not say.
    """
    location = answer.headers.get(b"location")
    if location is None:
        raise StoreError("a redirect without a place", status=answer.status)
    return location.decode("utf-8", "surrogateescape")


def _next_url(url: str, here: WebAddress, location: str) -> str:
    try:
        there = urljoin(url, location)
        following = WebAddress.parse(there)
    except ValueError:
        raise StoreError("a redirect to something that is not HTTP was not followed") from None
    if here.secure and not following.secure:
        raise StoreError("a redirect from https to http was not followed")
    path = following.path + ("/" if there.partition("?")[0].partition("#")[0].endswith("/") else "")
    if following.origin == here.origin and path == here.path + "/":
        raise StoreError("the key names a directory of the server")
    return f"{following.origin}{path}{f'?{following.query}' if following.query else ''}"
