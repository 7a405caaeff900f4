"""Options of file systems in their own words, with no retries below those of the scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aiozarr.stores.fsspec.traits import below
from aiozarr.stores.options.azure import AZURE_TABLE
from aiozarr.stores.options.gcs import GCS_TABLE
from aiozarr.stores.options.s3 import S3_TABLE
from aiozarr.stores.options.table import Table

_TABLES: dict[str, Table] = {
    **dict.fromkeys(("s3", "s3a"), S3_TABLE),
    **dict.fromkeys(("gs", "gcs"), GCS_TABLE),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), AZURE_TABLE),
}
_S3 = frozenset({"s3", "s3a"})

NO_RETRIES = {"total_max_attempts": 1, "mode": "legacy"}
"""botocore's option for the first attempt only. Of other spellings it makes this one, in the very mapping given."""


def native_options(protocols: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` for a chain of `protocols`, the first one first.

    As fsspec has it, options named by a protocol are those of its link, and the others those of the first. Ours and
    obstore's names are translated where there is a table for the protocol.

    Raises:
        TypeError: an option that the file system has nothing for, or no mapping under a protocol.
    """
    native = dict(options)
    for protocol in protocols:
        if not isinstance(native.get(protocol), Mapping | None):
            raise TypeError(f"the storage options under {protocol!r} are a mapping")
    for protocol in protocols[1:]:
        if isinstance(native.get(protocol), Mapping) or protocol in _S3:
            native[protocol] = _of_one(protocol, native.get(protocol) or {})
    nested = {name: native.pop(name) for name in list(native) if name in protocols[1:]}
    if protocols and isinstance(native.get(protocols[0]), Mapping):
        nested[protocols[0]] = _of_one(protocols[0], native.pop(protocols[0]))
        return {**native, **nested}
    return {**(_of_one(protocols[0], native) if protocols else native), **nested}


def _of_one(protocol: str, options: Mapping[str, Any]) -> dict[str, Any]:
    table = _TABLES.get(protocol)
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
