"""URLs of web servers, parsed once: endpoints, proxies, redirects.

An endpoint has the address of a server, the limits of connections to it, and its TLS context. Redirects never lead
from https to http or in a loop, and no credentials go to another origin. Shown forms of URLs hold no secrets.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import os
import re
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import quote, unquote, urljoin, urlsplit

from aiozarr.common.fork_safe import fork_safe_cached_property
from aiozarr.errors import StoreError, UnsupportedOperationError
from aiozarr.http1.connection import Response
from aiozarr.model import is_unicode

MAX_LABEL_LETTERS = 63
"""The longest label of a host name (RFC 1035, section 2.3.4)."""

_PORTS = {"http": 80, "https": 443}

# The characters besides unreserved ones that RFC 3986 allows in paths and queries, and `%`, because the URL is encoded.
_PATH_SAFE = "/%:@!$&'()*+,;=-._~"
_QUERY_SAFE = _PATH_SAFE + "?"


@dataclass(frozen=True)
class WebAddress:
    """The parsed base URL of a store.

    Attributes:
        scheme: `http` or `https`.
        host: the name in ASCII or the address, without the brackets of IPv6.
        port: the TCP port.
        path: percent-encoded, without a slash at its end; `""` for the root.
        query: sent with every key (an access token, a version); a secret. `""` for none.
        user, password: sent as Basic credentials; None for none.
    """

    scheme: str
    host: str
    port: int
    path: str
    query: str
    user: str | None
    password: str | None

    @classmethod
    def parse(cls, url: str) -> WebAddress:
        """Parse `url`.

        Raises:
            ValueError: it is not an http or https URL; the message does not show it.
        """
        if any(ord(character) <= 0x20 or ord(character) == 0x7F for character in url):
            raise ValueError("a URL cannot contain blanks or control characters")
        if not is_unicode(url):
            raise ValueError("a URL must be valid Unicode, without lone surrogates")
        try:
            parts = urlsplit(url)
            port = parts.port
            host = _ascii_host(parts.hostname or "")
        except ValueError as error:
            raise ValueError("not a valid URL: its host or port cannot be read") from error
        if parts.scheme not in _PORTS or not host:
            raise ValueError("not an http:// or https:// URL with a host")
        return cls(
            scheme=parts.scheme,
            host=host,
            port=port if port is not None else _PORTS[parts.scheme],
            path=quote(parts.path.rstrip("/"), safe=_PATH_SAFE),
            query=quote(parts.query, safe=_QUERY_SAFE),
            user=None if parts.username is None else unquote(parts.username),
            password=None if parts.password is None else unquote(parts.password),
        )

    @classmethod
    def of_endpoint(cls, url: str) -> WebAddress:
        """Parse the URL of an object store's server.

        Raises:
            ValueError: as from `parse`, or it holds credentials or a query, which are options.
        """
        web = cls.parse(url)
        if web.user is not None or web.query:
            raise ValueError("the URL of an endpoint cannot contain credentials or a query")
        return web

    @property
    def secure(self) -> bool:
        return self.scheme == "https"

    @property
    def exposed(self) -> bool:
        """Whether requests could be read on their way: there is no TLS, and the host is not this machine."""
        if self.secure:
            return False
        ip = parse_ip(self.host)
        return not (self.host.endswith(".localhost") or self.host == "localhost" if ip is None else ip.is_loopback)

    @property
    def authority(self) -> str:
        """Host and port as in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @fork_safe_cached_property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @fork_safe_cached_property
    def shown(self) -> str:
        """The URL without its secrets."""
        return self.origin + self.path

    @property
    def private(self) -> str:
        """The URL with its secrets, which `parse` reads."""
        userinfo = "" if self.user is None else f"{quote(self.user, safe='')}:{quote(self.password or '', safe='')}@"
        query = f"?{self.query}" if self.query else ""
        return f"{self.scheme}://{userinfo}{self.authority}{self.path}{query}"


def fingerprint(secrets: Mapping[str, str]) -> str:
    """Return a hash that distinguishes sets of secrets without revealing them; `""` for none."""
    if not secrets:
        return ""
    digest = hashlib.sha256()
    for name in sorted(secrets):
        for part in (name.lower(), secrets[name]):
            data = part.encode()
            digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def parse_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that `host` is, or None if it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


