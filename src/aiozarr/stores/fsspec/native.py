"""Options of file systems in their own words, with no retries below those of the scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiozarr.stores.fsspec.links import TABLES, Link, out_of_keys
from aiozarr.stores.fsspec.traits import below
from aiozarr.stores.options.gcs import GCS_TABLE
from aiozarr.stores.options.s3 import S3_TABLE

_S3 = frozenset({"s3", "s3a"})

NO_RETRIES = {"total_max_attempts": 1, "mode": "legacy"}
"""botocore's option for the first attempt only. Of other spellings it makes this one, in the very mapping given."""


def native_options(links: Sequence[Link], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` for a chain, the first link first: for each link under its protocol, in its own words.

    What is under a protocol is for its link; anything else is for each link that knows it, and what all know for the
    first. Ours and obstore's names are translated where there is a table for the protocol.

    Raises:
        TypeError: an option that no link knows, or has nothing for, or no mapping under a protocol.
        ValueError: an option is given twice, with different values.
    """
    given = out_of_keys(links, options)
    native = {protocol: _of_one(protocol, own) for protocol, own in given.items()}
    return {protocol: own for protocol, own in native.items() if own}


def with_timeouts(links: Sequence[Link], native: Mapping[str, Any], idle: float, connect: float) -> dict[str, Any]:
    """Return `native` with what makes the file systems that can wait `idle` seconds for progress at most.

    What the user has said about it stays. Others wait as long as they do.
    """
    found = dict(native)
    for link in links:
        own = dict(found.get(link.protocol) or {})
        if TABLES.get(link.protocol) is S3_TABLE:
            config = dict(own.get("config_kwargs") or {})
            own["config_kwargs"] = {"read_timeout": idle, "connect_timeout": connect, **config}
        elif TABLES.get(link.protocol) is GCS_TABLE:
            own.setdefault("requests_timeout", _of_aiohttp(idle, connect))
        elif link.kind.__module__ == "fsspec.implementations.http":
            if "timeout" not in own:
                own["client_kwargs"] = {"timeout": _of_aiohttp(idle, connect), **(own.get("client_kwargs") or {})}
        elif "timeout" in link.names:
            own.setdefault("timeout", idle)
        if own:
            found[link.protocol] = own
    return found


def _of_aiohttp(idle: float, connect: float) -> Any:
    import aiohttp

    return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=idle)


def _of_one(protocol: str, options: Mapping[str, Any]) -> dict[str, Any]:
    table = TABLES.get(protocol)
    if table is GCS_TABLE and options.get("anon") is not None:
        given = dict(options)
        anonymous = GCS_TABLE.translate({"anon": given.pop("anon")})["anon"]
        options = {**given, "token": "anon"} if anonymous else given  # as gcsfs says it
    native = dict(options) if table is None else table.to_fsspec(options)
    if protocol in _S3:
        config = dict(native.get("config_kwargs") or {})
        config.setdefault("retries", dict(NO_RETRIES))
        native["config_kwargs"] = config
    return native


def try_once(fs: Any) -> Any:
    """Make s3fs, which repeats requests besides botocore, try once where botocore does; return `fs`.

    The instance is the one that is made with this option, which nobody else asks fsspec for.
    """
    inner = fs
    while inner is not None:
        if type(inner).__module__.startswith("s3fs") and inner.config_kwargs.get("retries") == NO_RETRIES:
            inner.retries = 1
        inner = below(inner)
    return fs
