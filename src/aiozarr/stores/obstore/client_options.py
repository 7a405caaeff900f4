"""Options of obstore's clients for every cloud: no retries, time limits, and listings that can be dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from obstore.store import ClientConfig

REQUEST_TIMEOUT = 86_400.0
"""Seconds for one request of obstore, longer than any takes. obstore does not measure progress. The caller knows how
many bytes are sent, and sets a limit accordingly."""

NO_RETRIES = 0
"""Only the scheduler retries."""


def client_options(*, secure: bool, connect_timeout: float, keep_alive: bool = True) -> ClientConfig:
    """Return the options of a client.

    A client for listings must not keep connections. An abandoned listing is dropped by Python, outside of obstore's
    threads. Its connection would return to the pool there, where obstore panics and becomes unusable.
    """
    options: ClientConfig = {
        "allow_http": not secure,
        "connect_timeout": f"{min(max(1, round(connect_timeout * 1000)), 86_400_000)} ms",
        "timeout": f"{REQUEST_TIMEOUT:g} s",
    }
    if not keep_alive:
        options["pool_max_idle_per_host"] = "0"
    return options
