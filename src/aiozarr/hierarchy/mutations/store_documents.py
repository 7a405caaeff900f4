"""Stores metadata documents: all of a node's or none, and only over the version that was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiozarr.common.concurrency import gather_all
from aiozarr.errors import PreconditionFailedError
from aiozarr.hierarchy.node_access import Documents, NodeAccess
from aiozarr.model import IfAbsent, IfMatch, Precondition, Value
from aiozarr.stores import Store

if TYPE_CHECKING:
    pass

MAX_SWAP_DELAY = 1.0
"""The longest delay, in seconds, between attempts of a compare-and-swap of documents: one may take many requests."""


async def store_documents(access: NodeAccess, documents: Mapping[str, bytes], *, replace: bool) -> None:
    """Store the documents of a new node. The last one, which makes it a node, is stored after the others.

    Raises:
        PreconditionFailedError: a document is stored already, and `replace` is false.
    """
    scheduled = access.scheduled

    async def store(key: str) -> None:
        if replace:
            await scheduled.set(access.prefix + key, documents[key])
        else:
            await scheduled.set_if_absent(access.prefix + key, documents[key])

    async def store_or_keep(key: str) -> None:
        try:
            await store(key)
        except PreconditionFailedError:
            # An interrupted creation of the same node may have stored it.
            stored = await scheduled.fetch(access.prefix + key)
            if stored is None or bytes(stored.data) != documents[key]:
                raise

    *others, last = documents
    await gather_all(store_or_keep(key) for key in others)
    try:
        await store(last)
    except PreconditionFailedError:
        # Another writer has created the node: our documents do not belong to it.
        await gather_all(scheduled.erase(access.prefix + key) for key in others)
        raise


def lacks_own_document(stored: Documents, documents: Mapping[str, bytes]) -> bool:
    """Return whether `stored` is what an interrupted creation with `documents` leaves: all but the node's own."""
    own = [*documents][-1]
    return stored.get(own) is None and all(
        [value is None or bytes(value.data) == documents.get(key) for key, value in stored.items()]
    )


async def replace_documents(
    access: NodeAccess, stored: Documents, old: Mapping[str, bytes], new: Mapping[str, bytes]
) -> None:
    """Store the documents that differ between `old` and `new`, on condition that the `stored` ones are unchanged.

    `old` is the content of the stored documents as this package renders it: another spelling is not a difference.
    """
    is_conditional = await has_conditional_writes(access.store)
    for key, data in new.items():
        value = stored.get(key)
        if value is None and data.split() == [b"{}"]:
            # A missing document of attributes means the same as an empty one.
            continue
        if value is None or old.get(key) != data:
            precondition = unchanged_condition(value) if is_conditional else None
            await access.scheduled.set(access.prefix + key, data, precondition=precondition)


async def has_conditional_writes(store: Store) -> bool:
    """Return whether the store checks preconditions of writes. Probes the store if that is unknown."""
    supported = store.supports.conditional_writes
    return await store.probe_conditional_writes() if supported is None else supported


def unchanged_condition(value: Value | None) -> Precondition | None:
    """Return the precondition that `value` is still stored, or None if it has no version that can be sent."""
    if value is None:
        return IfAbsent()
    return None if value.version is None or value.version.weak else IfMatch(value.version)
