"""The headers of all requests of an HTTP store, with its credentials."""

from __future__ import annotations

import os
import warnings
from base64 import b64encode
from netrc import NetrcParseError, netrc
from pathlib import Path

from aiozarr.http1.request import check_headers
from aiozarr.http1.url import WebAddress
from aiozarr.stores.options.http_options import HTTPOptions

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
        raise ValueError("a user of basic authentication holds no colon")
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
        raise ValueError(f"{' and '.join(places)} hold different credentials")
    if values:
        return values.pop()
    return _from_netrc(address) if options.trust_env else None


def _from_netrc(address: WebAddress) -> str | None:
    """Return the credentials for the host in the file that `NETRC` names, or in `~/.netrc`."""
    path = Path(os.environ.get("NETRC") or Path.home() / (".netrc" if os.name == "posix" else "_netrc"))
    try:
        found = netrc(str(path)).authenticators(address.host)
    except FileNotFoundError:
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
