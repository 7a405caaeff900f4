"""How documents are stored: all of a node's or none, and on condition that nobody else was first."""

from __future__ import annotations

from collections.abc import Mapping

from aiozarr.errors import PreconditionFailedError, UnsupportedOperationError
from aiozarr.hierarchy.documents import Documents, Place
from aiozarr.model import IfAbsent, IfMatch, Precondition, Value, Version
from aiozarr.stores import Store
from aiozarr.stores.tasks import together


async def store_documents(place: Place, documents: Mapping[str, bytes], *, replace: bool) -> None:
    """Store the documents of a new node; the last one, which makes it a node, when the others are there.

    Raises:
        PreconditionFailedError: something is stored already, and `replace` is false.
    """

    async def store(key: str) -> None:
        if replace:
            await place.session.set(place.prefix + key, documents[key])
        else:
            await set_if_absent(place, place.prefix + key, documents[key])

    *others, last = documents
    await together(store(key) for key in others)
    try:
        await store(last)
    except PreconditionFailedError:
        # Another writer's node: what was stored for ours does not belong there.
        await together(place.session.erase(place.prefix + key) for key in others)
        raise


async def set_if_absent(place: Place, key: str, data: bytes) -> Version | None:
    """Store `data` where nothing is stored; where the store checks no conditions, in any case."""
    if place.store.supports.conditional_writes is not False:
        try:
            return await place.session.set(key, data, precondition=IfAbsent())
        except UnsupportedOperationError:
            # A server of which nothing was known before. One that ignores the condition is no worse than without it.
            if place.store.supports.conditional_writes:
                raise
    return await place.session.set(key, data)


async def replace_documents(
    place: Place, stored: Documents, old: Mapping[str, bytes], new: Mapping[str, bytes]
) -> None:
    """Store what differs between `old` and `new`, on condition that nobody has changed what is `stored`.

    `old` is what the documents that are stored say, as this package would write it: others' spelling is no difference.
    """
    swap = await can_swap(place.store)
    for key, data in new.items():
        value = stored.get(key)
        if value is None and data.split() == [b"{}"]:
            # Attributes that are not there are empty ones.
            continue
        if value is None or old.get(key) != data:
            await place.session.set(place.prefix + key, data, precondition=condition(value) if swap else None)


async def can_swap(store: Store) -> bool:
    """Return whether the store checks conditions of writes; where nobody knows, it is asked to find out."""
    supported = store.supports.conditional_writes
    return await store.probe_conditional_writes() if supported is None else supported


def condition(value: Value | None) -> Precondition | None:
    """Return the condition that what is stored is still `value`; None where its version cannot be sent."""
    if value is None:
        return IfAbsent()
    return None if value.version is None or value.version.weak else IfMatch(value.version)
