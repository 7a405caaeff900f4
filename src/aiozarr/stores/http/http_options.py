"""The storage options of web servers."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiozarr.stores.option_table import Option, OptionTable, option, options_of


@dataclass(frozen=True, slots=True)
class HTTPOptions:
    """The given options of an HTTP store. None means that an option is not given.

    Attributes:
        headers: headers to send with every request, but never to another origin.
        auth: user and password for basic authentication; a third item names their encoding.
        token: a bearer token.
        user_agent: the header `User-Agent`.
        trust_env: `False` ignores the proxies of the environment; `True` also uses the credentials in `~/.netrc`.
        proxy: the URL of a proxy for all requests.
        ssl_context: an `ssl.SSLContext` that checks certificates.
        root_certificate: further authorities to trust, in PEM or as the path of a file.
        allow_invalid_certificates: accept any certificate.
        allow_http: `False` refuses URLs without TLS.
        max_connections: open connections for each event loop; 1024 by default.
        idle_timeout: time without progress after which a request fails; 20 s by default.
        connect_timeout: time to open a connection; 20 s by default.
    """

    headers: Mapping[str, str] = option(
        "mapping", default=dict, shown=False, fsspec=("headers", "client_kwargs.headers"), obstore=("default_headers",)
    )
    auth: tuple[str, str, str] | None = option("any", shown=False, fsspec=("auth", "client_kwargs.auth"))
    token: str | None = option(shown=False, ours_only=True)
    user_agent: str | None = option("words", ours_only=True)
    trust_env: bool | None = option("flag", fsspec=("client_kwargs.trust_env",))
    proxy: str | None = option(shown=False, fsspec=("proxy", "client_kwargs.proxy"), obstore=("proxy_url",))
    ssl_context: ssl.SSLContext | None = option("any", fsspec=("ssl", "ssl_context"))
    root_certificate: str | None = option("any", shown=False, ours_only=True)
    allow_invalid_certificates: bool | None = option("flag", ours_only=True)
    allow_http: bool | None = option("flag", ours_only=True)
    max_connections: int = option("count", default=1024, ours_only=True)
    idle_timeout: float = option("seconds", default=20.0, obstore=("read_timeout",), ours_only=True)
    connect_timeout: float = option("seconds", default=20.0, ours_only=True)


HTTP_TABLE = OptionTable(
    store="an HTTP store",
    options=(
        *options_of(HTTPOptions),
        Option(
            "timeout",
            "any",
            fsspec=("timeout", "client_kwargs.timeout"),
            about="aiohttp's `ClientTimeout`, or seconds; an upper limit of the other two",
        ),
        Option("verify_ssl", "flag", about="`False` accepts any certificate, as `ssl=False`"),
    ),
    nested=("client_kwargs",),
    without_effect="block_size cache_options cache_type encoded same_scheme simple_links size_policy",
)


_SECONDS = OptionTable("an HTTP store", (Option("timeout", "seconds"),))


def http_options(given: Mapping[str, Any]) -> HTTPOptions:
    """Translate `storage_options` of an HTTP store.

    Options may also be in `client_kwargs`, as fsspec passes them to aiohttp. None counts as not given.

    Raises:
        TypeError: an unknown option, or a value of the wrong type; the message has the nearest known option.
        ValueError: one option is given twice with different values, or options contradict each other.
    """
    found = HTTP_TABLE.translate(given)
    if "headers" in found:
        found["headers"] = {name: _text(value, "headers") for name, value in found["headers"].items()}
    if "auth" in found:
        found["auth"] = _pair(found["auth"])
    if "root_certificate" in found:
        found["root_certificate"] = _certificate(found["root_certificate"])
    if "timeout" in found:
        _merge_timeouts(found)
    for name in ("verify_ssl", "ssl_context"):  # aiohttp's names of the opposite
        if isinstance(checked := found.get(name), bool):
            del found[name]
            if found.setdefault("allow_invalid_certificates", not checked) == checked:
                raise ValueError("the storage options 'ssl' and 'allow_invalid_certificates' contradict each other")
    if not isinstance(found.get("ssl_context"), ssl.SSLContext | None):
        raise TypeError("the storage option 'ssl_context' must be an ssl.SSLContext")
    options = HTTPOptions(**found)
    if options.ssl_context is not None and (options.root_certificate or options.allow_invalid_certificates):
        raise ValueError("the storage option 'ssl_context' cannot be combined with other certificate options")
    return options


def _pair(auth: object) -> tuple[str, str, str]:
    """Return user, password and encoding from a pair, or from aiohttp's `BasicAuth`."""
    match auth:
        case (str(user), str(password)):
            return user, password, "utf-8"
        case (str(user), str(password), str(encoding)):
            return user, password, encoding
    raise TypeError("the storage option 'auth' must be a pair of user and password")


def _certificate(value: object) -> str:
    if value == "":
        raise ValueError("the storage option 'root_certificate' is empty")
    if isinstance(value, os.PathLike) or (isinstance(value, str) and "-----BEGIN" not in value):
        with open(value, encoding="ascii") as file:
            return file.read()
    return _text(value, "root_certificate")


def _text(value: object, name: str) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if not isinstance(value, str):
        raise TypeError(f"the storage option {name!r} must contain str, not {type(value).__name__}")
    return value


def _merge_timeouts(found: dict[str, Any]) -> None:
    """Convert aiohttp's `ClientTimeout`, or seconds for a whole request, to the closest options.

    A slow request does not fail while it makes progress. Without progress, it fails after the seconds of a whole
    request.
    """
    timeout = found.pop("timeout")
    if hasattr(timeout, "sock_read"):
        total, idle, connect = timeout.total, timeout.sock_read, timeout.sock_connect or timeout.connect
    else:
        total, idle, connect = timeout, None, None
    for name, value in (("idle_timeout", idle), ("connect_timeout", connect)):
        seconds = [_SECONDS.translate({"timeout": each})["timeout"] for each in (value, total) if each]
        present = found.get(name, HTTPOptions.__dataclass_fields__[name].default)
        found[name] = min([value or present, *seconds]) if seconds else present
