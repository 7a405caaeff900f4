"""The store of a plain web server: values are read by GET, and nothing is listed or written.

Whole objects that came in place of ranges are cached for further ranges of the same version.
"""

from __future__ import annotations

import os
import warnings
from base64 import b64encode
from collections.abc import AsyncIterator, Hashable, Mapping
from copy import copy
from dataclasses import fields, replace
from functools import partial
from netrc import NetrcParseError, netrc
from typing import Any, ClassVar
from urllib.parse import unquote

from aiozarr.errors import StoreError, UnauthenticatedError, UnsupportedOperationError
from aiozarr.http1.connection import Response
from aiozarr.http1.endpoint_client import EndpointClient, Request
from aiozarr.http1.request import RequestTemplate, check_headers, quote_key
from aiozarr.http1.response_check import MAX_CUT_BYTES, Accept, Expectation, etag_of
from aiozarr.http1.url import Proxies, WebAddress, custom_ssl_context, fingerprint
from aiozarr.model import Entry, Supports, check_key, resolve_range
from aiozarr.stores.contract import Store, directory_url, with_root
from aiozarr.stores.http.http_options import HTTPOptions, http_options
from aiozarr.stores.http.object_client import ObjectClient
from aiozarr.stores.http.web_store import HEAD_REFUSED, WebStore

# Public containers of Azure are often read by their plain URLs. Azure has no suffix ranges, and ranges without an end
# only in requests that name a version of its protocol.
_AZURE = ".blob.core.windows.net"
_AZURE_VERSION = ("x-ms-version", "2023-11-03")


class HTTPClient(ObjectClient):
    """Authorises and interprets requests for the objects below a base URL, with headers that never change."""

    def __init__(self, address: WebAddress, options: HTTPOptions, headers: Mapping[str, str]) -> None:
        self.sender = EndpointClient(
            address,
            options,
            ssl_context=options.ssl_context
            or custom_ssl_context(options.root_certificate, allow_invalid=bool(options.allow_invalid_certificates)),
            proxies=Proxies(options.proxy, options.trust_env is not False),
            follow_redirects=True,
            credentials_of=partial(_from_netrc, named_only=True) if options.trust_env else None,
        )
        self.template = RequestTemplate(address.authority, headers)
        self._base = f"{address.path}/"
        self._query = f"?{address.query}" if address.query else ""
        self._anonymous = not address.query and not headers.keys() - {"User-Agent", _AZURE_VERSION[0]}
        self._cache = FullObjectCache()

    def at(self, path: str) -> HTTPClient:
        """Return a client for the base URL of another (encoded) path; it shares this one's connections."""
        other = copy(self)
        other._base, other._cache = f"{path}/", FullObjectCache()
        return other

    def authorise(self, method: str, key: str, expectation: Expectation) -> Request | None:
        if self._cache.responses:  # `request` looks it up
            return None
        return Request(self.sender, method, key, self.target_of(key), self.template, expectation)

    async def authorise_later(self, method: str, key: str, expectation: Expectation) -> Request:
        return Request(self.sender, method, key, self.target_of(key), self.template, expectation)

    def target_of(self, key: str) -> str:
        """Return the target of a request for `key`: the encoded path below the base URL, and the query of the URL."""
        return f"{self._base}{quote_key(key)}{self._query}"

    async def request(self, method: str, key: str, expectation: Expectation) -> Response:
        cached = self._cache.find(key, expectation)
        if cached is not None:
            present = await super().request("HEAD", key, Expectation(etag=expectation.etag, head=True))
            if isinstance(present.action, Accept):
                return cached
            if present.status not in HEAD_REFUSED and present.status != 404:  # the GET says what is missing
                return present
        return await super().request(method, key, expectation)

    async def interpret(self, request: Request, response: Response) -> Response:
        self._cache.add(request.key, request.expectation, response)
        return response

    def error(self, response: Response) -> StoreError:
        error = super().error(response)
        if response.status == 401 and self._anonymous and isinstance(error, UnauthenticatedError):
            error.message = "the server requires credentials, and none were given (auth, token, headers)"
        if response.responder is not None:
            error.message += f" (from {response.responder}, after a redirect)"
        return error

    async def aclose(self) -> None:
        self._cache.clear()
        await super().aclose()