# The metadata services of Amazon, Google, Alibaba, Oracle and Azure that are not link-local.
_METADATA_SERVICES = tuple(
    map(ipaddress.ip_network, ("fd00:ec2::/32", "fd20:ce::/32", "100.100.100.200", "192.0.0.192", "168.63.129.16"))
)
# Addresses that releases of Python call global.
_NOT_PUBLIC = tuple(map(ipaddress.ip_network, ("fec0::/10", "192.0.0.0/24", "224.0.0.0/4", "ff00::/8")))
# IPv6 addresses that contain the IPv4 address to which they are translated (RFC 6052, 7915; RFC 8215: local networks).
_TRANSLATED = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "::ffff:0:0:0/96")))
_LOCAL_NAT64 = ipaddress.ip_network("64:ff9b:1::/48")
_COMPATIBLE = ipaddress.ip_network("::/96")


def is_forbidden(address: str, *, public_only: bool) -> bool:
    """Return whether no server, and no document of a stranger, may lead a request to this address.

    Link-local addresses and the metadata services of clouds are forbidden, and with `public_only` all that are not
    public: others belong to this machine or its network.
    """
    for ip in _reached(address.partition("%")[0]):
        if ip.is_link_local or any([ip in network for network in _METADATA_SERVICES]):
            return True
        if public_only and (not ip.is_global or any([ip in network for network in _NOT_PUBLIC])):
            return True
    return False


def literal_address(host: str) -> str | None:
    """Return the address that `host` is in any spelling, such as `0x7f.1`, which systems resolve without a server."""
    if parse_ip(host) is not None:
        return host
    try:
        return socket.inet_ntoa(socket.inet_aton(host.rstrip(".")))
    except (OSError, ValueError):
        return None


