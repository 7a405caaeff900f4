"""The address of a server, the limits of connections to it, and TLS contexts."""

from __future__ import annotations

import functools
import ssl
from dataclasses import dataclass


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


@functools.cache
def default_ssl_context() -> ssl.SSLContext:
    """Return the context of the process: loading the system's certificates takes tens of milliseconds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def custom_ssl_context(root_certificate: str | None, *, allow_invalid: bool) -> ssl.SSLContext | None:
    """Return a context that deviates from the default one.

    Args:
        root_certificate: certificates in PEM that are trusted besides those of the system.
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
            raise ValueError("the storage option 'root_certificate' holds no certificates in PEM") from None
        # Python 3.13 requires extensions that private authorities leave out.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if allow_invalid:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
