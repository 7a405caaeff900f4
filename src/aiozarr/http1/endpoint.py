"""The address of a server and the limits of connections to it."""

from __future__ import annotations

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
