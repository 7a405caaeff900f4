"""Options under the file systems' own names, with retries switched off: only the scheduler retries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiozarr.stores.fsspec.option_routing import TABLES, ChainLink, split_by_protocol
from aiozarr.stores.fsspec.traits import below
from aiozarr.stores.options.gcs_options import GCS_TABLE
from aiozarr.stores.options.s3_options import S3_TABLE

_S3 = frozenset({"s3", "s3a"})

NO_RETRIES = {"total_max_attempts": 1, "mode": "legacy"}
"""botocore's option for a single attempt. It converts other spellings to this one, in the given mapping."""


def native_options(links: Sequence[ChainLink], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` for a chain, the first link first: for each link under its protocol, with its own names.

    Options under a protocol are for its link. Others are for each link that has them, and common options for the first
    link. Our and obstore's names are translated if there is a table for the protocol.

    Raises:
        TypeError: an option that no link has, or a protocol's value that is not a mapping.
        ValueError: an option is given twice, with different values.
    """
    given = split_by_protocol(links, options)
    native = {protocol: _of_one(protocol, own) for protocol, own in given.items()}
    return {protocol: own for protocol, own in native.items() if own}


def with_timeouts(links: Sequence[ChainLink], native: Mapping[str, Any], idle: float, connect: float) -> dict[str, Any]:
    """Return `native` with timeouts of `idle` seconds without progress, for the file systems that have such an option.

    Timeouts in `native` are not changed.
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
        options = {**given, "token": "anon"} if anonymous else given  # the name of gcsfs
    native = dict(options) if table is None else table.to_fsspec(options)
    if protocol in _S3:
        config = dict(native.get("config_kwargs") or {})
        config.setdefault("retries", dict(NO_RETRIES))
        native["config_kwargs"] = config
    return native


def try_once(fs: Any) -> Any:
    """Switch off the retries that s3fs has besides botocore's; return `fs`.

    Only instances with our option of botocore are changed; fsspec returns them to no other user.
    """
    inner = fs
    while inner is not None:
        if type(inner).__module__.startswith("s3fs") and inner.config_kwargs.get("retries") == NO_RETRIES:
            inner.retries = 1
        inner = below(inner)
    return fs