def _reached(address: str) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return the IPv4 address inside an IPv6 address (NAT64, 6to4, ...), to which it leads, else the address itself."""
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv4Address):
        return [ip]
    last = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    if ip in _LOCAL_NAT64:  # RFC 6052, section 2.2: behind 48, 56, 64 or 96 bits, around a byte of zeros
        joined = int(ip) >> 64 << 56 | int(ip) & (1 << 56) - 1
        return [last, *[ipaddress.IPv4Address(joined >> 88 - bits & 0xFFFFFFFF) for bits in (48, 56, 64)]]
    if any([ip in network for network in _TRANSLATED]) or (ip in _COMPATIBLE and int(ip) > 0xFFFF):
        return [last]
    return [ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else ip)]


def _ascii_host(host: str) -> str:
    if host.isascii() and all(0 < len(label) <= MAX_LABEL_LETTERS for label in host.split(".")):
        return host.lower()  # the codec checks no more, and takes 2 ms to import
    # Such names are encoded too: one that fails here would fail in the resolver with an error that is no OSError.
    ascii_host = host.encode("idna").decode("ascii")
    return host.lower() if host.isascii() else ascii_host


def proxy_for(address: WebAddress) -> str | None:
    """Return the URL of the proxy that the environment names for `address`, or None.

    The variables are `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in either case.
    """
    # Most programs have no proxy, and the module takes 10 ms. On macOS and Windows the system may name one.
    if sys.platform == "linux" and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    named = getproxies()
    proxy = named.get(address.scheme) or named.get("all")
    # NO_PROXY contains IPv6 addresses without the brackets that are needed before a port.
    if not proxy or proxy_bypass(address.authority) or proxy_bypass(address.host):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


@dataclass(frozen=True, slots=True)
class Proxies:
    """The choice of the proxy that a request goes through.

    Attributes:
        given: the URL of a proxy for all requests, which may hold credentials; None: none was given.
        environment: whether to use the proxies of the environment if none was given.
    """

    given: str | None = field(default=None, repr=False)
    environment: bool = True

    def choose(self, address: WebAddress) -> str | None:
        """Return the URL of the proxy for requests to `address`, or None if they go there directly."""
        if self.given is not None:
            return self.given
        return proxy_for(address) if self.environment else None


def usable_proxy(url: str | None) -> str | None:
    """Return `url` if it names a proxy of a supported kind.

    Raises:
        UnsupportedOperationError: it names another kind, such as SOCKS. Bypassing it is the user's decision.
        StoreError: it is not valid; the message does not show it, because it may hold a password.
    """
    if url is None:
        return None
    scheme = url.partition("://")[0].lower()
    if scheme not in _PORTS:
        raise UnsupportedOperationError(
            f"{scheme}:// proxies are not supported, only http:// and https://; exclude hosts with NO_PROXY, or "
            "ignore proxies with trust_env=False"
        )
    try:
        WebAddress.parse(url)
    except ValueError:
        raise StoreError("the URL of the proxy is invalid; expected http://host:port") from None
    return url


@dataclass(frozen=True)
class Endpoint:
    """The server that a pool connects to, and how. Equal endpoints share connections.

    Attributes:
        secure: True for TLS.
        host: a name or an address, without the brackets of IPv6.
        port: the TCP port.
        ssl_context: how certificates are checked; None: by the system's certificates, with the host's name.
        max_connections: connections open at once, as far as open files allow. Further requests wait, first in,
            first out.
        idle_timeout: seconds without progress after which a response is given up.
        connect_timeout: seconds for name resolution, connection and TLS together.
    """

    secure: bool
    host: str
    port: int
    ssl_context: ssl.SSLContext | None = None
    max_connections: int = 1024
    idle_timeout: float = 20.0
    connect_timeout: float = 20.0


def default_ssl_context() -> ssl.SSLContext:
    """Return the context of the process, which also trusts `REQUESTS_CA_BUNDLE`, as requests and google-auth do.

    Raises:
        StoreError: the certificates that the variable names cannot be read.
    """
    return _default_context(os.environ.get("REQUESTS_CA_BUNDLE"))


@functools.lru_cache(8)  # loading the system's certificates takes tens of milliseconds
def _default_context(path: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if path:
        try:
            context.load_verify_locations(**{"capath" if os.path.isdir(path) else "cafile": path})
        except OSError as error:
            raise StoreError(f"the certificates in {path!r} (REQUESTS_CA_BUNDLE) cannot be read") from error
        _allow_private_authorities(context)
    return context


def _allow_private_authorities(context: ssl.SSLContext) -> None:
    """Accept certificates without the extensions that Python 3.13 requires and private authorities leave out."""
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)


def custom_ssl_context(root_certificate: str | None, *, allow_invalid: bool) -> ssl.SSLContext | None:
    """Return a context that deviates from the default one.

    Args:
        root_certificate: certificates in PEM that are trusted in addition to the certificates of the system.
        allow_invalid: check no certificates.

    Returns:
        the context; equal arguments give the same one. None if the arguments ask for the default one.

    Raises:
        ValueError: `root_certificate` holds no certificates.
    """
    if not root_certificate and not allow_invalid:
        return None
    return _make_context(root_certificate or "", allow_invalid)


@functools.lru_cache(64)  # stores with the same context share connections
def _make_context(root_certificate: str, allow_invalid: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if root_certificate:
        try:
            context.load_verify_locations(cadata=root_certificate)
        except (ssl.SSLError, ValueError):
            raise ValueError("the storage option 'root_certificate' contains no PEM certificates") from None
        _allow_private_authorities(context)
    if allow_invalid:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


_AUTHORITY = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?(?://[^/?#]*)?")
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))

CredentialsOf: TypeAlias = Callable[[WebAddress], str | None]
"""Returns the value of the Authorization header for a server; None: there is none."""

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
        start = _AUTHORITY.match(location).end()  # type: ignore[union-attr]  # it matches no letters, too
        # Some servers send blanks and bytes beyond ASCII as they are.
        rest = quote(location[start:].encode("utf-8", "surrogateescape"), safe=_PRINTABLE)
        there = urljoin(url, location[:start] + rest)
        following = WebAddress.parse(there)
    except ValueError:
        raise StoreError("a redirect to something other than an HTTP URL was not followed") from None
    if current.secure and not following.secure:
        raise StoreError("a redirect from https to http was not followed")
    path = following.path + ("/" if there.partition("?")[0].partition("#")[0].endswith("/") else "")
    if following.origin == current.origin and path == current.path + "/":
        raise StoreError("the key names a directory of the server")
    return f"{following.origin}{path}{f'?{following.query}' if following.query else ''}"
