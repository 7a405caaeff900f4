"""Creates, changes and erases nodes; of two writers one is first and none is lost. Runs on the I/O thread."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial

from aiozarr.errors import NodeExistsError, NodeTypeError, PreconditionFailedError, UnsupportedOperationError
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
from aiozarr.metadata import PROBE_KEYS, ArrayMetadata, render_node
from aiozarr.model import IfAbsent, IfMatch, Precondition, Value, Version
from aiozarr.stores import Store
from aiozarr.stores.tasks import together

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
        store = place.session.set if overwrite else partial(_set_if_absent, place)
        try:
            await together(store(place.prefix + key, data) for key, data in documents.items())
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


def exclusively(place: Place) -> AbstractAsyncContextManager[None]:
    """Hold the lock of one node's documents: with it, tasks of this process do not collide, they queue."""
    return place.engine.desk.locks.hold((place.store.identity, place.prefix))


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
    try:
        for key, data in render_node(implicit_group()).items():
            await _set_if_absent(place, place.prefix + key, data)
    except PreconditionFailedError:
        if isinstance(await read_explicit(place), ArrayMetadata):
            raise _below_array(place, place.path) from None


async def _set_if_absent(place: Place, key: str, data: bytes) -> Version | None:
    """Store `data` where nothing is stored; where the store checks no conditions, in any case."""
    if place.store.supports.conditional_writes is not False:
        try:
            return await place.session.set(key, data, precondition=IfAbsent())
        except UnsupportedOperationError:
            # A server of which nothing was known before. One that ignores the condition is no worse than without it.
            if place.store.supports.conditional_writes:
                raise
    return await place.session.set(key, data)


async def _replace_documents(place: Place, old: Documents, new: Mapping[str, bytes]) -> None:
    """Store what differs from `old`, on condition that nobody else has stored something meanwhile."""
    swap = await _can_swap(place.store)
    for key, data in new.items():
        value = old.get(key)
        if value is None or bytes(value.data) != data:
            await place.session.set(place.prefix + key, data, precondition=_condition(value) if swap else None)


async def _can_swap(store: Store) -> bool:
    """Return whether the store checks conditions of writes; where nobody knows, it is asked to find out."""
    supported = store.supports.conditional_writes
    probe = getattr(store, "probe_conditional_writes", None)
    return bool(await probe()) if supported is None and probe is not None else bool(supported)


def _condition(value: Value | None) -> Precondition | None:
    if value is None:
        return IfAbsent()
    return None if value.version is None or value.version.weak else IfMatch(value.version)


def _exists(place: Place, *, explicit: bool) -> NodeExistsError:
    what = "there is a node" if explicit else "keys are stored"
    return NodeExistsError(
        f"{what} {'at' if explicit else 'below'} {place.url}; overwrite=True erases it first",
        url=place.url,
        path=place.path,
    )


def _below_array(place: Place, path: str) -> NodeTypeError:
    return NodeTypeError(f"{place.at(path).url} is an array; no node can be below it", url=place.url, path=place.path)