class HTTPStore(WebStore[HTTPClient]):
    """Values below a base URL: `key` is read from `url/key`.

    Redirects are followed, never from https to http and never with credentials to another origin. Proxies are taken
    from the environment. A 404 of the object itself means that the value is missing; every other response without a
    value is an error.
    """

    _client_class: ClassVar[type[HTTPClient]] = HTTPClient
    """Authorises requests and interprets responses; a subclass for servers with other rules has its own."""

    def __init__(self, url: str, **storage_options: Any) -> None:
        """Describe the store; nothing is connected before the first read.

        Args:
            url: `http://` or `https://`. `user:password@` is sent as Basic credentials. A query, such as an access
                token, is sent with every key. Neither is ever shown.
            storage_options: see "Storage options" in the documentation, among them `headers`, `auth` (user and
                password), `token` (a bearer token), `proxy`, `ssl_context`, `root_certificate`, `trust_env`,
                `max_connections`, `idle_timeout` and `connect_timeout`; fsspec's names are known too.

        Raises:
            TypeError: an unknown option; the message has the nearest known option.
            ValueError: the URL or an option is not valid, or options contradict each other.
        """
        address = WebAddress.parse(url)
        options = http_options(storage_options)
        if options.allow_http is False and not address.secure:
            raise ValueError("the storage option 'allow_http' is False, but the URL does not use TLS")
        self._address = address
        self._url = directory_url(address.shown)
        self._given = options
        azure = address.host.endswith(_AZURE)
        secret = headers_of(address, options)
        if azure and not any(name.lower() == _AZURE_VERSION[0] for name in secret):
            secret[_AZURE_VERSION[0]] = _AZURE_VERSION[1]
        self._client = self._client_class(address, options, secret)
        self._fingerprint = fingerprint(secret | ({"?": address.query} if address.query else {}))
        self.supports = Supports(conditional_reads=True, suffix_reads=not azure, bounded_reads=True)

    @property
    def url(self) -> str:
        """The base URL, without credentials and query."""
        return self._url

    def url_of(self, path: str) -> str:
        """Return the URL of `path`, percent-encoded, with a slash after `.zip` to show that it is not an archive."""
        return directory_url(f"{self._address.shown}/{quote_key(path)}") if path else self._url

    @property
    def server(self) -> str:
        """Scheme, host and port."""
        return self._address.origin

    @property
    def origin(self) -> Hashable:
        """Scheme, host and port, and an identity of the credentials."""
        return (self._address.origin, self._fingerprint)

    @property
    def identity(self) -> Hashable:
        """The URL, and an identity of the credentials."""
        return (type(self), self._url, self._fingerprint)

    def child_store(self, path: str) -> Store:
        """Return the store at `path` below this store's URL; both share their connections."""
        check_key(path, store=self.url)
        return self._at(f"{self._address.path}/{quote_key(path)}")

    def parent_store(self) -> tuple[Store, str] | None:
        """Return the store of the URL above, if this store's URL has a path; both share their connections."""
        above, _, name = self._address.path.rpartition("/")
        return (self._at(above), unquote(name)) if name else None

    def _at(self, path: str) -> HTTPStore:
        address = replace(self._address, path=path)
        return with_root(self, _address=address, _url=directory_url(address.shown), _client=self._client.at(path))

    def __reduce__(self) -> tuple[Any, ...]:
        # Secrets in options are pickled, because the other process could not find them again.
        given = {item.name: getattr(self._given, item.name) for item in fields(self._given)}
        if given["ssl_context"] is not None:
            raise UnsupportedOperationError(
                "a store with an ssl_context cannot be pickled; use root_certificate, which can, or SSL_CERT_FILE",
                store=self.url,
            )
        return (partial(type(self), self._address.private, **given), (), {"supports": self.supports})

    # --- operations that HTTP does not have ----------------------------------------------------------------------

    def scan(self, prefix: str = "") -> AsyncIterator[Entry]:
        """Raise `UnsupportedOperationError`: HTTP has no listings, and HTML pages of directories are not parsed."""
        raise UnsupportedOperationError(
            "HTTP cannot list keys; open nodes by their paths, or consolidate the metadata where the store can "
            "be listed (aiozarr.consolidate_metadata)",
            store=self.url,
        )


MAX_OBJECTS = 64
"""The most objects that are cached, together no more than `MAX_CUT_BYTES`."""


