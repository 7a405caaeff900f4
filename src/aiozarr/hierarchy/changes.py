"""Creates, changes and erases nodes; of two writers one is first and none is lost. Runs on the I/O thread."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Mapping
from weakref import WeakKeyDictionary, WeakValueDictionary

from aiozarr.engine import Engine
from aiozarr.errors import NodeExistsError, NodeTypeError, PreconditionFailedError
from aiozarr.hierarchy.documents import (
    Documents,
    NodeMetadata,
    Place,
    implicit_group,
    node_not_found,
    parse_documents,
    read_documents,
    read_explicit,
    read_node,
    read_surroundings,
)
from aiozarr.hierarchy.tasks import together
from aiozarr.metadata import PROBE_KEYS, ArrayMetadata, render_node
from aiozarr.model import IfAbsent, IfMatch, Precondition, Value
from aiozarr.stores import Store

# Each lost race is another writer's success: so many in a row say that something else is wrong.
MAX_CONFLICTS = 100


async def create_node(place: Place, metadata: NodeMetadata, *, overwrite: bool) -> None:
    """Store the documents of a new node, and of the groups above it that have none. The node's own come last, at once.

    Raises:
        NodeExistsError: something is stored there and `overwrite` is false; of two creators one gets this.
        NodeTypeError: a node above is an array.
    """
    documents = render_node(metadata)
    async with exclusively(place):
        own, (above, below) = await _look_around(place)
        for path, node in above.items():
            if isinstance(node, ArrayMetadata):
                raise _below_array(place, path)
        if own or below:
            if not overwrite:
                raise _exists(place, explicit=own)
            await erase_node(place)
        await together(_create_parent(place.at(path)) for path, node in above.items() if node is None)
        condition = None if overwrite else _unless_stored(place.store)
        try:
            await together(
                place.session.set(place.prefix + key, data, precondition=condition) for key, data in documents.items()
            )
        except PreconditionFailedError as error:
            raise _exists(place, explicit=True) from error


async def update_node(
    place: Place,
    change: Callable[[NodeMetadata], NodeMetadata],
    then: Callable[[NodeMetadata], Awaitable[None]] | None = None,
) -> NodeMetadata:
    """Replace the node's metadata by `change(metadata)` and return it; concurrent changes take turns.

    `change` is called again with what another writer has stored in between. Where the store has no conditional writes,
    that holds inside this process only. Where it returns the very metadata it was given, nothing is stored. `then` is
    called with the result before another task of this process may change the node.

    Raises:
        NodeNotFoundError: the node is no longer there.
        PreconditionFailedError: other writers were first a hundred times.
    """
    async with exclusively(place):
        for attempt in range(MAX_CONFLICTS):
            documents = await read_documents(place)
            current = parse_documents(place, documents)
            if current is None:
                current = await read_node(place)
            if current is None:
                raise node_not_found(place)
            changed = change(current)
            try:
                if changed is not current:
                    await _replace_documents(place, documents, render_node(changed))
            except PreconditionFailedError:
                if attempt == MAX_CONFLICTS - 1:
                    raise
                await asyncio.sleep(random.uniform(0, min(1.0, 0.01 * 2**attempt)))
            else:
                if then is not None:
                    await then(changed)
                return changed
    raise AssertionError("the loop returns or raises")


async def delete_node(place: Place) -> None:
    """Erase the node at `place`, and all below it.

    Raises:
        NodeNotFoundError: there is none.
    """
    async with exclusively(place):
        # Not parsed: what cannot be read can be erased all the same.
        explicit, (_, below) = await _look_around(place)
        if not explicit and not below:
            raise node_not_found(place)
        await erase_node(place)


async def erase_node(place: Place) -> None:
    """Erase the node and all below it. Its documents go first: one that is interrupted leaves no readable half."""
    await together(place.session.erase(place.prefix + key) for key in PROBE_KEYS)
    await place.session.erase_prefix(place.prefix)


# --- one writer at a time, inside this process -------------------------------------------------------------------

_locks: WeakKeyDictionary[Engine, WeakValueDictionary[Hashable, asyncio.Lock]] = WeakKeyDictionary()


def exclusively(place: Place) -> asyncio.Lock:
    """Return the lock of one node's documents: with it, tasks of this process do not collide, they queue.

    It belongs to the engine, so a forked child, which has an engine of its own, never meets a lock that is held.
    """
    locks = _locks.setdefault(place.engine, WeakValueDictionary())
    key = (place.store.identity, place.path)
    lock = locks.get(key)
    if lock is None:
        lock = locks[key] = asyncio.Lock()
    return lock


# --- helpers -----------------------------------------------------------------------------------------------------


async def _look_around(place: Place) -> tuple[bool, tuple[dict[str, NodeMetadata | None], bool]]:
    """Return whether the node itself has documents, and its surroundings; all in one round trip."""
    # Its documents are not parsed: what is not readable is in the way all the same.
    own: list[bool] = []

    async def look_at_own() -> tuple[dict[str, NodeMetadata | None], bool]:
        own.append(any(value is not None for value in (await read_documents(place)).values()))
        return {}, False

    _, surroundings = await together([look_at_own(), read_surroundings(place)])
    return own[0], surroundings


async def _create_parent(place: Place) -> None:
    """Make the group at `place` explicit; one that another writer has made meanwhile is as good."""
    condition = _unless_stored(place.store)
    try:
        for key, data in render_node(implicit_group()).items():
            await place.session.set(place.prefix + key, data, precondition=condition)
    except PreconditionFailedError:
        if isinstance(await read_explicit(place), ArrayMetadata):
            raise _below_array(place, place.path) from None


async def _replace_documents(place: Place, old: Documents, new: Mapping[str, bytes]) -> None:
    for key, data in new.items():
        value = old.get(key)
        if value is None or bytes(value.data) != data:
            condition = _unless_stored(place.store) if value is None else _unless_changed(place.store, value)
            await place.session.set(place.prefix + key, data, precondition=condition)


def _unless_stored(store: Store) -> Precondition | None:
    # None means "not known": the condition is sent, and a server that ignores it is no worse than without.
    return None if store.supports.conditional_writes is False else IfAbsent()


def _unless_changed(store: Store, value: Value) -> Precondition | None:
    if store.supports.conditional_writes is False or value.version is None or value.version.weak:
        return None
    return IfMatch(value.version)


def _exists(place: Place, *, explicit: bool) -> NodeExistsError:
    what = "there is a node" if explicit else "keys are stored"
    return NodeExistsError(
        f"{what} {'at' if explicit else 'below'} {place.url}; overwrite=True erases it first",
        url=place.url,
        path=place.path,
    )


def _below_array(place: Place, path: str) -> NodeTypeError:
    return NodeTypeError(f"{place.at(path).url} is an array; no node can be below it", url=place.url, path=place.path)
