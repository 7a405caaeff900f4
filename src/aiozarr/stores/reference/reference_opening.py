"""Opens tables of references: in documents, and in memory."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from aiozarr.http1.url import fingerprint
from aiozarr.serial_numbers import SerialNumbers
from aiozarr.stores.contract import Store
from aiozarr.stores.reference.document_table import DocumentTable
from aiozarr.stores.reference.guard import ReferenceGuard
from aiozarr.stores.reference.json_table import from_mapping
from aiozarr.stores.reference.store import ReferenceStore
from aiozarr.stores.reference.table import ReferenceTable
from aiozarr.stores.reference.target_stores import OpenURL, TargetResolver

_tables = SerialNumbers()


def open_references(
    target: tuple[Store, str, str] | Mapping[str, Any],
    *,
    open_url: OpenURL,
    own_options: Mapping[str, Any],
    resolve: Mapping[str, Any] | None = None,
    remote_protocol: str | None = None,
    remote_options: Mapping[str, Any] | None = None,
    prefix: str = "",
) -> ReferenceStore:
    """Return the store of the references in a document, or in memory.

    Args:
        target: store, key and location of the document, or the references themselves.
        open_url: opens the stores of referenced objects.
        own_options: storage options of the origin of the document.
        resolve: as of `from_references`.
        remote_protocol: the protocol of all referenced objects; they may have any location of this protocol then.
        remote_options: storage options of this protocol.
        prefix: the root of the store among the keys: `""`, or ending with `/`.

    Raises:
        TypeError: `resolve` is no such mapping.
        InvalidMetadataError, UnsupportedMetadataError, LimitError: references in memory are not valid.
    """
    resolve = {} if resolve is None else resolve
    if not isinstance(resolve, Mapping):
        raise TypeError(
            f"resolve maps URL prefixes to storage options, as in {{'s3://bucket/': {{}}}}, not {resolve!r}"
        )
    for name, access in resolve.items():
        if not isinstance(name, str) or not isinstance(access, Mapping | Store | None):
            raise TypeError(f"resolve maps URL prefixes to storage options or stores, not {name!r} to {access!r}")
    location: str | None = None
    table: ReferenceTable
    identity: Hashable
    if isinstance(target, Mapping):
        table, url, identity = from_mapping(target), "reference://", ("memory", _tables.next())
    else:
        store, key, location = target
        table, url, identity = DocumentTable(store, key), f"reference::{store.url_of(key)}", (store.identity, key)
    guard = ReferenceGuard(location, tuple(resolve), remote_protocol)
    resolver = TargetResolver(guard, open_url, resolve, own_options, remote_options or {})
    access_keys = tuple([(prefix, _access_key(access)) for prefix, access in resolve.items()])
    return ReferenceStore(table, resolver, url=url, identity=(identity, access_keys, remote_protocol), prefix=prefix)


def _access_key(access: Mapping[str, Any] | Store | None) -> Hashable:
    """Return what tells ways of access apart, without secrets."""
    if isinstance(access, Store):
        return access.identity
    return fingerprint({name: repr(value) for name, value in (access or {}).items()})
