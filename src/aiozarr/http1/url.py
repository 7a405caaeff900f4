"""URLs of web servers, parsed once, and the proxies for them. Shown forms hold no secrets."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from aiozarr.errors import StoreError, UnsupportedOperationError
from aiozarr.model import is_unicode

MAX_LABEL_LETTERS = 63
"""Of one label of a host name (RFC 1035, section 2.3.4)."""

_PORTS = {"http": 80, "https": 443}

# Besides unreserved characters: those that RFC 3986 allows in paths and queries, and `%`: the URL is encoded already.
_PATH_SAFE = "/%:@!$&'()*+,;=-._~"
_QUERY_SAFE = _PATH_SAFE + "?"


@dataclass(frozen=True, slots=True)
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
            raise ValueError("a URL cannot hold blanks and control characters")
        if not is_unicode(url):
            raise ValueError("a URL is valid Unicode, without lone surrogates")
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
            raise ValueError("an endpoint's URL holds no credentials and no query")
        return web

    @property
    def secure(self) -> bool:
        return self.scheme == "https"

    @property
    def exposed(self) -> bool:
        """Whether requests could be read on their way: there is no TLS, and the host is not this machine."""
        return not self.secure and not _is_this_machine(self.host)

    @property
    def authority(self) -> str:
        """Host and port as they stand in the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
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


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _ascii_host(host: str) -> str:
    if host.isascii() and all(0 < len(label) <= MAX_LABEL_LETTERS for label in host.split(".")):
        return host.lower()  # all that the codec checks; to import it takes 2 ms
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
    # NO_PROXY has addresses of IPv6 without the brackets that they have before a port.
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
            f"the proxy is a {scheme}:// one, and only http:// and https:// ones are used; NO_PROXY excepts hosts, and "
            "trust_env=False does without"
        )
    try:
        WebAddress.parse(url)
    except ValueError:
        raise StoreError("the URL of the proxy cannot be read: http://host:port is wanted") from None
    return url
