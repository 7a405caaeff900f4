"""How obstore's clients are made, for every cloud: no retries, limits of time, and a way to drop listings."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from obstore.store import ClientConfig

REQUEST_TIMEOUT = 86_400.0
"""Seconds for one request of obstore, more than any takes: it cannot watch for progress, and whoever calls it knows how
much there is to send, and sets a limit by that."""

NO_RETRIES = 0
"""The scheduler repeats requests, for all layers."""


def client_options(*, secure: bool, connect_timeout: float, keep_alive: bool = True) -> ClientConfig:
    """Return the options of a client.

    A client that lists must not keep connections: a listing that is given up is dropped where Python drops it, outside
    of the library's own threads; its connection then comes back to the pool there, where the library panics, and the
    client is unusable from then on.
    """
    options: ClientConfig = {
        "allow_http": not secure,
        "connect_timeout": f"{min(max(1, round(connect_timeout * 1000)), 86_400_000)} ms",
        "timeout": f"{REQUEST_TIMEOUT:g} s",
    }
    if not keep_alive:
        options["pool_max_idle_per_host"] = "0"
    return options
