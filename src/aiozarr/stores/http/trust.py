"""Which certificates of servers are believed."""

from __future__ import annotations

import functools
import ssl

from aiozarr.stores.options.http import HTTPOptions


def context_for(options: HTTPOptions) -> ssl.SSLContext | None:
    """Return how certificates are checked; None: in the usual way, by the system's certificates and the host's name.

    Raises:
        ValueError: the certificates that were given cannot be read.
    """
    if options.ssl_context is not None:
        return options.ssl_context
    if not options.root_certificate and not options.allow_invalid_certificates:
        return None
    return _made(options.root_certificate or "", bool(options.allow_invalid_certificates))


@functools.lru_cache(64)  # stores with the same context share connections
def _made(roots: str, unchecked: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if roots:
        try:
            context.load_verify_locations(cadata=roots)
        except (ssl.SSLError, ValueError):
            raise ValueError("the storage option 'root_certificate' holds no certificates in PEM") from None
        # 3.13 asks for extensions that private authorities leave out.
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if unchecked:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