class FullObjectCache:
    """Caches responses of a server without ranges, so that it does not send a shard again for each of its chunks.

    The cache serves only requests for a certain version, after a HEAD has confirmed it. Threads need no lock, because
    the dictionary is replaced and never changed.

    Attributes:
        responses: the cached responses, by key.
    """

    def __init__(self) -> None:
        self.responses: dict[str, Response] = {}

    def find(self, key: str, expectation: Expectation) -> Response | None:
        """Return the cached response for `expectation`, or None."""
        if not self.responses or expectation.range is None or expectation.etag is None:
            return None
        response = self.responses.get(key)
        return response if response is not None and etag_of(response.headers) == expectation.etag else None

    def add(self, key: str, expectation: Expectation, response: Response) -> None:
        """Add a response if it is a whole object in place of a part of it; the oldest ones are evicted."""
        action = response.action
        if not isinstance(action, Accept) or not action.cut:
            return
        etag = etag_of(response.headers)
        if etag is None or etag.startswith("W/"):
            return
        size = memoryview(response.body).nbytes
        if resolve_range(size, expectation.range) == (0, size):
            return
        responses = {name: each for name, each in self.responses.items() if name != key} | {key: response}
        sizes = {name: memoryview(each.body).nbytes for name, each in responses.items()}
        while len(sizes) > MAX_OBJECTS or sum(sizes.values()) > MAX_CUT_BYTES:
            del sizes[next(iter(sizes))]
        self.responses = {name: responses[name] for name in sizes}

    def clear(self) -> None:
        """Remove all responses."""
        self.responses = {}


# Headers of single requests, and of the connection pool.
_RESERVED = frozenset(
    {"accept-encoding", "connection", "content-length", "expect", "host", "if-match", "range", "transfer-encoding"}
)


def headers_of(address: WebAddress, options: HTTPOptions) -> dict[str, str]:
    """Return the given headers of a store's requests. All of them are secrets.

    Raises:
        ValueError: a header is given twice, cannot be sent, or is reserved; or there are credentials of two kinds. The
            message holds no values.
    """
    headers: dict[str, str] = {}
    for name, value in check_headers(options.headers).items():
        if name.lower() in _RESERVED:
            raise ValueError(f"the header {name!r} is set by the store itself")
        usual = "-".join(part.capitalize() for part in name.split("-"))
        if headers.setdefault(usual, value) != value:
            raise ValueError(f"the header {name!r} is given twice, with different values")
    if options.user_agent is not None and headers.setdefault("User-Agent", options.user_agent) != options.user_agent:
        raise ValueError("the header 'User-Agent' and the storage option 'user_agent' contradict each other")
    authorization = _authorization(address, options, headers.get("Authorization"))
    if authorization is not None:
        headers["Authorization"] = authorization
    return check_headers(headers)


def basic_credentials(user: str, password: str, encoding: str = "utf-8") -> str:
    """Return the value of an Authorization header (RFC 7617).

    Raises:
        ValueError: the user name holds a colon, or user or password cannot be encoded.
    """
    if ":" in user:
        raise ValueError("the user name of basic authentication cannot contain a colon")
    try:
        data = f"{user}:{password}".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        raise ValueError("user and password of basic authentication cannot be encoded") from None
    return "Basic " + b64encode(data).decode("ascii")


def _authorization(address: WebAddress, options: HTTPOptions, header: str | None) -> str | None:
    given = {
        "the header 'Authorization'": header,
        "the storage option 'auth'": None if options.auth is None else basic_credentials(*options.auth),
        "the storage option 'token'": None if options.token is None else f"Bearer {options.token}",
        "the URL": None if address.user is None else basic_credentials(address.user, address.password or ""),
    }
    places = [place for place, value in given.items() if value is not None]
    values = {value for value in given.values() if value is not None}
    if len(values) > 1:
        raise ValueError(f"{' and '.join(places)} contain different credentials")
    if values:
        return values.pop()
    return _from_netrc(address) if options.trust_env else None


def _from_netrc(address: WebAddress, *, named_only: bool = False) -> str | None:
    """Return the credentials for the host in the file that `NETRC` names, or in `~/.netrc`.

    `named_only`: not the default entry, which is for all other hosts.
    """
    path = os.environ.get("NETRC") or os.path.expanduser("~/.netrc" if os.name == "posix" else "~/_netrc")
    try:
        entries = netrc(path)
        found = entries.hosts.get(address.host) if named_only else entries.authenticators(address.host)
    except FileNotFoundError:  # of a home directory that does not exist, too
        return None
    except (OSError, NetrcParseError, UnicodeDecodeError) as error:
        warnings.warn(f"{path} cannot be read: {type(error).__name__}", stacklevel=2)
        return None
    if found is None:
        return None
    if address.exposed:
        warnings.warn(f"credentials of {path} are sent to {address.origin} without TLS", stacklevel=2)
    user, account, password = found
    return basic_credentials(user or account or "", password or "")
