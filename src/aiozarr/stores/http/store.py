"""The store behind a plain web server: values are read by GET, and nothing is listed or written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import quote

from aiozarr.errors import AiozarrError, UnauthenticatedError, UnsupportedOperationError
from aiozarr.model import Entry, Supports
from aiozarr.stores.contract import directory_url
from aiozarr.stores.http.credentials import headers_of
from aiozarr.stores.http.kept import Kept
from aiozarr.stores.http.line import Line
from aiozarr.stores.http.prompt import PromptRead
from aiozarr.stores.http.read import HEAD_REFUSED, WebStore
from aiozarr.stores.http.redirect import REDIRECTS, location_of
from aiozarr.stores.http.trust import context_for
from aiozarr.stores.http.url import Proxies, WebAddress, fingerprint
from aiozarr.stores.lane import Accept, Answer, Connection, Detour, RequestTemplate, Want, quote_key
from aiozarr.stores.options.http import http_options

# Public containers of Azure are often read by their plain URLs. Azure has no suffix ranges, and ranges without an end
# only for those who name a version of its protocol.
_AZURE = ".blob.core.windows.net"
_AZURE_VERSION = ("x-ms-version", "2023-11-03")


class HTTPStore(WebStore):
    """Values below a base URL: `key` is read from `url/key`.

    Redirects are followed, never to a lesser scheme and never with credentials to another origin; proxies are taken
    from the environment. A 404 of the object itself says that the value is missing; whatever else is no value is an
    error.
    """

    def __init__(self, url: str, **storage_options: Any) -> None:
        """Describe the store; nothing is connected before the first read.

        Args:
            url: `http://` or `https://`. `user:password@` is sent as Basic credentials. A query, such as an access
                token, is sent with every key. Neither is ever shown.
            storage_options: see "Storage options" in the documentation, among them `headers`, `auth` (user and
                password), `token` (a bearer token), `proxy`, `ssl_context`, `root_certificate`, `trust_env`,
                `max_connections`, `idle_timeout` and `connect_timeout`; fsspec's and obstore's names are known too.

        Raises:
            TypeError: an unknown option; the message lists the known ones.
            ValueError: the URL or an option cannot be followed, or options contradict each other.
        """
        address = WebAddress.parse(url)
        options = http_options(storage_options)
        if options.allow_http is False and not address.secure:
            raise ValueError("the storage option 'allow_http' is False, and the URL is without TLS")
        self._address = address
        self._given = options
        self._url = directory_url(address.shown)
        azure = address.host.endswith(_AZURE)
        secret = headers_of(address, options)
        if azure and not any(name.lower() == _AZURE_VERSION[0] for name in secret):
            secret[_AZURE_VERSION[0]] = _AZURE_VERSION[1]
        proxies = Proxies(options.proxy, options.trust_env is not False)
        self._line = Line(address, options, ssl_context=context_for(options), proxies=proxies)
        self._template = RequestTemplate(address.authority, secret)
        self._base = address.path + "/"
        self._query = f"?{address.query}" if address.query else ""
        self._kept = Kept()
        self._fingerprint = fingerprint(secret | ({"?": address.query} if address.query else {}))
        self._anonymous = not address.query and not secret.keys() - {"User-Agent", _AZURE_VERSION[0]}
        self.supports = Supports(conditional_reads=True, suffix_reads=not azure)

    @property
    def url(self) -> str:
        """The base URL, without credentials and query."""
        return self._url

    def url_of(self, path: str) -> str:
        """Return the URL of `path`, percent-encoded as in requests; one in `.zip`, with a slash, is no archive's."""
        return directory_url(f"{self._address.shown}/{quote_key(path)}") if path else self._url

    @property
    def origin(self) -> Hashable:
        """Scheme, host and port, and what tells these credentials from others."""
        return (self._address.origin, self._fingerprint)

    @property
    def identity(self) -> Hashable:
        """The URL, and what tells these credentials from others."""
        return (type(self), self.url, self._fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        # The secrets that were given travel: the other side could not find them again.
        given = {item.name: getattr(self._given, item.name) for item in fields(self._given)}
        if given["ssl_context"] is not None:
            raise UnsupportedOperationError(
                "a store with an ssl_context cannot be pickled; root_certificate travels, and SSL_CERT_FILE is "
                "heeded everywhere",
                store=self.url,
            )
        return (_open, (type(self), self._private_url(), given, self.supports))

    def _private_url(self) -> str:
        address = self._address
        userinfo = ""
        if address.user is not None:
            userinfo = f"{quote(address.user, safe='')}:{quote(address.password or '', safe='')}@"
        return f"{address.scheme}://{userinfo}{address.authority}{address.path}{self._query}"

    # --- what a web server does not do ---------------------------------------------------------------------------

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        """Raise `UnsupportedOperationError`: HTTP has no listings, and pages that look like some are not guessed at."""
        raise UnsupportedOperationError(
            "HTTP cannot list: open nodes by their paths, or consolidate the metadata where the store can be listed "
            "(aiozarr.consolidate_metadata), and groups show their nodes here too",
            store=self.url,
        )

    # --- requests ------------------------------------------------------------------------------------------------

    async def _ask(self, method: str, key: str, want: Want) -> Answer:
        kept = self._kept.find(key, want)
        if kept is not None:
            present = await self._send("HEAD", key, Want(etag=want.etag, head=True))
            if isinstance(present.verdict, Accept):
                return kept
            if present.status not in HEAD_REFUSED:
                return present
        answer = await self._send(method, key, want)
        self._kept.keep(key, want, answer)
        return answer

    async def _send(self, method: str, key: str, want: Want) -> Answer:
        target = self._target(key)
        if self._line.proxied:
            return await self._line.ask_on(method, target, want, self._template)
        return await self._arrive(method, target, want, await self._line.ask(method, target, want, self._template))

    async def _arrive(self, method: str, target: str, want: Want, answer: Answer) -> Answer:
        """Return the answer at the end of the way: behind a redirect, or in another form."""
        if answer.status in REDIRECTS:
            return await self._line.ask_on(method, target, want, self._template, location_of(answer))
        if isinstance(answer.verdict, Detour):
            return await self._line.ask_on(method, target, want, self._template)
        return answer

    def _begin(self, key: str, want: Want, read: PromptRead) -> Connection | None:
        # What is kept may save the request.
        return None if self._kept else self._line.begin("GET", self._target(key), want, self._template, read)

    def prepare(self, requests: int) -> None:
        self._line.prepare(requests)

    async def _follow(self, key: str, want: Want, answer: Answer, read: PromptRead) -> Answer:
        answer = await self._arrive("GET", self._target(key), want, answer)
        self._kept.keep(key, want, answer)
        return answer

    def _target(self, key: str) -> str:
        return f"{self._base}{quote_key(key)}{self._query}"

    def _lacks(self, answer: Answer) -> bool:
        return True

    def _error(self, answer: Answer) -> AiozarrError:
        error = super()._error(answer)
        if answer.status == 401 and self._anonymous and isinstance(error, UnauthenticatedError):
            error.message = "the server wants to know who asks, and no credentials were given (auth, token, headers)"
        return error

    async def aclose(self) -> None:
        """Close the connections of the running loop that no other store uses; the store can be used again."""
        self._kept.clear()
        await self._line.aclose()


def _open(kind: type[HTTPStore], url: str, options: Mapping[str, Any], supports: Supports) -> HTTPStore:
    store = kind(url, **options)
    store.supports = supports
    return store
