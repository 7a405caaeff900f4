"""Assigns options to the links of a chain of file systems, as fsspec does, and translates our names of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiozarr.stores.options.azure_options import AZURE_TABLE
from aiozarr.stores.options.gcs_options import GCS_TABLE
from aiozarr.stores.options.option_table import OptionTable, same_protocols
from aiozarr.stores.options.s3_options import S3_TABLE

_TABLES: dict[str, OptionTable] = {
    **dict.fromkeys(("s3", "s3a"), S3_TABLE),
    **dict.fromkeys(("gs", "gcs"), GCS_TABLE),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), AZURE_TABLE),
}
_NAMES_OF_OURS = {"s3": "s3fs", "gs": "gcsfs"}
_TIMEOUTS = ("idle_timeout", "connect_timeout")

NO_RETRIES = {"total_max_attempts": 1, "mode": "legacy"}
"""botocore's option for a single attempt. It converts other spellings to this one, in the given mapping."""


def native_options(protocols: Sequence[str], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return `options` for a chain with these protocols, the first link first: for each link under its protocol.

    Options under a protocol are for its link, and others for the first link. fsspec's file systems decide which options
    they know. Our and obstore's names are translated if there is a table for the protocol.

    Raises:
        TypeError: a protocol's value that is not a mapping, options of a link that is not in the chain, or an option of
            a later link that is not under its protocol.
        ValueError: an option is given twice, with different values.
    """
    given: dict[str, dict[str, Any]] = {protocol: {} for protocol in protocols}
    for name, value in options.items():
        link = next((protocol for protocol in protocols if name in _keys_of(protocol)), None)
        if link is None:
            _check_loose(name, protocols)
            _add(given[protocols[0]], {name: value})
        elif isinstance(value, Mapping | None):
            _add(given[link], value or {})
        else:
            raise TypeError(f"the storage options under {name!r} are a mapping")
    native = {protocol: _of_one(protocol, own) for protocol, own in given.items()}
    return {protocol: own for protocol, own in native.items() if own}


def _check_loose(name: str, protocols: Sequence[str]) -> None:
    """Check an option under no protocol: fsspec's first file system would ignore one of another link."""
    if protocols[0] in _TABLES:
        return
    other = next((link for link in protocols[1:] if link in _TABLES and _TABLES[link].knows(name)), None)
    other = other or next((protocol for protocol in _TABLES if name in _keys_of(protocol)), None)
    if other in protocols:
        raise TypeError(
            f"the storage option {name!r} is one of the link {other}::, and is given under its protocol: "
            f"storage_options={{{other!r}: {{{name!r}: ...}}}}"
        )
    if other is not None:
        raise TypeError(f"the storage options under {name!r} are for no link of the chain {'::'.join(protocols)}")


def _keys_of(protocol: str) -> frozenset[str]:
    names = same_protocols(protocol)
    return names | {alias for protocol, alias in _NAMES_OF_OURS.items() if protocol in names}


def _add(into: dict[str, Any], options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name in into and into[name] is not value and into[name] != value:
            raise ValueError(f"the storage option {name!r} is given twice, with different values")
        into[name] = value


def _of_one(protocol: str, options: Mapping[str, Any]) -> dict[str, Any]:
    table = _TABLES.get(protocol)
    if table is None:
        name = next((name for name in _TIMEOUTS if name in options), None)
        if name is not None:
            raise TypeError(
                f"fsspec opens {protocol}:// and has no storage option {name!r}; give the timeout that this file "
                "system has, such as timeout= or client_kwargs="
            )
        return dict(options)
    if table is GCS_TABLE and options.get("anon") is not None:
        given = dict(options)
        anonymous = GCS_TABLE.translate({"anon": given.pop("anon")})["anon"]
        options = {**given, "token": "anon"} if anonymous else given  # the name of gcsfs
    native = table.to_fsspec(options)
    if table is S3_TABLE:
        # Requests are repeated by the schedule; `config_kwargs` may say otherwise.
        native["config_kwargs"] = {"retries": dict(NO_RETRIES), **(native.get("config_kwargs") or {})}
    return native
